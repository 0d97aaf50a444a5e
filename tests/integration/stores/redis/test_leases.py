"""Leases: of several processes one fetches, the others get what it puts, and nobody waits for the dead."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.stores.redis.store import RedisStore
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer
from tests.support.stores.settings import an_entry, every
from tests.support.waiting import until

KEY = b"s0:getLogs:1"
LONG = 120.0
"""Seconds of a lease that no test waits for."""


async def test_one_holder_fetches_and_the_others_get_what_it_puts(store: RedisStore, other: RedisStore) -> None:
    lease = await store.lease(KEY, 5.0)
    assert lease is not None
    assert await other.lease(KEY, 5.0) is None
    waiting = asyncio.create_task(other.wait(KEY, 5.0, every))
    store.put(KEY, an_entry(b"[1]"), 60.0)
    await lease.release()
    entry = await waiting
    assert entry is not None
    assert entry.result == b"[1]"
    assert (store.stats().leases, other.stats().lease_waits) == (1, 1)


async def test_a_lease_is_released_only_after_the_value_is_there(store: RedisStore, other: RedisStore) -> None:
    lease = await store.lease(KEY, 5.0)
    assert lease is not None
    for n in range(500):
        store.put(b"s0:call:%d" % n, an_entry(b"0" * 2000), 60.0)
    store.put(KEY, an_entry(b"[1]"), 60.0)
    await lease.release()
    assert await other.get(KEY) is not None


async def test_when_the_holder_gives_up_the_others_fetch_themselves(store: RedisStore, other: RedisStore) -> None:
    lease = await store.lease(KEY, 5.0)
    assert lease is not None
    waiting = asyncio.create_task(other.wait(KEY, LONG, every))
    await asyncio.sleep(0.02)
    await lease.release()
    async with asyncio.timeout(LONG / 2):
        assert await waiting is None
    assert await other.lease(KEY, 5.0) is not None


async def test_when_the_holder_dies_its_lease_ends_by_itself(store: RedisStore, other: RedisStore) -> None:
    assert await store.lease(KEY, 0.1) is not None
    async with asyncio.timeout(LONG / 2):
        assert await other.wait(KEY, LONG, every) is None


async def test_nobody_waits_longer_than_it_said(store: RedisStore, other: RedisStore) -> None:
    assert await store.lease(KEY, LONG) is not None
    async with asyncio.timeout(LONG / 2):
        assert await other.wait(KEY, 0.1, every) is None


async def test_a_lease_that_ended_by_itself_cannot_end_the_next_holders(store: RedisStore, other: RedisStore) -> None:
    first = await store.lease(KEY, 0.02)
    assert first is not None
    await asyncio.sleep(0.05)
    second = await other.lease(KEY, 5.0)
    assert second is not None
    await first.release()
    assert await store.lease(KEY, 5.0) is None


async def test_without_redis_everybody_gets_the_lease_at_once(open_store: Opener, own_server: RedisServer) -> None:
    store = await open_store(own_server.url)
    own_server.kill()
    for _ in range(5):
        lease = await store.lease(KEY, 5.0)
        assert lease is not None
        await lease.release()
    assert not store.stats().up
    assert await store.wait(KEY, 5.0, every) is None


async def test_a_frozen_redis_grants_within_the_deadline_and_keeps_no_lease_behind(
    open_store: Opener, own_server: RedisServer
) -> None:
    store = await open_store(own_server.url, read_timeout=0.03)
    assert await store.get(KEY) is None
    own_server.freeze()
    async with asyncio.timeout(LONG / 2):  # it waits for its deadline, not for Redis
        lease = await store.lease(KEY, LONG)
    assert lease is not None
    own_server.thaw()
    await until(lambda: own_server.calls("set") > 0)
    await until(lambda: own_server.command("DBSIZE") == b":0")


async def test_who_leaves_while_it_asks_for_the_lease_holds_none(store: RedisStore, other: RedisStore) -> None:
    asking = asyncio.create_task(store.lease(KEY, 60.0))
    await asyncio.sleep(0)  # it is on its way
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with asyncio.timeout(20):
        while (lease := await other.lease(KEY, 5.0)) is None:
            await asyncio.sleep(0.01)
    await lease.release()


async def test_many_leases_at_once_need_few_connections(open_store: Opener, server: RedisServer) -> None:
    one, other = await open_store(server.url, pool_size=1), await open_store(server.url, pool_size=1)
    keys = [b"s0:call:%d" % number for number in range(1000)]
    leases = await asyncio.gather(*(one.lease(key, LONG) for key in keys))
    assert one.stats().leases == 1000, "none was granted for want of a connection"
    assert await asyncio.gather(*(other.lease(key, LONG) for key in keys)) == [None] * 1000
    await asyncio.gather(*(lease.release() for lease in leases if lease is not None))
    assert server.command("DBSIZE") == b":0"
    assert one.stats().up
