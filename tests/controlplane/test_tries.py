"""How passwords are tried."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.controlplane.problem import ProblemError
from rpcaccel.controlplane.tries import PAUSE, TRIES, WAITING, WAITING_OF_ADDRESS, WAITING_OF_ALL, WITHIN, Tries


class World:
    """Tries whose clock moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self.tries = Tries(lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def wrong(self, account: str = "ops", remote: str = "1.1.1.1") -> None:
        async with self.tries.turn(account, remote):
            self.tries.wrong(account, remote)


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_wrong_ones_wait_for_nothing_and_each_further_one_for_a_pause(world: World) -> None:
    for _ in range(TRIES + 3):
        await world.wrong()
    assert world.waits == [PAUSE] * 3


async def test_another_account_and_another_address_wait_for_nothing(world: World) -> None:
    for _ in range(TRIES):
        await world.wrong()
    await world.wrong("eye")
    await world.wrong("ops", "2.2.2.2")
    assert world.waits == []


async def test_addresses_that_one_client_has_are_one(world: World) -> None:
    for number in range(TRIES + 1):
        await world.wrong("ops", f"2001:db8::{number:x}")
    assert world.waits == [PAUSE]


async def test_wrong_ones_are_forgotten_after_a_while_and_with_a_right_one(world: World) -> None:
    for _ in range(TRIES):
        await world.wrong()
    world.tries.right("ops", "1.1.1.1")
    for _ in range(TRIES):
        await world.wrong()
    world.now += WITHIN
    await world.wrong()
    assert world.waits == []


async def test_who_waits_is_bounded_by_account_by_address_and_altogether(world: World) -> None:
    waiting: list[asyncio.Task[None]] = []
    opened = asyncio.Event()

    async def hold(account: str, remote: str) -> None:
        async with world.tries.turn(account, remote):
            await opened.wait()

    async def hold_many(number: int, account: str, remote: str) -> None:
        waiting.extend(asyncio.create_task(hold(account, remote)) for _ in range(number))
        await asyncio.sleep(0)

    async def refused(account: str, remote: str) -> None:
        with pytest.raises(ProblemError, match="429 too-many-logins") as caught:
            await hold(account, remote)
        assert int(caught.value.headers["Retry-After"]) == WAITING * PAUSE

    await hold_many(WAITING, "ops", "1.1.1.1")
    await refused("ops", "1.1.1.1")
    for name in range(WAITING_OF_ADDRESS - WAITING):
        await hold_many(1, f"no-{name}", "1.1.1.1")
    await refused("eye", "1.1.1.1")
    for number in range(WAITING_OF_ALL - WAITING_OF_ADDRESS):
        await hold_many(1, "ops", f"10.0.0.{number}")
    await refused("ops", "2.2.2.2")
    assert repr(world.tries) == f"<Tries {WAITING_OF_ALL} waiting>"
    opened.set()
    await asyncio.gather(*waiting)
    assert repr(world.tries) == "<Tries 0 waiting>"


async def test_many_of_one_account_do_not_hold_up_another_account(world: World) -> None:
    """Turns go round: who comes last to another account is next but one."""
    order: list[str] = []

    async def look(account: str) -> None:
        async with world.tries.turn(account, "1.1.1.1"):
            order.append(account)
            await asyncio.sleep(0)

    await asyncio.gather(*(look(account) for account in ["ops"] * 10 + ["eye"]))
    assert order.index("eye") <= 2


async def test_what_invented_names_leave_behind_is_bounded(world: World) -> None:
    for number in range(3000):
        await world.wrong(f"no-{number}")
    assert len(world.tries._lanes) == 1000
