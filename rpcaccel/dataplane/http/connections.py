"""The connections of one worker, and what they have in common: remembered heads, the Date line, the watch over idle
and slow clients, and the end of all of them. Of WebSockets: who may open one, and how many there may be."""

from __future__ import annotations

import asyncio
import time
from time import monotonic
from typing import Any

from aiohttp import web

from rpcaccel.core.wire import traceparent
from rpcaccel.core.wire.forwarded_for import FORWARDED_HEADERS
from rpcaccel.core.wire.http_head import read_head
from rpcaccel.core.wire.websocket_handshake import Handshake
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.http.aiohttp_protocol import SharedTransport
from rpcaccel.dataplane.http.aiohttp_server import server
from rpcaccel.dataplane.http.fast_protocol import FastProtocol
from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler
from rpcaccel.dataplane.http.hit_path import Shortcut
from rpcaccel.dataplane.http.request_head import Named, RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients, Watched
from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.http.websocket_writer import WebSocketWriter
from rpcaccel.dataplane.rpc import access_log, response_headers
from rpcaccel.dataplane.rpc.admission import KEY_HEADERS
from rpcaccel.dataplane.rpc.response_headers import DateHeader

_LOOK_EVERY = 1.0
"""Seconds between two looks at all WebSockets, or a quarter of the shortest limit if that is less."""
_LINE_EVERY = 1.0
"""Seconds between two lines in the log, at the least."""
READ_LATER = frozenset(
    {
        *(
            name.lower()
            for name in (response_headers.TIMEOUT, access_log.REQUEST_ID, traceparent.TRACEPARENT, "origin")
        ),
        *KEY_HEADERS,
        *FORWARDED_HEADERS,
    }
)
"""The headers of a handshake that are kept for as long as the WebSocket is open: those that say whose its messages are,
how long they may take and what their calls are named. All others are read before it opens or by nobody, and their
memory would be held for each WebSocket."""


class WebSocketServer:
    """The WebSockets of one worker. Implements Surroundings (dataplane.http.websocket)."""

    def __init__(self, front: RequestHandler, shortcut: Shortcut, slow: SlowClients) -> None:
        self.front = front
        self.shortcut = shortcut
        self.slow = slow
        self.open: set[WebSocket] = set()
        self.partial = 0
        self._by_holder: dict[str, int] = {}
        """How many WebSockets each client has."""
        self._unseen: list[WebSocket] = []
        """The WebSockets that the look under way has still to look at."""
        self._looking: asyncio.TimerHandle | None = None
        self.next_line = 0.0
        """When the next line may be logged."""
        self._unlogged = 0
        """How many WebSockets were closed without a line since the last one."""

    def __repr__(self) -> str:
        return f"<{len(self.open)} websockets>"

    def take(self, handshake: Handshake, peer: str) -> WebSocket | HttpAnswer:
        """The protocol for a connection that becomes a WebSocket, or the answer with which it is turned away."""
        kept = {name: value for name, value in handshake.headers.items() if name in READ_LATER}
        head = RequestHead(handshake.path, Named(kept))
        holder = self.front.invite(head, peer, len(self.open), self._by_holder)
        if isinstance(holder, HttpAnswer):
            return holder
        self._by_holder[holder] = self._by_holder.get(holder, 0) + 1
        socket = WebSocket(self, head, peer, holder, handshake.window)
        self.open.add(socket)
        if self._looking is None:
            self._look()
        return socket

    def relieve(self) -> None:
        """Close the WebSocket that keeps the most of a message that did not come whole."""
        max(self.open, key=lambda socket: socket.held).refuse_parts()

    def forget(self, socket: WebSocket) -> None:
        """Note that a WebSocket is gone."""
        if socket not in self.open:
            return
        self.open.discard(socket)
        left = self._by_holder.pop(socket.holder) - 1
        if left:
            self._by_holder[socket.holder] = left

    async def leave(self) -> None:
        """Close every WebSocket once its calls are answered: the worker drains. Returns at once; `open` says which are
        left."""
        ends = monotonic() + TURN_SECONDS
        for socket in list(self.open):
            socket.leave()
            if monotonic() >= ends:
                await asyncio.sleep(0)
                ends = monotonic() + TURN_SECONDS

    def dismiss(self) -> None:
        """Close what is left although its calls are not answered: the worker ends soon."""
        for socket in list(self.open):
            socket.dismiss()

    def note(self, socket: WebSocketWriter, why: str) -> None:
        """Log that a WebSocket is closed through its client's fault: a line a second at the most, so that the operator
        finds the client."""
        now = monotonic()
        if now < self.next_line:
            self._unlogged += 1
            return
        import structlog  # noqa: PLC0415 - a worker that writes no lines does without it

        log, head = structlog.get_logger("rpcaccel.websockets"), socket.head
        network = head.place if head.route is None else head.route.network.name
        about = {"client": socket.holder, "network": network, "reason": why, "unread": socket.unread}
        log.warning("a WebSocket is closed through its client's fault", **about, more=self._unlogged)
        self.next_line, self._unlogged = now + _LINE_EVERY, 0

    def abort(self) -> None:
        """Break off what is left."""
        if self._looking is not None:
            self._looking.cancel()
        for socket in list(self.open):
            if socket.transport is not None:
                socket.transport.abort()

    def _look(self) -> None:
        """Look at some WebSockets, as many as one may hold the loop for."""
        now, http = monotonic(), self.front.settings
        every = min(_LOOK_EVERY, http.websocket.ping / 4, http.websocket.idle / 4, http.read_timeout / 4)
        if not self._unseen:
            self._unseen = list(self.open)
        try:
            while self._unseen and monotonic() < now + TURN_SECONDS:
                self._unseen.pop().look(now, http)
        finally:  # a bug that one of them meets must not end the watch over the others
            self._looking = asyncio.get_running_loop().call_later(0.0 if self._unseen else every, self._look)


