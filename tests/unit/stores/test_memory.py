"""The store that holds nothing."""

from __future__ import annotations

from math import inf

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.base import NoStore, PurgeResult
from tests.support.stores.settings import an_entry, every


async def test_nothing_put_is_ever_got() -> None:
    store = NoStore()
    await store.start()
    store.put(b"s0:call:1", an_entry(), inf)
    assert await store.get(b"s0:call:1") is None
    assert await store.wait(b"s0:call:1", 10.0, every) is None
    assert await store.purge(Selection()) == PurgeResult(0)
    assert store.stats().up
    await store.close()


async def test_everybody_gets_the_lease() -> None:
    store = NoStore()
    first, second = await store.lease(b"k", 1.0), await store.lease(b"k", 1.0)
    assert first is not None
    assert second is not None
    await first.release()
