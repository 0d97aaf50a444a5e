"""Single-flight: identical calls that are under way at the same time share one fetch.

A caller that leaves takes back its own wait and nothing else: the flight lands for the other callers, or for the cache.
Only a flight that is bound to its caller ends when that caller leaves.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.dataplane.event_loop import TURN

T = TypeVar("T")
U = TypeVar("U")


class Awaited(Protocol):
    """What a `Pending` waits for."""

    def leave(self, pending: Pending[Any]) -> None:
        """Note that this wait was given up before the value came."""
        ...


class Pending(Generic[T]):
    """One caller's wait for a value: the value is handed to a callback, in the context in which the wait began, or the
    wait is awaited. Values may be transformed on their way to the caller (`then`)."""

    __slots__ = ("_came", "_context", "_error", "_makes", "_source", "_timer", "_told", "_value")

    def __init__(self, source: Awaited) -> None:
        self._source: Awaited | None = source
        """What the caller waits for; None once the value came."""
        self._context = copy_context()
        self._came = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._makes: tuple[Callable[[Any], Any], ...] = ()
        """The transformations of the value, in order; they run when the value is asked for."""
        self._told: Callable[[Pending[T]], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<pending, {'came' if self._came else 'under way'}>"

    def __await__(self) -> Generator[Any, None, T]:
        if not self._came:
            came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.listen(lambda _pending: None if came.done() else came.set_result(None))
            try:
                yield from came.__await__()
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()

    def done(self) -> bool:
        """Did the value come, or was the wait cancelled?"""
        return self._came

    def cancelled(self) -> bool:
        """Was the wait cancelled?"""
        return isinstance(self._error, asyncio.CancelledError)

    def result(self) -> T:
        """The transformed value. Raises the error with which the wait ended, CancelledError among them."""
        if self._error is not None:
            raise self._error
        value: T = self._value
        for make in self._makes:
            value = make(value)
        return value

    def then(self, make: Callable[[T], U]) -> Pending[U]:
        """Transform the value by `make` as well. Returns this wait."""
        self._makes += (make,)
        return self  # type: ignore[return-value] # its values are of another type from now on

    def listen(self, told: Callable[[Pending[T]], None]) -> None:
        """Call `told` when the value is there, at once if it is there already. A wait has one listener."""
        self._told = told
        if self._came:
            told(self)

    def within(self, seconds: float, otherwise: Any) -> None:
        """Wait at most `seconds`; after that the value is `otherwise`, which is transformed like any value."""
        if not self._came:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, seconds), self._expire, otherwise)

    def cancel(self) -> None:
        """Give up the wait. The listener is called, and `result` raises CancelledError."""
        if self._source is not None:
            self._source.leave(self)
            self.land(None, asyncio.CancelledError())

    def land(self, value: Any, error: BaseException | None = None) -> None:
        """Set the value, or the error in its place, and call the listener. Only the first call has an effect."""
        if self._came:
            return
        self._came, self._value, self._error, self._source = True, value, error, None
        if self._timer is not None:
            self._timer.cancel()
        if self._told is not None:
            self._context.run(self._told, self)

    def _expire(self, otherwise: Any) -> None:
        if self._source is not None:
            self._source.leave(self)
            self.land(otherwise)


class Flight(ABC):
    """One flight and who waits for it. What carries the flight calls `land` once."""

    __slots__ = ("_bound", "_flights", "_key", "_waiters")

    def __init__(self, flights: Flights, key: bytes | None, *, bound: bool = False) -> None:
        """A flight that other callers may join by `key`; None: nobody may.

        Args:
            bound: the flight ends when nobody waits for it any more.
        """
        self._flights = flights
        self._key = key
        self._bound = bound
        self._waiters: list[Pending[Any]] = []
        flights.started += 1
        if key is None:
            flights.alone.add(self)
        else:
            flights.running[key] = self

    def wait(self) -> Pending[Outcome]:
        """A new caller's wait for the outcome."""
        pending: Pending[Outcome] = Pending(self)
        self._waiters.append(pending)
        return pending

    def be_alone(self) -> None:
        """Be a flight that nobody may join."""
        self._key = None

    def leave(self, pending: Pending[Any]) -> None:
        """Note that one caller gave up its wait; a bound flight without callers ends."""
        if pending in self._waiters:
            self._waiters.remove(pending)
        if self._bound and not self._waiters:
            self.abort()

    def land(self, outcome: Outcome | None, error: BaseException | None = None) -> None:
        """End the flight: every caller that waits gets the outcome, or has the error raised. A flight ends once. The
        callers are told in turns of the loop, since thousands may wait for one answer."""
        flights, key = self._flights, self._key
        if key is None:
            flights.alone.discard(self)
        elif flights.running.get(key) is self:  # else it landed before, and another one is under way
            del flights.running[key]
        waiters, self._waiters = self._waiters, []
        turn_ends = monotonic() + TURN
        for number, waiter in enumerate(waiters, 1):
            try:
                waiter.land(outcome, error)
            except Exception as bug:  # one who stumbles over the answer does not keep it from the others
                asyncio.get_running_loop().call_exception_handler({"message": "telling an answer", "exception": bug})
            if number < len(waiters) and monotonic() >= turn_ends:
                self._waiters = waiters[number:]
                asyncio.get_running_loop().call_soon(self.land, outcome, error)
                return

    @abstractmethod
    def cancel(self) -> None:
        """Stop the work of the flight. Callers that wait are not told: see `abort`."""

    def abort(self) -> None:
        """Stop the work of the flight; every caller that waits gets CancelledError."""
        self.cancel()
        self.land(None, asyncio.CancelledError())


