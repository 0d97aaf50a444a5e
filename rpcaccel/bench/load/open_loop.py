"""Open loop at any pace: each call goes to every target when it is due, and counts from that moment.

As bench.load.constant_rate, which knows one constant rate only. What is due does not wait for what was due before: a
target that is slow for a while is shown as slow for all calls of that while.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from rpcaccel.bench.load.client import ConnectionPool, Outcome
from rpcaccel.bench.load.constant_rate import TURN, RateHeld
from rpcaccel.bench.load.http_reader import LoadReply
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.verdict import verdict
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Series, percentile

_NEAR = 0.002
"""Seconds before a call is due from which the loop spins: its timers are no finer than a millisecond."""


class Due(NamedTuple):
    """A call, and when it is to leave: seconds since the beginning."""

    at: float
    call: LoadCall


Told = Callable[[LoadCall, Sequence[Outcome]], None]
"""Is told of a call and of what became of it at each target."""


class OpenLoop:
    """One run."""

    def __init__(
        self,
        pools: Sequence[ConnectionPool],
        *,
        timeout: float,
        told: Told = lambda _call, _outcomes: None,
        spin: bool = True,
    ) -> None:
        """`spin` keeps a core busy for exact times; without it calls leave up to 1 ms late."""
        self.series: list[dict[str, Series]] = [{} for _ in pools]
        """By method, for each target."""
        self.elapsed = 0.0
        self._pools = pools
        self._timeout = timeout
        self._told = told
        self._spin = spin
        self._loop = asyncio.get_running_loop()
        self._clock = time.perf_counter  # uvloop's own clock counts whole milliseconds
        self._lateness = array("d")
        self._calls: Iterator[Due] = iter(())
        self._next: Due | None = None
        self._began = self._cpu = self._span = 0.0
        self._sent = self._waited = self._open = 0
        self._over = False
        self._finished = asyncio.Event()
        self._watch = Watch()

    async def run(self, calls: Sequence[Due], watch: Watch) -> None:
        """Send all of them, then wait for the last answers."""
        self._watch, self._calls = watch, iter(calls)
        self._next = next(self._calls, None)
        span = calls[-1].at if calls else 0.0
        for pool in self._pools:
            await pool.warm(max(1, min(pool.limit, int(0.1 * len(calls) / span) if span else 1)))
        cpu, self._began = time.process_time(), self._clock() + 0.01
        self._loop.call_soon(self._tick)
        while not (await self._ended(0.2) or watch.stopped):
            watch.at((self._clock() - self._began) / span if span else 1.0)
        self.elapsed = self._clock() - self._began
        self._cpu = time.process_time() - cpu
        self._over = True

    @property
    def held(self) -> RateHeld:
        """How well the pace was kept; calls that were never due, since the run was stopped, count as not wanted."""
        span = self._span or self.elapsed or 1.0
        due = max(self._sent / span, 1e-9)
        return RateHeld(
            wanted=due,
            sent=due,
            late=percentile(sorted(self._lateness), 0.99) or 0.0,
            calls=self._sent,
            waited=self._waited,
            busy=self._cpu / self.elapsed if self.elapsed else 0.0,
        )

    async def _ended(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._finished.wait()
        except TimeoutError:
            return False
        return True

    def _tick(self) -> None:
        """Send everything that is due, and come back when the next call is."""
        began = now = self._clock()
        while self._next is not None and not self._watch.stopped:
            due = self._began + self._next.at
            if due > now:
                self._again(due - now)
                return
            if now - began > TURN:
                self._loop.call_soon(self._tick)  # answers are read in between
                return
            self._send(due, self._next.call)
            self._next, now = next(self._calls, None), self._clock()
        self._next = None
        self._span = now - self._began
        self._maybe_finished()

    def _again(self, wait: float) -> None:
        if self._spin and wait < _NEAR:
            self._loop.call_soon(self._tick)
        else:  # no longer than a moment, so that it is seen when the run is stopped
            self._loop.call_later(min(0.2, wait - _NEAR / 2 if self._spin else wait), self._tick)

    def _send(self, due: float, call: LoadCall) -> None:
        self._sent += 1
        self._open += 1
        number, waited = self._sent, False
        outcomes: list[Outcome] = [""] * len(self._pools)
        left = len(self._pools)

        def done(place: int, outcome: Outcome) -> None:
            nonlocal left
            if self._over:
                return
            source = outcome.cache if isinstance(outcome, LoadReply) else ""
            series = self.series[place].setdefault(call.method, Series())
            series.add(self._clock() - due, verdict(outcome, b"%d" % number), source)
            outcomes[place] = outcome
            left -= 1
            if not left:
                self._open -= 1
                self._told(call, outcomes)
                self._maybe_finished()

        body = call.body(number)
        for place, pool in enumerate(self._pools):
            waited |= not pool.send(body, self._timeout, partial(done, place))
        self._waited += waited
        self._lateness.append(self._clock() - due)

    def _maybe_finished(self) -> None:
        if self._next is None and not self._open:
            self._finished.set()
