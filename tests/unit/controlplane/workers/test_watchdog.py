"""Workers that hang are found, told to end, and killed; workers that wait for us are not."""

from __future__ import annotations

import asyncio
from typing import Any

from rpcaccel.controlplane.workers.workers import ASLEEP, GRACE, WATCH_SECONDS, RunningWorker, Watchdog
from tests.support.waiting import until


class Said:
    """A link of which only its last words matter."""

    name, pid = "w1", 7

    def __init__(self, heard_at: float = 0.0) -> None:
        self.heard_at = heard_at
        self.done: list[str] = []
        self.at: list[float] = []
        self.clock = lambda: 0.0

    def ask_to_end(self, why: str) -> None:
        self.done.append(why)
        self.at.append(self.clock())

    def kill(self) -> None:
        self.done.append("killed")
        self.at.append(self.clock())


class World:
    """A watchdog whose clock moves when it sleeps."""

    def __init__(self, *heard_at: float, within: float = 10.0) -> None:
        self.now = 0.0
        self.within = within
        self.links: list[Any] = [Said(at) for at in heard_at]
        self.running = [RunningWorker(link) for link in self.links]
        self.watchdog = Watchdog(lambda: self.running, lambda: self.within, lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def silent_at(self, now: float) -> list[str]:
        """Who is silent then, looked at as often as it should be."""
        found: list[RunningWorker] = []
        while self.now < now and not found:
            self.now = min(now, self.now + WATCH_SECONDS)
            found = self.watchdog.silent()
        return [one.link.name for one in found]


def test_a_worker_is_silent_when_it_has_said_nothing_for_too_long() -> None:
    world = World(0.0)
    assert world.silent_at(10.0) == []
    assert world.silent_at(10.5) == ["w1"]
    world.links[0].heard_at = 10.5
    assert world.silent_at(20.5) == []


def test_with_zero_none_is() -> None:
    assert World(0.0, within=0.0).silent_at(1000.0) == []


def test_who_slept_itself_counts_from_its_waking() -> None:
    world = World(0.0)
    world.now = 1000.0  # a machine that was suspended: what the worker said waits to be read
    assert world.watchdog.silent() == []
    assert world.silent_at(1010.0) == []
    assert world.silent_at(1010.5) == ["w1"]
    assert ASLEEP > WATCH_SECONDS


async def test_it_is_told_to_end_and_then_killed() -> None:
    world = World(0.0, 1e9)
    assert repr(world.watchdog) == "<Watchdog 10 s>"
    world.watchdog.start()
    await until(lambda: "killed" in world.links[0].done)
    await world.watchdog.stop()
    assert world.links[0].done[:2] == ["did not answer for 10 s", "killed"]
    assert world.links[1].done == []
    assert [one.hung for one in world.running] == [True, False]


async def test_several_are_ended_at_once() -> None:
    world = World(0.0, 0.0, 0.0)
    for link in world.links:
        link.clock = lambda: world.now
    world.watchdog.start()
    await until(lambda: all("killed" in link.done for link in world.links))
    await world.watchdog.stop()
    assert len({tuple(link.at[:2]) for link in world.links}) == 1, "nobody waits for another's grace"
    told, killed = world.links[0].at[:2]
    assert killed - told == GRACE
