"""Purges told by words on a board in a real Redis: to hosts that listen, to those that were cut off for a while, and to
those that were down and have kept answers on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import pytest

from rpcaccel.controlplane.hosts.shared_purges import (
    MAX_PURGE_RETRY_SECONDS,
    MAX_WAITING_PURGES,
    PLACE_SAVE_SECONDS,
    PURGE_EVERYTHING,
    PURGE_NOTHING,
    PURGE_RETRY_SECONDS,
    RESEND_SECONDS,
    HeardFile,
    Purges,
)
from rpcaccel.controlplane.workers.operations import OperationRefused, Reached
from rpcaccel.stores.redis.board import MAX_MESSAGES, RedisBoard
from rpcaccel.stores.shared_board import UnreachableError
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url


class Meet(Protocol):
    """Makes a host that listens from now on."""

    async def __call__(self, name: str, folder: Path | None = None, now: float = 0.0) -> Host: ...


class Host:
    """One host's end; cut off for as long as it does not catch up. With a folder it has a disk tier there."""

    def __init__(self, redis: RedisServer, name: str, folder: Path | None = None, now: float = 0.0) -> None:
        self.now = now
        """Seconds by both of its clocks."""
        self.purged: list[bytes] = []
        self.reached = True
        """Do its workers reach Redis?"""
        self.disk = True
        """Do its workers reach the disk?"""
        self.fails = 0
        """Purges that end in an unforeseen way."""
        self.board = RedisBoard(Settings(url=Url(redis.url), prefix="test"))
        self.folder = folder
        file = HeardFile(folder, 7) if folder else None
        self.purges = Purges(self.board, name, self._purge, file, clock=lambda: self.now, wall=lambda: 1e9 + self.now)

    async def _purge(self, body: bytes) -> Reached:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("a bug")
        if b"newer" in body:
            raise OperationRefused(400, "not-json", "unknown member")
        if body != PURGE_NOTHING:
            self.purged.append(body)
        return Reached(store=self.reached, disk=self.disk)

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
    made: list[Host] = []

    async def met(name: str, folder: Path | None = None, now: float = 0.0) -> Host:
        host = Host(redis, name, folder, now)
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
    one.now += 2 * PURGE_RETRY_SECONDS
    assert await one.caught_up() == [b"1"]
    one.now += 2 * PURGE_RETRY_SECONDS
    assert await one.caught_up() == []
    one.reached = True
    one.now += 2 * PURGE_RETRY_SECONDS
    assert await one.caught_up() == [b"1"]
    one.now += MAX_PURGE_RETRY_SECONDS
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
    one.now = other.now = RESEND_SECONDS + 1
    redis.empty()
    assert await other.caught_up() == [PURGE_EVERYTHING]
    one.now += RESEND_SECONDS + 1
    await one.caught_up()
    assert await other.caught_up() == [], "too old to be told again"


async def test_a_purge_of_all_that_could_not_be_carried_out_is_tried_again(redis: RedisServer, meet: Meet) -> None:
    other = await meet("other")
    other.now = RESEND_SECONDS + 1
    redis.empty()
    other.fails = 1
    with pytest.raises(RuntimeError):
        await other.caught_up()
    assert await other.caught_up() == [PURGE_EVERYTHING]
    assert await other.caught_up() == []


