"""The lines printed at the start."""

from __future__ import annotations

import pytest

from rpcaccel.cli.banner import announce, lines, reachable
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.supervisor import RunningInfo

SETTINGS = Settings.model_validate(
    {
        "redis": {"url": "redis://:hunter2@cache"},
        "default_network": "b",
        "networks": {"a": {"nodes": ["https://u:hunter2@a/hunter2"]}, "b": {"nodes": ["http://x,weight=3"]}},
    }
)


def test_every_network_is_shown_with_its_address_and_no_secret() -> None:
    text = "\n".join(lines(SETTINGS, "127.0.0.1:8888", "127.0.0.1:8889"))
    assert "http://127.0.0.1:8888/a" in text
    assert "http://127.0.0.1:8888/ " in text
    assert "x (weight 3)" in text
    assert "256MB of memory, then redis://cache:6379" in text
    assert "hunter2" not in text


def test_a_page_behind_tls_is_shown_with_its_scheme() -> None:
    admin = SETTINGS.admin.model_copy(update={"tls_cert": "c.pem", "tls_key": "k.pem"})
    said = lines(SETTINGS.model_copy(update={"admin": admin}), "127.0.0.1:8888", "127.0.0.1:8889")
    assert "  page           https://127.0.0.1:8889/" in said


@pytest.mark.parametrize(
    ("listen", "shown"),
    [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "127.0.0.1:80"), ("[::1]:80", "[::1]:80"), ("host:1", "host:1")],
)
def test_an_address_for_every_interface_is_shown_as_one_that_can_be_opened(listen: str, shown: str) -> None:
    assert reachable(listen) == shown


def test_it_is_printed_where_it_does_not_mix_with_output(capsys: pytest.CaptureFixture[str]) -> None:
    announce(RunningInfo(SETTINGS, "127.0.0.1:1", "127.0.0.1:2"))
    out, err = capsys.readouterr()
    assert (out, "http://127.0.0.1:2/" in err) == ("", True)
    announce(RunningInfo(SETTINGS, "127.0.0.1:1", "127.0.0.1:2", ("--memory is overruled",)))
    assert capsys.readouterr().err.splitlines()[-1].split(maxsplit=1) == ["note", "--memory is overruled"]
