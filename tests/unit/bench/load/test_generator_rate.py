"""The open loop: what is due is due, whatever the server does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

from benchmarks.responder import Responder
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, RateHeld, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from tests.support.serving import responding

HANGS = 60.0
"""Seconds after which a run counts as hanging: it takes less than one."""
ALWAYS = 1e9
"""Seconds that calls may leave late where a run is to go on however busy the machine is."""


def calls() -> Iterator[LoadCall]:
    while True:
        yield LoadCall("eth_chainId")


async def test_as_many_calls_leave_as_are_due() -> None:
    responder = Responder()
    async with responding(responder) as url, ConnectionPool(parse(url), 64) as pool:
        run = LoadGenerator(pool, timeout=60.0, late_most=ALWAYS)
        series = await run.run(constant(calls(), rate=500, seconds=0.4), Watch())
        assert series.calls == responder.calls == 200
        assert run.summary().failures == 0


async def test_a_stall_is_counted_against_every_call_that_was_due_meanwhile() -> None:
    """Coordinated omission: a closed loop would see one slow call here."""
    responder = Responder(latency=0.05)
    async with responding(responder) as url:
        pool = ConnectionPool(
            parse(url), 1
        )  # one connection: calls queue behind each other, as behind a stalled server
        run = LoadGenerator(pool, timeout=60.0, spin=False, late_most=ALWAYS)
        await run.run(constant(calls(), rate=100, seconds=0.2), Watch())
        found = run.summary()
        assert found.calls == 20
        assert found.max is not None
        assert found.max > 0.75  # the last was due at 0.2 s and answered after twenty times 0.05 s
        assert found.p50 is not None
        assert found.p50 > 0.3
        assert run.held.waited > 10
        assert "all 1 connections were busy" in run.held.reason(1)
        await pool.close()


def test_a_rate_that_was_not_held_is_told_with_its_reason() -> None:
    good = RateHeld(wanted=1000, sent=999, late=0.001, calls=5000, waited=20, busy=0.5)
    slow = RateHeld(wanted=1000, sent=700, late=0.001, calls=5000, waited=0, busy=1.0)
    late = RateHeld(wanted=1000, sent=1000, late=0.3, calls=5000, waited=0, busy=1.0)
    patient = RateHeld(wanted=1000, sent=1000, late=0.04, calls=5000, waited=0, busy=1.0, late_most=0.05)
    assert patient.yes
    full = RateHeld(wanted=1000, sent=1000, late=0.001, calls=5000, waited=60, busy=0.5)
    assert good.yes
    assert not slow.yes
    assert not late.yes
    assert not full.yes
    assert "700 of 1000 calls/s" in slow.reason(512)
    assert "too busy" in late.reason(512)


async def test_a_rate_that_cannot_be_held_is_given_up_and_not_sent_to_the_end() -> None:
    """By a clock that goes on by ten milliseconds whenever it is looked at: no machine is as slow."""
    ticks = itertools.count()
    responder = Responder()
    async with responding(responder) as url, ConnectionPool(parse(url), 2) as pool:
        run = LoadGenerator(pool, timeout=60.0, clock=lambda: next(ticks) / 100)
        async with asyncio.timeout(HANGS):
            await run.run(constant(calls(), rate=1000, seconds=10.0), Watch())  # ten thousand calls
        assert 100 < run.summary().calls == responder.calls < 1000
        assert not run.held.yes
        assert run.held.sent < 900


async def test_answers_are_read_and_a_stop_is_seen_while_much_is_overdue() -> None:
    async with responding() as url, ConnectionPool(parse(url), 2) as pool:
        watch = Watch()
        run = LoadGenerator(pool, timeout=30.0, late_most=ALWAYS)
        running = asyncio.create_task(run.run(constant(calls(), rate=1e6, seconds=60.0), watch))
        while not run.total().calls:
            await asyncio.sleep(0)
        watch.stop.set()
        async with asyncio.timeout(HANGS):
            await running
        assert run.summary().calls < 1_000_000
