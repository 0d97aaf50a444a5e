"""A Redis Cluster: keys spread, a dead node costs its own keys only, a promoted replica is found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from rpcaccel.core.cache.entry import SCHEMA, Selection
from rpcaccel.stores.base import PurgeResult
from rpcaccel.stores.redis.store import RedisStore
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer
from tests.support.stores.settings import an_entry, every
from tests.support.stores.topologies import SLOTS, cluster, hurry_cluster
from tests.support.waiting import until


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Three primaries, and a replica of the first."""
    with cluster(tmp_path) as servers:
        yield servers


def address(nodes: list[RedisServer]) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def key(n: int) -> bytes:
    """Keys with the same JSON object in them, as real ones have."""
    return b's0:getBlocks:[%d,%d,{"fullTx":true}]' % (n, n + 1)


async def fill(store: RedisStore, count: int) -> None:
    before = store.stats().writes
    for n in range(count):
        store.put(key(n), an_entry(b"%d" % n), 60.0)
    await until(lambda: store.stats().writes == before + count)


async def leases_work(mine: RedisStore, theirs: RedisStore) -> None:
    lease = await mine.lease(key(1), 5.0)
    assert lease is not None
    assert await theirs.lease(key(1), 5.0) is None
    waiting = asyncio.create_task(theirs.wait(key(1), 5.0, every))
    mine.put(key(1), an_entry(b"1"), 60.0)
    assert await waiting is not None
    await lease.release()
    assert await theirs.lease(key(1), 5.0) is not None


async def test_keys_and_leases_spread_and_a_dead_node_costs_its_own_keys_only(
    open_store: Opener, nodes: list[RedisServer]
) -> None:
    store = await open_store(address(nodes[:2]))
    await fill(store, 120)
    spread = [int(node.command("DBSIZE")[1:]) for node in nodes[:3]]
    assert sum(spread) == 120
    assert min(spread) > 10
    back = await asyncio.gather(*(store.get(key(n)) for n in range(120)))
    assert [entry.result for entry in back if entry is not None] == [b"%d" % n for n in range(120)]
    assert nodes[3].calls("mget") > 0
    assert store.stats().reads == 3

    assert await store.purge(Selection(key=key(0))) == PurgeResult(1)
    assert await store.purge(Selection(method="getBlocks")) == PurgeResult(119)
    assert {node.command("DBSIZE") for node in nodes[:3]} == {b":0"}

    await leases_work(store, await open_store(address(nodes)))

    await fill(store, 60)
    nodes[1].kill()
    lost = {n for n in range(60) if SLOTS // 3 <= key_slot(b"test{}:%d:" % SCHEMA + key(n)) < SLOTS * 2 // 3}
    for _ in range(4):
        found = await asyncio.gather(*(store.get(key(n)) for n in range(60)))
        assert {n for n, entry in enumerate(found) if entry is None} == lost
    assert store.stats().up
    for n in lost:  # a lease on a node that lives would have others wait for what cannot be put
        assert [await store.lease(key(n), 60.0) for _ in range(2)].count(None) == 0
    assert not (await store.purge(Selection(network="nothing"))).complete


@pytest.mark.deep
async def test_a_promoted_replica_is_found(open_store: Opener, nodes: list[RedisServer]) -> None:
    store = await open_store(address(nodes))
    own = next(key(n) for n in range(60) if key_slot(b"test{}:%d:" % SCHEMA + key(n)) < SLOTS // 3)
    nodes[0].kill()
    hurry_cluster(nodes[1:])
    async with asyncio.timeout(60):
        while nodes[3].calls("set") == 0:
            store.put(own, an_entry(), 60.0)
            await asyncio.sleep(0.05)
    await until(lambda: store.stats().queued == 0)
    assert await store.get(own) is not None
    gone = f"127.0.0.1:{nodes[0].port}"
    await until(lambda: gone not in repr(store))
    probes = [task for task in asyncio.all_tasks() if task.get_name().startswith("redis probe")]
    assert not [task for task in probes if gone in task.get_name()], "nobody asks it any more"


@pytest.mark.deep
async def test_a_slot_that_moves_to_another_node_costs_no_hit(open_store: Opener, nodes: list[RedisServer]) -> None:
    store = await open_store(address(nodes))
    await fill(store, 1)
    name = (b"test{}:%d:" % SCHEMA + key(0)).decode()
    slot = key_slot(name.encode())
    before, after = nodes[slot * 3 // SLOTS], nodes[(slot * 3 // SLOTS + 1) % 3]
    ids = [node.reply("CLUSTER", "MYID").strip().decode() for node in (before, after)]
    after.command("CLUSTER", "SETSLOT", str(slot), "IMPORTING", ids[0])
    before.command("CLUSTER", "SETSLOT", str(slot), "MIGRATING", ids[1])
    before.command("MIGRATE", "127.0.0.1", str(after.port), name, "0", "5000")
    assert await store.get(key(0)) is not None, "the node that has the slot asks to look at the other one"
    for node in (after, before):
        node.command("CLUSTER", "SETSLOT", str(slot), "NODE", ids[1])
    assert await store.get(key(0)) is not None, "the slot has moved"
    assert store.stats().errors == 0


async def test_a_slot_that_the_cluster_has_lost_is_a_miss_and_no_wait(
    open_store: Opener, nodes: list[RedisServer]
) -> None:
    own = next(key(n) for n in range(60) if key_slot(b"test{}:%d:" % SCHEMA + key(n)) < SLOTS // 3)
    nodes[0].command("CLUSTER", "DELSLOTS", str(key_slot(b"test{}:%d:" % SCHEMA + own)))
    store = await open_store(address(nodes[:1]))
    store.put(own, an_entry(), 60.0)
    async with asyncio.timeout(60.0):
        assert await store.get(own) is None
    await until(lambda: store.stats().queued == 0)
    assert (store.stats().down, store.stats().writes_dropped) == (1, 1)


@pytest.mark.deep
async def test_a_cluster_that_is_not_there_is_found_when_it_comes(open_store: Opener, nodes: list[RedisServer]) -> None:
    for node in nodes:
        node.freeze()
    async with asyncio.timeout(60.0):
        store = await open_store(address(nodes), connect_timeout=0.5, read_timeout=0.1, write_timeout=0.5)
    assert not store.stats().up
    assert await store.get(key(1)) is None
    assert not (await store.purge(Selection())).complete
    for node in nodes:
        node.thaw()
    await until(lambda: store.stats().up)
