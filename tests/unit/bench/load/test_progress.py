"""Progress, and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from rpcaccel.bench.load.progress import StoppedError, Watch


async def test_parts_share_the_whole() -> None:
    said: list[tuple[str, float]] = []
    watch = Watch(lambda text, share: said.append((text, share)))
    watch.part("a", 0, 2)
    watch.at(0.5)
    watch.part("b", 1, 2)
    watch.at(7.0)
    assert said == [("a", 0.0), ("a", 0.25), ("b", 0.5), ("b", 1.0)]
    assert repr(watch) == "<Watch 'b'>"


async def test_work_without_parts_is_told_with_its_share_at_once() -> None:
    said: list[tuple[str, float]] = []
    Watch(lambda text, share: said.append((text, share))).tell("a", 0.5)
    assert said == [("a", 0.5)]


async def test_ctrl_c_ends_the_measurement_and_not_the_program() -> None:
    watch = Watch()
    with watch.interruptible():
        os.kill(os.getpid(), signal.SIGINT)
        assert await watch.pause(5.0)
    assert watch.stopped
    assert "stopped" in repr(watch)


async def test_what_comes_before_a_measurement_is_given_up_when_it_is_stopped() -> None:
    async def answer() -> int:
        return 5

    watch = Watch()
    assert await watch.unless_stopped(answer()) == 5
    watch.stop.set()
    with pytest.raises(StoppedError):
        await watch.unless_stopped(asyncio.Event().wait())


async def test_a_pause_ends_by_itself() -> None:
    assert not await Watch().pause(0.001)
