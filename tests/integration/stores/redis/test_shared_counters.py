"""What hosts share in Redis: the tokens that clients spent, and what was used of quotas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from rpcaccel.core.nodes.limits import Brought
from rpcaccel.stores.redis.shared_counters import RedisQuotaSums
from rpcaccel.stores.redis.store import RedisStore
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url

DAY = Brought(network="n", node="a", window="day", used=3.0, since=50.0, renews=4e9)
MONTH = replace(DAY, window="month", used=7.5)


async def test_each_learns_what_the_other_spent_since(store: RedisStore, other: RedisStore) -> None:
    assert await store.exchange({b"a": 3, b"b": 1}) == {b"a": 0, b"b": 0}
    assert await other.exchange({b"a": 5}) == {b"a": 0}
    assert await store.exchange({b"a": 2}) == {b"a": 5}
    assert await other.exchange({b"a": 0}) == {b"a": 2}
    assert await other.exchange({b"a": 0}) == {b"a": 0}


async def test_what_was_spent_long_ago_is_not_charged_to_one_who_comes_back(
    store: RedisStore, other: RedisStore
) -> None:
    await store.exchange({b"a": 1})
    await other.exchange({b"a": 100})
    await store.exchange({b"b": 1})
    assert await store.exchange({b"a": 1}) == {b"a": 0}


async def test_a_counter_that_began_anew_charges_nobody(store: RedisStore, server: RedisServer) -> None:
    await store.exchange({b"a": 10})
    server.command("FLUSHALL")
    assert await store.exchange({b"a": 1}) == {b"a": 0}


async def test_counters_do_not_stay_for_ever(store: RedisStore, server: RedisServer) -> None:
    await store.exchange({b"a": 1})
    (key,) = server.reply("KEYS", "*").split()
    assert b":spent:a" in key
    assert int(server.command("PTTL", key.decode())[1:]) > 50_000


async def test_a_frozen_server_is_not_waited_for(open_store: Opener, own_server: RedisServer) -> None:
    store = await open_store(own_server.url, write_timeout=0.05)
    await store.exchange({b"a": 1})
    own_server.freeze()
    try:
        async with asyncio.timeout(2.0):
            assert await store.exchange({b"a": 1}) is None
    finally:
        own_server.thaw()


async def test_a_counter_that_another_program_wrote_is_replaced_and_costs_no_other_client_anything(
    store: RedisStore, other: RedisStore, server: RedisServer
) -> None:
    assert await store.exchange({b"a": 1, b"b": 1}) == {b"a": 0, b"b": 0}
    (key,) = [key.decode() for key in server.reply("KEYS", "*spent:a").split()]
    for words in (("SET", key, "much"), ("SET", key, str((1 << 63) - 1)), ("SET", key, ""), ("LPUSH", key, "x")):
        server.command("DEL", key)
        server.command(*words)
        await other.exchange({b"b": 2})
        assert await store.exchange({b"a": 1, b"b": 1}) == {b"a": 0, b"b": 2}, words
        assert store.stats().up
        assert await store.exchange({b"a": 1, b"b": 1}) == {b"a": 0, b"b": 0}


Joiner = Callable[[RedisServer, str], Awaitable[RedisQuotaSums]]


@pytest.fixture
async def host() -> AsyncIterator[Joiner]:
    """Opens the counts of a host of some name, and closes them at the end of the test."""
    async with AsyncExitStack() as stack:

        async def join(server: RedisServer, name: str) -> RedisQuotaSums:
            sums = RedisQuotaSums(Settings(url=Url(server.url)), name)
            await sums.open()
            stack.push_async_callback(sums.close)
            return sums

        yield join


async def test_each_host_hears_what_the_others_used_and_since_when(host: Joiner, redis_server: RedisServer) -> None:
    one, two, three = [await host(redis_server, name) for name in ("one", "two", "three")]
    assert [use.used for use in await one.exchange([DAY, MONTH])] == [0, 0]
    await two.exchange([replace(DAY, used=10.0, since=20.0)])
    assert await three.exchange([replace(DAY, used=0.0, since=60.0)]) == [replace(DAY, used=13.0, since=20.0)]
    assert [use.used for use in await one.exchange([DAY, MONTH])] == [10, 0]
    await one.exchange([replace(DAY, used=4.0)])  # said again, and not added up
    assert [use.used for use in await two.exchange([DAY])] == [4]


async def test_a_host_hears_what_it_said_before_a_restart(host: Joiner, redis_server: RedisServer) -> None:
    one, two = await host(redis_server, "one"), await host(redis_server, "two")
    assert await one.earlier([DAY, MONTH]) == [replace(DAY, used=0.0), replace(MONTH, used=0.0)]
    await one.exchange([DAY])
    await two.exchange([replace(DAY, used=10.0)])
    again = await host(redis_server, "one")
    unused = replace(DAY, used=0.0, since=99.0)
    assert await again.earlier([unused, MONTH]) == [DAY, replace(MONTH, used=0.0)]
    (name,) = redis_server.reply("KEYS", "*quota*").split()
    for command in (("HSET", name.decode(), "one", "much"), ("DEL", name.decode()), ("SET", name.decode(), "text")):
        redis_server.command(*command)
        assert await again.earlier([unused]) == [unused], command


async def test_another_window_has_another_count_and_each_expires(host: Joiner, redis_server: RedisServer) -> None:
    one, two = await host(redis_server, "one"), await host(redis_server, "two")
    await one.exchange([DAY])
    assert [use.used for use in await two.exchange([replace(DAY, renews=5e9)])] == [0]
    keys = redis_server.reply("KEYS", "*quota*").split()
    assert len(keys) == 2
    assert all(int(redis_server.command("PTTL", key.decode())[1:]) > 0 for key in keys)


async def test_hosts_that_used_nothing_leave_nothing_behind_however_often_one_starts(
    host: Joiner, redis_server: RedisServer
) -> None:
    for name in ("one", "two", "three"):
        sums = await host(redis_server, name)
        assert [use.used for use in await sums.exchange([replace(DAY, used=0.0)])] == [0]
    assert redis_server.reply("KEYS", "*quota*").split() == []


async def test_without_an_answer_nothing_is_known(host: Joiner, new_redis: Callable[..., RedisServer]) -> None:
    server = new_redis()
    sums = await host(server, "one")
    server.kill()
    assert await sums.exchange([DAY]) == await sums.earlier([DAY]) == []


async def test_what_another_program_wrote_there_is_passed_over_and_said(
    host: Joiner, redis_server: RedisServer
) -> None:
    one, two = await host(redis_server, "one"), await host(redis_server, "two")
    await two.exchange([replace(DAY, used=10.0)])
    (name,) = redis_server.reply("KEYS", "*quota*").split()
    for text in ("much", "-9 1", "nan 1", "inf 1", "1 nan", "1 2 3", "1e300 1", "9" * 100_000):
        redis_server.command("HSET", name.decode(), "other", text)
        assert await one.exchange([DAY]) == [replace(DAY, used=10.0)], text
    redis_server.command("DEL", name.decode())
    redis_server.command("SET", name.decode(), "text")
    assert [use.used for use in await one.exchange([DAY])] == [0]
    assert [use.used for use in await two.exchange([DAY])] == [3]
    (said,) = one.notices()
    assert "the counts of quotas" in said
