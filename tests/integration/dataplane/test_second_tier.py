"""What the data plane does with a real Redis behind its memory: ranges, refresh, read your writes, and Explain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import GatedNode, gated_nodes
from tests.support.proxy import proxying
from tests.support.services import RedisServer
from tests.support.waiting import until
from tests.unit.dataplane.engine.test_explain import explained
from tests.unit.dataplane.engine.test_head_change import ALL, GAS, popular
from tests.unit.dataplane.engine.test_ranges import BLOCKS, LOGS, asked, same, window
from tests.unit.dataplane.engine.test_read_your_writes import TOLD_TO_ONE, signed


async def test_what_redis_holds_is_told_with_its_time(redis_server: RedisServer) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, redis={"url": redis_server.url}, net={"price": 1}) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 7, {})
        store = proxy.worker.engine.store
        while store.stats().queued:
            await store.get(b"anything")  # lets the background write go on
        found = await explained(proxy, "hmyv2_getBlockByNumber", 7, {})
        memory, shared = found.held
        assert (memory.tier, shared.tier, shared.key) == ("memory", "redis", memory.key)
        assert shared.left is not None
        assert 77_000 < shared.left <= 86_400
        assert found.key in found.shared
        assert "one process asks a node for all that share the Redis, because its nodes have" in found.keeping[-1]


async def test_pieces_come_from_the_second_tier_as_well(redis_server: RedisServer) -> None:
    tier = {"redis": {"url": redis_server.url}}
    async with harmony_nodes(1) as nodes:
        async with proxying(nodes, **tier) as proxy:
            await same(proxy, BLOCKS, 10, 40, {})
            await same(proxy, LOGS, window(0, 127))
        async with proxying(nodes, **tier) as proxy:
            assert (await same(proxy, BLOCKS, 20, 60, {})).cache == "partial; cached=21; of=41"
            assert (await same(proxy, BLOCKS, 10, 19, {})).cache == "redis"
            assert (await same(proxy, BLOCKS, 10, 60, {})).cache == "memory"
            assert (await same(proxy, LOGS, window(0, 127))).cache == "redis"
        assert asked(nodes) == [(0, 127), (10, 40), (41, 60)]


@pytest.mark.parametrize("method", ["eth_getTransactionByHash", "eth_getTransactionReceipt"])
async def test_another_host_learns_of_it_from_redis(redis_server: RedisServer, method: str) -> None:
    redis = {"url": redis_server.url}
    async with (
        harmony_nodes(3, gossip=60.0) as nodes,
        proxying(nodes, redis=redis, net=TOLD_TO_ONE) as here,
        proxying(nodes, redis=redis) as there,
    ):
        sent = await here.call("eth_sendRawTransaction", signed())
        await here.worker.engine.store.close()  # what waits is written
        assert {(await there.call(method, sent.result)).node for _ in range(4)} == {sent.node}


async def test_workers_that_share_a_redis_make_one_call_for_all(redis_server: RedisServer) -> None:
    async with gated_nodes() as nodes:
        assert await asked_by_two(nodes, redis_server.url) == 1


async def asked_by_two(nodes: Sequence[GatedNode], redis: str) -> int:
    more = {"net": ALL, "redis": {"url": redis}}
    async with proxying(nodes, **more) as here, proxying(nodes, **more) as there:
        for number, proxy in enumerate((here, there)):
            await proxy.call("eth_getBalance", f"0x{number:040x}", "latest")  # a node call, which pays in
            await popular(proxy, GAS)
        before = here.asked(GAS)
        nodes[0].hold(GAS)
        nodes[0].chain.advance()
        for proxy in (here, there):
            proxy.see()
        await nodes[0].arrived.wait()
        await until(lambda: sum(proxy.worker.engine.store.stats().lease_waits for proxy in (here, there)) == 1)
        nodes[0].release()
        for proxy in (here, there):
            while len(proxy.worker.engine.flights):
                await asyncio.sleep(0)
            assert (await proxy.call(GAS)).cache == "memory"
        return here.asked(GAS) - before
