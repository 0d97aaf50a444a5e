"""Calls at any pace: each when it is due, whatever became of those before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.responder import Responder
from rpcaccel.bench.load.client import ConnectionPool, LoadReply, Outcome, parse
from rpcaccel.bench.load.generator import Due, LoadGenerator, timed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from tests.support.serving import responding
from tests.support.waiting import until


def every(seconds: float, count: int, method: str = "net_version") -> list[Due]:
    return [Due(number * seconds, LoadCall(method)) for number in range(count)]


async def test_every_target_gets_every_call_and_both_outcomes_are_told_together() -> None:
    one, other, told = Responder(50), Responder(50, latency=0.01), list[tuple[str, int]]()

    def tell(call: LoadCall, outcomes: Sequence[Outcome]) -> None:
        told.append((call.method, sum(isinstance(outcome, LoadReply) for outcome in outcomes)))

    async with responding(one) as first, responding(other) as second:
        pools = [ConnectionPool(parse(url), 8) for url in (first, second)]
        run = LoadGenerator(*pools, timeout=10.0, on_outcomes=tell, spin=False)
        await run.run(timed([*every(0.001, 5), Due(0.005, LoadCall("eth_chainId"))]), Watch())
        for pool in pools:
            await pool.close()
    assert one.calls == other.calls == 6
    assert sorted(told) == [("eth_chainId", 2), *[("net_version", 2)] * 5]
    assert [sum(series.calls for series in by_method.values()) for by_method in run.series] == [6, 6]
    assert run.held.calls == 6


async def test_a_run_that_is_stopped_tells_what_there_is() -> None:
    async with responding(Responder(50)) as url, ConnectionPool(parse(url), 4) as pool:
        watch = Watch()
        run = LoadGenerator(pool, timeout=10.0)
        calls = [*every(0.001, 3), Due(3600.0, LoadCall("net_version"))]
        running = asyncio.create_task(run.run(timed(calls), watch))
        await until(lambda: run.series[0])
        watch.stop.set()
        await running
    assert 1 <= run.series[0]["net_version"].calls <= 3
    assert run.held.sent > 0


async def test_nothing_to_do_is_done_at_once() -> None:
    async with responding() as url, ConnectionPool(parse(url), 1) as pool:
        run = LoadGenerator(pool, timeout=10.0)
        await run.run(timed([]), Watch())
    assert run.held.calls == 0
