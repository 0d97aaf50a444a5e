"""The connections of one worker, and what they have in common: remembered heads, the Date line, the watch over idle
and slow clients, and the end of all of them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web

from rpcaccel.core.wire.http_head import read_head
from rpcaccel.dataplane.http.aiohttp_protocol import SharedTransport
from rpcaccel.dataplane.http.aiohttp_server import server
from rpcaccel.dataplane.http.fast_protocol import FastProtocol
from rpcaccel.dataplane.http.handler import RequestHandler
from rpcaccel.dataplane.http.hit_path import Shortcut
from rpcaccel.dataplane.http.request_head import Named, RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients, Watched
from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.http.websocket_server import WebSocketServer
from rpcaccel.dataplane.rpc.response_headers import DateHeader

_MOST_HEADS = 1024
_LONGEST_HEAD = 2048
"""Bytes of the longest head that is remembered."""
_LOOK_EVERY = 1.0
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
