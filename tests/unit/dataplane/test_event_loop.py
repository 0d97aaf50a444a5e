"""The turns of the event loop: work in slices, and the longest turn."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator

import pytest

from rpcaccel.core.stepwise import Steps
from rpcaccel.dataplane import event_loop
from rpcaccel.dataplane.event_loop import (
    LONGEST_TURN_SECONDS,
    LOOK_SECONDS,
    TURN_SECONDS,
    LongestTurn,
    OneATurn,
    in_turns,
)
from tests.support.instant_time import instantly


class Clock:
    """The clock of the running loop, and the seconds for which something kept the loop busy."""

    def __init__(self) -> None:
        self._busy = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self._busy

    def pass_while_busy(self, seconds: float) -> None:
        self._busy += seconds


def counting(steps: int, clock: Clock) -> Steps[str]:
    """Steps that take a quarter of a turn each."""
    for _ in range(steps):
        clock.pass_while_busy(TURN_SECONDS / 4)
        yield
    return "whole"


@instantly
async def test_long_work_lets_others_have_their_turn() -> None:
    clock = Clock()
    working = asyncio.create_task(in_turns(counting(100, clock), clock))
    turns = 0
    while not working.done():
        await asyncio.sleep(0)
        turns += 1
    assert working.result() == "whole"
    assert turns >= 25


@instantly
async def test_short_work_is_done_at_once() -> None:
    clock = Clock()
    working = asyncio.create_task(in_turns(counting(3, clock), clock))
    await asyncio.sleep(0)
    assert working.done()


@instantly
async def test_the_longest_turn_is_what_a_call_would_have_waited() -> None:
    clock = Clock()
    longest = LongestTurn(clock)
    longest.start()
    await asyncio.sleep(5)
    assert longest.seconds < 1e-6
    for seconds in (0.02, 0.137, 0.005):
        clock.pass_while_busy(seconds)
        await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(1)
    assert 0.136 < longest.seconds < 0.138
    longest.stop()


@instantly
async def test_a_turn_is_forgotten_after_a_minute() -> None:
    clock = Clock()
    longest = LongestTurn(clock)
    longest.start()
    await asyncio.sleep(2)
    clock.pass_while_busy(0.137)
    await asyncio.sleep(LONGEST_TURN_SECONDS - 1)
    assert longest.seconds > 0.1
    await asyncio.sleep(2)
    assert longest.seconds < 1e-6
    longest.stop()


@instantly
async def test_what_a_program_does_while_it_starts_is_no_turn() -> None:
    clock = Clock()
    longest = LongestTurn(clock)
    longest.start()
    await asyncio.sleep(0.1)
    clock.pass_while_busy(0.5)
    await asyncio.sleep(2)
    assert longest.seconds < 1e-6
    longest.stop()


@instantly
async def test_of_the_callbacks_that_wait_each_turn_runs_one_whatever_becomes_of_them() -> None:
    turns, ran = OneATurn(), list[int]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)

    def run(number: int) -> None:
        ran.append(number)
        if number < 4:
            turns.add(lambda: run(number + 4))
        if number == 1:
            raise ValueError

    for number in range(4):
        turns.add(lambda number=number: run(number))  # type: ignore[misc]
    for turn in range(8):
        assert len(ran) == turn
        await asyncio.sleep(0)
    assert ran == list(range(8))


@pytest.fixture
def few() -> Iterator[int]:
    """A process that begins with fewer open files than it may have; the most that it may have."""
    usual, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(usual, most - 1), most))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_allows_itself_all_the_files_it_may_have(few: int) -> None:
    event_loop.allow_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few, few)
