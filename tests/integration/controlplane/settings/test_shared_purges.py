"""Purges told by words on a board in a real Redis: to hosts that listen, and to those that were cut off for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rpcaccel.controlplane.settings.shared_purges import (
    AGAIN_FOR,
    EVERYTHING,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST,
    Purges,
)
from rpcaccel.controlplane.workers.operations import OperationRefused, Reached
from rpcaccel.stores.redis.board import KEPT, Board, UnreachableError
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url

Meet = Callable[[str], Awaitable["Host"]]


class Host:
    """One host's end; cut off for as long as it does not catch up."""

    def __init__(self, redis: RedisServer, name: str) -> None:
        self.now = 0.0
        self.purged: list[bytes] = []
        self.reached = True
        """Do its workers reach Redis?"""
        self.fails = 0
        """Purges that end in an unforeseen way."""
        self.board = Board(Settings(url=Url(redis.url), prefix="test"))
        self.purges = Purges(self.board, name, self._purge, clock=lambda: self.now)

    async def _purge(self, body: bytes) -> Reached:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("a bug")
        if b"newer" in body:
            raise OperationRefused(400, "not-json", "unknown member")
        self.purged.append(body)
        return Reached(store=self.reached, disk=True)

    async def caught_up(self) -> list[bytes]:
        """What it purges when it looks."""
        self.purged.clear()
        await self.purges.catch_up()
        return self.purged

    async def back(self) -> list[bytes]:
        """The same, once its client has found that Redis is there again."""
        self.purged.clear()
        async with asyncio.timeout(20):
            while True:
                try:
                    await self.purges.catch_up()
                except UnreachableError:
                    await asyncio.sleep(0.01)  # between two tries: the client tells nobody that Redis is back
                else:
                    return self.purged


@pytest.fixture
def redis(new_redis: Callable[..., RedisServer]) -> RedisServer:
    return new_redis()


@pytest.fixture
async def meet(redis: RedisServer) -> AsyncIterator[Meet]:
    """`await meet(name)`: a host that listens from now on."""
    made: list[Host] = []

    async def met(name: str) -> Host:
        host = Host(redis, name)
        await host.board.open()
        await host.caught_up()
        made.append(host)
        return host

    yield met
    for host in made:
        await host.board.close()


async def test_a_purge_that_could_not_be_carried_out_is_heard_again_and_those_behind_it(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    for body in (b"1", b"2"):
        await one.purges.tell(body)
    other.fails = 1
    with pytest.raises(RuntimeError):
        await other.caught_up()
    assert await other.caught_up() == [b"1", b"2"]
    assert await other.caught_up() == []


async def test_others_do_what_one_did_and_it_does_not_do_it_twice(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    await one.purges.tell(b"1")
    await one.purges.tell(b"2")
    await one.board.say(b"no word")
    assert await one.caught_up() == []
    assert await other.caught_up() == [b"1", b"2"]
    assert await other.caught_up() == []
    assert await (await meet("late")).caught_up() == [], "it was not there, and has nothing to purge"


async def test_one_that_was_cut_off_does_it_when_it_is_back(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    for number in range(250):
        await one.purges.tell(b"%d" % number)
    found = [*await other.caught_up(), *await other.caught_up(), *await other.caught_up()]
    assert found == [b"%d" % number for number in range(250)]


async def test_a_purge_made_without_redis_is_told_when_it_is_back(redis: RedisServer, meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    redis.kill()
    await one.purges.tell(b"1")
    await one.purges.tell(b"2")
    assert repr(one.purges) == "<Purges of one, 2 to be told>"
    redis.restart()
    assert await one.back() == [b"1", b"2"], "in the second tier it is to be done yet"
    assert await one.caught_up() == []
    assert await other.back() == [b"1", b"2"]
    assert await other.caught_up() == []


async def test_what_no_worker_could_remove_from_redis_yet_is_tried_again_with_patience(
    redis: RedisServer, meet: Meet
) -> None:
    one, other = await meet("one"), await meet("other")
    redis.kill()
    await one.purges.tell(b"1")
    redis.restart()
    one.reached = False
    assert await one.back() == [b"1"]
    assert await one.caught_up() == []
    one.now += 2 * FIRST_PAUSE
    assert await one.caught_up() == [b"1"]
    one.now += 2 * FIRST_PAUSE
    assert await one.caught_up() == []
    one.reached = True
    one.now += 2 * FIRST_PAUSE
    assert await one.caught_up() == [b"1"]
    one.now += LONGEST_PAUSE
    assert await one.caught_up() == []
    assert await other.back() == [b"1"], "it is told once"


async def test_what_redis_lost_before_everyone_had_heard_it_is_told_again(redis: RedisServer, meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    await one.purges.tell(b"1")
    redis.kill()
    redis.restart()
    assert await one.back() == []
    assert await other.back() == [b"1"]
    await one.purges.tell(b"2")
    assert await other.caught_up() == [b"2"]
    assert await one.caught_up() == []


async def test_who_comes_first_to_an_emptied_board_misses_nothing_either(redis: RedisServer, meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    await one.purges.tell(b"1")
    redis.empty()
    assert await other.caught_up() == []
    assert await one.caught_up() == []
    assert await other.caught_up() == [b"1"]


async def test_who_was_cut_off_while_redis_lost_its_words_purges_all(redis: RedisServer, meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    await one.purges.tell(b"1")
    one.now = other.now = AGAIN_FOR + 1
    redis.empty()
    assert await other.caught_up() == [EVERYTHING]
    one.now += AGAIN_FOR + 1
    await one.caught_up()
    assert await other.caught_up() == [], "too old to be told again"


async def test_who_missed_more_words_than_are_kept_purges_all(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    for _ in range(2 * KEPT):
        await one.board.say(b"no word")
    assert await other.caught_up() == [EVERYTHING]
    assert await other.caught_up() == []


async def test_a_great_many_purges_without_redis_become_one_of_everything(redis: RedisServer, meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    redis.kill()
    for _ in range(MOST + 1):
        await one.purges.tell(b"1")
    redis.restart()
    assert await one.back() == [EVERYTHING]
    assert await other.back() == [EVERYTHING]


async def test_a_purge_that_cannot_be_read_purges_all_and_those_behind_it_are_heard(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    await one.purges.tell(b'{"tag":"said by a newer rpcaccel"}')
    await one.purges.tell(b'{"method":"m"}')
    assert await other.caught_up() == [EVERYTHING, b'{"method":"m"}']
