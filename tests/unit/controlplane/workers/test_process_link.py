"""Whoever asks a worker something gets its answer, or the one to be taken otherwise, and never waits for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from rpcaccel.controlplane.workers.link import GONE
from rpcaccel.controlplane.workers.process_link import Born, ProcessLink
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.controlplane.workers.workers import Workers
from rpcaccel.core import messages
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.messages import Adopt, Drain, Order, PurgeDone, PurgeOrder, Recorded, RecordOrder, Started
from tests.support.sample_control import sample_settings
from tests.support.waiting import until


class Process:
    """As much of a process as a link needs, which ends when it is told to."""

    pid = 7

    def __init__(self) -> None:
        self.returncode: int | None = None
        self._over = asyncio.Event()

    def end(self) -> None:
        self.returncode = 0
        self._over.set()

    kill = end

    async def wait(self) -> int:
        await self._over.wait()
        return 0


class FakeWorker:
    """The worker's end of a link, played by the test."""

    def __init__(self, end_within: float = 5.0) -> None:
        self.process = Process()
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs
        self._orders: messages.FrameReader[Order] = messages.FrameReader(Order)  # type: ignore[arg-type]
        self._heard: list[Order] = []
        self.link = ProcessLink("w1", socket.socket(), lambda _hint: None, spawn=self._spawn, end_within=end_within)

    async def _spawn(self, _name: str, _sock: socket.socket) -> Born:
        self._reader, self._writer = await asyncio.open_connection(sock=self._theirs)
        reader, writer = await asyncio.open_connection(sock=self._ours)
        return Born(self.process, reader, writer)  # type: ignore[arg-type]

    async def start(self, first: bytes = b"") -> None:
        """Start it; it says that it listens, or other `first` words."""
        starting = asyncio.create_task(self.link.start(sample_settings(), 1))
        await self.begin(first)
        await starting

    async def begin(self, first: bytes = b"") -> None:
        """Answer the order to adopt, once it comes."""
        await until(lambda: hasattr(self, "_reader"))
        while not isinstance(order := await self.order(), Adopt):
            pass
        self.send(first or messages.encode(Started(1, order.number)))

    async def order(self) -> Order:
        while not self._heard:
            self._heard += self._orders.feed(await self._reader.read(65536))
        return self._heard.pop(0)

    def say(self, word: messages.Word) -> None:
        self.send(messages.encode(word))

    def send(self, frame: bytes) -> None:
        self._writer.write(frame)

    def close(self) -> None:
        """End the link, and not the process."""
        self._writer.close()

    async def leave(self) -> None:
        self.process.end()
        self._writer.close()
        await self.link.ended()


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    made = FakeWorker()
    await made.start()
    yield made
    await made.leave()
    await made.link.drain(0.0)


async def test_each_answer_reaches_who_asked_for_it_in_whatever_order_they_come(worker: FakeWorker) -> None:
    purging = asyncio.create_task(worker.link.purge(Selection()))
    recording = asyncio.create_task(worker.link.record(1.0))
    purge, record = await worker.order(), await worker.order()
    assert isinstance(purge, PurgeOrder)
    assert isinstance(record, RecordOrder)
    worker.say(Recorded(missed=5, number=record.number))
    worker.say(PurgeDone(3, 4, number=purge.number))
    assert (await purging).memory == 3
    assert (await recording).missed == 5


async def test_an_answer_that_nobody_awaits_any_more_is_dropped(worker: FakeWorker) -> None:
    asked = asyncio.create_task(worker.link.purge(Selection()))
    order = await worker.order()
    assert isinstance(order, PurgeOrder)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    worker.say(PurgeDone(1, 1, number=order.number))
    again = asyncio.create_task(worker.link.purge(Selection()))
    order = await worker.order()
    assert isinstance(order, PurgeOrder)
    worker.say(PurgeDone(2, 2, number=order.number))
    assert (await again).memory == 2


async def test_when_the_link_ends_all_get_what_was_to_be_taken_otherwise(worker: FakeWorker) -> None:
    asked = [asyncio.create_task(worker.link.purge(Selection())) for _ in range(3)]
    for _ in asked:
        await worker.order()
    await worker.leave()
    assert [done.complete for done in await asyncio.gather(*asked)] == [False] * 3
    assert not (await worker.link.purge(Selection())).complete, "afterwards nothing is sent and nobody waits"


async def test_an_answer_to_something_else_ends_the_worker(worker: FakeWorker) -> None:
    asked = asyncio.create_task(worker.link.purge(Selection()))
    order = await worker.order()
    assert isinstance(order, PurgeOrder)
    worker.say(Recorded(number=order.number))
    assert not (await asked).complete
    assert "Recorded as the answer where PurgeDone was due" in await worker.link.ended()


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        pytest.param(b"\xff" * 8, "a frame of 4294967295 bytes", id="too long"),
        pytest.param(b"\0\0\0\1\xc1", "malformed", id="no MessagePack"),
        pytest.param(messages.encode(Drain(1.0)), "Drain", id="no word of a worker"),
    ],
)
async def test_one_whose_words_cannot_be_understood_is_ended_and_keeps_nobody_waiting(
    worker: FakeWorker, frame: bytes, why: str
) -> None:
    link = worker.link
    asked = (
        asyncio.create_task(link.adopt(sample_settings(), 2)),
        asyncio.create_task(link.purge(Selection())),
        asyncio.create_task(link.explain("", "eth_chainId", b"[]")),
        asyncio.create_task(link.record(1.0)),
    )
    for _ in asked:
        await worker.order()
    worker.send(frame)
    adopted, purged, explained, recorded = await asyncio.gather(*asked)
    assert (adopted, purged.complete, explained, recorded.calls) == (GONE, False, None, ())
    how = await link.ended()
    assert how.startswith("said what cannot be understood (")
    assert how.endswith(") and was ended")
    assert why in how


async def test_one_whose_first_word_cannot_be_understood_does_not_come_up() -> None:
    worker = FakeWorker()
    with pytest.raises(RuntimeError, match="worker w1 said what cannot be understood"):
        await worker.start(b"\xff" * 8)
    worker.close()


async def test_one_that_ends_its_link_and_stays_is_ended_too() -> None:
    worker = FakeWorker(end_within=0.05)
    await worker.start()
    worker.close()
    assert await worker.link.ended() == "ended its link alone and was ended"
    assert not (await worker.link.purge(Selection())).complete
    await worker.link.drain(0.0)


async def test_one_that_ends_before_it_has_reported_is_replaced() -> None:
    first, second = FakeWorker(), FakeWorker()
    links = [second.link, first.link]

    def make(_name: str, sock: socket.socket) -> ProcessLink:
        sock.close()  # a fake worker takes no calls
        return links.pop()

    workers = Workers(make, [])
    workers.own([bind("127.0.0.1:0", "listen")])
    starting = asyncio.create_task(workers.start(sample_settings(), 1))
    await first.begin()
    await starting
    first.send(b"\xff" * 8)
    await second.begin()
    await until(lambda: workers.replaced)
    assert [(one.state, one.revision, one.uptime) for one in workers.states()] == [("serving", 1, None)]
    stopping = asyncio.create_task(workers.stop(0.0))
    await second.order()
    await second.leave()
    await stopping
    first.close()
