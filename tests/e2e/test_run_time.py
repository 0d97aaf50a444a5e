"""Every kind of setting that may be changed at run time, changed: with effect on the next call in every worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rpcaccel.core import apikey
from rpcaccel.testing.factories import harmony_nodes
from tests.e2e.conftest import Serve
from tests.e2e.running import Running
from tests.e2e.test_control import change, served_by
from tests.proxy import Reply

pytestmark = pytest.mark.e2e

KEY = apikey.make(bytes(32))
BLOCK = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [7, {}]}
EACH = 24
"""Calls on connections of their own: that one of two workers gets none of them is one chance in eight million."""


async def everywhere(proxy: Running, body: Any, **headers: str) -> list[Reply]:
    """The replies to a body sent again and again, so that every worker is asked."""
    return [await proxy.post(json.dumps(body).encode(), Connection="close", **headers) for _ in range(EACH)]


async def caches(proxy: Running) -> set[str]:
    return {reply.cache for reply in await everywhere(proxy, BLOCK)}


async def changed(proxy: Running, patch: Any) -> None:
    status, told = await change(proxy, patch)
    assert (status, told["adopted"]) == (200, 2), told


def of_network(**more: Any) -> Any:
    return {"networks": {"harmony-s0": more}}


async def test_cache_rules_and_the_size_of_the_memory(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await serve(nodes, "--workers", "2")
        await caches(proxy)
        assert await caches(proxy) == {"memory"}
        await changed(proxy, of_network(rules={"hmyv2_getBlockByNumber": {"cache": "off"}}))
        assert await caches(proxy) == {"miss"}
        await changed(proxy, of_network(rules={"hmyv2_getBlockByNumber": None}))
        await caches(proxy)
        assert await caches(proxy) == {"memory"}
        await changed(proxy, {"memory": {"size": 0}})
        assert await caches(proxy) == {"miss"}


async def test_the_balancer_and_what_it_hashes(serve: Serve) -> None:
    async with harmony_nodes(3) as nodes:
        proxy = await serve(nodes, "--workers", "2")
        await changed(proxy, of_network(hedge={"quantile": 0}))
        assert len(await served_by(proxy)) == 3
        await changed(proxy, of_network(balancer="consistent_hash", hash_key="method"))
        assert len(await served_by(proxy)) == 1
        await changed(proxy, of_network(balancer="smooth_weighted"))
        assert len(await served_by(proxy)) == 3


async def test_limits_keys_and_refused_methods(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await serve(nodes, "--workers", "2")
        await changed(proxy, {"http": {"max_batch": 1}})
        assert all("batch too long" in reply.error["message"] for reply in await everywhere(proxy, [BLOCK, BLOCK]))
        await changed(proxy, {"http": {"deny": ["hmyv2_getBlock*"]}})
        assert all("error" in reply.json for reply in await everywhere(proxy, BLOCK))
        holder = {"dapp": {"hashes": [apikey.hashed(KEY)]}}
        await changed(proxy, {"http": {"deny": []}, "clients": {"require_key": True, "keys": holder}})
        assert {reply.status for reply in await everywhere(proxy, BLOCK)} == {401}
        assert {reply.status for reply in await everywhere(proxy, BLOCK, **{"X-API-Key": KEY})} == {200}
        await changed(proxy, {"clients": {"require_key": False, "keys": None}})
        assert {reply.status for reply in await everywhere(proxy, BLOCK)} == {200}


async def test_what_an_error_means(serve: Serve) -> None:
    async with harmony_nodes(1) as (node,):
        proxy = await serve([node], "--workers", "2")
        node.knobs.turn({"faults": {"error": 1.0}, "fault_methods": [BLOCK["method"]], "error_text": "on holiday"})
        assert {reply.error["code"] for reply in await everywhere(proxy, BLOCK)} == {-32000}
        await changed(proxy, of_network(error_rules=[{"kind": "rate-limited", "contains": ["on holiday"]}]))
        assert {reply.error["code"] for reply in await everywhere(proxy, BLOCK)} == {-32005}


async def test_how_often_a_call_is_tried(serve: Serve) -> None:
    async with harmony_nodes(2) as (bad, good):
        proxy = await serve([bad, good], "--workers", "2")
        bad.knobs.turn({"faults": {"unavailable": 1.0}, "fault_methods": [BLOCK["method"]], "retry_after": 0.0})
        await changed(proxy, of_network(attempts=1, rules={BLOCK["method"]: {"cache": "off"}}))
        assert {"error" in reply.json for reply in await everywhere(proxy, BLOCK)} == {True, False}
        await changed(proxy, of_network(attempts=2, budget={"floor": 1000}))
        assert {"error" in reply.json for reply in await everywhere(proxy, BLOCK)} == {False}


async def test_lines_of_the_log(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await serve(nodes, "--workers", "2")
        await everywhere(proxy, BLOCK)
        assert "hmyv2_getBlockByNumber" not in proxy.program.output
        await changed(proxy, {"log": {"access": True, "format": "json"}})
        await everywhere(proxy, BLOCK)
        await changed(proxy, {"log": {"level": "warning"}})
        await everywhere(proxy, {**BLOCK, "method": "eth_chainId", "params": []})
        await proxy.end()
        lines = [json.loads(line) for line in proxy.program.output.splitlines() if line.startswith('{"request"')]
        assert [line["method"] for line in lines] == ["hmyv2_getBlockByNumber"] * EACH