async def test_who_missed_more_words_than_are_kept_purges_all(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    for _ in range(2 * MAX_MESSAGES):
        await one.board.say(b"no word")
    assert await other.caught_up() == [PURGE_EVERYTHING]
    assert await other.caught_up() == []


async def test_a_great_many_purges_without_redis_become_one_of_everything(redis: RedisServer, meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    redis.kill()
    for _ in range(MAX_WAITING_PURGES + 1):
        await one.purges.tell(b"1")
    redis.restart()
    assert await one.back() == [PURGE_EVERYTHING]
    assert await other.back() == [PURGE_EVERYTHING]


async def test_a_purge_that_cannot_be_read_purges_all_and_those_behind_it_are_heard(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    await one.purges.tell(b'{"tag":"said by a newer rpcaccel"}')
    await one.purges.tell(b'{"method":"m"}')
    assert await other.caught_up() == [PURGE_EVERYTHING, b'{"method":"m"}']


async def test_a_host_that_was_down_does_at_its_start_what_was_purged_meanwhile(meet: Meet, tmp_path: Path) -> None:
    one = await meet("one")
    await one.purges.tell(b"before it had a disk")
    assert (await meet("other", tmp_path)).purged == []
    await one.purges.tell(b"1")
    await one.purges.tell(b"2")
    assert (await meet("other again", tmp_path, now=60.0)).purged == [b"1", b"2"]
    assert (await meet("other once more", tmp_path, now=120.0)).purged == []


async def test_who_was_down_while_more_was_purged_than_is_kept_purges_all_once(meet: Meet, tmp_path: Path) -> None:
    one, _ = await meet("one"), await meet("other", tmp_path)
    for _ in range(2 * MAX_MESSAGES):
        await one.board.say(b"no word")
    other = await meet("other again", tmp_path, now=60.0)
    assert other.purged == [PURGE_EVERYTHING]
    for _ in range(2 * MAX_MESSAGES // 100):
        assert await other.caught_up() == []
    assert (await meet("other once more", tmp_path, now=120.0)).purged == []


@pytest.mark.parametrize(
    ("back_at", "purged"),
    [(RESEND_SECONDS / 2, []), (RESEND_SECONDS + 1, [PURGE_EVERYTHING]), (-5.0, [PURGE_EVERYTHING])],
    ids=["soon", "late", "by a clock that was set back"],
)
async def test_who_was_down_while_redis_lost_its_words_purges_all_unless_they_are_told_again(
    redis: RedisServer, meet: Meet, tmp_path: Path, back_at: float, purged: list[bytes]
) -> None:
    await meet("other", tmp_path)
    redis.empty()
    assert (await meet("other again", tmp_path, now=back_at)).purged == purged
    assert (await meet("other once more", tmp_path, now=back_at)).purged == []


async def test_a_purge_that_the_disk_did_not_carry_out_is_heard_again_after_a_restart(
    meet: Meet, tmp_path: Path
) -> None:
    one, other = await meet("one"), await meet("other", tmp_path)
    await one.purges.tell(b"1")
    other.disk = False
    assert await other.caught_up() == [b"1"]
    other.disk = True
    await one.purges.tell(b"2")
    assert await other.caught_up() == [b"2"], "the disk is asked again later"
    assert (await meet("other again", tmp_path, now=60.0)).purged == [b"1", b"2"]
    assert (await meet("other once more", tmp_path, now=120.0)).purged == []


async def test_a_purge_of_its_own_that_the_disk_did_not_carry_out_is_heard_after_a_restart_too(
    meet: Meet, tmp_path: Path
) -> None:
    other = await meet("other", tmp_path)
    other.disk = False
    await other.purges.tell(b"1", complete=False)
    assert await other.caught_up() == [b"1"]
    assert (await meet("other again", tmp_path, now=60.0)).purged == [b"1"]
    assert (await meet("other once more", tmp_path, now=120.0)).purged == []


async def test_a_disk_that_stays_away_is_purged_once_it_is_back_and_not_before(meet: Meet, tmp_path: Path) -> None:
    one, other = await meet("one"), await meet("other", tmp_path)
    other.disk = False
    await one.purges.tell(PURGE_EVERYTHING)
    assert await other.caught_up() == [PURGE_EVERYTHING]
    for _ in range(100):
        other.now += MAX_PURGE_RETRY_SECONDS
        assert await other.caught_up() == [], "the memory would be emptied again each time"
    other.disk = True
    other.now += MAX_PURGE_RETRY_SECONDS
    assert await other.caught_up() == [PURGE_EVERYTHING]
    assert await other.caught_up() == []
    assert (await meet("other again", tmp_path, now=other.now)).purged == []


async def test_a_great_many_purges_without_the_disk_become_one_of_everything(meet: Meet, tmp_path: Path) -> None:
    one, other = await meet("one"), await meet("other", tmp_path)
    other.disk = False
    for _ in range(MAX_WAITING_PURGES + 1):
        await one.purges.tell(b"1")
    await other.caught_up()
    await other.caught_up()
    other.disk = True
    other.now += MAX_PURGE_RETRY_SECONDS
    assert await other.caught_up() == [PURGE_EVERYTHING]


async def test_a_place_that_cannot_be_read_purges_all_and_is_kept_anew(meet: Meet, tmp_path: Path) -> None:
    one, _ = await meet("one"), await meet("other", tmp_path)
    await one.purges.tell(b"1")
    (tmp_path / "heard-7.json").write_bytes(b"{")
    assert (await meet("other again", tmp_path)).purged == [PURGE_EVERYTHING]
    assert (await meet("other once more", tmp_path)).purged == []


async def test_a_purge_of_everything_that_the_disk_did_not_carry_out_is_repeated_at_the_next_start(
    redis: RedisServer, meet: Meet, tmp_path: Path
) -> None:
    (tmp_path / "heard-7.json").write_bytes(b"{")
    other = Host(redis, "other", tmp_path)
    other.disk = False
    await other.board.open()
    assert await other.caught_up() == [PURGE_EVERYTHING]
    await other.board.close()
    assert (await meet("other again", tmp_path)).purged == [PURGE_EVERYTHING]


async def test_who_has_yet_to_hear_the_rest_was_away_until_it_is_heard(
    redis: RedisServer, meet: Meet, tmp_path: Path
) -> None:
    one, _ = await meet("one"), await meet("other", tmp_path)
    for number in range(150):
        await one.purges.tell(b"%d" % number)
    other = await meet("other again", tmp_path, now=RESEND_SECONDS)
    assert 0 < len(other.purged) < 150
    redis.empty()
    assert (await meet("other once more", tmp_path, now=RESEND_SECONDS + 1)).purged == [PURGE_EVERYTHING]


async def test_a_host_without_a_disk_repeats_nothing_for_one(meet: Meet) -> None:
    one, other = await meet("one"), await meet("other")
    one.disk = other.disk = False  # as a worker says that ended meanwhile
    await one.purges.tell(b"1", complete=False)
    assert await one.caught_up() == [b"1"]
    assert await other.caught_up() == [b"1"]
    one.disk = other.disk = True
    one.now += MAX_PURGE_RETRY_SECONDS
    assert await one.caught_up() == []
    assert await other.caught_up() == []


async def test_the_time_is_kept_once_a_minute_while_nothing_is_said(
    redis: RedisServer, meet: Meet, tmp_path: Path
) -> None:
    other = await meet("other", tmp_path)
    for _ in range(20):
        other.now += PLACE_SAVE_SECONDS
        await other.caught_up()
    redis.empty()
    assert (await meet("other again", tmp_path, now=other.now + RESEND_SECONDS / 2)).purged == []
