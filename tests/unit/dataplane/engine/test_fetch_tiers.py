"""Ordinary calls make no task of their own: from the second tier, and from a node."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.engine.fetch import Fetch
from rpcaccel.dataplane.engine.single_flight import Flight, Waiter
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.attempt import Attempt
from rpcaccel.dataplane.upstream.chooser import PROXY
from rpcaccel.dataplane.upstream.node_client import Post
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from rpcaccel.stores.base import Store
from tests.support.dataplane.noting_waiter import NotingWaiter
from tests.support.proxy import Proxy, proxying

BLOCK = ("eth_getTransactionCount", b'["0x' + b"a5" * 20 + b'","0x10"]')


class Tier(Store):
    """A second tier that tells what it has when told to."""

    def __init__(self, entry: Entry | None, *, down: bool = False) -> None:
        self.entry, self.down = entry, down
        self.asked: list[tuple[Sequence[bytes], Callable[[], None]]] = []

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        if self.down:
            return False

        def tell() -> None:
            entry = self.entry
            done(entry if entry is not None and accepts(keys[0], entry) else None)

        self.asked.append((keys, tell))
        return True


def entry(proxy: Proxy) -> Entry:
    now = proxy.worker.engine.now()
    return Entry(result=b'"0x77"', cache=CacheClass.BY_NUMBER, network="n", method="m", stored_at=now)


def over(proxy: Proxy, tier: Tier) -> tuple[Engine, Network]:
    """The proxy's engine, over this second tier."""
    engine = proxy.worker.engine
    engine.store, engine.shared = tier, True
    return engine, proxy.worker.state.networks["harmony-s0"]


def begun(engine: Engine, network: Network, plan: Plan) -> NotingWaiter:
    """The wait for a fetch that is begun at once."""
    waiter = NotingWaiter()
    engine.fetch(network, plan, PROXY, waiter)
    return waiter


async def test_what_the_second_tier_has_is_given_and_fills_memory() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        tier = Tier(entry(proxy))
        engine, network = over(proxy, tier)
        plan = network.plan(*BLOCK)
        before = len(asyncio.all_tasks())
        waiting = begun(engine, network, plan)
        assert len(asyncio.all_tasks()) == before
        ((keys, tell),) = tier.asked
        assert keys == plan.shared_keys
        tell()
        outcome = await waiting.outcome()
        assert (outcome.source, outcome.result) == (AnswerSource.SHARED, b'"0x77"')
        assert engine.memory.peek(keys[0], engine.now()) is not None
        assert nodes[0].counts.calls == 0


@pytest.mark.parametrize("down", [False, True])
async def test_what_it_has_not_is_asked_of_a_node(down: bool) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        tier = Tier(None, down=down)
        engine, network = over(proxy, tier)
        waiting = begun(engine, network, network.plan(*BLOCK))
        for _, tell in tier.asked:
            tell()
        assert (await waiting.outcome()).source is AnswerSource.NODE
        assert nodes[0].counts.calls == 1


async def test_a_call_that_waited_for_the_second_tier_over_a_reorganisation_is_planned_again() -> None:
    async with ethereum_nodes(2, head=300) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
        tier = Tier(None)
        engine, network = over(proxy, tier)
        proxy.see(290, final=200, fork_epoch=1)
        waiting = begun(engine, network, network.plan("eth_getTransactionReceipt", b'["0x%064x"]' % 7))
        proxy.see(nodes=[300, 290], final=200, fork_epoch=2)
        for _, tell in tier.asked:
            tell()
        outcome = await waiting.outcome()
        assert (outcome.block, outcome.node) == (300, nodes[0].name)


async def test_a_bug_in_taking_what_the_second_tier_has_belongs_to_the_callers() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        tier = Tier(cast(Entry, "no entry"))
        engine, network = over(proxy, tier)
        waiting = begun(engine, network, network.plan(*BLOCK))
        tier.asked[0][1]()
        assert [type(told) for told in waiting.told] == [AttributeError]
        assert len(engine.flights) == 0
        assert nodes[0].counts.calls == 0


async def test_a_worker_that_ends_waits_for_no_second_tier() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        tier = Tier(entry(proxy))
        engine, network = over(proxy, tier)
        waiting = begun(engine, network, network.plan(*BLOCK))
        await engine.flights.close()
        assert [type(told) for told in waiting.told] == [asyncio.CancelledError]
        tier.asked[0][1]()
        assert len(engine.flights) == 0


async def test_a_node_is_asked_without_a_task_but_the_one_that_takes_a_connection() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        engine, network = proxy.worker.engine, proxy.worker.state.networks["harmony-s0"]
        before = len(asyncio.all_tasks())
        waiting = begun(engine, network, network.plan(*BLOCK))
        assert len(asyncio.all_tasks()) == before + 1
        assert (await waiting.outcome()).source is AnswerSource.NODE
        assert len(nodes) == 1


async def test_with_no_node_at_hand_the_call_waits_for_one() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        engine, network = proxy.worker.engine, proxy.worker.state.networks["harmony-s0"]
        node = network.pool.nodes[0]
        node.drained = True
        waiting = begun(engine, network, network.plan(*BLOCK))
        await asyncio.sleep(0)
        node.drained = False
        network.see(network.view)
        assert (await waiting.outcome()).source is AnswerSource.NODE


async def test_a_call_that_landed_leaves_nothing_to_the_garbage_collector() -> None:
    """Rings of objects cost as much as a tenth of a miss: collecting them takes longer than making them."""
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        engine, network = proxy.worker.engine, proxy.worker.state.networks["harmony-s0"]
        gc.collect()
        gc.disable()
        ours = Flight | Fetch | Attempt | Post | Waiter
        before = [thing for thing in gc.get_objects() if isinstance(thing, ours)]
        try:
            assert (await engine.outcome(network, network.plan(*BLOCK))).source is AnswerSource.NODE
            await asyncio.sleep(0)
            left = [thing for thing in gc.get_objects() if isinstance(thing, ours) and thing not in before]
        finally:
            gc.enable()
        assert left == []
