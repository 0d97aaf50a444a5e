"""How passwords are tried."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

import pytest

from rpcaccel.controlplane.admin.handling import ProblemError
from rpcaccel.controlplane.admin.login_throttle import (
    COMPARISON_SECONDS,
    FREE_TRIES,
    MAX_HELD,
    MAX_HOLD_SECONDS,
    MAX_WAITING,
    MAX_WAITING_OF_ADDRESS,
    PAUSE_SECONDS,
    TRIES_SECONDS,
    Tries,
    never,
)
from tests.support.waiting import settle

HERE = "1.1.1.1"


class World:
    """Tries in a time that passes only when everybody waits for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tries = Tries(lambda: self.now, self.sleep)
        self.compared = 0
        self.takes = COMPARISON_SECONDS
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = itertools.count()

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._count), awake))
        await awake

    async def over(self, *tasks: asyncio.Task[float]) -> list[float]:
        """What the tasks tell in the end."""
        idle = 0
        while not all(task.done() for task in tasks):
            await settle()
            idle = 0 if self._sleepers else idle + 1
            assert idle < 1000, "somebody waits for a turn that never comes"
            if self._sleepers and not all(task.done() for task in tasks):
                self.wake()
        return [task.result() for task in tasks]

    def wake(self) -> None:
        """Let the time pass until the next one wakes."""
        self.now, _, awake = heapq.heappop(self._sleepers)
        if not awake.done():
            awake.set_result(None)

    def compare(self, right: bool | None) -> Callable[[], Awaitable[bool | None]]:
        async def compare() -> bool | None:
            self.compared += 1
            if self.takes:
                await self.sleep(self.takes)
            return right

        return compare

    async def timed(
        self, right: bool | None = False, remote: str = HERE, gone: Callable[[], bool] = never, after: float = 0.0
    ) -> float:
        """Seconds until it was told."""
        if after:
            await self.sleep(after)
        began = self.now
        await self.tries.look(remote, self.compare(right), gone)
        return self.now - began

    def begin(
        self, right: bool | None = False, remote: str = HERE, gone: Callable[[], bool] = never, after: float = 0.0
    ) -> asyncio.Task[float]:
        return asyncio.create_task(self.timed(right, remote, gone, after))

    async def take(self, right: bool | None = False, remote: str = HERE) -> float:
        return (await self.over(self.begin(right, remote)))[0]

    async def flood(self, clients: int, remote: Callable[[], str] = lambda: HERE) -> list[asyncio.Task[None]]:
        """Clients that each send another wrong password as soon as they are told."""

        async def client() -> None:
            while True:
                try:
                    await self.timed(False, remote())
                except ProblemError:
                    await self.sleep(0.001)

        tasks = [asyncio.create_task(client()) for _ in range(clients)]
        await asyncio.sleep(0)
        return tasks


@pytest.fixture
def world() -> World:
    return World()


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_answers_to_the_first_wrong_ones_are_not_held_and_those_to_further_ones_are(world: World) -> None:
    took = [await world.take() for _ in range(FREE_TRIES + 3)]
    assert took == pytest.approx([COMPARISON_SECONDS] * FREE_TRIES + [COMPARISON_SECONDS + PAUSE_SECONDS] * 3)


async def test_wrong_ones_of_many_clients_are_told_one_after_the_other_and_none_is_held_for_ever(world: World) -> None:
    for _ in range(FREE_TRIES):
        await world.take()
    told = sorted(await world.over(*(world.begin() for _ in range(100))))
    assert told[0] == pytest.approx(COMPARISON_SECONDS + PAUSE_SECONDS)
    assert told[20] - told[0] == pytest.approx(20 * PAUSE_SECONDS)
    assert told[-1] <= MAX_HOLD_SECONDS + 100 * COMPARISON_SECONDS + 1e-6


async def test_a_right_one_is_never_held(world: World) -> None:
    for _ in range(FREE_TRIES * 2):
        await world.take()
    assert await world.take(right=True) == pytest.approx(COMPARISON_SECONDS)


async def test_one_that_was_known_by_its_turn_is_neither_counted_nor_held(world: World) -> None:
    for _ in range(FREE_TRIES * 2):
        await world.take(right=None)
    assert await world.take() == pytest.approx(COMPARISON_SECONDS)


@pytest.mark.parametrize("clients", [1, 20, 100, MAX_WAITING_OF_ADDRESS])
@pytest.mark.parametrize("after", [0.05, 3.0, 70.0])
async def test_a_right_one_gets_in_at_once_beside_a_flood_from_its_address(
    world: World, clients: int, after: float
) -> None:
    """Behind a reverse proxy everybody has its address. After 0.05 s no answer of the flood is held as yet."""
    flood = await world.flood(clients)
    (took,) = await world.over(world.begin(right=True, after=after))
    assert took < 3.0
    await stop(flood)


