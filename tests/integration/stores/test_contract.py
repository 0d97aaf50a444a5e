"""What every store keeps to, whichever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path

import pytest

from rpcaccel import stores
from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.base import NoStore, Store
from tests.support.services import RedisServer
from tests.support.stores.disk import in_folder
from tests.support.stores.settings import Settings, Url, an_entry, every
from tests.support.waiting import until

SERVED = {"redis", "unix"}
"""The schemes that a redis-server answers here; a store of any other scheme needs no service."""

ELSEWHERE = {"rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}
"""The schemes that other tests of stores show."""

DISK = "disk"
"""Stands for the tier on disk, which has no address."""


def test_an_address_of_no_store_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="begins with one of") as raised:
        stores.driver(Settings(url=Url("ftp://s3cret@h")))
    assert "s3cret" not in str(raised.value)


def opened(url: str = "") -> Store:
    settings = Settings(url=Url(url))
    return stores.driver(settings).build(settings)


def test_the_empty_address_is_the_store_that_holds_nothing() -> None:
    assert isinstance(opened(), NoStore)


@pytest.fixture(params=["", *sorted(stores.drivers().keys() - ELSEWHERE), DISK])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store | None = None
    if request.param == DISK:
        made = stores.load_disk(in_folder(tmp_path))
    elif request.param not in SERVED:
        made = opened(request.param and f"{request.param}://")
    if made is not None:
        await made.start()
        yield made
        await made.close()
        return
    socket = tmp_path / "r.sock"
    with RedisServer(tmp_path, "--unixsocket", str(socket)) as server:
        made = opened(f"unix://{socket}" if request.param == "unix" else server.url)
        await made.start()
        yield made
        await made.close()


async def test_a_store_is_up(store: Store) -> None:
    assert store.stats().up


@pytest.mark.parametrize("life", [60.0, inf])
async def test_what_comes_back_is_what_was_put_or_nothing(store: Store, life: float) -> None:
    kept = {b"s0:call:%d" % n: an_entry(b"%d" % n) for n in range(20)}
    for key, entry in kept.items():
        store.put(key, entry, life)
    await until(lambda: store.stats().queued == 0)
    for key, entry in kept.items():
        back = await store.get(key)
        assert back is None or (back.result, back.cache, back.method) == (entry.result, entry.cache, entry.method)
    assert await store.get(b"s0:call:never") is None


@pytest.mark.parametrize("ttl", [0.0, -1.0, inf])
async def test_any_life_is_taken(store: Store, ttl: float) -> None:
    store.put(b"s0:call:1", an_entry(), ttl)
    await until(lambda: store.stats().queued == 0)
    if ttl <= 0:
        assert await store.get(b"s0:call:1") is None


@pytest.mark.parametrize("life", [60.0, inf])
async def test_after_a_purge_nothing_meant_is_left(store: Store, life: float) -> None:
    for n in range(20):
        store.put(b"s0:call:%d" % n, an_entry(), life)
    purged = await store.purge(Selection(network="s0"))
    assert purged.complete
    assert await asyncio.gather(*(store.get(b"s0:call:%d" % n) for n in range(20))) == [None] * 20


@pytest.mark.parametrize("life", [60.0, inf])
async def test_a_dry_purge_counts_and_removes_nothing(store: Store, life: float) -> None:
    store.put(b"s0:call:1", an_entry(), life)
    await until(lambda: store.stats().queued == 0)
    held = int(await store.get(b"s0:call:1") is not None)
    for selection in (Selection(), Selection(network="s0"), Selection(key=b"s0:call:1")):
        assert (await store.purge(selection, dry=True)).removed == held
    assert (await store.purge(Selection(network="s1"), dry=True)).removed == 0
    assert int(await store.get(b"s0:call:1") is not None) == held


async def test_how_long_an_entry_is_left_is_said_of_what_is_there(store: Store) -> None:
    store.put(b"s0:call:1", an_entry(), 60.0)
    await until(lambda: store.stats().queued == 0)
    left = await store.left(b"s0:call:1")
    assert (left is None) == (await store.get(b"s0:call:1") is None)
    assert left is None or 50.0 < left <= 60.0
    assert await store.left(b"s0:call:never") is None


async def test_somebody_always_gets_the_lease(store: Store) -> None:
    lease = await store.lease(b"s0:logs:1", 5.0)
    assert lease is not None
    await lease.release()
    again = await store.lease(b"s0:logs:1", 5.0)
    assert again is not None
    await again.release()


async def test_waiting_for_what_nobody_fetches_ends(store: Store) -> None:
    assert await store.wait(b"s0:logs:1", 5.0, every) is None


async def test_a_store_closes_twice(store: Store) -> None:
    await store.close()
    assert await store.get(b"s0:call:1") is None
