"""The closed loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.responder import Responder
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, closed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from tests.support.services import free_port
from tests.support.serving import Scripted, http, responding, serving
from tests.support.waiting import until


def calls() -> Iterator[LoadCall]:
    while True:
        yield LoadCall("eth_getBlockByNumber", b'["0x1"]')


async def test_exactly_so_many_calls_are_made_with_so_many_at_once() -> None:
    responder = Responder(latency=0.01)
    async with responding(responder) as url:
        pool = ConnectionPool(parse(url), 8)
        run = LoadGenerator(pool, timeout=5.0)
        series = await run.run(closed(calls(), at_once=5, total=23), Watch())
        assert (series.calls, responder.calls, pool.opened) == (23, 23, 5)
        assert not series.errors
        assert min(series.seconds) >= 0.009
        assert run.elapsed >= 0.04
        await pool.close()


async def test_a_loop_by_time_ends_with_its_last_answer() -> None:
    responder = Responder()
    async with responding(responder) as url:
        pool = ConnectionPool(parse(url), 4)
        series = await LoadGenerator(pool, timeout=5.0).run(closed(calls(), at_once=4, seconds=0.1), Watch())
        assert series.calls == responder.calls >= 4
        await pool.close()


async def test_calls_that_run_out_end_it() -> None:
    async with responding() as url:
        pool = ConnectionPool(parse(url), 4)
        few = iter([LoadCall("eth_chainId")] * 3)
        series = await LoadGenerator(pool, timeout=5.0).run(closed(few, at_once=4, total=50), Watch())
        assert series.calls == 3
        await pool.close()


async def test_a_lying_server_fails_every_call() -> None:
    async with serving(lambda: Scripted([http(b'{"id":"other","result":1}')] * 100)) as url:
        pool = ConnectionPool(parse(url), 1)
        series = await LoadGenerator(pool, timeout=5.0).run(closed(calls(), at_once=1, total=10), Watch())
        assert series.errors == {"wrong id": 10}
        await pool.close()


async def test_where_nobody_listens_every_call_fails_and_none_waits_for_its_time_to_be_over() -> None:
    pool = ConnectionPool(parse(f"http://127.0.0.1:{free_port()}"), 4)
    async with asyncio.timeout(30.0):
        series = await LoadGenerator(pool, timeout=600.0).run(closed(calls(), at_once=4, total=20), Watch())
    assert series.errors == {"connect": 20}
    await pool.close()


async def test_a_stopped_loop_keeps_what_it_has() -> None:
    async with responding(Responder(latency=0.05)) as url:
        pool, watch = ConnectionPool(parse(url), 1), Watch()
        run = LoadGenerator(pool, timeout=30.0)
        running = asyncio.create_task(run.run(closed(calls(), at_once=1, total=10_000), watch))
        await until(lambda: run.total().calls >= 2)
        watch.stop.set()
        series = await running
        await pool.close()
        assert 2 <= series.calls < 10_000
        assert not series.errors