async def test_guesses_of_clients_that_wait_for_their_answers_stay_slow(world: World) -> None:
    flood = await world.flood(20)
    await world.over(asyncio.create_task(world.timed(True, "2.2.2.2", after=600.0)))
    assert world.compared < 20 + FREE_TRIES + 600 / PAUSE_SECONDS + 2
    await stop(flood)


async def test_a_right_one_behind_newer_ones_waits_for_no_more_than_came_before_it(world: World) -> None:
    """Clients that do not wait for answers can always be newer than a right password; the oldest has its turn, too."""
    before = [world.begin(None) for _ in range(50)]
    await asyncio.sleep(0)
    right = world.begin(right=True)
    await asyncio.sleep(0)
    newer = [world.begin(None, after=number * COMPARISON_SECONDS / 2) for number in range(1, 300)]
    (took,) = await world.over(right)
    assert took <= (2 * len(before) + 3) * COMPARISON_SECONDS
    await world.over(*newer)


async def test_who_has_hung_up_is_passed_over(world: World) -> None:
    first = world.begin()
    await asyncio.sleep(0)
    ghosts = [world.begin(gone=lambda: True) for _ in range(100)]
    right = world.begin(right=True)
    assert (await world.over(right))[0] < 3 * COMPARISON_SECONDS
    await world.over(first, *ghosts)
    assert world.compared == 2


async def test_many_of_one_address_do_not_hold_up_another(world: World) -> None:
    flood = await world.flood(MAX_WAITING_OF_ADDRESS)
    (took,) = await world.over(world.begin(right=True, remote="2.2.2.2"))
    assert took <= 3 * COMPARISON_SECONDS
    await stop(flood)


async def test_addresses_that_one_client_has_are_one(world: World) -> None:
    for number in range(FREE_TRIES):
        await world.take(remote=f"2001:db8::{number:x}")
    assert await world.take(remote="2001:db8::ffff") == pytest.approx(COMPARISON_SECONDS + PAUSE_SECONDS)
    assert await world.take(remote="2.2.2.2") == pytest.approx(COMPARISON_SECONDS)


async def test_wrong_ones_are_forgotten_after_a_while_and_with_a_right_one(world: World) -> None:
    for _ in range(FREE_TRIES):
        await world.take()
    await world.take(right=True)
    took = [await world.take() for _ in range(FREE_TRIES)]
    world.now += TRIES_SECONDS
    assert [*took, await world.take()] == pytest.approx([COMPARISON_SECONDS] * (FREE_TRIES + 1))


async def test_who_waits_is_bounded_by_address_and_altogether(world: World) -> None:
    waiting: list[asyncio.Task[float]] = []

    async def hold_many(number: int, remote: str) -> None:
        waiting.extend(world.begin(None, remote) for _ in range(number))
        await asyncio.sleep(0)

    async def refused(remote: str, seconds: float) -> None:
        with pytest.raises(ProblemError, match="429 too-many-logins") as caught:
            await world.timed(True, remote)
        assert int(caught.value.headers["Retry-After"]) == pytest.approx(seconds, abs=1)

    await hold_many(1 + MAX_WAITING_OF_ADDRESS, HERE)  # one of them is being compared
    await refused(HERE, MAX_WAITING_OF_ADDRESS * COMPARISON_SECONDS)
    for number in range(MAX_WAITING - len(waiting)):
        await hold_many(1, f"10.0.{number >> 8}.{number & 255}")
    await refused("2.2.2.2", MAX_WAITING * COMPARISON_SECONDS)
    assert repr(world.tries) == f"<Tries {MAX_WAITING} waiting, 0 held>"
    await world.over(*waiting)
    assert repr(world.tries) == "<Tries 0 waiting, 0 held>"


async def test_what_cannot_be_held_any_more_is_told_at_once(world: World) -> None:
    for _ in range(FREE_TRIES):
        await world.take()
    world.takes = 0.0
    tasks: list[asyncio.Task[float]] = []
    while len(tasks) < MAX_HELD + 100:
        tasks += [world.begin() for _ in range(MAX_WAITING_OF_ADDRESS // 2)]
        await settle()
    assert repr(world.tries) == f"<Tries 0 waiting, {MAX_HELD} held>"
    assert sum(task.done() for task in tasks) == len(tasks) - MAX_HELD
    await world.over(*tasks)
    assert repr(world.tries) == "<Tries 0 waiting, 0 held>"


async def test_the_place_of_one_that_was_given_up_is_the_next_ones(world: World) -> None:
    first, oldest, waiting, newest = (world.begin(True) for _ in range(4))
    await settle()
    waiting.cancel()  # while it waits
    await settle()
    world.wake()
    while not first.done():
        await asyncio.sleep(0)
    newest.cancel()  # in the moment in which it is let in
    await world.over(first, oldest)
    assert repr(world.tries) == "<Tries 0 waiting, 0 held>"
    assert world.tries._lanes[HERE].idle


async def test_what_many_addresses_leave_behind_is_bounded(world: World) -> None:
    for number in range(3 * MAX_WAITING):
        await world.take(None, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(world.tries._lanes) == 2 * MAX_WAITING
