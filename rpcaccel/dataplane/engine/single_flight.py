"""Single-flight: identical calls that are under way at the same time share one fetch.

A caller that leaves takes back its own wait and nothing else: the flight lands for the other callers, or for the cache.
Only a flight that is bound to its caller ends when that caller leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import islice
from time import monotonic
from typing import Any

from msgspec import Struct

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.dataplane.event_loop import TURN_SECONDS


class Waiter(Struct, eq=False, kw_only=True):
    """One caller's wait for a flight."""

    flight: Flight | None = None
    """The flight that is waited for; None before the wait begins, and after it."""
    timer: asyncio.TimerHandle | None = None

    def landed(self, outcome: Outcome | BaseException) -> None:
        """Take the outcome, or the error with which the flight ended. Called once, unless the caller left before; it
        may be called before the call that begins the wait returns."""
        raise NotImplementedError  # a Struct cannot be abstract: its metaclass is another one

    def leave(self) -> None:
        """Give up the wait; nothing when it is over."""
        if self.flight is not None:
            self.flight.leave(self)

    def within(self, seconds: float, otherwise: Outcome) -> None:
        """Wait at most `seconds`; after that the wait ends with the outcome `otherwise`."""
        if self.flight is not None:
            self.timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._expire, otherwise)

    def _expire(self, otherwise: Outcome) -> None:
        self.leave()
        self.landed(otherwise)


class _Awaiting(Waiter, eq=False, kw_only=True):
    """A wait of a coroutine."""

    came: asyncio.Future[Outcome | BaseException]

    def landed(self, outcome: Outcome | BaseException) -> None:
        if not self.came.done():
            self.came.set_result(outcome)


async def awaited(begin: Callable[[Waiter], None]) -> Outcome:
    """The outcome of the flight that `begin` lets a waiter join. Raises the error with which the flight ended,
    CancelledError among them."""
    waiter = _Awaiting(came=asyncio.get_running_loop().create_future())
    begin(waiter)
    try:
        outcome = await waiter.came
    except asyncio.CancelledError:
        waiter.leave()
        raise
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


class Flight(Struct, eq=False, kw_only=True):
    """One flight and who waits for it. `begin` begins it, and what carries it calls `land` once."""

    flights: Flights
    key: bytes | None = None
    """Other callers may join by it; None: nobody may."""
    bound: bool = False
    """Does the flight end when nobody waits for it any more?"""
    waiters: dict[Waiter, float | None] = {}
    """The callers that wait, and since when those do that joined the flight of another (None: it is their own)."""

    def begin(self, waiter: Waiter | None = None) -> None:
        """Begin the flight, for a caller that waits; None: nobody does. It may land before this returns."""
        flights, key = self.flights, self.key
        flights.started += 1
        if key is None:
            flights.alone.add(self)
        else:
            flights.running[key] = self
        if waiter is not None:
            waiter.flight, self.waiters[waiter] = self, None
        try:
            self.start()
        except Exception as error:
            self.stumble(error)

    async def outcome(self) -> Outcome:
        """Begin the flight, and wait for its outcome."""
        return await awaited(self.begin)

    def start(self) -> None:
        """Begin the work of the flight."""
        raise NotImplementedError  # a Struct cannot be abstract: its metaclass is another one

    def stumble(self, error: Exception) -> None:
        """End the flight because of a bug."""
        self.land(error)

    def join(self, waiter: Waiter, since: float | None = None) -> None:
        """Let a caller wait for the outcome; `since`: when it joined the flight of another caller."""
        waiter.flight = self
        self.waiters[waiter] = since

    def leave(self, waiter: Waiter) -> None:
        """Note that one caller gave up its wait; a bound flight without callers ends."""
        waiter.flight = None
        if waiter.timer is not None:
            waiter.timer.cancel()
        self.waiters.pop(waiter, None)
        if self.bound and not self.waiters:
            self.abort()

    def land(self, outcome: Outcome | BaseException) -> None:
        """End the flight: every caller that waits gets the outcome or the error. A flight ends once. The callers are
        told in turns of the loop, since thousands may wait for one answer. An error that nobody is told is reported."""
        flights, key = self.flights, self.key
        if key is None:
            flights.alone.discard(self)
        elif flights.running.get(key) is self:  # else it landed before, and another one is under way
            del flights.running[key]
        waiters, self.waiters = self.waiters, {}
        if isinstance(outcome, Exception) and not waiters:
            _report(f"a call that nobody waits for: {self!r}", outcome)
        most = len(waiters)
        turn_ends = monotonic() + TURN_SECONDS if most > 1 else 0.0
        for number, (waiter, since) in enumerate(waiters.items(), 1):
            if waiter.flight is not self:  # it left while another one was told
                continue
            waiter.flight = None
            if waiter.timer is not None:
                waiter.timer.cancel()
            try:
                if since is None or isinstance(outcome, BaseException):
                    waiter.landed(outcome)
                else:
                    waiter.landed(flights.joined_one(outcome, since))
            except Exception as bug:  # one who stumbles over the answer does not keep it from the others
                _report("telling an answer", bug)
            if number < most and monotonic() >= turn_ends:
                self.waiters = dict(islice(waiters.items(), number, None))
                asyncio.get_running_loop().call_soon(self.land, outcome)
                return

    def cancel(self) -> None:
        """Stop the work of the flight. Callers that wait are not told: see `abort`."""
        raise NotImplementedError  # a Struct cannot be abstract: its metaclass is another one

    def abort(self) -> None:
        """Stop the work of the flight; every caller that waits gets CancelledError."""
        self.cancel()
        self.land(asyncio.CancelledError())


