"""`rpcaccel explain` against the real program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from rpcaccel.cli.main import run
from rpcaccel.cli.running.answers import question, rows
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.services import Program

FOUND = {
    "method": "m", "network": "n", "cache": "head", "why": "so", "origin": "x.toml", "asked": "[1]", "forwarded": "[2]",
    "note": "a note", "local": None, "head": 9, "block": 5, "first_block": 3, "final": False, "min_head": 5, "key": "k",
    "head_key": "h", "shared": ["k"], "on_disk": ["k"], "in_flight": True, "keeping": ["kept so"], "forced": True,
    "held": [
        {"tier": "memory", "worker": "w1", "key": "k", "left": None, "age": 1, "size": 2, "served": False},
        {"tier": "disk", "worker": "w1", "key": "k", "left": None, "age": 1, "size": 7, "served": True},
        {"tier": "redis", "worker": "w1", "key": "k", "left": 3.0, "age": 1, "size": 2, "served": True},
    ],
    "nodes": [{"id": "a", "head": 9, "in_flight": 0, "latency": 0.002, "preferred": True}],
    "refused": [{"id": "b", "why": "b is gone"}], "live": [], "proof": "proved so",
    "retries": "again so",
}  # fmt: skip


def test_everything_that_is_known_is_told() -> None:
    text = "\n".join(f"{name}: {line}" for name, line in rows(FOUND))
    for part in (
        "head: so (x.toml)", "[2] to the node", "a note", "3 to 5, not final yet; asked of nodes at 5 or above",
        "key: k (on disk and in Redis as well)", "in the memory of w1, as long as there is room", "not served any more",
        "on disk, as long as there is room: 7 bytes", "in Redis, for 3.0 s more", "under way", "kept so",
        "1. a: head 9, 0 in flight, 2.0 ms", "want of a better",
        "not asked: b is gone", "proof: proved so", "retries: again so",
    ):  # fmt: skip
        assert part in text


@pytest.mark.parametrize(
    ("on_disk", "shared", "told"),
    [(["k"], [], "k (on disk as well)"), ([], ["k"], "k (in Redis as well)"), (["h"], ["h"], "k")],
)
def test_where_else_a_key_may_be_is_told(on_disk: list[str], shared: list[str], told: str) -> None:
    assert dict(rows(FOUND | {"on_disk": on_disk, "shared": shared}))["key"] == told


def test_what_a_subscribe_does_is_told_and_no_node() -> None:
    told = list(rows(FOUND | {"live": ["topic newHeads", "fed so"]}))
    assert told[-2:] == [("live", "topic newHeads"), ("", "fed so")]


def test_the_call_stays_the_text_that_was_written() -> None:
    assert question("m", "[1.50, 1e400]", "n") == '{"call": {"method": "m", "params": [1.50, 1e400]}, "network": "n"}'
    assert '{"id": 1.50}' in question('{"id": 1.50}', "[]", "")


@pytest.mark.parametrize("call", ['[{"method":"eth_chainId"}]', '"eth_chainId"', ""])
def test_what_is_no_single_call_is_exit_code_2(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", call]) == 2
    assert "expected one call, or a method's name" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [['{"a'], ["m", "[1"]])
def test_what_is_not_json_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", *arguments]) == 2
    named = "PARAMS: found '[1'" if len(arguments) > 1 else "CALL: found '{\"a'"
    assert f"{named}, which is not JSON" in capsys.readouterr().err


async def test_a_running_proxy_explains_and_is_purged(
    new_program: Callable[..., Program], capsys: pytest.CaptureFixture[str]
) -> None:
    async with harmony_nodes(2) as nodes:
        urls = [f"{node.url},id={node.name}" for node in nodes]
        program = new_program("serve", *urls, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        match = await asyncio.to_thread(program.wait_for, r"page +http://([0-9.:]+)/")

        async def command(*arguments: str) -> tuple[int, str]:
            code = await asyncio.to_thread(run, [*arguments, "--admin", match[1]])
            return code, capsys.readouterr().out

        code, out = await command("explain", "hmyv2_getBlockByNumber", "[7, {}]")
        assert code == 0
        for part in ("hmyv2_getBlockByNumber on harmony-s0", "by-number", "chains/harmony.toml", "1. node-"):
            assert part in out
        code, out = await command("explain", "eth_blockNumber", "--json")
        assert json.loads(out)["workers"] == ["w1"]
        assert await command("purge", "--all", "--yes") == (
            0,
            "0 answers in memory, 0 on disk and 0 in Redis removed\n",
        )
        assert (await command("explain", "m", "--network", "nowhere"))[0] == 1
