"""Identical misses in several processes make one node call, where a call costs a node much or takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.dataplane.engine.fetch_context import Leasing
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.stores.base import NoStore
from tests.support.proxy import Proxy, Reply, proxying
from tests.support.services import RedisServer
from tests.support.stores.settings import every
from tests.support.waiting import until

HEAVY = "hmyv2_getMedianRawStakeSnapshot"
LIGHT = "eth_gasPrice"


async def both(here: Proxy, there: Proxy, method: str) -> list[Reply]:
    return await asyncio.gather(*(proxy.call(method) for proxy in (here, there, here, there)))


async def test_two_workers_that_miss_together_make_one_node_call(redis_server: RedisServer) -> None:
    redis = {"url": redis_server.url}
    async with (
        harmony_nodes(2, latency="60ms") as nodes,
        proxying(nodes, redis=redis) as here,
        proxying(nodes, redis=redis) as there,
    ):
        replies = await both(here, there, HEAVY)
        assert here.asked(HEAVY) == 1
        assert sorted(reply.cache for reply in replies) == ["flight", "flight", "miss", "redis"]
        assert len({reply.body for reply in replies}) == 1
        assert {reply.cache for reply in await both(here, there, HEAVY)} == {"memory"}


@pytest.mark.parametrize(("mode", "asked"), [("heavy", 2), ("auto", 1)])
async def test_a_light_read_makes_one_node_call_where_nodes_are_paid(
    redis_server: RedisServer, mode: str, asked: int
) -> None:
    redis = {"url": redis_server.url, "single_flight": mode}
    async with (
        harmony_nodes(2, latency="60ms") as nodes,
        proxying(nodes, redis=redis, net={"price": 1}) as here,
        proxying(nodes, redis=redis, net={"price": 1}) as there,
    ):
        replies = await both(here, there, LIGHT)
        assert here.asked(LIGHT) == asked
        assert {reply.status for reply in replies} == {200}
        assert sorted(reply.cache for reply in replies).count("redis") == 2 - asked


async def test_a_light_read_of_a_near_node_claims_no_lease(redis_server: RedisServer) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, redis={"url": redis_server.url}) as proxy:
        network, engine = proxy.worker.state.networks["harmony-s0"], proxy.worker.engine
        (node,) = network.pool.nodes
        for _ in range(3):
            node.pace.answered(LIGHT, 0.001, engine.now())
        assert (await proxy.call(LIGHT)).cache == "miss"
        assert engine.store.stats().leases == 0


async def test_when_the_holder_dies_the_others_fetch_for_themselves(redis_server: RedisServer) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, redis={"url": redis_server.url}) as proxy:
        plan = proxy.worker.state.networks["harmony-s0"].plan(HEAVY, b"[]")
        assert await proxy.worker.engine.store.lease(plan.shared_keys[0], 0.2) is not None
        reply = await proxy.call(HEAVY)
        assert (reply.cache, proxy.asked(HEAVY)) == ("miss", 1)
        assert proxy.worker.engine.store.stats().lease_waits == 1


async def test_what_was_purged_is_not_taken_while_another_asks_for_it_anew(redis_server: RedisServer) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, redis={"url": redis_server.url}) as proxy:
        engine, store = proxy.worker.engine, proxy.worker.engine.store
        key = proxy.worker.state.networks["harmony-s0"].plan(HEAVY, b"[]").shared_keys[0]
        now = engine.now()
        old = Entry(result=b'"old"', cache=CacheClass.HEAD, network="n", method="m", stored_at=now, expires=now + 60)
        await proxy.worker.purge(Selection())
        store.put(key, old, 60.0)  # as a worker does whose turn to be purged has not come
        await until(lambda: store.stats().queued == 0)
        assert await store.lease(key, 0.3) is not None
        reply = await proxy.call(HEAVY)
        assert (reply.cache, proxy.asked(HEAVY)) == ("miss", 1)
        assert reply.result != "old"


async def test_an_error_of_the_holder_is_nobody_elses(redis_server: RedisServer) -> None:
    redis = {"url": redis_server.url}
    async with (
        harmony_nodes(1, latency="60ms") as nodes,
        proxying(nodes, redis=redis) as here,
        proxying(nodes, redis=redis) as there,
    ):
        unknown = "hmyv2_getValidatorInformation"
        replies = await asyncio.gather(*(proxy.call(unknown, "zzz") for proxy in (here, there)))
        assert here.asked(unknown) == 2
        assert [set(reply.json) for reply in replies] == [{"jsonrpc", "id", "error"}] * 2


async def test_a_redis_that_died_changes_nothing_for_the_client(redis_server: RedisServer) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, redis={"url": "redis://127.0.0.1:1"}) as proxy:
        assert (await proxy.call(HEAVY)).cache == "miss"
    assert redis_server.command("PING") == b"+PONG"


class HeldElsewhere(NoStore):
    """A store whose lease another process holds."""

    def __init__(self, puts: Entry | None) -> None:
        self.puts = puts
        self.waited: list[float] = []

    async def lease(self, key: bytes, ttl: float) -> None:  # type: ignore[override]
        return None

    async def wait(self, key: bytes, within: float, accepts: Callable[[Entry], bool]) -> Entry | None:
        self.waited.append(within)
        return self.puts if self.puts is not None and accepts(self.puts) else None


@pytest.mark.parametrize(("left", "waits"), [(30.0, 5.0), (3.0, 1.5)])
async def test_the_holder_is_waited_for_within_half_of_what_the_call_has_left(left: float, waits: float) -> None:
    async def look() -> Entry | None:
        return None

    store = HeldElsewhere(None)
    assert await Leasing(store).claim(b"k", every, look, 5.0, within=left) is None
    assert store.waited == [waits]


@pytest.mark.parametrize(("under_the_key", "elsewhere"), [(True, False), (False, True), (False, False)])
async def test_what_the_holder_put_is_taken_under_whichever_key_it_stands(under_the_key: bool, elsewhere: bool) -> None:
    entry = Entry(result=b"1", cache=CacheClass.HEAD, network="n", method="m", stored_at=0.0)

    async def look() -> Entry | None:
        return entry if elsewhere else None

    leasing = Leasing(HeldElsewhere(entry if under_the_key else None))
    assert await leasing.claim(b"k", every, look, 5.0, within=30.0) is (entry if under_the_key or elsewhere else None)
