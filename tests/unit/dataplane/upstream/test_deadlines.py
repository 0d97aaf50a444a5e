"""Many deadlines under one timer."""

from __future__ import annotations

import asyncio

from rpcaccel.dataplane.upstream.pool import Deadlines
from tests.support.instant_time import instantly


async def wait_for(late: list[str], count: int) -> None:
    async with asyncio.timeout(20):
        while len(late) < count:
            await asyncio.sleep(0.005)


@instantly
async def test_what_is_not_over_in_its_time_is_told_so_once_in_the_order_of_time() -> None:
    late: list[str] = []
    deadlines = Deadlines(late.append)
    deadlines.add("long", 0.06)
    deadlines.add("short", 0.02)
    deadlines.add("longer", 0.1)
    await wait_for(late, 3)
    assert late == ["short", "long", "longer"]
    assert len(deadlines) == 0


@instantly
async def test_what_is_over_is_not_told() -> None:
    late: list[str] = []
    deadlines = Deadlines(late.append)
    deadlines.add("over", 0.01)
    deadlines.add("late", 0.03)
    del deadlines["over"]
    await wait_for(late, 1)
    assert late == ["late"]


@instantly
async def test_one_that_expires_may_drop_another_and_add_a_third() -> None:
    late: list[str] = []

    def expired(thing: str) -> None:
        late.append(thing)
        if thing == "first":
            del deadlines["second"]
            deadlines.add("third", 0.01)

    deadlines = Deadlines(expired)
    deadlines.add("first", 0.01)
    deadlines.add("second", 0.01)
    await wait_for(late, 2)
    assert late == ["first", "third"]


@instantly
async def test_there_is_one_timer_for_all() -> None:
    loop, set_for = asyncio.get_running_loop(), []
    call_at = loop.call_at

    class Counting(Deadlines[int]):
        """Counts its timers."""

        __slots__ = ()

        def _arm(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
            set_for.append(until)
            super()._arm(loop, until)

    deadlines = Counting(lambda _thing: None)
    for number in range(1000):
        deadlines.add(number, 10.0)
        del deadlines[number]
    assert len(set_for) == 1
    assert call_at == loop.call_at
    assert "0" in repr(deadlines)
