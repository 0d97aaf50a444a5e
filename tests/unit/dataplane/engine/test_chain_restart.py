"""A chain that begins anew under the same id: nothing of the old one is served as final of the new."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from rpcaccel.config.model import NetworkSettings
from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.recent_purges import RecentPurges
from rpcaccel.core.heads.served_head import Served
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.engine.head_change import ChainRestarts
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.networks.worker_state import WorkerState
from rpcaccel.simnode.server.factories import ethereum_chain, running
from rpcaccel.stores.base import NoStore, PurgeResult
from tests.support.proxy import proxying

ETHEREUM = {"network": "eth", "net": {"chain": "ethereum"}}


async def test_what_was_kept_of_final_blocks_is_not_served_of_a_chain_that_began_anew() -> None:
    async with running(ethereum_chain(200), 1) as nodes, proxying(nodes, **ETHEREUM) as proxy:
        asked = ("eth_getBlockByNumber", "0x5", False)
        old = (await proxy.call(*asked)).result["hash"]
        assert (await proxy.call(*asked)).cache == "memory"
        nodes[0].chain.reorg(199)
        proxy.see(8, final=-1, fork_epoch=1, doubted=1)
        new = await proxy.call(*asked)
        assert new.result["hash"] != old
        proxy.see(100, final=90, fork_epoch=2, doubted=1)
        assert (await proxy.call(*asked)).result["hash"] == new.result["hash"]
        assert (await proxy.call(*asked)).cache == "memory"


class Tier(NoStore):
    """A second tier that can be away, and whose purges take as long as it is told."""

    def __init__(self) -> None:
        self.up = True
        self.purged: list[Selection] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        await self.may_end.wait()
        self.purged.append(selection)
        return PurgeResult(0, complete=self.up)


class World:
    """A network that is seen at heads, with one answer in memory."""

    def __init__(self) -> None:
        self.memory, self.tier = MemoryTier(1 << 20, 1 << 18), Tier()
        self.flights: list[asyncio.Future[Any]] = []
        self.restarts = ChainRestarts(
            self.memory, [self.tier], RecentPurges(), lambda: 0.0, lambda: self.flights, again=0.0
        )
        state = WorkerState(Tally(), lambda: 0.0, random.Random(1))
        build = state.build()
        settings = NetworkSettings.model_validate({"chain": "ethereum", "nodes": ["http://127.0.0.1:1"]})
        self.network: Network = build._network("eth", settings, 1)
        self.network.sight.see(ChainSnapshot(head=1000, final=900))
        self.put()

    def put(self) -> None:
        entry = Entry(result=b"1", cache=CacheClass.BY_NUMBER, network="eth", method="m", stored_at=0.0)
        self.memory.put(b"eth@1:m:n:5", entry, 0.0)

    def kept(self) -> bool:
        return self.memory.get(b"eth@1:m:n:5", 0.0) is not None


@pytest.fixture
async def world() -> World:
    return World()


async def test_as_long_as_nothing_is_in_doubt_everything_stays(world: World) -> None:
    for head, final in ((10, 4), (3, 2), (11, 5)):
        assert not world.restarts.look(world.network, Served(head, final))
    assert world.kept()
    assert not world.network.sight.forgetting


async def test_a_doubt_from_before_a_workers_first_head_is_none_of_its_own(world: World) -> None:
    world.network.sight.see(ChainSnapshot())
    assert not world.restarts.look(world.network, Served(10, 4, doubted=3))
    world.network.sight.see(ChainSnapshot(head=10))
    assert not world.restarts.look(world.network, Served(11, 5, doubted=3))
    assert world.restarts.look(world.network, Served(2, 0, doubted=4))


async def test_nothing_is_final_until_both_tiers_are_purged_and_what_was_under_way_has_come(world: World) -> None:
    coming: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    world.flights.append(coming)
    assert world.restarts.look(world.network, Served(7, 2, doubted=1))
    assert not world.kept(), "at once"
    assert not world.restarts.look(world.network, Served(5, 1, doubted=2)), "it is being forgotten already"
    forgetting = asyncio.create_task(world.restarts.forget(world.network))
    await asyncio.sleep(0)
    assert world.tier.purged == []
    world.put()
    coming.set_result(None)
    await forgetting
    assert world.tier.purged == [Selection(network="eth")]
    assert not world.kept()
    assert not world.network.sight.forgetting


async def test_it_waits_for_a_second_tier_that_is_away_and_says_so(world: World) -> None:
    world.tier.up = False
    assert world.restarts.look(world.network, Served(7, 2, doubted=1))
    forgetting = asyncio.create_task(world.restarts.forget(world.network))
    while len(world.tier.purged) < 3:
        await asyncio.sleep(0)
    assert world.network.sight.forgetting
    (warning,) = world.restarts.warnings()
    assert warning.startswith("the head of eth fell below what was final")
    assert repr(world.restarts) == "<ChainRestarts eth>"
    world.tier.up = True
    await forgetting
    assert world.restarts.warnings() == ()
    assert not world.network.sight.forgetting
