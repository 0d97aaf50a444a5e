"""Open loop: calls at a constant rate, each counted from the moment it was due.

A closed loop sends less while the server is slow, and so forgets the calls that would have suffered (coordinated
omission). Here the schedule does not wait for answers, and a call that leaves late has that time counted.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator

from msgspec import Struct

from rpcaccel.bench.load.client import ConnectionPool, Outcome
from rpcaccel.bench.load.http_reader import LoadReply
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.verdict import verdict
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Series, Summary, percentile

LATE = 0.01
"""Seconds after its time that a call may leave, at the 99th percentile, and the rate still counts as held; where a run
says nothing else."""
SHORT = 0.99
"""Share of the calls due that must have been sent."""
BEHIND = 1.0
"""Seconds behind its time at which a run that does not hold its rate is given up."""
TURN = 0.005
"""Seconds that sending what is overdue may keep the loop from anything else."""
_NEAR = 0.002
"""Seconds before a call is due from which the loop spins: its timers are no finer than a millisecond."""


class RateHeld(Struct, frozen=True):
    """Could the generator itself keep the rate?"""

    wanted: float
    sent: float
    """Calls a second that left."""
    late: float
    """Seconds, 99th percentile of how late calls left."""
    calls: int
    """How many left."""
    waited: int
    """Those of them that had to wait for a free connection."""
    busy: float
    """Share of one core that the generator used."""
    late_most: float = LATE
    """Seconds that `late` may be."""

    @property
    def yes(self) -> bool:
        """Was it kept?"""
        enough = self.sent >= SHORT * self.wanted and self.waited <= (1 - SHORT) * self.calls
        return enough and self.late <= self.late_most

    def reason(self, connections: int) -> str:
        """Why it was not, and what to do."""
        said = f"{self.sent:.0f} of {self.wanted:.0f} calls/s left, the 99th percentile {self.late * 1000:.1f} ms late"
        if self.waited > (1 - SHORT) * self.calls:
            return (
                f"{said}: all {connections} connections were busy when {self.waited} of {self.calls} calls were due. "
                "The target is too slow for that rate, or needs more connections (--connections)"
            )
        return f"{said}: this machine is too busy to generate that load; run the generator elsewhere, or ask for less"


class ConstantRate:
    """One run at a constant rate."""

    def __init__(
        self,
        pool: ConnectionPool,
        calls: Iterator[LoadCall],
        *,
        rate: float,
        timeout: float,
        spin: bool = True,
        late_most: float = LATE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`spin` keeps a core busy for exact times; without it calls leave up to 1 ms late. `late_most`: seconds that
        calls may leave late (99th percentile); the time is counted in their latency whatever it is. The `clock` is not
        the loop's: that of uvloop counts whole milliseconds."""
        self.series = Series()
        self.elapsed = 0.0
        self._pool = pool
        self._calls = calls
        self._rate = rate
        self._timeout = timeout
        self._spin = spin
        self._late_most = late_most
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._lateness = array("d")
        self._waited = 0
        self._sent = self._too_late = 0
        self._open = 0
        self._over = False
        self._began = 0.0
        self._last = 0
        self._cpu = 0.0
        self._sending = 0.0
        self._finished: asyncio.Event = asyncio.Event()
        self._watch = Watch()

    async def run(self, watch: Watch, seconds: float) -> Series:
        """Send for `seconds`, then wait for the last answers."""
        self._watch = watch
        self._last = round(self._rate * seconds)
        # What is needed when each call takes a tenth of a second; the others are opened as they are missed.
        await self._pool.warm(max(1, min(self._pool.limit, int(self._rate * 0.1))))
        cpu, self._began = time.process_time(), self._clock() + 0.01
        self._loop.call_soon(self._tick)
        while not (await self._ended(0.2) or self._watch.stopped):
            watch.at((self._clock() - self._began) / seconds)
        self.elapsed = self._clock() - self._began
        self._cpu = time.process_time() - cpu
        self._over = True
        return self.series

    @property
    def held(self) -> RateHeld:
        """How well the rate was kept."""
        span = self._sending or self._clock() - self._began
        return RateHeld(
            wanted=self._rate,
            sent=self._sent / span if span > 0 else 0.0,
            late=percentile(sorted(self._lateness), 0.99) or 0.0,
            calls=self._sent,
            waited=self._waited,
            busy=self._cpu / self.elapsed if self.elapsed else 0.0,
            late_most=self._late_most,
        )

    def summary(self) -> Summary:
        """The figures; the rate is that of the time calls were sent in."""
        return self.series.summary(self._sending or self.elapsed)

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
        while self._sent < self._last and not self._watch.stopped and not self._hopeless:
            due = self._began + self._sent / self._rate
            if due > now:
                self._again(due - now)
                return
            if now - began > TURN:
                self._loop.call_soon(self._tick)  # answers are read in between
                return
            self._send(due)
            now = self._clock()
        self._sending = max(now - self._began, self._sent / self._rate)
        self._last = self._sent
        self._maybe_finished()

    @property
    def _hopeless(self) -> bool:
        """Whether it is far behind, and the rate not held whatever becomes of the calls left: to send them would fill
        the memory with calls that wait."""
        behind = self._lateness[-1] if self._lateness else 0.0
        return behind > BEHIND and self._too_late > (1 - SHORT) * self._last

    def _again(self, wait: float) -> None:
        if self._spin and wait < _NEAR:
            self._loop.call_soon(self._tick)
        else:
            self._loop.call_later(wait - _NEAR / 2 if self._spin else wait, self._tick)

    def _send(self, due: float) -> None:
        call = next(self._calls)
        self._sent += 1
        self._open += 1
        number = self._sent

        def done(outcome: Outcome) -> None:
            if self._over:
                return
            source = outcome.cache if isinstance(outcome, LoadReply) else ""
            self.series.add(self._clock() - due, verdict(outcome, b"%d" % number), source)
            self._open -= 1
            self._maybe_finished()

        if not self._pool.send(call.body(number), self._timeout, done):
            self._waited += 1
        late = self._clock() - due
        self._lateness.append(late)
        self._too_late += late > self._late_most

    def _maybe_finished(self) -> None:
        if self._sent >= self._last and not self._open:
            self._finished.set()
