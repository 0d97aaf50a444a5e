"""Purge patterns, and purges that meet a broken server."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.plan.cache_key import SCOPE_NUMBER, cache_key, network_tag
from rpcaccel.stores.base import PurgeResult
from rpcaccel.stores.redis.store import pattern
from rpcaccel.stores.redis.store import purge as purge_within
from tests.support.stores.fakes import ScriptedServer, ScriptedTopology, broken


async def purge(*servers: ScriptedServer, selection: Selection, dry: bool = False) -> PurgeResult:
    topology = ScriptedTopology(*servers)
    return await purge_within(topology, b"p:", selection, 60.0, dry=dry)


@pytest.mark.parametrize(
    ("selection", "glob"),
    [
        (Selection(), b"p:1:*"),
        (Selection(network="s0"), b"p:1:s0*"),
        (Selection(network="s0", method="eth_call"), b"p:1:s0*:eth_call*"),
        (Selection(method="a*b?[c]^\\"), rb"p:1:*:a\*b\?\[c\]\^\\*"),
    ],
)
def test_the_pattern_matches_at_least_what_is_meant(selection: Selection, glob: bytes) -> None:
    assert pattern(b"p:1:", selection) == glob


@pytest.mark.parametrize("selection", [Selection(), Selection(key=b"s0:a:1")])
async def test_a_server_that_fails_makes_it_incomplete(selection: Selection) -> None:
    server = ScriptedServer("a", broken)
    assert await purge(server, selection=selection) == PurgeResult(0, complete=False)
    assert server._in_a_row == 1


async def test_a_server_that_fails_in_the_middle_says_what_was_done() -> None:
    async def half(*command: Any) -> Any:
        if command[0] == "UNLINK":
            raise ConnectionError
        return b"0", [b"p:s0:a:1"]

    assert await purge(ScriptedServer("a", half), selection=Selection()) == PurgeResult(0, complete=False)


async def test_a_key_that_the_rest_of_the_selection_excludes_is_left() -> None:
    server = ScriptedServer("a", broken)
    assert await purge(server, selection=Selection(key=b"s0:a:1", network="s1")) == PurgeResult(0)
    assert server.asked == []


async def test_with_every_server_down_nothing_is_complete() -> None:
    server = ScriptedServer("a", broken)
    server.take_down()
    assert not (await purge(server, selection=Selection())).complete
    assert not (await purge(server, selection=Selection(key=b"s0:a:1"))).complete
    await server.close()


def test_the_pattern_matches_the_keys_that_the_planner_makes() -> None:
    key = cache_key(network_tag("s0", 1666600000), "eth_call", SCOPE_NUMBER, b"[26]")
    both = Selection(network="s0", method="eth_call")
    for selection in (both, Selection(network="s0"), Selection(method="eth_call")):
        assert selection.matches(key)
        assert fnmatchcase((b"p:" + key).decode(), pattern(b"p:", selection).decode())


async def test_a_dry_purge_sends_no_removal() -> None:
    async def pageful(*command: Any) -> Any:
        return [b"0", [b"p:s0:a:1", b"p:s0:b:1"]] if command[0] == "SCAN" else 1

    server = ScriptedServer("a", pageful)
    assert await purge(server, selection=Selection(method="a"), dry=True) == PurgeResult(1)
    assert await purge(server, selection=Selection(key=b"s0:a:1"), dry=True) == PurgeResult(1)
    assert {command[0] for command in server.asked} == {"SCAN", "EXISTS"}
