"""A host tells others of itself and hears of them, on a board of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.config.model import RedisSettings
from rpcaccel.controlplane.hosts.host_exchange import HostExchange
from rpcaccel.controlplane.hosts.host_report import HostReport, decoded
from rpcaccel.stores.shared_board import Board, HostEntries, HostEntry, UnreachableError
from tests.support.described_answers import sent

REDIS = RedisSettings.model_validate({"url": "redis://127.0.0.1:1"})


class SampleBoard(Board):
    """The entries of several hosts, without Redis. `down`: nothing gets through. `broken`: it fails once."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.opened = self.closed = 0
        self.down = self.broken = False
        self.met = asyncio.Condition()

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    async def meet(self, run: str, document: bytes) -> HostEntries:
        async with self.met:
            self.met.notify_all()
        if self.broken:
            self.broken = False
            raise RuntimeError
        if self.down:
            raise UnreachableError("no answer in time")
        self.entries[run] = document
        return HostEntries([HostEntry(name, 0.0, told) for name, told in self.entries.items()])

    async def leave(self, run: str) -> None:
        if self.down:
            raise UnreachableError
        self.entries.pop(run, None)


@pytest.fixture
async def board() -> SampleBoard:
    return SampleBoard()


class Sharer:
    """A host of this name on a board; `clock` is moved on by hand."""

    def __init__(self, board: SampleBoard, name: str) -> None:
        self.now = 0.0
        self.exchange = HostExchange(
            lambda: HostReport(name=name, version="1.0"),
            board=lambda redis: board if redis.url else None,
            clock=lambda: self.now,
        )

    def states(self) -> dict[str, str]:
        """The hosts that this one knows, with their states."""
        return {one["name"]: one["state"] for one in sent(self.exchange.shown())["hosts"]}


async def test_hosts_know_each_other_after_a_round_and_no_more_once_they_left(board: SampleBoard) -> None:
    one, other = Sharer(board, "one"), Sharer(board, "other")
    for host in (one, other, one):
        await host.exchange.meet(board)
    assert one.states() == other.states() == {"one": "well", "other": "well"}
    async with board.met:
        await other.exchange.share(REDIS)
        await board.met.wait()
    await other.exchange.leave()
    await one.exchange.meet(board)
    assert one.states() == {"one": "well"}
    assert (board.opened, board.closed) == (1, 1)
    assert other.states() == {"other": "well"}, "who shares no more knows nobody"


async def test_a_host_that_begins_to_drain_says_so_at_once(board: SampleBoard) -> None:
    host = Sharer(board, "one")
    async with board.met:
        await host.exchange.share(REDIS)
        await board.met.wait()
        host.exchange.drain()
        async with asyncio.timeout(1.5):  # less than a round
            await board.met.wait()
    told = decoded(board.entries[host.exchange.run])
    assert told.draining
    await host.exchange.leave()
    assert board.entries == {}


async def test_while_redis_is_away_that_is_said_and_the_others_stay_as_they_were_heard(board: SampleBoard) -> None:
    one, other = Sharer(board, "one"), Sharer(board, "other")
    for host in (other, one):
        await host.exchange.meet(board)
    board.down, one.now = True, 40.0
    await one.exchange.meet(board)
    told = sent(one.exchange.shown())
    assert told["note"] == "Redis is away (no answer in time): the other hosts are not known"
    assert one.states() == {"one": "well", "other": "unknown"}
    assert [host["heard"] for host in told["hosts"]] == [0.0, 40.0]
    assert one.exchange.notices() == []


async def test_what_nobody_expected_ends_no_exchange(board: SampleBoard) -> None:
    host, board.broken = Sharer(board, "one"), True
    async with board.met:
        await host.exchange.share(REDIS)
        await board.met.wait()
        host.exchange.drain()
        await board.met.wait()
    assert host.states() == {"one": "draining"} or sent(host.exchange.shown())["shared"]
    board.down = True
    await host.exchange.leave()
    assert board.closed == 1


async def test_without_redis_a_host_is_shown_alone(board: SampleBoard) -> None:
    host = Sharer(board, "one")
    await host.exchange.share(RedisSettings())
    told = sent(host.exchange.shown())
    assert (told["shared"], told["note"], host.states()) == (False, "", {"one": "well"})
    assert board.opened == 0
    await host.exchange.share(REDIS)
    assert sent(host.exchange.shown())["shared"]
    await host.exchange.share(RedisSettings())
    assert not sent(host.exchange.shown())["shared"]
