"""A server is up, or down and probed; a primary with replicas, by address and through Sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from rpcaccel.stores.redis.store import RedisStore
from rpcaccel.stores.redis.topology import FAILURES, Server
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer
from tests.support.stores import topologies
from tests.support.stores.fakes import ScriptedServer, broken
from tests.support.stores.settings import an_entry
from tests.support.waiting import until


async def test_failures_in_a_row_take_it_down_and_a_success_between_does_not() -> None:
    server = ScriptedServer("a", broken)
    for _ in range(FAILURES * 2):
        server.failed("late")
        server.succeeded()
    assert server.up
    for _ in range(FAILURES):
        assert server.up
        server.failed("late")
    assert not server.up
    await server.close()


async def test_a_probe_brings_it_back_after_a_refresh_of_who_holds_what(own_server: RedisServer) -> None:
    refreshed = asyncio.Event()

    async def refresh() -> None:
        refreshed.set()

    async with Redis(port=own_server.port, protocol=2) as client:
        server = Server("a", "primary", client, before_probe=refresh)
        server.take_down()
        assert repr(server) == "<Server primary a down>"
        await until(lambda: server.up)
        assert refreshed.is_set()
        assert ["no maxmemory" in text for text in server.warnings()] == [True]
        await server.close()


async def test_a_probe_that_fails_is_asked_again() -> None:
    answers = iter([ConnectionError("still gone"), {"maxmemory": 5}])

    async def at_last(*_command: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    server = ScriptedServer("a", at_last)
    server.take_down()
    await until(lambda: server.error == "no connection")
    await until(lambda: server.up)
    assert (server.error, len(server.asked)) == ("", 2)
    await server.close()


async def test_a_closed_server_is_not_probed() -> None:
    server = ScriptedServer("a", broken)
    await server.close()
    server.take_down()
    assert server.asked == []


@pytest.mark.parametrize(
    ("info", "warning"),
    [
        ({}, ""),
        ({"maxmemory": 0, "maxmemory_policy": "noeviction"}, "no maxmemory"),
        ({"maxmemory": 1, "maxmemory_policy": "noeviction"}, "refuses writes"),
        ({"maxmemory": 1, "maxmemory_policy": "volatile-random"}, "at random"),
        ({"maxmemory": 1, "maxmemory_policy": "volatile-ttl"}, ""),
    ],
)
async def test_an_unfit_memory_setting_is_warned_of(info: dict[str, object], warning: str) -> None:
    async def says(*_command: object) -> object:
        return info

    server = ScriptedServer("a", says)
    await server.look()
    assert [warning in text for text in server.warnings()] == ([True] if warning else [])
    server.role = "replica"
    assert server.warnings() == []
    await server.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
    """A primary and a replica that follows it."""
    with topologies.pair(tmp_path) as servers:
        yield servers


async def put_everywhere(store: RedisStore, *servers: RedisServer) -> None:
    store.put(b"s0:call:1", an_entry(), 60.0)
    await until(lambda: all(server.command("DBSIZE") == b":1" for server in servers))


async def test_reads_go_to_the_replica_and_writes_to_the_primary(
    open_store: Opener, pair: tuple[RedisServer, RedisServer]
) -> None:
    primary, replica = pair
    store = await open_store(primary.url, replicas=(replica.url,))
    await put_everywhere(store, primary, replica)
    for _ in range(10):
        assert await store.get(b"s0:call:1") is not None
    assert (primary.calls("mget"), replica.calls("mget")) == (0, 10)
    assert primary.calls("set") == 1


async def test_replicas_take_turns(open_store: Opener, server: RedisServer, own_server: RedisServer) -> None:
    store = await open_store(server.url, replicas=(server.url, own_server.url))
    for n in range(10):
        await store.get(b"s0:call:%d" % n)
    assert (server.calls("mget"), own_server.calls("mget")) == (5, 5)


async def test_a_dead_replica_costs_no_hit(open_store: Opener, pair: tuple[RedisServer, RedisServer]) -> None:
    primary, replica = pair
    store = await open_store(primary.url, replicas=(replica.url,))
    await put_everywhere(store, primary, replica)
    assert await store.get(b"s0:call:1") is not None
    replica.kill()
    for _ in range(10):
        assert await store.get(b"s0:call:1") is not None
    assert store.stats().fault.startswith(f"127.0.0.1:{replica.port}: ")
    replica.restart()
    await until(lambda: not store.stats().fault)


async def test_with_the_primary_dead_the_replica_goes_on_answering(
    open_store: Opener, pair: tuple[RedisServer, RedisServer]
) -> None:
    primary, replica = pair
    store = await open_store(primary.url, replicas=(replica.url,), write_timeout=0.2)
    await put_everywhere(store, primary, replica)
    primary.kill()
    for n in range(5):
        store.put(b"s0:call:%d" % n, an_entry(), 60.0)
        assert await store.get(b"s0:call:1") is not None
    await until(lambda: store.stats().queued == 0)
    assert store.stats().writes_failed + store.stats().writes_dropped == 5


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[list[RedisServer], list[RedisServer]]]:
    """Two servers (the first is primary) watched by three Sentinels."""
    with topologies.watched(tmp_path) as servers:
        yield servers


@pytest.mark.deep
async def test_sentinel_finds_the_primary_its_replicas_and_the_next_primary(
    open_store: Opener, watched: tuple[list[RedisServer], list[RedisServer]]
) -> None:
    (primary, replica), sentinels = watched
    places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
    store = await open_store(f"redis+sentinel://{places}/main")
    await put_everywhere(store, primary, replica)
    assert await store.get(b"s0:call:1") is not None
    assert (primary.calls("mget"), replica.calls("mget")) == (0, 1)
    primary.kill()
    topologies.hurry_sentinels(sentinels)
    written = store.stats().writes
    async with asyncio.timeout(60):
        while store.stats().writes == written:
            store.put(b"s0:call:2", an_entry(), 60.0)
            await store.get(b"s0:call:1")
            await asyncio.sleep(0.05)
    assert replica.calls("set") >= 1
    await until(lambda: store.stats().up)
    assert await store.get(b"s0:call:2") is not None
