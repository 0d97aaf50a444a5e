from __future__ import annotations

import asyncio

from rpcaccel.dataplane.live.held_logs import HeldLogs, Portion


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def wait_for(held: HeldLogs, size: int) -> asyncio.Task[Portion]:
    return asyncio.get_running_loop().create_task(held.reserve(size))


async def test_a_portion_waits_until_there_is_room_behind_those_who_came_before() -> None:
    held = HeldLogs(most=10)
    with await held.reserve(6):
        large, small = wait_for(held, 5), wait_for(held, 1)
        await turns()
        assert not large.done()
        assert not small.done()
    await turns()
    with large.result(), small.result():
        assert held.bytes == 6
    assert held.bytes == 0


async def test_a_portion_that_is_larger_than_was_thought_needs_room_beside_the_others() -> None:
    held = HeldLogs(most=10)
    with await held.reserve(4) as one:
        with await held.reserve(4) as other:
            assert one.takes(6)
            assert not other.takes(5)
            assert held.bytes == 10
            assert other.takes(1)
        assert one.takes(100)  # it is the only one
        waiting = wait_for(held, 1)
        await turns()
        assert not waiting.done()
    await turns()
    assert held.bytes == 1


async def test_who_waits_no_more_lets_the_next_one_through() -> None:
    held = HeldLogs(most=10)
    with await held.reserve(9):
        first, second = wait_for(held, 5), wait_for(held, 1)
        await turns()
        first.cancel()
        await turns()
        assert second.done()


def test_only_so_much_is_kept_of_what_was_sent() -> None:
    held = HeldLogs(own=10)
    assert held.keep(7)
    assert not held.keep(4)
    held.forget(7)
    assert held.keep(10)
