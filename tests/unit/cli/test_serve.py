"""`rpcaccel serve`: what it makes of its arguments before anything runs. That it serves is shown end to end."""

from __future__ import annotations

import socket

import pytest

from rpcaccel.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "rpcaccel demo"),
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
