"""Flights: one call for many callers, and no caller harms another."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.engine.single_flight import Flight, Flights

ANSWER = Outcome(source=AnswerSource.NODE, result=b"1")


class Slow:
    """A fetch that ends when told to."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> Outcome:
        self.begun += 1
        try:
            await self.go.wait()
        finally:
            self.ended.set()
        return ANSWER


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_many_callers_share_one_fetch() -> None:
    flights, slow = Flights(), Slow()
    callers = [asyncio.create_task(flights.fly(b"k", slow)) for _ in range(50)]
    await settle()
    slow.go.set()
    answers = await asyncio.gather(*callers)
    assert slow.begun == 1
    assert [joined for _, joined in answers].count(False) == 1
    assert all(outcome is ANSWER for outcome, _ in answers)
    assert len(flights) == 0


async def test_other_keys_fly_alone() -> None:
    flights, one, other = Flights(), Slow(), Slow()
    one.go.set()
    other.go.set()
    await asyncio.gather(flights.fly(b"a", one), flights.fly(b"b", other))
    assert (one.begun, other.begun) == (1, 1)


async def test_the_first_caller_may_leave_and_the_others_are_answered() -> None:
    flights, slow = Flights(), Slow()
    first = asyncio.create_task(flights.fly(b"k", slow))
    await settle()
    second = asyncio.create_task(flights.fly(b"k", slow))
    await settle()
    first.cancel()
    await settle()
    slow.go.set()
    outcome, joined = await second
    assert (outcome, joined, slow.begun) == (ANSWER, True, 1)


async def test_a_flight_that_all_callers_left_still_lands() -> None:
    flights, slow = Flights(), Slow()
    caller = asyncio.create_task(flights.fly(b"k", slow))
    await settle()
    caller.cancel()
    slow.go.set()
    await slow.ended.wait()
    await settle()
    assert len(flights) == 0


async def test_a_fault_in_the_fetch_reaches_every_caller_and_the_next_call_flies_anew() -> None:
    flights = Flights()

    async def broken() -> Outcome:
        raise RuntimeError("broken")

    results = await asyncio.gather(*(flights.fly(b"k", broken) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, RuntimeError) for result in results)
    slow = Slow()
    slow.go.set()
    assert (await flights.fly(b"k", slow))[0] is ANSWER


async def test_closing_ends_what_is_under_way() -> None:
    flights, slow = Flights(), Slow()
    caller = asyncio.create_task(flights.fly(b"k", slow))
    await settle()
    await flights.close()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert slow.ended.is_set()
    assert "0 under way" in repr(flights)


async def test_a_flight_of_its_own_goes_on_when_its_caller_leaves() -> None:
    flights, slow = Flights(), Slow()
    caller = asyncio.create_task(flights.alone(slow))
    await settle()
    assert len(flights) == 0
    caller.cancel()
    await settle()
    assert not slow.ended.is_set()
    slow.go.set()
    await settle()
    assert slow.ended.is_set()


async def test_a_flight_of_its_own_ends_with_the_worker() -> None:
    flights, slow = Flights(), Slow()
    caller = asyncio.create_task(flights.alone(slow))
    await settle()
    await flights.close()
    assert slow.ended.is_set()
    with pytest.raises(asyncio.CancelledError):
        await caller


class Flying:
    """What carries a flight without a task."""

    def __init__(self) -> None:
        self.flight: Flight | None = None
        self.cancelled = False

    def start_taskless(self, flight: Flight) -> Flying:
        self.flight = flight
        return self

    def cancel(self) -> None:
        self.cancelled = True


async def test_a_flight_without_a_task_lands_for_all_who_wait() -> None:
    flights, slow, flying = Flights(), Slow(), Flying()
    first, joined = flights.join(b"k", slow, flying.start_taskless)
    second, also = flights.join(b"k", slow, flying.start_taskless)
    (wait,) = flights.under_way()
    assert flying.flight is not None
    flying.flight.land(ANSWER)
    assert [await first, await second, await wait] == [ANSWER] * 3
    assert (joined, also, slow.begun, len(flights)) == (False, True, 0, 0)


async def test_a_flight_without_a_task_may_go_on_as_one() -> None:
    flights, slow, flying = Flights(), Slow(), Flying()
    waiter, _ = flights.join(b"k", slow, flying.start_taskless)
    assert flying.flight is not None
    flying.flight.carry(slow)
    slow.go.set()
    assert await waiter is ANSWER


async def test_what_cannot_take_off_is_a_task() -> None:
    flights, slow = Flights(), Slow()
    waiter, _ = flights.join(b"k", slow, lambda _flight: None)
    slow.go.set()
    assert await waiter is ANSWER


async def test_closing_ends_a_flight_without_a_task() -> None:
    flights, slow, flying = Flights(), Slow(), Flying()
    waiter, _ = flights.join(b"k", slow, flying.start_taskless)
    await flights.close()
    assert flying.cancelled
    assert waiter.cancelled()


async def test_what_fails_to_take_off_is_not_under_way() -> None:
    flights, slow = Flights(), Slow()

    def broken(_flight: Flight) -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        flights.join(b"k", slow, broken)
    assert len(flights) == 0
