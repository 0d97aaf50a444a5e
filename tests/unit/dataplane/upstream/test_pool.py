"""Calls for which no node has room: they wait in order, not too many of them, and not too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from rpcaccel.dataplane.upstream.pool import WaitQueue
from tests.support.waiting import until


def calls(names: str) -> tuple[list[Callable[[], None]], list[str]]:
    """Calls that note when they are to look again."""
    told: list[str] = []
    return [partial(told.append, name) for name in names], told


async def test_who_waited_longest_goes_first_one_for_each_call_that_ends() -> None:
    room, ((a, b, c), told) = WaitQueue(), calls("abc")
    assert room.wait(a, 10)
    assert room.wait(b, 10)
    assert room.wait(c, 10, again=True)
    assert (len(room), repr(room)) == (3, "<wait queue, 3 calls waiting>")
    room.free()
    await asyncio.sleep(0)
    assert told == ["c"]
    room.free()
    room.free()
    await asyncio.sleep(0)
    assert told == ["c", "a", "b"]
    room.free()
    assert len(room) == 0


async def test_only_so_many_wait_and_not_without_time() -> None:
    room, ((a, b), _) = WaitQueue(most=1), calls("ab")
    assert room.wait(a, 10)
    assert not room.wait(b, 10)
    assert not WaitQueue().wait(b, 0)
    room.leave(a)


async def test_who_waited_before_finds_a_place_though_others_filled_the_room() -> None:
    room, ((filling, again), told) = WaitQueue(most=1), calls("ab")
    assert room.wait(filling, 10)
    assert room.wait(again, 10, again=True)
    room.free()
    room.free()
    await asyncio.sleep(0)
    assert told == ["b", "a"]


async def test_a_wait_that_is_over_leaves_its_place_to_look_again() -> None:
    room, ((a,), told) = WaitQueue(), calls("a")
    assert room.wait(a, 0.001)
    await until(lambda: told == ["a"])
    assert len(room) == 0


async def test_a_turn_of_a_call_that_has_left_is_the_next_ones() -> None:
    room, ((leaving, staying), told) = WaitQueue(), calls("ab")
    assert room.wait(leaving, 10)
    assert room.wait(staying, 10)
    room.free()
    room.leave(leaving)
    room.leave(leaving)
    await asyncio.sleep(0)
    assert told == ["b"]
