"""`rpcaccel simnode`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from rpcaccel.cli.main import run
from rpcaccel.cli.simulated.simnode import build, serve
from rpcaccel.config.model import NodeSettings
from rpcaccel.config.secrets import NodeUrl
from rpcaccel.core.replies.answer import Answer
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient


async def test_it_serves_until_it_is_told_to_end() -> None:
    node = build("harmony", {"seed": 3}, port=0, latency="1ms", lag=2)
    serving, up = asyncio.Event(), asyncio.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        up.set()

    task = asyncio.create_task(serve(node, "127.0.0.1", stop=serving, say=say))
    await up.wait()
    upstream = HttpNodeClient(NodeSettings(url=NodeUrl(node.url)))
    answer = await upstream.send("hmyv2_getShardID", b"[]", timeout=5)
    await upstream.close()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == 0
    assert isinstance(answer, Answer)
    assert answer.result == b"0"
    assert f"http://127.0.0.1:{node.port}" in said[0]


async def test_its_address_is_told_to_programs_in_a_line() -> None:
    stop = asyncio.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        stop.set()

    await serve(build("harmony", {}, port=0), "127.0.0.1", stop=stop, say=say, as_json=True)
    (line,) = said
    told = json.loads(line)
    assert told["url"].startswith("http://127.0.0.1:")
    assert told["knobs"] == f"{told['url']}/simnode/knobs"


async def test_its_address_can_be_opened_where_it_stands() -> None:
    stop = asyncio.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        stop.set()

    for host in ("::1", "", "0.0.0.0"):
        stop.clear()
        await serve(build("harmony", {}, port=0), host, stop=stop, say=say)
    assert ["http://[::1]:" in said[0], *("http://127.0.0.1:" in line for line in said[1:])] == [True] * 3


def test_knobs_and_kind_are_set_from_the_start() -> None:
    node = build("ethereum", {"seed": 3, "block_time": 2.0}, port=0, latency="jitter:40ms+10ms", lag=2)
    assert (node.chain.spec.kind, node.chain.spec.block_time, node.knobs.lag) == ("ethereum", 2.0, 2)
    assert node.knobs.latency.mean == 0.04


@pytest.mark.parametrize(
    "arguments",
    [["--latency", "x"], ["--block-time", "x"], ["--block-time", "0"], ["--kind", "bitcoin"], ["--port", "-1"]],
)
def test_what_cannot_be_simulated_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simnode", *arguments]) == 2
    said = capsys.readouterr().err
    assert "rpcaccel: Invalid value" in said
    assert arguments[0] in said


def test_a_place_it_cannot_listen_on_is_named_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def with_a_node() -> tuple[int, int]:
        node = build("harmony", {}, port=0)
        async with node:
            return await asyncio.to_thread(run, ["simnode", "--port", str(node.port)]), node.port

    code, port = asyncio.run(with_a_node())
    assert (code, capsys.readouterr().err) == (
        1,
        f"rpcaccel: cannot listen on 127.0.0.1:{port}: Address already in use\n",
    )
    assert run(["simnode", "--host", "192.0.2.1"]) == 1
    assert "cannot listen on 192.0.2.1:0" in capsys.readouterr().err


async def test_it_serves_https_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    pem, stop = tmp_path / "node.pem", asyncio.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        stop.set()

    node = build("harmony", {}, port=0, tls=pem, connect="5ms")
    await serve(node, "127.0.0.1", stop=stop, say=say)
    assert f"https://127.0.0.1:{node.port}" in said[0]
    assert "BEGIN CERTIFICATE" in pem.read_text()


def test_a_certificate_that_cannot_be_used_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simnode", "--tls", str(tmp_path / "nowhere" / "node.pem")]) == 2
    (tmp_path / "empty.pem").touch()
    assert run(["simnode", "--tls", str(tmp_path / "empty.pem")]) == 2
    assert capsys.readouterr().err.count("--tls") == 2
