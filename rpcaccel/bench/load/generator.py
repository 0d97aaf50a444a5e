"""The load generator: sends each call of a plan when it is due, and counts its outcome.

A closed plan has a fixed number of calls under way, and the next is due when one is answered: for throughput. An open
plan names the moment of each call, which does not wait for answers. A closed loop sends less while the server is slow,
and so forgets the calls that would have suffered (coordinated omission); in an open one a call counts from the moment
it was due, and a call that leaves late has that time counted. `held` tells whether the generator itself kept the pace.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import NamedTuple

from msgspec import Struct

from rpcaccel.bench.load.client import ConnectionPool, LoadReply, Outcome, verdict
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Series, Summary, percentile, together

MAX_LATE_SECONDS = 0.01
"""Seconds after its time that a call may leave, at the 99th percentile, and the pace still counts as held, unless
a run has a limit of its own."""
MIN_SENT_SHARE = 0.99
"""Share of the calls due that must have been sent."""
GIVE_UP_SECONDS = 1.0
"""Seconds behind its time at which a run that does not hold its rate is given up."""
MAX_TURN_SECONDS = 0.005
"""Seconds that sending what is overdue may keep the loop from anything else."""
_SPIN_SECONDS = 0.002
"""Seconds before a call is due from which the loop spins: its timers are no finer than a millisecond."""
_STOP_LOOK_SECONDS = 0.2
"""Seconds between looks at whether the run is to be stopped."""
_WARM_SECONDS = 0.1
"""Seconds that a call is expected to take, by which connections are opened beforehand; more are opened when needed."""
_NO_LIMIT = 1 << 62


class Due(NamedTuple):
    """A call, and when it is due: seconds since the beginning."""

    at: float
    call: LoadCall


class Schedule(Struct, frozen=True):
    """The calls of a run, and the times at which they are due."""

    calls: Iterator[Due]
    number: int
    """Calls at the most."""
    seconds: float
    """Seconds in which calls become due."""
    rate: float = 0.0
    """The constant rate that is wanted, calls a second; 0: none, each call has its own time."""
    at_once: int = 0
    """Calls under way at once, the next of which is due when one has ended; 0: each is due at its own time."""


def closed(calls: Iterator[LoadCall], *, at_once: int, total: int = 0, seconds: float = 0.0) -> Schedule:
    """`at_once` calls under way: `total` of them, or as many as there is time for in `seconds`."""
    return Schedule((Due(0.0, call) for call in calls), total or _NO_LIMIT, seconds or inf, at_once=at_once)


def constant(calls: Iterator[LoadCall], *, rate: float, seconds: float) -> Schedule:
    """`rate` calls a second for `seconds`."""
    return Schedule(
        (Due(number / rate, call) for number, call in enumerate(calls)), round(rate * seconds), seconds, rate
    )


def timed(calls: Sequence[Due]) -> Schedule:
    """A schedule of calls that have times of their own."""
    return Schedule(iter(calls), len(calls), calls[-1].at if calls else 0.0)


class RateHeld(Struct, frozen=True):
    """Whether the generator itself kept the pace."""

    wanted: float
    sent: float
    """Calls a second that left."""
    late: float
    """Seconds, 99th percentile of how late calls left."""
    calls: int
    """The number of calls that left."""
    waited: int
    """The number of calls that had to wait for a free connection."""
    busy: float
    """Share of one core that the generator used."""
    late_most: float = MAX_LATE_SECONDS
    """Seconds that `late` may be."""

    @property
    def yes(self) -> bool:
        """Whether the pace was kept."""
        enough = self.sent >= MIN_SENT_SHARE * self.wanted and self.waited <= (1 - MIN_SENT_SHARE) * self.calls
        return enough and self.late <= self.late_most

    @property
    def effort(self) -> str:
        """The processor time that the generator took, and how exact it was, in words."""
        return f"{self.busy * 100:.0f} % of a core, 99 % of calls left within {self.late * 1000:.2f} ms"

    def reason(self, connections: int) -> str:
        """The reason why the pace was not kept, and a remedy, in words."""
        said = f"{self.sent:.0f} of {self.wanted:.0f} calls/s left, the 99th percentile {self.late * 1000:.1f} ms late"
        if self.waited > (1 - MIN_SENT_SHARE) * self.calls:
            return (
                f"{said}: all {connections} connections were busy when {self.waited} of {self.calls} calls were due. "
                "The target is too slow for that rate, or needs more connections (--connections)"
            )
        return f"{said}: this machine is too busy to generate that load; run the generator elsewhere, or ask for less"


OnOutcomes = Callable[[LoadCall, Sequence[Outcome]], None]
"""Called once for each call, with its outcome at each target."""


class LoadGenerator:
    """One run of a plan against one target, or several that get every call at the same moment."""

    def __init__(
        self,
        *pools: ConnectionPool,
        timeout: float,
        spin: bool = True,
        late_most: float = MAX_LATE_SECONDS,
        on_outcomes: OnOutcomes = lambda _call, _outcomes: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`spin` keeps a core busy for exact times; without it calls leave up to 1 ms late. `late_most`: seconds that
        calls may leave late (99th percentile). The `clock` is not the loop's: that of uvloop counts milliseconds."""
        self.series: list[dict[str, Series]] = [{} for _ in pools]
        """The calls of each target, by method."""
        self.elapsed = 0.0
        """Seconds from the beginning to the last answer."""
        self._pools = pools
        self._timeout = timeout
        self._spin = spin
        self._late_most = late_most
        self._on_outcomes = on_outcomes
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._watch = Watch()
        self._plan = timed(())
        self._next: Due | None = None
        self._lateness = array("d")
        self._sent = self._waited = self._too_late = self._under_way = 0
        self._began = self._sending = self._cpu = 0.0
        self._over = False
        self._finished = asyncio.Event()

    async def run(self, plan: Schedule, watch: Watch) -> Series:
        """Send what is due, then wait for the last answers; the calls to the first target."""
        self._watch, self._plan = watch, plan
        expected = plan.at_once or int(_WARM_SECONDS * plan.number / plan.seconds if plan.seconds else 0)
        for pool in self._pools:
            await pool.warm(max(1, min(pool.limit, expected)))
        self._advance()
        cpu, self._began = time.process_time(), self._clock() + (0.0 if plan.at_once else 0.01)
        self._loop.call_soon(self._tick)
        while not (self._finished.is_set() or watch.stopped):
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_LOOK_SECONDS):
                    await self._finished.wait()
            past = (self._clock() - self._began) / plan.seconds if plan.seconds else 1.0
            watch.at(max(past, (self._sent - self._under_way) / max(1, plan.number)))
        self.elapsed = self._clock() - self._began
        self._cpu = time.process_time() - cpu
        self._over = True
        return self.total()

    def total(self, target: int = 0) -> Series:
        """All calls to one target, whatever their method."""
        return together(self.series[target].values())

    def summary(self) -> Summary:
        """The figures of the first target; the rate is that of the time in which calls were sent."""
        return self.total().summary((self._plan.rate and self._sending) or self.elapsed)

    @property
    def held(self) -> RateHeld:
        """The accuracy of the pace; calls that were not due yet when the run was stopped count as not wanted."""
        span = self._sending or self.elapsed
        sent = self._sent / span if span > 0 else 0.0
        return RateHeld(
            wanted=self._plan.rate or sent,
            sent=sent,
            late=percentile(sorted(self._lateness), 0.99) or 0.0,
            calls=self._sent,
            waited=self._waited,
            busy=self._cpu / self.elapsed if self.elapsed else 0.0,
            late_most=self._late_most,
        )

    def _advance(self) -> None:
        self._next = next(self._plan.calls, None) if self._sent < self._plan.number else None

    def _tick(self) -> None:
        """Send everything that is due, and come back when the next call is."""
        plan, began = self._plan, self._clock()
        now = began
        while self._next is not None and not self._watch.stopped and not self._hopeless:
            if plan.at_once:
                if self._under_way >= plan.at_once:
                    return
                if now - self._began >= plan.seconds:
                    break
                due = now
            else:
                due = self._began + self._next.at
                if due > now:
                    self._come_back(due - now)
                    return
                if now - began > MAX_TURN_SECONDS:
                    self._loop.call_soon(self._tick)  # answers are read in between
                    return
            self._send(due, self._next.call)
            self._advance()
            now = self._clock()
        if not self._sending:
            self._sending = max(now - self._began, self._sent / plan.rate if plan.rate else 0.0)
        self._next = None
        if not self._under_way:
            self._finished.set()

    @property
    def _hopeless(self) -> bool:
        """Whether a constant rate is so far behind that it cannot be held any more.

        Sending the calls that are left would only fill the memory with calls that wait.
        """
        behind = self._lateness[-1] if self._plan.rate and self._lateness else 0.0
        return behind > GIVE_UP_SECONDS and self._too_late > (1 - MIN_SENT_SHARE) * self._plan.number

    def _come_back(self, wait: float) -> None:
        if self._spin and wait < _SPIN_SECONDS:
            self._loop.call_soon(self._tick)
        else:  # a longer wait is cut, so that a run that is stopped ends soon
            self._loop.call_later(min(_STOP_LOOK_SECONDS, wait - _SPIN_SECONDS / 2 if self._spin else wait), self._tick)

    def _send(self, due: float, call: LoadCall) -> None:
        self._sent += 1
        self._under_way += 1
        number, waited = self._sent, False
        outcomes: list[Outcome] = [""] * len(self._pools)
        left = len(self._pools)

        def done(target: int, outcome: Outcome) -> None:
            nonlocal left
            if self._over:
                return
            source = outcome.cache if isinstance(outcome, LoadReply) else ""
            series = self.series[target].get(call.method) or self.series[target].setdefault(call.method, Series())
            series.add(self._clock() - due, verdict(outcome, b"%d" % number), source)
            outcomes[target] = outcome
            left -= 1
            if not left:
                self._under_way -= 1
                self._on_outcomes(call, outcomes)
                if self._plan.at_once or self._next is None:
                    self._tick()

        body = call.body(number)
        for target, pool in enumerate(self._pools):
            waited |= not pool.send(body, self._timeout, partial(done, target))
        late = self._clock() - due
        self._waited += waited
        self._lateness.append(late)
        self._too_late += late > self._late_most
