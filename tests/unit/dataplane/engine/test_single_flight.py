"""Flights: one call for many callers, and no caller harms another."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.engine.single_flight import CarriedFlight, Flight, Flights
from tests.support.dataplane.noting_waiter import NotingWaiter

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
    flights, slow, waiter = Flights(), Slow(), NotingWaiter()
    CarriedFlight(flights=flights, work=slow(), bound=bound).begin(waiter)
    await settle()
    assert len(flights) == 0
    waiter.leave()
    await settle()
    assert slow.ended.is_set() is bound
    slow.go.set()
    await settle()
    assert slow.ended.is_set()
    assert waiter.told == []


class Driven(Flight, eq=False, kw_only=True):
    """A flight that a test lands."""

    cancelled: bool = False

    def start(self) -> None:
        """Nothing: the test lands it."""

    def cancel(self) -> None:
        self.cancelled = True


def driven(flights: Flights) -> Driven:
    flight = Driven(flights=flights, key=b"k")
    flight.begin()
    return flight


async def test_it_lands_for_all_who_wait_and_for_whoever_looks_on() -> None:
    flights, waiters = Flights(), [NotingWaiter(), NotingWaiter()]
    flight = driven(flights)
    for waiter in waiters:
        flight.join(waiter)
    assert flights.running[b"k"] is flight
    (wait,) = flights.under_way()
    flight.land(ANSWER)
    assert [waiter.told for waiter in waiters] == [[ANSWER]] * 2
    assert wait.done()
    assert (len(flights), flights.running) == (0, {})


async def test_who_joined_is_told_so_and_the_first_is_not() -> None:
    flights = Flights(lambda outcome, since: replace(outcome, block=int(since)))
    flight, first, joining = driven(flights), NotingWaiter(), NotingWaiter()
    flight.join(first)
    flight.join(joining, 7.0)
    flight.land(ANSWER)
    assert (first.told, joining.told) == ([ANSWER], [replace(ANSWER, block=7)])
    failing, late = driven(flights), NotingWaiter()
    failing.join(late, 7.0)
    failing.land(bug := KeyError("a bug"))
    assert late.told == [bug]


async def test_who_leaves_is_told_nothing_not_even_while_others_are_told() -> None:
    flight, waiters = driven(Flights()), [NotingWaiter() for _ in range(3)]

    class Leaving(NotingWaiter):
        def landed(self, outcome: Outcome | BaseException) -> None:
            waiters[2].leave()

    waiters[1] = Leaving()
    for waiter in waiters:
        flight.join(waiter)
    waiters[0].leave()
    flight.land(ANSWER)
    waiters[0].leave()
    assert [waiter.told for waiter in waiters] == [[], [], []]


async def test_a_wait_within_a_time_ends_with_something_else() -> None:
    late = replace(ANSWER, result=b"late")
    flight, hurried, patient, left = (driven(Flights()), *(NotingWaiter() for _ in range(3)))
    for waiter, seconds in ((hurried, 0.001), (patient, 60.0), (left, 0.001)):
        flight.join(waiter)
        waiter.within(seconds, late)
    left.leave()
    assert await hurried.outcome() == late
    flight.land(ANSWER)
    await asyncio.sleep(0.01)
    assert [waiter.told for waiter in (hurried, patient, left)] == [[late], [ANSWER], []]
    assert patient.timer is not None
    assert patient.timer.cancelled()


async def test_a_wait_that_is_over_before_its_time_is_known_has_none() -> None:
    waiter = NotingWaiter()
    waiter.within(0.0, ANSWER)
    await asyncio.sleep(0.01)
    assert waiter.told == []


async def test_one_who_stumbles_over_the_answer_keeps_it_from_nobody() -> None:
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context["exception"]))

    class Stumbling(NotingWaiter):
        def landed(self, outcome: Outcome | BaseException) -> None:
            raise KeyError("a bug")

    flight, other = driven(Flights()), NotingWaiter()
    flight.join(Stumbling())
    flight.join(other)
    flight.land(ANSWER)
    assert other.told == [ANSWER]
    assert isinstance(unseen[0], KeyError)


async def test_an_error_that_nobody_waits_for_is_reported() -> None:
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context["exception"]))
    driven(Flights()).land(bug := KeyError("a bug"))
    driven(Flights()).land(asyncio.CancelledError())
    waited_for, waiter = driven(Flights()), NotingWaiter()
    waited_for.join(waiter)
    waited_for.land(told := KeyError("another bug"))
    assert (unseen, waiter.told) == ([bug], [told])


async def test_closing_ends_a_flight_and_tells_all_who_wait() -> None:
    flights, waiter = Flights(), NotingWaiter()
    flight = driven(flights)
    flight.join(waiter)
    await flights.close()
    assert flight.cancelled
    assert [type(told) for told in waiter.told] == [asyncio.CancelledError]


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
