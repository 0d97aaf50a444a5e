from __future__ import annotations

import asyncio

import pytest

from rpcaccel.dataplane.upstream.pool import WaitQueue


async def test_who_waited_longest_goes_first_one_for_each_call_that_ends() -> None:
    room, went = WaitQueue(), []

    async def wait(name: str, *, again: bool = False) -> None:
        await room.wait(10, again=again)
        went.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in "ab"]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(wait("c", again=True)))
    await asyncio.sleep(0)
    assert (len(room), repr(room)) == (3, "<wait queue, 3 calls waiting>")
    for count in (1, 2, 3):
        room.free()
        while len(went) < count:
            await asyncio.sleep(0)
    assert went == ["c", "a", "b"]
    await asyncio.gather(*tasks)
    room.free()


async def test_only_so_many_wait_and_not_without_time() -> None:
    room = WaitQueue(most=1)
    first = asyncio.create_task(room.wait(10))
    await asyncio.sleep(0)
    assert not await room.wait(10)
    assert not await WaitQueue().wait(0)
    room.free()
    assert await first


async def test_who_waited_before_finds_a_place_though_others_filled_the_room() -> None:
    room = WaitQueue(most=1)
    filling = asyncio.create_task(room.wait(10))
    await asyncio.sleep(0)
    looking_again = asyncio.create_task(room.wait(10, again=True))
    await asyncio.sleep(0)
    room.free()
    assert await looking_again
    room.free()
    assert await filling


async def test_a_wait_that_is_over_leaves_its_place() -> None:
    room = WaitQueue()
    assert await room.wait(0.001), "it may look again"
    assert len(room) == 0


@pytest.mark.parametrize("freed", [False, True])
async def test_a_turn_of_a_call_that_has_left_is_the_next_ones(freed: bool) -> None:
    room = WaitQueue()
    leaving = asyncio.create_task(room.wait(10))
    await asyncio.sleep(0)
    staying = asyncio.create_task(room.wait(10))
    await asyncio.sleep(0)
    if freed:
        room.free()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert len(room) == (0 if freed else 1)
    if not freed:
        room.free()
    assert await staying
