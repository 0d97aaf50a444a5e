"""One request after the other on a connection of aiohttp's pool: what comes back, what becomes of the connection, and
what of aiohttp is relied on without being documented."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientRequest, ClientTimeout, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from rpcaccel.core.wire.http_reply import HttpReplyReader
from rpcaccel.dataplane.event_loop import OneATurn
from rpcaccel.dataplane.upstream.connector import LEGAL_CONNECTION_EVENTS, ConnectionState, NodeConnection
from tests.support.dataplane.raw_node import Call, RawNode
from tests.support.services import SUPPORT
from tests.support.waiting import until

CERTIFICATE = SUPPORT / "loopback.pem"
REQUEST = b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{"id":7}'
MOST = 1 << 20
REPLY = b"HTTP/1.1 200 OK\r\nX-Who: me\r\nContent-Length: 3\r\n\r\nabc"
Take = Callable[[], Awaitable[Connection]]


@dataclass
class Told:
    """Who asks, and what was told: the reply, or the trouble."""

    replies: list[tuple[Any, HttpReplyReader]] = field(default_factory=list)
    troubles: list[tuple[Any, Exception]] = field(default_factory=list)

    def replied(self, _connection: NodeConnection, asked: Any, reply: HttpReplyReader) -> None:
        self.replies.append((asked, reply))

    def broke(self, _connection: NodeConnection, asked: Any, _reply: HttpReplyReader, trouble: Exception) -> None:
        self.troubles.append((asked, trouble))

    @property
    def count(self) -> int:
        return len(self.replies) + len(self.troubles)

    async def reply(self) -> HttpReplyReader:
        """The next reply."""
        before = self.count
        await until(lambda: self.count > before)
        return self.replies[-1][1]


def pool(node: RawNode, connector: TCPConnector, scheme: str = "http") -> Take:
    request = ClientRequest("POST", URL(f"{scheme}://127.0.0.1:{node.port}/"), loop=asyncio.get_running_loop())
    return lambda: connector.connect(request, [], ClientTimeout(connect=5))


@pytest.fixture
async def take(node: RawNode) -> AsyncIterator[Take]:
    async def script(call: Call) -> None:
        call.writer.write(REPLY)

    node.script = script
    connector = TCPConnector(limit=4)
    yield pool(node, connector)
    await connector.close()


@pytest.fixture
def told() -> Told:
    return Told()


async def silence(_call: Call) -> None:
    """Answer nothing."""


def handler(connection: Connection) -> ResponseHandler:
    assert connection.protocol is not None
    return connection.protocol


def held(connection: Connection, told: Told, *, reused: bool = False) -> NodeConnection:
    return NodeConnection(connection, told, MOST, OneATurn(), reused=reused)


# -- what comes back, and what becomes of the connection ---------------------------------------------------------


async def test_one_request_follows_the_other_as_written(node: RawNode, take: Take, told: Told) -> None:
    connection = held(await take(), told)
    for number in range(3):
        connection.ask(REQUEST, number)
        assert repr(connection) == "<connection to a node, asked>"
        reply = await told.reply()
        assert (reply.status, reply.header("x-who"), reply.body) == (200, "me", b"abc")
        assert connection.usable
    assert [asked for asked, _ in told.replies] == [0, 1, 2]
    assert node.connections == 1
    assert [call.head + call.body for call in node.calls] == [REQUEST] * 3
    connection.close()


class Turn:
    """Counts the bytes that come on some connections within one turn of the loop."""

    def __init__(self) -> None:
        self.most = self._came = 0

    def take(self, size: int) -> None:
        if not self._came:
            asyncio.get_running_loop().call_soon(self._end)
        self._came += size

    def _end(self) -> None:
        self.most, self._came = max(self.most, self._came), 0


class Counting(NodeConnection):
    """A connection that counts what comes."""

    def __init__(self, connection: Connection, told: Told, turns: OneATurn, turn: Turn) -> None:
        self.turn = turn
        super().__init__(connection, told, 64 << 20, turns, reused=False)

    def data_received(self, data: bytes) -> None:
        self.turn.take(len(data))
        super().data_received(data)


@pytest.mark.parametrize("count", [1, 4])
async def test_long_replies_come_in_turns_a_read_of_one_connection_in_each(
    node: RawNode, take: Take, told: Told, count: int
) -> None:
    async def long(call: Call) -> None:
        call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 10_000_000)

    node.script = long
    turns, turn = OneATurn(), Turn()
    connections = [Counting(await take(), told, turns, turn) for _ in range(count)]
    for connection in connections:
        connection.ask(REQUEST, 1)
    await until(lambda: told.count == count)
    for _, reply in told.replies:
        reply.assemble()
        assert reply.body == b"x" * 10_000_000
    assert 0 < turn.most <= count * (256 << 10), "the first read of a reply waits for no turn"
    for connection in connections:
        connection.close()


async def test_what_is_given_back_is_the_pools_as_it_was(node: RawNode, take: Take, told: Told) -> None:
    for _ in range(2):
        connection = held(await take(), told)
        connection.ask(REQUEST, None)
        await told.reply()
        connection.give_back()
    assert node.connections == 1


async def test_what_is_closed_is_not_used_again_and_nobody_is_told(node: RawNode, take: Take, told: Told) -> None:
    node.script = silence
    for _ in range(2):
        connection = held(await take(), told)
        connection.ask(REQUEST, None)
        connection.close()
        connection.close()
    again = held(await take(), told)
    again.ask(REQUEST, None)
    await until(lambda: len(node.calls) >= 1)
    again.close()
    assert node.connections == 3
    assert told.count == 0


async def test_a_connection_that_is_lost_while_idle_is_not_usable(take: Take, told: Told) -> None:
    connection = held(taken := await take(), told)
    protocol = taken.protocol
    assert protocol is not None
    assert protocol.closed is not None
    assert protocol.transport is not None
    protocol.transport.abort()
    await until(lambda: connection.state is ConnectionState.CLOSED)
    assert not connection.usable
    assert not connection.ask(REQUEST, None)
    assert protocol.closed is None or protocol.closed.done()
    assert told.count == 0


async def test_what_was_not_sent_when_the_answer_came_is_not_sent_any_more(
    node: RawNode, take: Take, told: Told
) -> None:
    seen = asyncio.Event()

    async def read_no_further(_call: Call) -> None:
        await seen.wait()

    node.script = read_no_further
    taken = await take()
    transport, closed = taken.transport, handler(taken).closed
    assert transport is not None
    assert closed is not None
    connection = held(taken, told)
    connection.ask(REQUEST + b" " * 32_000_000, None)
    assert transport.get_write_buffer_size() > 0
    connection.data_received(REPLY)
    assert told.replies[0][1].body == b"abc"
    assert connection.state is ConnectionState.CLOSED
    await closed
    seen.set()


async def test_a_connection_that_ended_meanwhile_is_not_held(node: RawNode, take: Take, told: Told) -> None:
    taken = await take()
    assert taken.transport is not None
    taken.transport.abort()
    await until(lambda: taken.transport is None)
    with pytest.raises(ConnectionResetError):
        held(taken, told)
    assert node.calls == []


async def test_a_connection_that_spoke_in_the_pool_is_not_held(node: RawNode, take: Take, told: Told) -> None:
    connection = held(await take(), told)
    connection.ask(REQUEST, None)
    await told.reply()
    connection.give_back()
    taken = await take()
    handler(taken).data_received(REPLY)
    with pytest.raises(ConnectionResetError):
        held(taken, told, reused=True)
    assert len(node.calls) == 1


async def test_a_connection_that_speaks_unasked_is_closed(node: RawNode, take: Take, told: Told) -> None:
    connection = held(await take(), told)
    connection.ask(REQUEST, None)
    await told.reply()
    node.calls[0].writer.write(REPLY)
    await until(lambda: connection.state is ConnectionState.CLOSED)
    assert told.count == 1


# -- the table ---------------------------------------------------------------------------------------------------


async def test_what_is_not_in_the_table_raises_and_changes_nothing(take: Take, told: Told) -> None:
    connection = held(await take(), told)
    connection.ask(REQUEST, None)
    for illegal in (lambda: connection.ask(REQUEST, None), connection.give_back):
        with pytest.raises(RuntimeError, match="on a connection that is asked"):
            illegal()
    await told.reply()
    connection.give_back()
    for illegal in (lambda: connection.ask(REQUEST, None), connection.give_back, connection.close):
        with pytest.raises(RuntimeError, match="on a connection that is given back"):
            illegal()
    assert {state for state, legal in LEGAL_CONNECTION_EVENTS.items() if "ask" in legal} == {
        ConnectionState.IDLE,
        ConnectionState.CLOSED,
    }


# -- TLS ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def tls() -> AsyncIterator[tuple[RawNode, Take]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    node = RawNode()
    await node.start(context)
    connector = TCPConnector(ssl=ssl.create_default_context(cafile=str(CERTIFICATE)))
    yield node, pool(node, connector, "https")
    await connector.close()
    await node.stop()


async def test_over_tls_long_requests_and_answers_go_through_and_connections_are_kept(
    tls: tuple[RawNode, Take], told: Told
) -> None:
    async def script(call: Call) -> None:
        call.reply(call.body)

    node, take = tls
    node.script = script
    for size in (8, 300_000, 8):
        connection = held(await take(), told)
        connection.ask(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size), None)
        reply = await told.reply()
        assert (reply.status, reply.body) == (200, b"x" * size)
        connection.give_back()
    assert node.connections == 1


async def test_over_tls_nothing_of_a_call_that_is_over_is_sent(tls: tuple[RawNode, Take], told: Told) -> None:
    async def script(_call: Call) -> None:
        await asyncio.Event().wait()  # reads no further

    node, take = tls
    node.script = script
    taken = await take()
    closed = handler(taken).closed
    assert closed is not None
    connection = held(taken, told)
    connection.ask(REQUEST + b" " * 32_000_000, None)
    await until(lambda: len(node.calls) == 1)
    connection.close()
    await asyncio.wait_for(closed, 5.0)


# -- what is relied on without being documented ------------------------------------------------------------------


async def test_aiohttp_still_offers_what_is_relied_on(take: Take, told: Told) -> None:
    why = "aiohttp changed what NodeConnection stands on: read its docstring before the version is taken"
    taken = await take()
    protocol, transport = handler(taken), taken.transport
    assert transport is not None
    assert transport.get_protocol() is protocol, why
    assert (protocol._tail, protocol.should_close) == (b"", False), why
    connection = held(taken, told)
    assert transport.get_protocol() is connection
    connection.give_back()
    assert transport.get_protocol() is protocol, why
    assert taken.protocol is None, why
    taken = await take()
    assert taken.protocol is protocol, why
    protocol.data_received(REPLY)
    assert (protocol._tail, protocol.should_close) == (REPLY, True), why
    taken.release()
    other = await take()
    assert other.protocol is not protocol, why
    protocol = handler(other)
    closed = protocol.closed
    assert closed is not None
    protocol.connection_lost(None)
    assert closed.done(), why
    assert other.transport is None, why
    other.close()
