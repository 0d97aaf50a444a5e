"""The closed loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.responder import Responder
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, closed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from tests.support.serving import responding
from tests.support.waiting import until


def calls() -> Iterator[LoadCall]:
    while True:
        yield LoadCall("eth_getBlockByNumber", b'["0x1"]')


async def test_exactly_so_many_calls_are_made_with_so_many_at_once() -> None:
    responder = Responder(latency=0.01)
    async with responding(responder) as url, ConnectionPool(parse(url), 8) as pool:
        run = LoadGenerator(pool, timeout=5.0)
        series = await run.run(closed(calls(), at_once=5, total=23), Watch())
        assert (series.calls, responder.calls, pool.opened) == (23, 23, 5)
        assert not series.errors
        assert min(series.seconds) >= 0.009
        assert run.elapsed >= 0.04


async def test_a_loop_by_time_ends_with_its_last_answer() -> None:
    responder = Responder()
    async with responding(responder) as url, ConnectionPool(parse(url), 4) as pool:
        series = await LoadGenerator(pool, timeout=5.0).run(closed(calls(), at_once=4, seconds=0.1), Watch())
        assert series.calls == responder.calls >= 4


async def test_calls_that_run_out_end_it() -> None:
    async with responding() as url, ConnectionPool(parse(url), 4) as pool:
        few = iter([LoadCall("eth_chainId")] * 3)
        series = await LoadGenerator(pool, timeout=5.0).run(closed(few, at_once=4, total=50), Watch())
        assert series.calls == 3


async def test_a_stopped_loop_keeps_what_it_has() -> None:
    async with responding(Responder(latency=0.05)) as url, ConnectionPool(parse(url), 1) as pool:
        watch = Watch()
        run = LoadGenerator(pool, timeout=30.0)
        running = asyncio.create_task(run.run(closed(calls(), at_once=1, total=10_000), watch))
        await until(lambda: run.total().calls >= 2)
        watch.stop.set()
        series = await running
        assert 2 <= series.calls < 10_000
        assert not series.errors
