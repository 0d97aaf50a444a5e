"""The Redis store against a real redis-server: values there and back, and never in the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

import pytest
from redis.asyncio import Redis

from rpcaccel.core.cache.entry import SCHEMA, Entry, Selection, encode
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.stores.base import PurgeResult
from rpcaccel.stores.redis.store import RedisStore
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer, free_port
from tests.support.stores.settings import an_entry
from tests.support.waiting import until

WIRE = f"test:{SCHEMA}:".encode()


async def written(store: RedisStore, count: int = 1) -> None:
    await until(lambda: store.stats().writes >= count)


async def mgets(client: Redis) -> int:
    stats = await client.info("commandstats")
    return int(stats.get("cmdstat_mget", {}).get("calls", 0))


async def test_what_was_put_is_got(store: RedisStore) -> None:
    kept = an_entry(b'{"big":10000000000000000000000000000}')
    store.put(b"s0:call:1", kept, 60.0)
    await written(store)
    back = await store.get(b"s0:call:1")
    assert back is not None
    assert (back.result, back.cache, back.block) == (kept.result, CacheClass.HEAD, 7)
    assert (back.network, back.method) == ("s0", "call")
    assert back.stored_at == pytest.approx(kept.stored_at, abs=5.0)
    assert back.expires == inf
    assert store.stats().hits == 1


async def test_what_was_never_put_is_a_miss(store: RedisStore) -> None:
    assert await store.get(b"s0:call:none") is None
    stats = store.stats()
    assert (stats.misses, stats.late, stats.errors) == (1, 0, 0)


async def test_keys_carry_prefix_and_schema_and_live_as_long_as_said(store: RedisStore, client: Redis) -> None:
    store.put(b"s0:call:1", an_entry(), 60.0)
    store.put(b"s0:call:2", an_entry(life=20.0), inf)
    store.put(b"s0:call:3", an_entry(), inf)
    await written(store, 3)
    lives = [await client.pttl(WIRE + b"s0:call:%d" % n) for n in (1, 2, 3)]
    assert 55_000 < lives[0] <= 60_000
    assert 15_000 < lives[1] <= 20_000
    assert 6 * 86_400_000 < lives[2] <= 7 * 86_400_000


async def test_an_entry_past_its_own_time_is_a_miss_though_redis_still_has_it(store: RedisStore, client: Redis) -> None:
    over = encode(an_entry(life=-1.0), now=time.monotonic(), wall=time.time())
    await client.set(WIRE + b"s0:call:1", over)
    assert await store.get(b"s0:call:1") is None
    assert store.stats().misses == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "short"),
        (b"rpca", "short"),
        (b"{}" * 100, "foreign"),
        (b"rpca\xff" + bytes(100), "schema"),
        (b"rpca" + bytes([SCHEMA]) + bytes(100), "checksum"),
    ],
)
async def test_a_damaged_value_is_a_miss_and_counted(store: RedisStore, client: Redis, value: bytes, why: str) -> None:
    await client.set(WIRE + b"s0:call:1", value)
    assert await store.get(b"s0:call:1") is None
    assert store.stats().damaged == {why: 1}


async def test_purge_removes_what_is_meant_and_nothing_else(store: RedisStore, client: Redis) -> None:
    keys = [b"s0:call:1", b"s0:call:2", b"s0:code:1", b"s1:call:1", b"s0:call[x]*:1"]
    await client.set(b"other", b"stays")

    async def left_after(selection: Selection) -> tuple[int, set[bytes]]:
        for key in keys:
            store.put(key, an_entry(), 60.0)
        purged = await store.purge(Selection())
        assert purged.complete
        before = store.stats().writes
        for key in keys:
            store.put(key, an_entry(), 60.0)
        await written(store, before + len(keys))
        removed = (await store.purge(selection)).removed
        return removed, {key async for key in client.scan_iter(WIRE + b"*")}

    async def check(selection: Selection) -> None:
        removed, left = await left_after(selection)
        assert left == {WIRE + key for key in keys if not selection.matches(key)}
        assert removed == len(keys) - len(left) > 0

    await check(Selection(network="s0"))
    await check(Selection(method="call"))
    await check(Selection(network="s0", method="call"))
    await check(Selection(method="call[x]*"))
    await check(Selection(key=b"s0:call:1"))
    await check(Selection())
    assert await client.get(b"other") == b"stays"


async def test_a_purge_looks_at_every_key_however_many(store: RedisStore, client: Redis) -> None:
    await client.mset({WIRE + b"s0:call:%d" % n: b"x" for n in range(5000)})
    assert await store.purge(Selection(network="s0")) == PurgeResult(5000)


async def test_a_purge_reaches_what_waits_to_be_written(store: RedisStore, client: Redis) -> None:
    for n in range(300):
        store.put(b"s0:call:%d" % n, an_entry(), 60.0)
    await asyncio.sleep(0)
    store.put(b"s0:code:1", an_entry(), 60.0)
    await store.purge(Selection(method="call"))
    await until(lambda: store.stats().queued == 0)
    found = {key async for key in client.scan_iter(WIRE + b"*")}  # SCAN may tell a key twice while a table shrinks
    assert found == {WIRE + b"s0:code:1"}


async def test_a_full_queue_drops_and_counts(open_store: Opener, server: RedisServer) -> None:
    store = await open_store(server.url, queue=10)
    for n in range(25):
        store.put(b"s0:call:%d" % n, an_entry(), 60.0)
    assert store.stats().writes_dropped == 15
    await until(lambda: store.stats().queued == 0)
    assert store.stats().writes == 10


async def test_closing_writes_what_waits(open_store: Opener, server: RedisServer, client: Redis) -> None:
    store = await open_store(server.url)
    for n in range(200):
        store.put(b"s0:call:%d" % n, an_entry(), 60.0)
    await store.close()
    assert await client.dbsize() == 200


async def test_a_closed_store_misses_and_drops(store: RedisStore) -> None:
    await store.close()
    assert await store.get(b"s0:call:1") is None
    store.put(b"s0:call:1", an_entry(), 60.0)
    stats = store.stats()
    assert (stats.down, stats.writes_dropped) == (1, 1)
    assert not (await store.purge(Selection())).complete


async def test_a_closed_store_is_not_called_lost_unless_it_was(open_store: Opener, own_server: RedisServer) -> None:
    well, lost = await open_store(own_server.url), await open_store(f"redis://127.0.0.1:{free_port()}")
    await well.close()
    await lost.close()
    assert (well.stats().up, well.stats().fault) == (True, "")
    assert not lost.stats().up
    assert "the connection was refused" in lost.stats().fault


async def test_what_purges_removed_is_counted_and_what_a_dry_one_found_is_not(store: RedisStore) -> None:
    for number in range(3):
        store.put(b"s0:call:%d" % number, an_entry(), 60.0)
    await until(lambda: store.stats().writes == 3)
    await store.purge(Selection(), dry=True)
    assert store.stats().purged == 0
    await store.purge(Selection(key=b"s0:call:0"))
    await store.purge(Selection())
    assert store.stats().purged == 3


async def test_a_store_says_why_its_server_is_not_reached(
    open_store: Opener, new_redis: Callable[..., RedisServer]
) -> None:
    port = new_redis("--requirepass", "right-pw", "--databases", "4").port
    place, nowhere = f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}"
    told = {
        f"redis://{place}": f"{place}: it asks for a password",
        f"redis://:wrong-pw@{place}": f"{place}: it does not accept the user and password",
        f"redis://:right-pw@{place}/4": f"{place}: it has no database of that number",
        f"redis://:right-pw@{nowhere}": f"{nowhere}: the connection was refused",
        f"redis+cluster://{nowhere}": f"{nowhere}: the connection was refused",
    }
    assert {url: (await open_store(url)).stats().fault for url in told} == told


async def test_a_store_without_a_server_misses_at_once_and_finds_it_when_it_comes(
    open_store: Opener, own_server: RedisServer
) -> None:
    own_server.kill()
    store = await open_store(own_server.url)
    assert not store.stats().up
    assert store.stats().fault
    assert await store.get(b"s0:call:1") is None
    assert store.stats().down == 1
    own_server.restart()
    await until(lambda: store.stats().up)
    store.put(b"s0:call:1", an_entry(), 60.0)
    await written(store)
    assert await store.get(b"s0:call:1") is not None
    assert store.stats().fault == ""


async def test_redis_killed_in_mid_run_is_misses_and_no_exception_and_it_comes_back(
    open_store: Opener, own_server: RedisServer
) -> None:
    store = await open_store(own_server.url)
    store.put(b"s0:call:1", an_entry(), 60.0)
    await written(store)
    assert await store.get(b"s0:call:1") is not None
    own_server.kill()
    for n in range(20):
        assert await store.get(b"s0:call:1") is None
        store.put(b"s0:call:%d" % n, an_entry(), 60.0)
    stats = store.stats()
    assert not stats.up
    assert stats.errors + stats.down == 20
    assert stats.errors > 0
    assert stats.down > 0
    own_server.restart()
    await until(lambda: store.stats().up)
    before = store.stats().writes
    store.put(b"s0:call:1", an_entry(), 60.0)
    await written(store, before + 1)
    assert await store.get(b"s0:call:1") is not None


async def test_a_frozen_redis_costs_a_caller_no_more_than_the_deadline(
    open_store: Opener, own_server: RedisServer
) -> None:
    store = await open_store(own_server.url, read_timeout=0.03)
    store.put(b"s0:call:1", an_entry(), 60.0)
    await written(store)
    own_server.freeze()
    for n in range(30):
        store.put(b"s0:call:%d" % n, an_entry(), 60.0)
        async with asyncio.timeout(30.0):  # it waits for its deadline, not for Redis
            assert await store.get(b"s0:call:1") is None
    stats = store.stats()
    assert not stats.up
    assert 3 <= stats.late <= 30
    assert stats.late + stats.down == 30
    own_server.thaw()
    await until(lambda: store.stats().up)
    async with asyncio.timeout(60.0):
        while await store.get(b"s0:call:1") is None:  # a busy machine may miss the deadline of 0.03 s
            pass


async def test_a_wrong_password_is_a_store_that_is_down_and_shows_no_secret(
    open_store: Opener, own_server: RedisServer
) -> None:
    own_server.command("CONFIG", "SET", "requirepass", "right")
    store = await open_store(f"redis://:wrong-secret@127.0.0.1:{own_server.port}")
    assert await store.get(b"s0:call:1") is None
    assert not store.stats().up
    assert "wrong-secret" not in repr(store) + str(store.stats())
    right = await open_store(f"redis://:right@127.0.0.1:{own_server.port}/3")
    right.put(b"s0:call:1", an_entry(), 60.0)
    await written(right)
    assert await right.get(b"s0:call:1") is not None


async def look(store: RedisStore, *keys: bytes, refused: tuple[bytes, ...] = ()) -> Entry | None:
    """What `look` tells, once."""
    told: list[Entry | None] = []
    assert store.look(keys, lambda key, _entry: key not in refused, told.append)
    assert not told
    await until(lambda: bool(told))
    await asyncio.sleep(0)
    (entry,) = told
    return entry


async def test_looking_tells_the_first_entry_that_is_accepted(store: RedisStore, client: Redis) -> None:
    store.put(b"s0:call:1", an_entry(b"1"), 60.0)
    store.put(b"s0:call:2", an_entry(b"2"), 60.0)
    await written(store, 2)
    before = await mgets(client)
    found = await look(store, b"s0:call:none", b"s0:call:1", b"s0:call:2")
    assert found is not None
    assert found.result == b"1"
    other = await look(store, b"s0:call:1", b"s0:call:2", refused=(b"s0:call:1",))
    assert other is not None
    assert other.result == b"2"
    assert await look(store, b"s0:call:1", refused=(b"s0:call:1",)) is None
    assert await look(store, b"s0:call:none") is None
    assert await mgets(client) == before + 4
