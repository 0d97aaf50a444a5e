from __future__ import annotations

import asyncio
import time

import pytest

from rpcaccel.simnode.chain.clock import ByClock, ByHand, WallClock
from tests.support.manual_clock import ManualClock


def test_timers_fire_in_order_at_their_own_time() -> None:
    clock, seen = ManualClock(10.0), []
    clock.call_at(12.0, lambda: seen.append(("late", clock.now())))
    clock.call_at(11.0, lambda: seen.append(("early", clock.now())))
    clock.advance(5.0)
    assert seen == [("early", 11.0), ("late", 12.0)]
    assert clock.now() == 15.0
    assert repr(clock) == "<ManualClock 15 s, 0 timers>"


async def test_a_sleeper_wakes_when_the_clock_is_moved_past_it() -> None:
    clock = ManualClock()
    sleeper = asyncio.ensure_future(clock.sleep(2.0))
    await asyncio.sleep(0)
    clock.advance(1.9)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(0.1)
    await sleeper
    await clock.sleep(0)


async def test_a_sleeper_that_gave_up_is_no_trouble() -> None:
    clock = ManualClock()
    sleeper = asyncio.ensure_future(clock.sleep(2.0))
    await asyncio.sleep(0)
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
    clock.advance(3.0)


def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="go back"):
        ManualClock().advance(-1)


def test_a_head_by_hand_ignores_skew() -> None:
    assert ByHand(7).head(5.0) == 7
    assert ByHand(7).due(5.0) is None


def test_a_head_by_clock_grows_by_one_each_block_time_and_later_for_the_skewed() -> None:
    clock = ManualClock(100.0)
    heads = ByClock(genesis=0.0, block_time=2.0, seconds=clock.now)
    assert (heads.head(), heads.head(0.3)) == (50, 49)
    assert (heads.due(), heads.due(0.3)) == (2.0, pytest.approx(0.3))
    clock.advance(1.9)
    assert heads.head() == 50
    clock.advance(0.1)
    assert heads.head() == 51
    assert ByClock(genesis=1e6, block_time=2.0, seconds=clock.now).head() == 0


async def test_by_default_the_head_follows_the_date() -> None:
    heads = ByClock(genesis=time.time() - 100.5, block_time=1.0)
    assert heads.head() in (100, 101)
    before = WallClock().now()
    await WallClock().sleep(0.001)
    assert WallClock().now() > before
