"""`rpcaccel serve`: what it makes of its arguments before anything runs, and what it prints at the start."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from rpcaccel.cli.main import run
from rpcaccel.cli.serve import announce, document, lines, reachable, say
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.supervisor import RunningInfo
from tests.support.services import SUPPORT

LOOPBACK = str(SUPPORT / "loopback.pem")
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


def test_the_tiers_of_the_cache_are_told_in_the_order_in_which_they_are_asked() -> None:
    disk = SETTINGS.disk.model_copy(update={"path": "/var/cache/rpcaccel", "size": 50_000_000_000})
    settings = SETTINGS.model_copy(update={"disk": disk})
    (line,) = (line for line in lines(settings, "127.0.0.1:1", "127.0.0.1:2") if line.startswith("  cache "))
    assert line.split(maxsplit=1)[1] == "256MB of memory, then 50GB in /var/cache/rpcaccel, then redis://cache:6379"
    told = document(RunningInfo(settings, "127.0.0.1:1", "127.0.0.1:2"))["cache"]
    assert told["disk"] == {"path": "/var/cache/rpcaccel", "size": 50_000_000_000}


def test_a_page_behind_tls_is_shown_with_its_scheme() -> None:
    admin = SETTINGS.admin.model_copy(update={"tls_cert": "c.pem", "tls_key": "k.pem"})
    said = lines(SETTINGS.model_copy(update={"admin": admin}), "127.0.0.1:8888", "127.0.0.1:8889")
    assert "  page           https://127.0.0.1:8889/" in said


def test_calls_behind_tls_are_shown_with_their_scheme() -> None:
    secured = SETTINGS.model_copy(update={"tls_cert": "c.pem", "tls_key": "k.pem"})
    assert "https://127.0.0.1:8888/a" in "\n".join(lines(secured, "127.0.0.1:8888", "127.0.0.1:8889"))
    told = document(RunningInfo(secured, "127.0.0.1:1", "127.0.0.1:2"))
    assert told["networks"]["b"]["url"] == "https://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--listen", "0.0.0.0:0"], "expected an address of this machine alone"),
        (["--tls-cert", LOOPBACK, "--tls-key", LOOPBACK], "leave one of them out (from --tls-cert)"),
    ],
)
def test_a_certificate_that_signs_itself_is_for_this_machine_alone_and_overrules_no_other(
    capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert run(["serve", "--chain", "ethereum", "http://127.0.0.1:1", "--self-signed", *flags]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_certificate_that_signs_itself_does_not_overrule_that_of_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rpcaccel.toml"
    file.write_text(f'tls_cert = "{LOOPBACK}"\ntls_key = "{LOOPBACK}"\n')
    assert run(["serve", "--chain", "ethereum", "http://127.0.0.1:1", "--self-signed", "--config", str(file)]) == 2
    assert f"leave one of them out ({file}, line 1)" in " ".join(capsys.readouterr().err.split())


def test_with_json_logs_it_is_one_line_of_json_whatever_their_level(capsys: pytest.CaptureFixture[str]) -> None:
    log = SETTINGS.log.model_copy(update={"format": "json", "level": "error"})
    info = RunningInfo(
        SETTINGS.model_copy(update={"log": log}), "127.0.0.1:1", "127.0.0.1:2", ("--memory is overruled",)
    )
    announce(info)
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    told = json.loads(line)
    assert (out, told["event"], told["level"], told["page"]) == ("", "rpcaccel serves", "info", "http://127.0.0.1:2/")
    assert told["networks"]["a"] == {"url": "http://127.0.0.1:1/a", "nodes": [{"id": "a", "weight": 1}]}
    assert told["networks"]["b"]["url"] == "http://127.0.0.1:1/"
    assert told["cache"] == {"memory": 256_000_000, "disk": None, "redis": "redis://cache:6379"}
    assert told["notes"] == ["--memory is overruled"]
    assert "hunter2" not in line


def test_notes_have_the_form_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    say(["a node", "is silent"], "console", "warning")
    assert capsys.readouterr().err == "rpcaccel: a node\nrpcaccel: is silent\n"
    say(["a node"], "json", "warning")
    told = json.loads(capsys.readouterr().err)
    assert (told["event"], told["level"], sorted(told)) == ("a node", "warning", ["event", "level", "timestamp"])


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://a"], "networks.harmony-s0.nodes[0].url: found ftp://a"),
        (["http://a", "--memory", "much"], '(from --memory)'),
        (["http://a", "--workers", "0"], "workers: found \"0\", expected at least 1"),
        (["http://a", "--chain", "bitcoin"], "networks.bitcoin.chain"),
        (["http://a", "--redis", "redis://:hunter2@"], "redis.url: found"),
        (["http://a", "--balancer", "coin"], "smooth_weighted"),
        (["--config", "none.toml"], "none.toml: cannot be read"),
        (["http://a", "--workers", "many"], "workers: found"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (said in err, out) == (True, "")
    assert "hunter2" not in err
    assert "Traceback" not in err


def test_an_address_in_use_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run(["serve", "http://127.0.0.1:1", "--listen", listen, "--admin", "127.0.0.1:0"]) == 1
    assert f"rpcaccel: listen: cannot listen on {listen}" in capsys.readouterr().err


def test_a_start_without_nodes_says_where_calls_are_taken_and_who_takes_the_first_nodes() -> None:
    said = lines(SETTINGS.model_copy(update={"networks": {}, "default_network": ""}), "127.0.0.1:1", "127.0.0.1:2")
    assert said[1:3] == [
        "  no nodes yet   http://127.0.0.1:1/  <- the page takes the first ones",
        "  page           http://127.0.0.1:2/",
    ]


@pytest.mark.parametrize("balancer", [(), ("--balancer", "peak_ewma")])
def test_a_file_without_nodes_and_a_balancer_of_no_network_are_refused_as_ever(
    balancer: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.toml"
    file.write_text('listen = "127.0.0.1:0"\n', "utf-8")
    assert run(["serve", *(balancer or ("--config", str(file)))]) == 2
    said = capsys.readouterr().err
    assert "at least one network" in said
    assert "rpcaccel demo; to write a first file: rpcaccel init" in said