_MOST_HEADS = 1024
_LONGEST_HEAD = 2048
"""Bytes of the longest head that is remembered."""
"""Seconds between two looks for idle connections, or a quarter of the read timeout if that is less."""
_SENT_EVERY = 0.02
"""Seconds between two checks, while the worker drains, whether the last answers have been sent."""
_FAREWELL = 0.2
"""The last seconds of draining: WebSockets whose calls are not answered by then are told that they end."""
_UNREAD = object()


class Lanes:
    """All connections of one worker. A call of the object makes the protocol of a new connection."""

    def __init__(self, front: RequestHandler, shortcut: Shortcut) -> None:
        self.front = front
        self.shortcut = shortcut
        self.open: set[FastProtocol] = set()
        self.slow = SlowClients(lambda: self.open, self._lost)
        self.websockets = WebSocketServer(front, shortcut, self.slow)
        self._web = server(front, begun=_begun, done=_done)
        self._heads: dict[bytes, RequestHead | None] = {}
        self.date = DateHeader()
        self._looking: asyncio.TimerHandle | None = None

    def __call__(self) -> FastProtocol:
        """Make the protocol of a new connection."""
        if self._looking is None:
            self._look()
        return FastProtocol(self)

    def __repr__(self) -> str:
        return f"<lanes {len(self.open)} connections>"

    def complete(self) -> Any:
        """Make a new protocol of aiohttp."""
        return self._web()

    def head(self, text: bytes) -> RequestHead | None:
        """Read a head, once for all requests that have the same; None when it is not that of an ordinary POST."""
        found = self._heads.get(text, _UNREAD)
        if found is not _UNREAD:
            return found  # type: ignore[return-value] # not the marker
        head = read_head(text) if len(text) <= self.front.settings.max_header else None
        read = None if head is None else RequestHead(head.path, Named(head.headers), text, head.length)
        if len(text) <= _LONGEST_HEAD:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[text] = read
        return read

    async def drain(self, within: float) -> None:
        """Wait up to `within` seconds until requests are answered and the answers sent, then close all connections."""
        if self._looking is not None:
            self._looking.cancel()
        await self.websockets.leave()
        for lane in list(self.open):
            lane.close_if_idle()
        until = time.monotonic() + within
        await self._wait_until(until - min(_FAREWELL, within / 2))
        self.websockets.dismiss()
        await self._wait_until(until)
        self.websockets.abort()
        self._web.pre_shutdown()
        await self._web.shutdown(max(within, 0.001))  # to aiohttp 0 means no limit
        while any(_unsent(lane) for lane in self.open) and time.monotonic() < until:  # noqa: ASYNC110 -- nobody is told
            await asyncio.sleep(_SENT_EVERY)
        for lane in list(self.open):
            if lane.transport is not None:
                lane.transport.abort()

    async def _wait_until(self, until: float) -> None:
        """Wait until nothing is under way, or until this time."""
        while self._busy() and time.monotonic() < until:  # noqa: ASYNC110 -- nobody is told
            await asyncio.sleep(_SENT_EVERY)

    def _busy(self) -> bool:
        """Is an answer waited for, or a WebSocket not closed yet?"""
        return bool(self.websockets.open) or any(lane.task is not None for lane in self.open)

    def _lost(self, why: str, connection: Watched) -> None:
        """Count a connection that is closed because its client is too slow; a WebSocket is told so."""
        if isinstance(connection, WebSocket):
            connection.give_up(why)
        else:
            self.front.lost(why)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        settings = self.front.settings
        for lane in list(self.open):
            lane.look(time.monotonic(), settings.keepalive, settings.read_timeout)
        every = min(_LOOK_EVERY, settings.read_timeout / 4)
        self._looking = loop.call_later(every, self._look)


def _unsent(lane: FastProtocol) -> int:
    """Bytes of answers that the client of a connection has not taken yet."""
    return 0 if lane.transport is None else lane.transport.get_write_buffer_size()


def _begun(request: web.BaseRequest) -> None:
    if isinstance(request.transport, SharedTransport):
        request.transport.lane.begun()


def _done(request: web.BaseRequest) -> None:
    if isinstance(request.transport, SharedTransport):
        request.transport.lane.back()
