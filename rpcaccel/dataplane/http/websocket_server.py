"""The WebSockets of one worker: who may open one, how many there may be, the watch over them, and their end."""

from __future__ import annotations

import asyncio
from time import monotonic

from rpcaccel.core.wire import traceparent
from rpcaccel.core.wire.forwarded_for import FORWARDED_HEADERS
from rpcaccel.core.wire.websocket_handshake import Handshake
from rpcaccel.dataplane.event_loop import TURN
from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler
from rpcaccel.dataplane.http.hit_path import Shortcut
from rpcaccel.dataplane.http.request_head import Named, RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients
from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.http.websocket_writer import WebSocketWriter
from rpcaccel.dataplane.rpc import access_log, response_headers
from rpcaccel.dataplane.rpc.admission import KEY_HEADERS

_LOOK_EVERY = 1.0
"""Seconds between two looks at all WebSockets, or a quarter of the shortest limit if that is less."""
_LINE_EVERY = 1.0
"""Seconds between two lines in the log, at the least."""
READ_LATER = frozenset({*KEY_HEADERS, *FORWARDED_HEADERS, response_headers.TIMEOUT.lower(), access_log.HEADER.lower(),
                        traceparent.HEADER, "origin"})  # fmt: skip
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
        ends = monotonic() + TURN
        for socket in list(self.open):
            socket.leave()
            if monotonic() >= ends:
                await asyncio.sleep(0)
                ends = monotonic() + TURN

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
            while self._unseen and monotonic() < now + TURN:
                self._unseen.pop().look(now, http)
        finally:  # a bug that one of them meets must not end the watch over the others
            self._looking = asyncio.get_running_loop().call_later(0.0 if self._unseen else every, self._look)
