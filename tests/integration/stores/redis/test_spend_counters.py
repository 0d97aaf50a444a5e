"""Counters in Redis: each store learns what the others added since it last asked."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.stores.base import NoStore
from rpcaccel.stores.redis.store import RedisStore
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer


@pytest.fixture
async def other(open_store: Opener, server: RedisServer) -> RedisStore:
    """Another host's store."""
    return await open_store(server.url)


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


async def test_a_server_that_is_gone_is_said(open_store: Opener, own_server: RedisServer) -> None:
    store = await open_store(own_server.url)
    own_server.kill()
    for _ in range(5):
        assert await store.exchange({b"a": 1}) is None


async def test_without_redis_nobody_else_is_known() -> None:
    assert await NoStore().exchange({b"a": 1}) == {}


async def test_a_counter_that_another_program_wrote_is_replaced_and_costs_no_other_client_anything(
    store: RedisStore, other: RedisStore, server: RedisServer
) -> None:
    assert await store.exchange({b"a": 1, b"b": 1}) == {b"a": 0, b"b": 0}
    (key,) = [key.decode() for key in server.reply("KEYS", "*spent:a").split()]
    for words in (("SET", key, "much"), ("SET", key, str((1 << 63) - 1)), ("SET", key, ""), ("LPUSH", key, "x")):
        server.command("DEL", key)
        server.command(*words)
        await other.exchange({b"b": 2})
        assert await store.exchange({b"a": 1, b"b": 1}) == {b"b": 2}, words
        assert store.stats().up
        assert await store.exchange({b"a": 1, b"b": 1}) == {b"a": 0, b"b": 0}
