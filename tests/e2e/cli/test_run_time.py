"""Every kind of setting that may be changed at run time, changed: with effect on the next call in every worker."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from rpcaccel.core import client_limits
from tests.e2e.cli.test_control import served_by
from tests.support.fleet import Fleet
from tests.support.proxy import Reply
from tests.support.running import Running, until

KEY = client_limits.make(bytes(32))
BLOCK = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [7, {}]}
EACH = 24
"""Calls on connections of their own: that one of two workers gets none of them is one chance in eight million."""


async def everywhere(proxy: Running, body: Any, **headers: str) -> list[Reply]:
    """The replies to a body sent again and again, so that every worker is asked."""
    return [await proxy.post(json.dumps(body).encode(), Connection="close", **headers) for _ in range(EACH)]


async def caches(proxy: Running) -> set[str]:
    return {reply.cache for reply in await everywhere(proxy, BLOCK)}


async def test_cache_rules_and_the_size_of_the_memory(pair: Fleet) -> None:
    proxy = pair.proxy
    await caches(proxy)
    assert await caches(proxy) == {"memory"}
    await pair.set(rules={"hmyv2_getBlockByNumber": {"cache": "off"}})
    assert await caches(proxy) == {"miss"}
    await pair.set(rules={"hmyv2_getBlockByNumber": None})
    await caches(proxy)
    assert await caches(proxy) == {"memory"}
    await proxy.changed({"memory": {"size": 0}})
    assert await caches(proxy) == {"miss"}


async def test_the_balancer_and_what_it_hashes(pair: Fleet) -> None:
    assert len(await served_by(pair.proxy)) == 3
    await pair.set(balancer="consistent_hash", hash_key="method")
    assert len(await served_by(pair.proxy)) == 1
    await pair.set(balancer="smooth_weighted")
    assert len(await served_by(pair.proxy)) == 3


async def test_limits_keys_and_refused_methods(pair: Fleet) -> None:
    proxy = pair.proxy
    await proxy.changed({"http": {"max_batch": 1}})
    assert all("batch too long" in reply.error["message"] for reply in await everywhere(proxy, [BLOCK, BLOCK]))
    await proxy.changed({"http": {"deny": ["hmyv2_getBlock*"]}})
    assert all("error" in reply.json for reply in await everywhere(proxy, BLOCK))
    holder = {"dapp": {"hashes": [client_limits.hashed(KEY)]}}
    await proxy.changed({"http": {"deny": []}, "clients": {"require_key": True, "keys": holder}})
    assert {reply.status for reply in await everywhere(proxy, BLOCK)} == {401}
    assert {reply.status for reply in await everywhere(proxy, BLOCK, **{"X-API-Key": KEY})} == {200}
    await proxy.changed({"clients": {"require_key": False, "keys": None}})
    assert {reply.status for reply in await everywhere(proxy, BLOCK)} == {200}


async def test_what_an_error_means(pair: Fleet) -> None:
    # A method that no other test asks for: nodes that limit its rate are spared for a while, for this method alone.
    signers = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockSigners", "params": [7]}
    for node in pair.nodes:
        node.knobs.turn({"faults": {"error": 1.0}, "fault_methods": [signers["method"]], "error_text": "on holiday"})
    assert {reply.error["code"] for reply in await everywhere(pair.proxy, signers)} == {-32000}
    await pair.set(error_rules=[{"kind": "rate-limited", "contains": ["on holiday"]}])
    assert {reply.error["code"] for reply in await everywhere(pair.proxy, signers)} == {-32005}


async def test_how_often_a_call_is_tried(pair: Fleet) -> None:
    pair.nodes[0].knobs.turn({"faults": {"unavailable": 1.0}, "fault_methods": [BLOCK["method"]], "retry_after": 0.0})
    await pair.set(attempts=1, rules={BLOCK["method"]: {"cache": "off"}})
    assert {"error" in reply.json for reply in await everywhere(pair.proxy, BLOCK)} == {True, False}
    await pair.set(attempts=2, budget={"floor": 1000})
    assert {"error" in reply.json for reply in await everywhere(pair.proxy, BLOCK)} == {False}


async def test_lines_of_the_log(pair: Fleet) -> None:
    proxy, before = pair.proxy, len(pair.proxy.program.output)
    await everywhere(proxy, BLOCK)
    await proxy.changed({"log": {"access": True, "format": "json"}})
    await everywhere(proxy, {**BLOCK, "method": "hmyv2_getBlocks", "params": [1, 2, {}]})
    await proxy.changed({"log": {"level": "warning"}})
    await everywhere(proxy, {**BLOCK, "method": "eth_chainId", "params": []})
    await proxy.changed({"log": {"level": "info"}})
    await everywhere(proxy, {**BLOCK, "method": "hmyv2_blockNumber", "params": []})

    def methods() -> Counter[str]:
        written = proxy.program.output[before:].splitlines()
        return Counter(json.loads(line)["method"] for line in written if line.startswith('{"request"'))

    async def written() -> bool:
        return methods()["hmyv2_blockNumber"] == EACH

    await until("the last lines of every worker", written)
    assert methods() == {"hmyv2_getBlocks": EACH, "hmyv2_blockNumber": EACH}