class CarriedFlight(Flight, eq=False, kw_only=True):
    """A flight that a coroutine carries, because it is put together from several others."""

    work: Coroutine[Any, Any, Outcome]
    task: asyncio.Task[None] | None = None
    """None before the flight begins."""

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._carry())

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def _carry(self) -> None:
        try:
            outcome = await self.work
        except Exception as error:
            self.land(error)
        else:
            self.land(outcome)


class Flights:
    """The flights of one worker: `running` holds those that may be joined, by key, and `alone` the others."""

    __slots__ = ("alone", "joined", "joined_one", "running", "started")

    def __init__(self, joined_one: Callable[[Outcome, float], Outcome] = lambda outcome, _since: outcome) -> None:
        """`joined_one` makes the outcome of a caller that joined the flight of another at the time that is given."""
        self.joined_one = joined_one
        self.running: dict[bytes, Flight] = {}
        self.alone: set[Flight] = set()
        self.started = 0
        self.joined = 0

    def __len__(self) -> int:
        return len(self.running)

    def __contains__(self, key: bytes) -> bool:
        return key in self.running

    def __repr__(self) -> str:
        return f"<flights {len(self)} under way, {self.started} begun, {self.joined} joined>"

    async def fly(self, key: bytes, begin: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """The outcome of the flight of `key`, which begins as the key of a call does, so that it is detached with the
        flights of its network. If none is under way, one begins that carries `begin()`."""
        flight = self.running.get(key)
        if flight is None:
            return await CarriedFlight(flights=self, key=key, work=begin()).outcome()
        self.joined += 1
        return await awaited(flight.join)

    def detach(self, chosen: Callable[[bytes], bool]) -> None:
        """Let nobody join the flights of these keys any more. Who waits for one gets its answer."""
        for key in [key for key in self.running if chosen(key)]:
            flight = self.running.pop(key)
            flight.key = None
            self.alone.add(flight)

    def under_way(self) -> list[asyncio.Future[Any]]:
        """For each flight that may be joined, a future that ends when the flight ends, however it does."""
        loop = asyncio.get_running_loop()
        waiters = [_Awaiting(came=loop.create_future()) for _ in self.running]
        for waiter, flight in zip(waiters, self.running.values(), strict=True):
            flight.join(waiter)
        return [waiter.came for waiter in waiters]

    async def close(self) -> None:
        """Abort every flight, and wait until the coroutines of flights have ended."""
        flights = [*self.running.values(), *self.alone]
        for flight in flights:
            flight.abort()
        tasks = [flight.task for flight in flights if isinstance(flight, CarriedFlight) and flight.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


def _report(what: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})
