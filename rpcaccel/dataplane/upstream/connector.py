"""The connections to one node: aiohttp's TCPConnector opens, pools and closes them, and a protocol of ours writes the
requests and reads the replies while a connection is held.

This is the only file that relies on what aiohttp does not document (`NodeConnection` and `CountingConnector` say what).
"""

from __future__ import annotations

import asyncio
import socket
import time
from enum import Enum
from typing import Any, Protocol

from aiohttp import ClientRequest, ClientTimeout, TCPConnector
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.wire.http_reply import HttpReplyReader, MalformedReply, TooLong
from rpcaccel.dataplane.event_loop import ROOM_TO_SEND, OneATurn

BYTES_A_TURN = 1 << 20
"""Bytes of a node's answer that are put together and read within one turn of the loop; a longer one takes several."""
READ_ON = 1 << 17
"""Bytes of a long answer after which its connection waits until it may read on. uvloop reads up to 256,000 bytes at
once, and goes on within one turn for as long as a node sends, 8 MB on each connection."""
_clock = time.perf_counter


class ConnectTrace(Trace):
    """How far the taking of one connection came, which decides what a failure means.

    The connector calls a trace directly, without aiohttp's signals. The methods are aiohttp's, and coroutines because
    aiohttp awaits them.
    """

    __slots__ = ("_cell", "phase", "reused")

    def __init__(self, cell: NodeCell) -> None:  # Trace's own would want a session and signals
        self._cell = cell
        self.phase = "start"
        """start, queued, dns, connect or sent (there is a socket, so bytes may leave)."""
        self.reused = False

    async def send_connection_reuseconn(self) -> None:
        self.reused = True

    async def send_connection_queued_start(self) -> None:
        self.phase = "queued"

    async def send_connection_queued_end(self) -> None:
        """Do nothing: `send_connection_create_start` or `send_connection_reuseconn` follows."""

    async def send_connection_create_start(self) -> None:
        self.phase = "connect"

    async def send_connection_create_end(self) -> None:
        """Do nothing: the connector counts the connection."""

    async def send_dns_resolvehost_start(self, host: str) -> None:  # noqa: ARG002 -- aiohttp's signature
        self._cell.dns += 1
        self.phase = "dns"

    async def send_dns_resolvehost_end(self, host: str) -> None:  # noqa: ARG002
        self.phase = "connect"

    async def send_dns_cache_hit(self, host: str) -> None:
        """Count nothing: only lookups are counted."""

    async def send_dns_cache_miss(self, host: str) -> None:
        """Count nothing: the lookup that follows is counted."""


class CountingConnector(TCPConnector):
    """A TCPConnector that counts its connections, and lets a ConnectTrace follow the taking of one."""

    def __init__(self, cell: NodeCell, **options: Any) -> None:
        super().__init__(**options)
        self._cell = cell

    async def take(self, request: ClientRequest, attempt: ConnectTrace, limits: ClientTimeout) -> Connection:
        """Take a connection of the pool, or open one. Raises what `connect` raises."""
        connection = await self.connect(request, [attempt], limits)
        # No await from here on: a connection that was made must be counted even when the caller is cancelled.
        if attempt.reused:
            self._cell.reused += 1
        else:
            self._count_new(connection, tls=request.is_ssl())
        attempt.phase = "sent"
        return connection

    def _count_new(self, connection: Connection, *, tls: bool) -> None:
        self._cell.connects += 1
        self._cell.tls += tls
        protocol, transport = connection.protocol, connection.transport
        if transport is not None and (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM_TO_SEND)
        closed = None if protocol is None else protocol.closed
        if closed is not None:
            self._cell.connections_open += 1
            self._cell.connections_idle += 1
            closed.add_done_callback(self._count_closed)

    def _count_closed(self, closed: asyncio.Future[None]) -> None:
        self._cell.connections_open -= 1
        self._cell.connections_idle -= 1
        if not closed.cancelled():
            closed.exception()  # so that asyncio does not report an exception that was never retrieved


class Owner(Protocol):
    """The client that a connection belongs to, which is called with what becomes of each request."""

    def replied(self, connection: NodeConnection, asked: Any, reply: HttpReplyReader) -> None:
        """Take the whole reply to `asked`; the connection is idle or closed."""
        ...

    def broke(self, connection: NodeConnection, asked: Any, reply: HttpReplyReader, trouble: Exception) -> None:
        """Note that no reply to `asked` will come because of a MalformedReply, of TooLong, or of a ConnectionError when
        the connection ended."""
        ...


class ConnectionState(Enum):
    """What a connection to a node is doing."""

    IDLE = "idle"
    ASKED = "asked"
    """A request was written, and its reply is not whole."""
    CLOSED = "closed"
    GIVEN_BACK = "given back"


LEGAL_CONNECTION_EVENTS: dict[ConnectionState, frozenset[str]] = {
    ConnectionState.IDLE: frozenset({"ask", "give back", "close", "data", "lost"}),
    ConnectionState.ASKED: frozenset({"close", "data", "lost"}),
    ConnectionState.CLOSED: frozenset({"ask", "close", "data", "lost"}),
    ConnectionState.GIVEN_BACK: frozenset(),
}
"""The events that are legal in each state: what a caller does, and what the transport reports. Data on an idle
connection close it, since nothing was asked; a closed connection ignores every event."""
_IDLE, _ASKED, _CLOSED, _GIVEN_BACK = ConnectionState


