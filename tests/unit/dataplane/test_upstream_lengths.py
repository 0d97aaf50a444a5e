"""Answers without bounds, over real sockets: cut off as that node's failure, before they take the proxy's memory."""

import asyncio
import gc
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import cache

import pytest

from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.wire.http_reply import RATIO, UNPACKED_FREELY, HttpReplyReader
from tests.support.dataplane.raw_node import LONG, Call, Connect, RawNode, Script, ask, failure
from tests.support.waiting import until

MIB = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\n"
START = b'{"jsonrpc":"2.0","id":1,"result":"'
ENDLESS = {
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"a" * 0x8000 + b"\r\n"),
    "tiny chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"40\r\n" + b"a" * 0x40 + b"\r\n"),
    "a false length": (HEAD + b"Content-Length: 999999999999\r\n\r\n", b"a" * 0x8000),
    "no length": (HEAD + b"\r\n", b"a" * 0x8000),
}


@pytest.fixture
async def given_up() -> AsyncIterator[asyncio.Event]:
    """Set when a node that sends without an end finds its connection closed."""
    return asyncio.Event()


def without_end(start: bytes, piece: bytes, closed: asyncio.Event) -> Script:
    """A node that begins an answer and never comes to its end."""

    async def script(call: Call) -> None:
        call.writer.write(start)
        try:
            while True:
                call.writer.write(piece)
                await call.writer.drain()
        except ConnectionError:
            closed.set()
            raise

    return script


@cache
def packed(size: int) -> bytes:
    """An answer of about `size` bytes that packs as well as gzip can pack."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(START)]
    parts += [packer.compress(bytes(MIB).replace(b"\0", b"0")) for _ in range(size // MIB)]
    return b"".join([*parts, packer.compress(b'"}'), packer.flush()])


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ENDLESS)
async def test_an_answer_without_an_end_is_cut_off_at_its_bound(
    node: RawNode, connect: Connect, given_up: asyncio.Event, kind: str
) -> None:
    node.script = without_end(*ENDLESS[kind], given_up)
    upstream = connect(max_answer=MIB)
    got = await failure(upstream, 60.0)
    assert (got.kind, got.text) == (FailureKind.OVERSIZED, "the node's answer is longer than 1MiB: it was cut off")
    async with asyncio.timeout(LONG):
        await given_up.wait()
    await until(lambda: upstream.cell.connections_open == 0)


async def test_an_answer_as_long_as_the_bound_is_taken_and_one_byte_more_is_not(
    node: RawNode, connect: Connect
) -> None:
    async def script(call: Call) -> None:
        call.reply(START.replace(b"1,", b"%d," % call.id) + b"a" * (MIB - len(START) - 2 + more) + b'"}')

    node.script = script
    upstream, more = connect(max_answer=MIB), 0
    assert isinstance(await ask(upstream), Answer)
    more = 1
    assert (await failure(upstream)).kind is FailureKind.OVERSIZED


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No cycle is collected meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("how", ["too long", "too late", "broken off", "cancelled"])
async def test_nothing_of_an_answer_that_failed_waits_for_the_collector(
    node: RawNode, connect: Connect, how: str
) -> None:
    async def script(call: Call) -> None:
        call.writer.write(HEAD + start + b"a" * (MIB // 2))
        if how in ("too long", "cancelled"):
            call.writer.write(b"a" * 16 * MIB)  # more than the sockets hold
            await call.writer.drain()
            half_read.set()
        elif how == "broken off":
            call.close()

    node.script = script
    half_read = asyncio.Event()
    start = b"\r\n" if how == "too long" else b"Content-Length: %d\r\n\r\n" % (31 * MIB)
    upstream = connect(max_answer=MIB if how == "too long" else 32 * MIB)
    if how == "cancelled":
        asking = asyncio.create_task(ask(upstream))
        await half_read.wait()
        asking.cancel()
        await asyncio.wait([asking])
        del asking
    else:
        got = await failure(upstream, 0.5 if how == "too late" else LONG)
        assert "answer" in got.text
    await until(lambda: upstream.cell.connections_open == 0)
    await until(lambda: not any(type(one) is HttpReplyReader for one in gc.get_objects()))


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("chunked", [False, True])
async def test_what_unpacks_to_much_more_than_came_is_cut_off_before_it_takes_memory(
    node: RawNode, connect: Connect, chunked: bool
) -> None:
    bomb = packed(80 * MIB)
    assert len(bomb) * RATIO < 80 * MIB

    async def script(call: Call) -> None:
        head = HEAD + b"Content-Encoding: gzip\r\n"
        if chunked:  # all of it in one chunk
            call.writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(bomb), bomb))
        else:
            call.writer.write(head + b"Content-Length: %d\r\n\r\n%b" % (len(bomb), bomb))

    node.script = script
    tracemalloc.reset_peak()
    got = await failure(connect(max_answer=1024 * MIB), 60.0)
    assert got.kind is FailureKind.OVERSIZED
    assert got.text == "the node's answer is packed so that each byte makes more than 200: it was cut off"
    assert tracemalloc.get_traced_memory()[1] < 2 * UNPACKED_FREELY


async def test_a_short_answer_may_be_packed_as_well_as_it_can_be(node: RawNode, connect: Connect) -> None:
    body = packed(20 * MIB)

    async def script(call: Call) -> None:
        call.reply(body, headers="Content-Encoding: gzip\r\n")

    node.script = script
    got = await ask(connect(), 60.0)
    assert isinstance(got, Answer)
    assert got.result is not None
    assert len(got.result) == 20 * MIB + 2


async def test_a_long_answer_that_packs_like_json_is_taken(node: RawNode, connect: Connect) -> None:
    words = b"".join(b'{"pc":%d,"op":"PUSH1","gas":%d},' % (at, 7 * at) for at in range(50_000))
    body = START.removesuffix(b'"') + b"[" + words * (UNPACKED_FREELY // len(words) + 1) + b"0]}"

    async def script(call: Call) -> None:
        call.reply(gzip.compress(body, 1), headers="Content-Encoding: gzip\r\n")

    node.script = script
    got = await ask(connect(), 60.0)
    assert isinstance(got, Answer)
    assert got.result is not None
    assert len(body) > UNPACKED_FREELY


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 " + b"a" * 0x8000,
        HEAD + b"X: " + b"a" * 0x8000,
        HEAD + b"".join(b"X-%d: a\r\n" % at for at in range(1000)),
    ],
    ids=["interim replies", "reason", "header", "headers"],
)
async def test_a_reply_that_does_not_begin_is_no_http(
    node: RawNode, connect: Connect, given_up: asyncio.Event, start: bytes
) -> None:
    node.script = without_end(b"", start, given_up)
    got = await failure(connect(), 60.0)
    assert (got.kind, got.text) == (FailureKind.BROKEN_REPLY, "what the node answered is not HTTP")
    async with asyncio.timeout(LONG):
        await given_up.wait()
