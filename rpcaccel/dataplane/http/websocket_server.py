"""The WebSockets of one worker: who may open one, how many there may be, the watch over them, and their end."""

from __future__ import annotations

import asyncio
from time import monotonic

from rpcaccel.core.wire.websocket_handshake import Handshake
from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler
from rpcaccel.dataplane.http.hit_path import Shortcut
from rpcaccel.dataplane.http.request_head import Named, RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients
from rpcaccel.dataplane.http.websocket import TURN, WebSocket

_LOOK_EVERY = 1.0
"""Seconds between two looks at all WebSockets, or a quarter of the shortest limit if that is less."""
_NEEDLESS = ("sec-websocket-", "cookie", "accept")
"""The beginnings of the names of headers that nobody reads once the WebSocket is open. Accept-Encoding is about HTTP
answers: messages are compressed as the handshake says."""


class WebSocketServer:
    """The WebSockets of one worker. Implements Surroundings (dataplane.http.websocket)."""

    def __init__(self, front: RequestHandler, shortcut: Shortcut, slow: SlowClients) -> None:
        self.front = front
        self.shortcut = shortcut
        self.slow = slow
        self.open: set[WebSocket] = set()
        self._by_holder: dict[str, int] = {}
        """How many WebSockets each client has."""
        self._unseen: list[WebSocket] = []
        """The WebSockets that the look under way has still to look at."""
        self._looking: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<{len(self.open)} websockets>"

    def take(self, handshake: Handshake, peer: str) -> WebSocket | HttpAnswer:
        """The protocol for a connection that becomes a WebSocket, or the answer with which it is turned away."""
        kept = {name: value for name, value in handshake.headers.items() if not name.startswith(_NEEDLESS)}
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
        if not self._unseen:
            self._unseen = list(self.open)
        while self._unseen and monotonic() < now + TURN:
            self._unseen.pop().look(now, http)
        every = min(_LOOK_EVERY, http.websocket.ping / 4, http.websocket.idle / 4, http.read_timeout / 4)
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(0.0 if self._unseen else every, self._look)