class CarriedFlight(Flight):
    """A flight that a coroutine carries, because it is put together from several others."""

    __slots__ = ("task",)

    def __init__(self, flights: Flights, key: bytes | None, work: Coroutine[Any, Any, Outcome], *, bound: bool = False):
        super().__init__(flights, key, bound=bound)
        self.task = asyncio.get_running_loop().create_task(self._carry(work))

    def cancel(self) -> None:
        """Cancel the coroutine."""
        self.task.cancel()

    async def _carry(self, work: Coroutine[Any, Any, Outcome]) -> None:
        try:
            outcome = await work
        except Exception as error:
            self.land(None, error)
        else:
            self.land(outcome)


class Flights:
    """The flights of one worker: `running` holds those that may be joined, by key, and `alone` the others."""

    __slots__ = ("alone", "joined", "running", "started")

    def __init__(self) -> None:
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
        """The outcome of the flight of `key`. If none is under way, one begins that carries `begin()`."""
        flight = self.running.get(key)
        if flight is None:
            flight = CarriedFlight(self, key, begin())
        else:
            self.joined += 1
        return await flight.wait()

    def detach(self, chosen: Callable[[bytes], bool]) -> None:
        """Let nobody join the flights of these keys any more. Who waits for one gets its answer."""
        for key in [key for key in self.running if chosen(key)]:
            flight = self.running.pop(key)
            flight.be_alone()
            self.alone.add(flight)

    def under_way(self) -> list[asyncio.Future[Any]]:
        """For each flight that may be joined, a future that ends when the flight ends, however it does."""
        waits = []
        for flight in self.running.values():
            over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            flight.wait().listen(partial(_set, over))
            waits.append(over)
        return waits

    async def close(self) -> None:
        """Abort every flight, and wait until the coroutines of flights have ended."""
        flights = [*self.running.values(), *self.alone]
        for flight in flights:
            flight.abort()
        tasks = [flight.task for flight in flights if isinstance(flight, CarriedFlight)]
        await asyncio.gather(*tasks, return_exceptions=True)


def _set(over: asyncio.Future[Any], _pending: Pending[Any]) -> None:
    if not over.done():
        over.set_result(None)
