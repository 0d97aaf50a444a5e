"""One WebSocket of a client: its messages are calls, and its subscriptions write to it.

A message is let in, answered and counted out as the body of a POST is, by the same request handler. Its answers are
written when they land, and so may overtake one another. There is no task and no timer for a connection: callbacks tell
of bytes and answers, and `WebSocketServer` looks at all connections now and then.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import Any, Protocol, cast

from rpcaccel.config.model import HttpSettings
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call, Invalid
from rpcaccel.core.wire.websocket_frames import (
    CloseCode,
    FrameError,
    Opcode,
    WebSocketFrame,
    WebSocketReader,
    close_code,
    close_frame,
    control,
    deflate,
    text_header,
)
from rpcaccel.dataplane.engine.single_flight import Pending
from rpcaccel.dataplane.http.fast_protocol import ONE_WRITE
from rpcaccel.dataplane.http.handler import INLINE_GZIP, HttpAnswer, RequestHandler, Visit
from rpcaccel.dataplane.http.hit_path import Shortcut
from rpcaccel.dataplane.http.request_head import RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients
from rpcaccel.dataplane.live.live_session import LiveSession
from rpcaccel.dataplane.rpc.calls import Answered

TURN = 0.0005
"""Seconds for which the messages of one client may hold the loop before others get their turn."""
FAREWELL = 5.0
"""Seconds in which a client must take the close frame and answer it, before its connection is broken off."""
PINGS = 2
"""The pings that a client may leave unanswered. Half of http.websocket.ping after the last one it is given up."""
PART_OF_UNSENT = 4
"""One part in so many of http.max_unsent is what the unread answers of one client may have."""
RESTARTING = "restarting: connect again"
_PONG, _PING, _CLOSE = int(Opcode.PONG), int(Opcode.PING), int(Opcode.CLOSE)
_CALLS = frozenset({int(Opcode.TEXT), int(Opcode.BINARY)})


class SocketState(StrEnum):
    """What a WebSocket is doing."""

    OPEN = "open"
    LEAVING = "leaving"
    """The worker drains: what was read is answered, nothing more is read, then the WebSocket is closed."""
    CLOSING = "closing"
    """A close frame was sent. What the client sends is dropped, until it answers with a close frame of its own."""
    CLOSED = "closed"


_OPEN, _LEAVING, _CLOSING, _CLOSED = SocketState


class Surroundings(Protocol):
    """What the WebSockets of one worker have in common."""

    front: RequestHandler
    shortcut: Shortcut
    slow: SlowClients

    def forget(self, socket: WebSocket) -> None:
        """Note that a WebSocket is gone."""
        ...


class WebSocket(asyncio.Protocol):
    """One WebSocket. Implements Sink (dataplane.live.live_session), and what dataplane.http.slow_clients watches.

    Times are seconds of time.monotonic."""

    __slots__ = ("_around", "_broken", "_called", "_frames", "_gives_up", "_heard", "_peer", "_pings", "_reading",
                 "_reading_on", "_running", "_since", "_spoke", "_turning", "_used", "_window", "head", "holder",
                 "session", "state", "transport", "writing_paused")  # fmt: skip
    head_since = 0.0

    def __init__(self, around: Surroundings, head: RequestHead, peer: str, holder: str, window: int) -> None:
        """
        Args:
            head: the handshake's path and headers, read as those of a POST.
            peer: the connected address.
            holder: the name under which the WebSockets of one client are counted.
            window: bits of the window with which answers may be compressed; 0: the client takes none.
        """
        self._around = around
        self.head = head
        self.holder = holder
        self._peer = peer
        self._window = window
        self._frames = WebSocketReader(deflates=window > 0)
        self.session = LiveSession(self, around.front.settings.websocket.subscriptions)
        self.state = _OPEN
        self.transport: asyncio.Transport | None = None
        """None before the connection is made and after it is lost."""
        self.writing_paused = False
        """Is there more to send than the client takes?"""
        self._running: set[Pending[Answered] | asyncio.Future[bytes]] = set()
        """The messages whose answers are waited for."""
        self._reading = True
        """Is the client read from?"""
        self._reading_on = False
        """Is `_read_on` taking frames up? A call that is answered within that leaves the next one to the same loop."""
        self._turning = False
        """Are frames left for the next turn of the loop?"""
        self._broken = False
        """Did the client break the rules of the protocol? Nothing can be read of what it sends then."""
        self._since = 0.0
        """When the wait for the rest of a message began; 0: none is waited for."""
        self._heard = self._used = monotonic()
        """When the client was last heard of, and when it last had a call or a subscription."""
        self._spoke = self._called = False
        """Did the client send something, or a call, since `look` was called last?"""
        self._pings = 0
        """The pings that were sent since the client was last heard of."""
        self._gives_up = 0.0
        """When the connection is broken off; for CLOSING."""

    def __repr__(self) -> str:
        return f"<websocket of {self._peer}, {self.state.value}>"

    # -- the client -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake was answered, and the connection is handed over."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why makes no difference
        """The client left, so its subscriptions end, and the waits for its answers are cancelled."""
        self.state, self.transport = _CLOSED, None
        self._around.forget(self)
        self._around.slow.no_longer(self)
        running, self._running = self._running, set()
        for one in running:
            one.cancel()
        self.session.close()

    def data_received(self, data: bytes) -> None:
        """The client sent frames, or parts of them."""
        self._spoke = True
        if not self._broken:
            self._frames.feed(data)
            self._read_on()

    def pause_writing(self) -> None:
        """The client does not read, so nothing more is read from it. Called within the write that was too much."""
        self.writing_paused = True
        self._around.slow.waits(self, monotonic(), self._around.front.settings.max_unsent)
        self._set_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.writing_paused = False
        self._around.slow.no_longer(self)
        self._read_on()

    # -- frames ---------------------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        """Take frames up, while there is room for their answers and for as long as one client may hold the loop."""
        if self._reading_on or self.transport is None or self._broken:
            return
        self._reading_on, ends = True, monotonic() + TURN
        most = self._around.front.settings.max_body
        try:
            while self._may_read() and (frame := self._frames.next(most)) is not None:
                self._take(frame)
                if monotonic() >= ends:
                    self._turning = True
                    asyncio.get_running_loop().call_soon(self._next_turn)
                    break
        except FrameError as error:
            self._break(error)
        self._reading_on = False
        self._set_reading()
        if self.state is _LEAVING and not (self._running or self._turning or self.writing_paused):
            self._around.front.cut(self.head.route, self.session.count, "drained")
            self.close(CloseCode.RESTART, RESTARTING)

    def _break(self, error: FrameError) -> None:
        """Close the WebSocket of a client that broke the rules. It is read from until it leaves, because its system
        would drop the close frame if the connection ended with something unread."""
        self._broken = True
        self._around.front.lost("malformed-websocket")
        self.close(error.code, str(error))
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def _next_turn(self) -> None:
        self._turning = False
        self._read_on()

    def _may_read(self) -> bool:
        """May another message be taken up? Once the WebSocket is being closed, only the client's own close counts."""
        if self.state is _OPEN or self.state is _LEAVING:
            at_once = self._around.front.settings.websocket.at_once
            return not self.writing_paused and not self._turning and len(self._running) < at_once
        return self.state is _CLOSING

    def _set_reading(self) -> None:
        """Read from the client or not, and note whether the rest of a message is waited for."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        wanted = self.state is not _LEAVING and self._may_read()
        if wanted is not self._reading:
            self._reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()
        if not wanted or not self._frames.within:
            self._since = 0.0
        elif not self._since:
            self._since = monotonic()

    def _take(self, frame: WebSocketFrame) -> None:
        """Do what a frame asks for."""
        if frame.opcode in _CALLS:
            self._since = 0.0
            if self.state is not _CLOSING:
                self._called = True
                self._call(frame.payload)
        elif frame.opcode == _PING:
            if self.state is not _CLOSING:
                self._write((control(_PONG, frame.payload),))
        elif frame.opcode == _CLOSE:
            self._close_asked(frame.payload)

    def _close_asked(self, payload: bytes) -> None:
        """Answer the client's close with the same code, unless it is itself the answer to ours, and end."""
        close_code(payload)
        if self.transport is None:
            return
        if self.state is not _CLOSING:
            self._write((control(_CLOSE, payload[:2]),))
            self._give_up_within(FAREWELL)
        self.transport.close()

    # -- calls ----------------------------------------------------------------------------------------------------

    def _call(self, body: bytes) -> None:
        """Answer one message: a call or a batch."""
        front = self._around.front
        visit: Visit | None = None
        came: Answered | Pending[Answered] | HttpAnswer
        try:
            hit = self._around.shortcut.answer(self.head, body, self._peer, bare=True)
            if hit is not None:
                self._answer(None, cast("tuple[bytes, ...]", hit))
                return
            entered = front.enter(self.head, self._peer, self.session.turn())
            if isinstance(entered, HttpAnswer):
                came = entered
            else:
                visit = entered
                came = front.calls.begin(body, visit.route, visit.caller)
        except Exception:
            came = front.failed()
        if isinstance(came, Pending):
            self._running.add(came)
            came.listen(partial(self._landed, cast(Visit, visit)))
        elif isinstance(came, HttpAnswer):
            self._refuse(came, visit, body)
        else:
            self._answer(visit, came.parts)

    def _landed(self, visit: Visit, came: Pending[Answered]) -> None:
        """Write the answer that was waited for, and read on."""
        self._running.discard(came)
        try:
            parts = came.result().parts
        except asyncio.CancelledError:  # nobody will answer, so the client must not wait
            self._leave(visit)
            self.close(CloseCode.RESTART, RESTARTING)
        except Exception:
            self._refuse(self._around.front.failed(), visit)
        else:
            self._answer(visit, parts)
        self._read_on()

    def _refuse(self, refused: HttpAnswer, visit: Visit | None, body: bytes = b"") -> None:
        """Answer a message that was not let in, or that met a bug: with the id of its call, so that the client finds
        it."""
        self._leave(visit)
        if not refused.error:  # its network is gone
            self.close(CloseCode.RESTART, "the network is no longer served here")
            return
        reply = jsonrpc.error_reply(_id_in(body), refused.error)
        self._write((text_header(len(reply)), reply))

    def _answer(self, visit: Visit | None, parts: tuple[bytes, ...]) -> None:
        """Write the answer to a message, compressed where that is worth while and the client takes it. A hit, which is
        counted already, has no `visit`."""
        size = sum(map(len, parts))
        if not self._window or size < self._around.front.settings.gzip_from:
            self._finish(visit, parts, size)
        elif size < INLINE_GZIP:
            self._compressed(visit, deflate(parts, self._window))
        elif self.transport is not None:
            packing = asyncio.ensure_future(asyncio.to_thread(deflate, parts, self._window))
            self._running.add(packing)
            packing.add_done_callback(partial(self._packed, visit))
        else:
            self._leave(visit)

    def _packed(self, visit: Visit | None, packing: asyncio.Future[bytes]) -> None:
        """Write a long answer that was compressed in a thread, so that no other call waited for that."""
        self._running.discard(packing)
        if packing.cancelled():
            self._leave(visit)
        elif packing.exception() is not None:
            self._refuse(self._around.front.failed(), visit)
        else:
            self._compressed(visit, packing.result())
        self._read_on()

    def _compressed(self, visit: Visit | None, body: bytes) -> None:
        self._finish(visit, (body,), len(body), compressed=True)

    def _finish(self, visit: Visit | None, parts: tuple[bytes, ...], size: int, *, compressed: bool = False) -> None:
        """Write an answer, of no parts where there is nothing to say, count its message out, and begin what it
        subscribed to."""
        self._leave(visit)
        if parts:
            self._write((text_header(size, compressed=compressed), *parts))
        if visit is not None and visit.caller.turn is not None and self.transport is not None:
            visit.caller.turn.settle()

    def _leave(self, visit: Visit | None) -> None:
        if visit is not None:
            self._around.front.leave(visit)

    # -- writing --------------------------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """Bytes that were written and that the client has not taken yet."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def notify(self, *parts: bytes) -> bool:
        """Send one message, given in parts. False when the WebSocket is closed, or is closed now because its client
        left too much unread. Never raises."""
        if self.state is not _OPEN and self.state is not _LEAVING:
            return False
        if self.writing_paused and self._too_slow(self._around.front.settings.websocket.queue):
            return False
        return self._put((text_header(sum(map(len, parts))), *parts))

    def _write(self, parts: tuple[bytes, ...]) -> None:
        """Write an answer or a control frame. Answers that were asked for may wait for longer than notifications."""
        if self.state is _CLOSING or self.state is _CLOSED:
            return
        settings = self._around.front.settings
        if self.writing_paused and self._too_slow(max(settings.websocket.queue, settings.max_unsent // PART_OF_UNSENT)):
            return
        self._put(parts)

    def _put(self, parts: tuple[bytes, ...]) -> bool:
        transport, paused = self.transport, self.writing_paused
        if transport is None or transport.is_closing():
            return False
        if sum(map(len, parts)) <= ONE_WRITE:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)
        if paused:
            self._around.slow.grew(self, sum(map(len, parts)), monotonic(), self._around.front.settings.max_unsent)
        return True

    def _too_slow(self, most: int) -> bool:
        """Close the WebSocket when its client left more than `most` bytes unread; was it closed?"""
        unread = self.unread
        if unread <= most:
            return False
        front, count = self._around.front, self.session.count
        front.lost("slow-subscriber" if count else "slow-reader")
        front.cut(self.head.route, count, "slow")
        self.close(CloseCode.TRY_LATER, f"too slow: {unread} bytes unread")
        self._give_up_within(front.settings.write_timeout)
        return True

    def close(self, code: int, reason: str) -> None:
        """Close the WebSocket with a close code (RFC 6455 section 7.4.1) and a reason of at most 123 bytes."""
        if self.transport is None or self.state is _CLOSING:
            return
        self.transport.write(close_frame(code, reason))
        self._give_up_within(FAREWELL)
        self._set_reading()

    def _give_up_within(self, seconds: float) -> None:
        self.state, self._gives_up = _CLOSING, monotonic() + seconds

    # -- now and then ---------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Answer what was read, then close the WebSocket: the worker drains."""
        if self.state is _OPEN:
            self.state = _LEAVING
            self._read_on()

    def look(self, now: float, http: HttpSettings) -> None:
        """Ping a client that is silent; close the WebSocket when its time is over, or when it may not be there any
        longer under the settings in force."""
        if self.transport is None:
            return
        if self.state is _CLOSING:
            if now > self._gives_up:
                self.transport.abort()
            return
        if self._spoke or not self._reading:
            self._spoke, self._heard, self._pings = False, now, 0
        if self._called or self._running or self.session.count:
            self._called, self._used = False, now
        silent, settings = now - self._heard, http.websocket
        if self._since and now - self._since > http.read_timeout:
            self._around.front.lost("slow-client")
            self.close(CloseCode.POLICY, f"a message did not arrive within {http.read_timeout:g} s")
        elif self._pings >= PINGS and silent > (PINGS + 0.5) * settings.ping:
            self.close(CloseCode.INTERNAL_ERROR, "the pings are not answered")
        elif now - self._used > settings.idle:
            self.close(CloseCode.GOING_AWAY, f"nothing was called or subscribed to for {settings.idle:g} s")
        elif reason := self._around.front.outdated(self.head):
            self.close(CloseCode.RESTART if self.head.route is None else CloseCode.POLICY, reason)
        elif self._pings < PINGS and silent >= settings.ping * (self._pings + 1):
            self._pings += 1
            self._write((control(_PING),))


def _id_in(body: bytes) -> bytes:
    """The id of a single call, as the answer to it has it."""
    decoded: Any = jsonrpc.decode(body, 1)
    return (decoded.id if isinstance(decoded, Call | Invalid) else None) or b"null"