class NodeConnection(asyncio.Protocol):
    """A connection of aiohttp's pool while this process speaks on it: one request, its reply, the next request.

    aiohttp opens the connection, keeps it when it is idle for long, and closes it; in between, the transport reports to
    this protocol. aiohttp does not document what follows, and a test holds each part: `Connection.protocol` is the
    transport's protocol, and does nothing while nothing is reported to it; its `connection_lost` completes `closed` and
    sets `Connection.transport` to None; its `should_close` says that data came unasked, and `_tail` holds them;
    `Connection.release` keeps a connection to whose protocol nothing was reported, and `Connection.close` keeps none.
    """

    __slots__ = ("_asked", "_came", "_connection", "_early", "_most", "_owner", "_protocol", "_transport", "_turns",
                 "headed", "idle_since", "reply", "state")  # fmt: skip

    def __init__(self, connection: Connection, owner: Owner, most: int, turns: OneATurn, *, reused: bool) -> None:
        """Take over a connection that the pool gave out. Raises ConnectionResetError, and closes the connection, when
        it has ended, or when it was used before and the node has sent something since.

        Args:
            most: bytes that the body of a reply may have.
            turns: those in which connections with long replies read on, one after the other.
        """
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None or (reused and protocol.should_close):
            connection.close()
            raise ConnectionResetError
        self._early = protocol._tail
        """What the node sent on a new connection before any request; read as the reply to the first one."""
        self.state = _IDLE
        self.idle_since = 0.0
        """When the connection became idle, on the owner's clock."""
        self._connection = connection
        self._protocol = protocol
        self._transport = transport
        self._most = most
        self._owner = owner
        self._turns = turns
        self._asked: Any = None
        self._came = 0
        """Bytes of long replies that came in this connection's turn."""
        self.reply = HttpReplyReader(most)
        """What came of the reply to the last request."""
        self.headed = 0.0
        """When the head of that reply was there; 0.0: not yet."""
        transport.set_protocol(self)

    def __repr__(self) -> str:
        return f"<connection to a node, {self.state.value}>"

    @property
    def usable(self) -> bool:
        """May a request be written now?"""
        return self.state is _IDLE and not self._transport.is_closing()

    def ask(self, request: bytes, asked: object) -> bool:
        """Write a whole request; `asked` stands for it when the owner is called. False when the connection has ended:
        then nothing is written, and the owner is not called."""
        if self.state is not _IDLE:
            self._expect("ask")
            return False
        if self._transport.is_closing():
            return False
        self.state = _ASKED
        self._asked = asked
        self.reply, self.headed = HttpReplyReader(self._most, at_once=BYTES_A_TURN), 0.0
        self._transport.write(request)
        if self._early:
            asyncio.get_running_loop().call_soon(self._hear_early)
        return True

    def give_back(self) -> None:
        """Give the connection back to the pool."""
        self._expect("give back")
        self.state = _GIVEN_BACK
        self._transport.set_protocol(self._protocol)
        self._connection.release()

    def close(self) -> None:
        """Close the connection without calling the owner. What is still to be sent is dropped, since nobody waits for
        its reply, and TLS does not tell how much there is."""
        self._expect("close")
        self._asked = None
        if self.state is not _CLOSED:
            self.state = _CLOSED
            self._transport.abort()
            self._connection.close()

    def data_received(self, data: bytes) -> None:
        """Take what the node sent."""
        if self.state is not _ASKED:
            self.close()
            return
        reply, asked = self.reply, self._asked
        try:
            whole = reply.feed(data)
        except (MalformedReply, TooLong) as trouble:
            self.close()
            self._owner.broke(self, asked, reply, trouble)
            return
        if not self.headed and reply.status:
            self.headed = _clock()
        if whole:
            if (
                reply.keep and not self._transport.get_write_buffer_size()
            ):  # else the node answered an unfinished request
                self.state, self._asked = _IDLE, None
            else:
                self.close()
            self._owner.replied(self, asked, reply)
            return
        self._came += len(data)
        if self._came >= READ_ON:
            self._came = 0
            self._transport.pause_reading()
            self._turns.add(self._read_on)

    def _read_on(self) -> None:
        if self.state is _ASKED and not self._transport.is_closing():
            self._transport.resume_reading()

    def _hear_early(self) -> None:
        early, self._early = self._early, b""
        if self.state is _ASKED:
            self.data_received(early)

    def eof_received(self) -> bool:
        """Let the transport close: the node sends no more."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection ended, which may complete a reply."""
        reply, asked, was_asked = self.reply, self._asked, self.state is _ASKED
        self.state, self._asked = _CLOSED, None
        self._protocol.connection_lost(exc)
        self._connection.close()
        if not was_asked:
            return
        trouble: Exception = ConnectionResetError()
        try:
            whole = reply.end()
        except MalformedReply as error:
            whole, trouble = False, error
        if whole:
            self._owner.replied(self, asked, reply)
        else:
            self._owner.broke(self, asked, reply, trouble)

    def _expect(self, event: str) -> None:
        if event not in LEGAL_CONNECTION_EVENTS[self.state]:
            raise RuntimeError(f"{event} on a connection that is {self.state.value}")
