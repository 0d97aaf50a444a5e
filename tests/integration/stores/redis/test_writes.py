"""Writes: bounded, newest first to count, never in the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from rpcaccel.core.cache.entry import Entry, Selection, decode
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.stores.redis.topology import Server
from rpcaccel.stores.redis.writes import (
    MAX_PIPELINED_WRITES,
    MAX_QUEUE_BYTES,
    THREAD_FROM_BYTES,
    Writes,
    Zstd,
)
from tests.support.stores.fakes import ScriptedServer, ScriptedTopology, broken, never
from tests.support.stores.settings import an_entry
from tests.support.waiting import until

Make = Callable[..., Writes]


async def accepted(*_command: Any) -> bytes:
    return b"OK"


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def writes(*servers: Server, timeout: float = 2.0, limit: int = 1000) -> Writes:
            topology = ScriptedTopology(*servers)
            made = Writes(topology, prefix=b"p:", timeout=timeout, limit=limit, zstd=Zstd(1024))
            made.start()
            stack.push_async_callback(topology.close)
            stack.push_async_callback(made.close, within=0.0)
            return made

        yield writes


async def test_what_waits_together_travels_together(make: Make) -> None:
    server = ScriptedServer("a", accepted)
    writes = make(server)
    for n in range(MAX_PIPELINED_WRITES + 1):
        writes.put(b"%d" % n, an_entry(), 60.0)
    await until(lambda: writes.written == MAX_PIPELINED_WRITES + 1)
    assert server.pipelines == [MAX_PIPELINED_WRITES, 1]


async def test_the_newest_entry_of_a_key_is_the_one_written(make: Make) -> None:
    server = ScriptedServer("a", accepted)
    writes = make(server)
    writes.put(b"k", an_entry(b"1"), 60.0)
    writes.put(b"k", an_entry(b"22"), 5.0)
    await until(lambda: writes.queued == 0)
    [(_, key, value, _, life)] = server.asked
    back = decode(value, now=time.monotonic(), wall=time.time())
    assert isinstance(back, Entry)
    assert (key, back.result) == (b"p:k", b"22")
    assert 4000 < life <= 5000
    assert writes._bytes == 0


async def test_results_beyond_the_bytes_of_the_queue_are_dropped(make: Make) -> None:
    writes = make(ScriptedServer("a", never), timeout=0.05)
    large = an_entry(bytes(MAX_QUEUE_BYTES // 2))
    for key in (b"a", b"b", b"c"):
        writes.put(key, large, 60.0)
    assert (writes.queued, writes.dropped) == (2, 1)


async def test_an_entry_whose_time_is_over_is_not_written(make: Make) -> None:
    server = ScriptedServer("a", accepted)
    writes = make(server)
    writes.put(b"over", an_entry(), 0.0)
    writes.put(b"nearly", an_entry(), 0.0001)
    await until(lambda: writes.queued == 0)
    assert (server.asked, writes.written, writes.dropped) == ([], 0, 1)


async def test_a_large_entry_is_encoded_aside_and_arrives(make: Make) -> None:
    server = ScriptedServer("a", accepted)
    writes = make(server)
    writes.put(b"k", an_entry(b"0" * THREAD_FROM_BYTES), 60.0)
    await until(lambda: writes.written == 1)
    assert len(server.asked[0][2]) < 10_000


async def test_an_entry_that_cannot_be_encoded_spoils_no_other(make: Make) -> None:
    writes = make(ScriptedServer("a", accepted))
    beyond = Entry(result=b"1", cache=CacheClass.HEAD, block=2**63, network="n", method="m", stored_at=0.0)
    writes.put(b"beyond", beyond, 60.0)
    writes.put(b"fine", an_entry(), 60.0)
    await until(lambda: writes.queued == 0)
    assert (writes.written, writes.failed) == (1, 1)


async def test_a_server_that_fails_loses_the_writes_and_is_down_after_some(make: Make) -> None:
    server = ScriptedServer("a", broken)
    writes = make(server)
    for n in range(5):
        writes.put(b"%d" % n, an_entry(), 60.0)
        await until(lambda: writes.queued == 0)
    assert (writes.failed, writes.dropped, server.up) == (3, 2, False)


async def test_a_write_refused_by_the_server_is_counted_by_itself(make: Make) -> None:
    async def refuses_one(*command: Any) -> Any:
        return OutOfMemoryError() if command[1] == b"p:a" else b"OK"

    server = ScriptedServer("a", refuses_one)
    writes = make(server)
    for key in (b"a", b"b", b"c"):
        writes.put(key, an_entry(), 60.0)
    await until(lambda: writes.queued == 0)
    assert (writes.written, writes.failed, server.error) == (2, 1, "its memory is full")


async def test_closing_waits_for_a_silent_server_no_longer_than_the_deadline(make: Make) -> None:
    writes = make(ScriptedServer("a", never), timeout=600.0)
    for n in range(3):
        writes.put(b"%d" % n, an_entry(), 60.0)
    async with asyncio.timeout(60.0):
        await writes.close(within=0.05)
    assert (writes.queued, writes.written) == (0, 0)
    assert writes.dropped + writes.failed == 3


async def test_forgetting_waits_for_what_is_under_way_and_drops_what_is_not(make: Make) -> None:
    go = asyncio.Event()

    async def slow(*command: Any) -> bytes:
        await go.wait()
        return await accepted(*command)

    server = ScriptedServer("a", slow)
    writes = make(server)
    writes.put(b"s0:call:1", an_entry(), 60.0)
    await until(lambda: bool(server.asked))
    writes.put(b"s0:call:2", an_entry(), 60.0)
    writes.put(b"s0:code:1", an_entry(), 60.0)
    forgetting = asyncio.create_task(writes.forget(Selection(method="call")))
    await asyncio.sleep(0.01)
    assert not forgetting.done()
    go.set()
    await forgetting
    await writes.settled(b"s0:code:1")
    assert [command[1] for command in server.asked] == [b"p:s0:call:1", b"p:s0:code:1"]


async def test_a_store_that_was_never_started_closes() -> None:
    topology = ScriptedTopology(ScriptedServer("a", never))
    await Writes(topology, prefix=b"", timeout=1.0, limit=1, zstd=Zstd(0)).close(within=60.0)
    await topology.close()


async def test_nobody_waits_for_what_was_under_way_when_it_was_closed(make: Make) -> None:
    server = ScriptedServer("a", never)
    writes = make(server, timeout=60.0)
    writes.put(b"s0:call:1", an_entry(), 60.0)
    await until(lambda: bool(server.asked))
    waiting = [asyncio.create_task(writes.forget(Selection(method="call")))]
    waiting.append(asyncio.create_task(writes.settled(b"s0:call:1")))
    await asyncio.sleep(0)
    await writes.close(within=0.0)
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
