"""Deadlines, over real sockets: whatever a node does instead of answering, the call is over in its time."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from tests.support.dataplane.raw_node import LONG, Call, Connect, RawNode, ask, failure, node_settings
from tests.support.waiting import until
from tests.unit.dataplane.test_upstream_failures import RecordingLoop

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Deaf = Callable[[Serve], Awaitable[str]]
SHORT = 0.5
LARGE = b'["%b"]' % (b"x" * 8_000_000)
"""More than the sockets of both sides hold."""


@pytest.fixture
async def deaf() -> AsyncIterator[Deaf]:
    """Servers that read nothing of what they are sent, each by its address."""
    servers: list[asyncio.Server] = []
    held: list[asyncio.StreamWriter] = []

    async def start(serve: Serve) -> str:
        async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held.append(writer)
            await serve(reader, writer)

        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        servers.append(await asyncio.start_server(keep, sock=listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}/"

    yield start
    for writer in held:
        writer.transport.abort()
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("start", "drop", "text"),
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n", "no answer within 0.5 s"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", "no answer within 0.5 s"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" ", "only a part of the answer came within 0.5 s"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" ", "only a part of the answer came within 0.5 s"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1\r\n \r\n",
            "only a part of the answer came within 0.5 s",
        ),
    ],
    ids=["informational", "head", "length", "until the end", "chunks"],
)
async def test_an_answer_that_trickles_does_not_move_the_deadline(
    node: RawNode, connect: Connect, start: bytes, drop: bytes, text: str
) -> None:
    async def script(call: Call) -> None:
        call.writer.write(start)
        while not call.writer.is_closing():
            call.writer.write(drop)
            await asyncio.sleep(SHORT / 10)  # fewer interim replies than end a call

    node.script = script
    upstream = connect()
    assert await upstream.warm(1)  # on a busy machine, connecting may take as long as the call has
    got = await failure(upstream, SHORT)
    assert (got.kind, got.sent, got.text) == (FailureKind.TIMEOUT, True, text)
    await until(lambda: upstream.cell.connections_open == 0)


async def test_a_node_that_does_not_read_what_it_is_sent_holds_nobody_beyond_the_deadline(
    deaf: Deaf, connect: Connect
) -> None:
    async def serve(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        """Neither read nor write."""

    upstream = connect(await deaf(serve))
    got = await upstream.send("a", LARGE, timeout=SHORT)
    assert isinstance(got, Failure)
    assert (got.kind, got.text) == (FailureKind.TIMEOUT, "no answer within 0.5 s")
    await until(lambda: upstream.cell.connections_open == 0)


async def test_each_call_has_its_own_deadline(node: RawNode, connect: Connect) -> None:
    release = asyncio.Event()

    async def script(call: Call) -> None:
        await release.wait()
        call.ok()

    node.script = script
    upstream = connect()
    patient = asyncio.create_task(ask(upstream, LONG))
    hasty = [asyncio.create_task(failure(upstream, seconds)) for seconds in (0.1, 0.05, 0.2)]
    for task, seconds in zip(hasty, ("0.1", "0.05", "0.2"), strict=True):
        assert (await task).text.endswith(f" within {seconds} s")  # for the answer, or yet for the connection
    release.set()
    assert isinstance(await patient, Answer)


async def test_an_answer_that_comes_before_the_call_was_taken_is_heard(deaf: Deaf, connect: Connect) -> None:
    connections = 0

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    upstream = connect(await deaf(serve))
    for _ in range(2):
        got = await upstream.send("a", LARGE, timeout=LONG)
        assert isinstance(got, Failure)
        assert got.kind is FailureKind.CALL_REFUSED
    assert connections == 2


def test_waiting_for_a_connection_is_part_of_the_time() -> None:
    release = asyncio.Event()

    async def script(call: Call) -> None:
        await release.wait()
        call.ok()

    async def calls() -> None:
        node = RawNode()
        node.script = script
        await node.start()
        upstream = HttpNodeClient(node_settings(f"http://127.0.0.1:{node.port}/", max_connections=1))
        first = asyncio.create_task(ask(upstream, 20.0))
        await until(lambda: len(node.calls) == 1)
        second = asyncio.create_task(ask(upstream, 7.0))
        await until(lambda: upstream.waiting == 1)
        await asyncio.sleep(0.2)
        release.set()
        assert [type(await task) for task in (first, second)] == [Answer, Answer]
        await upstream.close()
        await node.stop()

    loop = RecordingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(calls())
    left = [delay for delay in loop.delays if 1.0 < delay <= 7.0]
    assert left
    assert max(left) <= 6.8
