"""Flights: identical calls that are under way share one answer.

A flight is detached from the caller that began it: a caller that leaves harms no other (rule of truth 7). It is a task
of its own, or, where the call can be begun without one, whatever lands it.

What will be made of an outcome that is on its way: a caller's own wait for a flight, without a task.

Each room adds what it does with the outcome (`then`); who holds the result at last either awaits it, or adds a callback
to `future` and calls `finish` there. Cancelling `future` ends this caller's wait and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, Protocol, TypeVar

from rpcaccel.core.dispatch.outcome import Outcome

Begin = Callable[[], Coroutine[Any, Any, Outcome]]
StartTaskless = Callable[["Flight"], "Flying | None"]
"""Begins a flight without a task, and sees to it that it lands later, not at once; None: it cannot."""


class Flying(Protocol):
    """What carries a flight that has no task."""

    def cancel(self) -> None:
        """End it; it is not to land any more."""
        ...


class Flight:
    """One flight and who waits for it."""

    __slots__ = ("_flights", "_flying", "_key", "task", "waiters")

    def __init__(self, flights: Flights, key: bytes) -> None:
        self._flights = flights
        self._key = key
        self._flying: Flying | None = None
        self.task: asyncio.Task[None] | None = None
        self.waiters: list[asyncio.Future[Outcome]] = []

    def land(self, outcome: Outcome) -> None:
        """Everybody gets the outcome."""
        self._over()
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(outcome)

    def crash(self, error: Exception) -> None:
        """It belongs to the callers; with none left it is nobody's."""
        self._over()
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _over(self) -> None:
        self._flying = None  # which knows this flight: a ring of objects would be left to the garbage collector
        self._flights.landed(self._key, self)

    def carry(self, begin: Begin, context: Context | None = None) -> None:
        """Go on as a task, in the context given, or else in that of now."""
        self._flying = None
        self.task = asyncio.get_running_loop().create_task(self._carry(begin), context=context)

    async def _carry(self, begin: Begin) -> None:
        try:
            outcome = await begin()
        except Exception as error:
            self.crash(error)
        else:
            self.land(outcome)

    def begin(self, begin: Begin, start_taskless: StartTaskless | None) -> None:
        """Without a task if that can be."""
        self._flying = None if start_taskless is None else start_taskless(self)
        if self._flying is None:
            self.carry(begin)

    def cancel(self) -> None:
        """End it without an answer."""
        if self.task is not None:
            self.task.cancel()
        elif self._flying is not None:
            self._flying.cancel()

    def wait(self) -> asyncio.Future[Outcome]:
        """A wait of the caller's own."""
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        return waiter


class Flights:
    """The flights of one worker, by key."""

    __slots__ = ("_alone", "_running", "joined", "started")

    def __init__(self) -> None:
        self._running: dict[bytes, Flight] = {}
        self._alone: set[asyncio.Task[Outcome]] = set()
        self.started = 0
        self.joined = 0

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, key: bytes) -> bool:
        return key in self._running

    def __repr__(self) -> str:
        return f"<flights {len(self)} under way, {self.started} begun, {self.joined} joined>"

    def join(
        self, key: bytes, begin: Begin, start_taskless: StartTaskless | None = None
    ) -> tuple[asyncio.Future[Outcome], bool]:
        """A wait of the caller's own for the flight of `key`, beginning it when there is none; True when it was
        another caller's. Cancelling the wait leaves the flight alone."""
        flight = self._running.get(key)
        if flight is not None:
            self.joined += 1
            return flight.wait(), True
        return self._start(key, begin, start_taskless).wait(), False

    async def fly(self, key: bytes, begin: Begin) -> tuple[Outcome, bool]:
        """The same, waited for."""
        waiter, joined = self.join(key, begin)
        return await waiter, joined

    def begin(self, key: bytes, begin: Begin) -> bool:
        """Begin the flight of `key` with nobody waiting; False when it is under way. Who comes meanwhile joins it."""
        if key in self._running:
            return False
        self._start(key, begin, None)
        return True

    def landed(self, key: bytes, flight: Flight) -> None:
        """A flight is over: who comes from now on begins another."""
        if self._running.get(key) is flight:
            del self._running[key]

    def _start(self, key: bytes, begin: Begin, start_taskless: StartTaskless | None) -> Flight:
        flight = self._running[key] = Flight(self, key)
        self.started += 1
        try:
            flight.begin(begin, start_taskless)
        except BaseException:
            self.landed(key, flight)
            raise
        return flight

    async def alone(self, begin: Begin) -> Outcome:
        """Wait for a flight that nobody else may join, and that goes on when the caller leaves."""
        task = asyncio.get_running_loop().create_task(begin())
        self._alone.add(task)
        task.add_done_callback(self._land_alone)
        return await asyncio.shield(task)

    def under_way(self) -> list[asyncio.Future[Any]]:
        """A wait for each flight that others may join."""
        waits = [flight.wait() for flight in self._running.values()]
        for wait in waits:
            wait.add_done_callback(_look_at)
        return list(waits)

    def _land_alone(self, task: asyncio.Task[Outcome]) -> None:
        self._alone.discard(task)
        _look_at(task)

    async def close(self) -> None:
        """Cancel what is under way and wait until it has ended."""
        flights, self._running = self._running, {}
        tasks = [flight.task for flight in flights.values() if flight.task is not None]
        for flight in flights.values():
            flight.cancel()
        for task in self._alone:
            task.cancel()
        await asyncio.gather(*tasks, *self._alone, return_exceptions=True)
        for flight in flights.values():
            for waiter in flight.waiters:
                waiter.cancel()


def _look_at(future: asyncio.Future[Any]) -> None:
    """Its exception is known, so that asyncio does not complain that nobody looked."""
    if not future.cancelled():
        future.exception()


T = TypeVar("T")
U = TypeVar("U")


class PendingOutcome(Generic[T]):
    """A T to come, made from an Outcome to come."""

    __slots__ = ("finish", "future")

    def __init__(self, future: asyncio.Future[Outcome], finish: Callable[[Outcome], T]) -> None:
        self.future = future
        self.finish = finish

    def __repr__(self) -> str:
        return f"<waiting, {'landed' if self.future.done() else 'under way'}>"

    def __await__(self) -> Generator[Any, None, T]:
        outcome = yield from self.future.__await__()
        return self.finish(outcome)

    def then(self, make: Callable[[T], U]) -> PendingOutcome[U]:
        """The same wait, with more made of what comes."""
        finish = self.finish
        return PendingOutcome(self.future, lambda outcome: make(finish(outcome)))
