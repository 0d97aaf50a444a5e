"""Flights: one call for many callers, and no caller harms another."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.engine.single_flight import CarriedFlight, Flight, Flights

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
    assert (slow.begun, flights.started, flights.joined) == (1, 1, 49)
    assert all(outcome is ANSWER for outcome in answers)
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
    assert (await second, flights.joined, slow.begun) == (ANSWER, 1, 1)


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
    assert await flights.fly(b"k", slow) is ANSWER


async def test_closing_ends_what_is_under_way() -> None:
    flights, slow = Flights(), Slow()
    caller = asyncio.create_task(flights.fly(b"k", slow))
    await settle()
    await flights.close()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert slow.ended.is_set()
    assert "0 under way" in repr(flights)


@pytest.mark.parametrize("bound", [False, True])
async def test_a_flight_of_its_own_ends_with_its_caller_only_if_it_is_bound(bound: bool) -> None:
    flights, slow = Flights(), Slow()
    pending = CarriedFlight(flights, None, slow(), bound=bound).wait()
    await settle()
    assert len(flights) == 0
    pending.cancel()
    await settle()
    assert slow.ended.is_set() is bound
    slow.go.set()
    await settle()
    assert slow.ended.is_set()


async def test_a_flight_of_its_own_ends_with_the_worker() -> None:
    flights, slow = Flights(), Slow()
    pending = CarriedFlight(flights, None, slow()).wait()
    await settle()
    await flights.close()
    assert slow.ended.is_set()
    assert pending.cancelled()


class Driven(Flight):
    """A flight that a test lands."""

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


async def test_it_lands_for_all_who_wait_and_for_whoever_looks_on() -> None:
    flights = Flights()
    flight = Driven(flights, b"k")
    first, second = flight.wait(), flight.wait()
    assert flights.running[b"k"] is flight
    (wait,) = flights.under_way()
    flight.land(ANSWER)
    assert [await first, await second] == [ANSWER] * 2
    assert wait.done()
    assert (len(flights), flights.running) == (0, {})


async def test_one_who_stumbles_over_the_answer_keeps_it_from_nobody() -> None:
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context["exception"]))
    flight = Driven(Flights(), b"k")
    told: list[object] = []

    def stumble(_pending: object) -> None:
        raise KeyError("a bug")

    flight.wait().listen(stumble)
    flight.wait().listen(told.append)
    flight.land(ANSWER)
    assert len(told) == 1
    assert isinstance(unseen[0], KeyError)


async def test_closing_ends_a_flight_and_tells_all_who_wait() -> None:
    flights = Flights()
    flight = Driven(flights, b"k")
    pending = flight.wait()
    await flights.close()
    assert flight.cancelled
    with pytest.raises(asyncio.CancelledError):
        await pending


async def test_a_flight_that_nobody_may_join_any_more_lands_for_those_who_wait() -> None:
    flights, slow, later = Flights(), Slow(), Slow()
    first = asyncio.create_task(flights.fly(b"net:k", slow))
    other = asyncio.create_task(flights.fly(b"other:k", slow))
    await settle()
    flights.detach(lambda key: key.startswith(b"net:"))
    assert b"net:k" not in flights
    assert b"other:k" in flights
    second = asyncio.create_task(flights.fly(b"net:k", later))
    await settle()
    assert later.begun == 1
    slow.go.set()
    assert [await first, await other] == [ANSWER] * 2
    assert b"net:k" in flights, "the newer flight goes on"
    later.go.set()
    assert await second == ANSWER
    assert not flights.running
    assert not flights.alone
