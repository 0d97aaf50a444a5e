"""The connections of one worker: how they begin, the watch over idle and slow clients, and the end of all of them."""

from __future__ import annotations

import asyncio
from time import monotonic

from rpcaccel.core.directives import DIRECTIVE_HEADERS
from rpcaccel.core.wire import traceparent
from rpcaccel.core.wire.forwarded_for import FORWARDED_HEADERS
from rpcaccel.core.wire.websocket_handshake import Handshake
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.http.aiohttp_server import server
from rpcaccel.dataplane.http.fast_protocol import ConnectionHost, FastProtocol
from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler
from rpcaccel.dataplane.http.request_head import Named, RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients, Watched
from rpcaccel.dataplane.http.websocket import WebSocket, WebSocketHost
from rpcaccel.dataplane.rpc import access_log, response_headers
from rpcaccel.dataplane.rpc.admission import KEY_HEADERS

_LOOK_SECONDS = 1.0
"""Seconds between two looks at all connections, or a quarter of the shortest limit if that is less."""
READ_LATER = frozenset(
    {
        *(
            name.lower()
            for name in (response_headers.TIMEOUT, access_log.REQUEST_ID, traceparent.TRACEPARENT, "origin")
        ),
        *KEY_HEADERS,
        *FORWARDED_HEADERS,
        *DIRECTIVE_HEADERS,
    }
)
"""The headers of a handshake that are kept for as long as the WebSocket is open: those that say whose its messages are,
how long they may take and what their calls are named. All others are read before it opens or by nobody, and their
memory would be held for each WebSocket."""


class WebSocketServer(WebSocketHost):
    """The WebSockets of one worker: opens them, and ends all of them."""

    def __repr__(self) -> str:
        return f"<{len(self.open)} websockets>"

    def take(self, handshake: Handshake, peer: str) -> WebSocket | HttpAnswer:
        """The protocol for a connection that becomes a WebSocket, or the answer with which it is turned away."""
        kept = {name: value for name, value in handshake.headers.items() if name in READ_LATER}
        head = RequestHead(handshake.path, Named(kept))
        holder = self.front.invite(head, peer, len(self.open), self.by_holder)
        if isinstance(holder, HttpAnswer):
            return holder
        self.by_holder[holder] += 1
        socket = WebSocket(self, head, peer, holder, handshake.window)
        self.open.add(socket)
        return socket

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

    def abort(self) -> None:
        """Break off what is left."""
        for socket in list(self.open):
            if socket.transport is not None:
                socket.transport.abort()


_SENT_SECONDS = 0.02
"""Seconds between two checks, while the worker drains, whether the last answers have been sent."""
_LAST_SECONDS = 0.2
"""The last seconds of draining: WebSockets whose calls are not answered by then are told that they end."""


class Lanes(ConnectionHost):
    """All connections of one worker. A call of the object makes the protocol of a new connection."""

    def __init__(self, front: RequestHandler) -> None:
        self.websockets = WebSocketServer(front, SlowClients(self._lost))
        self._web = server(front)
        super().__init__(front, self.websockets.slow, self._web, self.websockets.take)
        self._unseen: list[FastProtocol | WebSocket] = []
        """The connections that the look under way has still to look at."""
        self._looking: asyncio.TimerHandle | None = None

    def __call__(self) -> FastProtocol:
        """Make the protocol of a new connection."""
        if self._looking is None:
            self._look()
        return FastProtocol(self)

    def __repr__(self) -> str:
        return f"<lanes {len(self.open)} connections>"

    async def drain(self, within: float) -> None:
        """Wait up to `within` seconds until requests are answered and the answers sent, then close all connections."""
        await self.websockets.leave()
        for lane in list(self.open):
            lane.close_if_idle()
        until = monotonic() + within
        await self._wait_until(until - min(_LAST_SECONDS, within / 2))
        self.websockets.dismiss()
        await self._wait_until(until)
        self.websockets.abort()
        self._web.pre_shutdown()
        await self._web.shutdown(max(until - monotonic(), 0.002) / 2)  # which it may take twice; 0 would be no limit
        while any(_unsent(lane) for lane in self.open) and monotonic() < until:  # noqa: ASYNC110 -- nobody is told
            await asyncio.sleep(_SENT_SECONDS)
        for lane in list(self.open):
            if lane.transport is not None:
                lane.transport.abort()
        if self._looking is not None:
            self._looking.cancel()

    async def _wait_until(self, until: float) -> None:
        """Wait until nothing is under way, or until this time."""
        while self._busy() and monotonic() < until:  # noqa: ASYNC110 -- nobody is told
            await asyncio.sleep(_SENT_SECONDS)

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
        """Look at some connections, as many as one may hold the loop for."""
        now, http = monotonic(), self.front.settings
        limits = http.read_timeout, http.write_timeout, http.websocket.ping, http.websocket.idle
        try:
            if not self._unseen:
                self._unseen = [*self.open, *self.websockets.open]
                self.slow.look(now, write_timeout=http.write_timeout, max_unsent=http.max_unsent)
            while self._unseen and monotonic() < now + TURN_SECONDS:
                self._unseen.pop().look(now, http)
        finally:  # a bug that one of them meets must not end the watch over the others
            every = 0.0 if self._unseen else min(_LOOK_SECONDS, min(limits) / 4)
            self._looking = asyncio.get_running_loop().call_later(every, self._look)


def _unsent(lane: FastProtocol) -> int:
    """Bytes of answers that the client of a connection has not taken yet."""
    return 0 if lane.transport is None else lane.transport.get_write_buffer_size()
