"""One WebSocket of a client: its messages are calls, and its subscriptions write to it.

A message is let in, answered and counted out as the body of a POST is, by the same request handler. Its answers are
written when they land, and so may overtake one another. There is no task and no timer for a connection: callbacks tell
of bytes and answers, and `Lanes` looks at all connections now and then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from time import monotonic
from typing import cast

from rpcaccel.config.sections import HttpSettings
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.websocket_frames import (
    CloseCode,
    FrameError,
    Opcode,
    WebSocketFrame,
    WebSocketReader,
    close_code,
    control,
    deflate,
    text_header,
)
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.http.handler import MAX_INLINE_GZIP_BYTES, HttpAnswer, RequestHandler, Visit
from rpcaccel.dataplane.http.request_head import RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients
from rpcaccel.dataplane.http.websocket_silence import Silence, Silent
from rpcaccel.dataplane.http.websocket_writer import (
    FAREWELL_SECONDS,
    RESTARTING,
    FaultLog,
    SocketState,
    WebSocketWriter,
)
from rpcaccel.dataplane.rpc.calls import Answered, AnswerWait

TOO_MANY_PARTS = "too many messages are under way here in parts: try again"
MAX_KEPT_BYTES = 64 * 1024
"""Bytes of the longest message that is kept until it is answered, for the id of its call. A longer one is told a bug of
the proxy without an id."""
_OPEN, _LEAVING, _CLOSING, _CLOSED = SocketState
_PONG, _PING, _CLOSE = int(Opcode.PONG), int(Opcode.PING), int(Opcode.CLOSE)
_CALLS = frozenset({int(Opcode.TEXT), int(Opcode.BINARY)})


class WebSocketHost:
    """What the WebSockets of one worker have in common."""

    def __init__(self, front: RequestHandler, slow: SlowClients) -> None:
        self.front = front
        self.slow = slow
        self.open: set[WebSocket] = set()
        self.by_holder: Counter[str] = Counter()
        """How many WebSockets each client has."""
        self.partial = 0
        """Bytes that are kept of messages that did not come whole, of all WebSockets together."""
        self.faults = FaultLog()

    def relieve(self) -> None:
        """Close the WebSocket that keeps the most of a message that did not come whole."""
        max(self.open, key=lambda socket: socket.held).refuse_parts()

    def forget(self, socket: WebSocket) -> None:
        """Note that a WebSocket is gone."""
        if socket in self.open:
            self.open.discard(socket)
            left = self.by_holder.pop(socket.holder) - 1
            if left:
                self.by_holder[socket.holder] = left


class WebSocket(WebSocketWriter, asyncio.Protocol):
    """One WebSocket. Times are seconds of time.monotonic.

    A client that closes its sending half of the connection without a close frame has left (RFC 6455 section 7.1.5, code
    1006): what it asked for is not answered, unlike over POST, where that is how some clients end their request."""

    __slots__ = ("_broken", "_frames", "_host", "_parked", "_peer", "_reading", "_reading_on", "_running",
                 "_silence", "_since", "_taken", "_turning", "_window", "held")  # fmt: skip

    def __init__(self, host: WebSocketHost, head: RequestHead, peer: str, holder: str, window: int) -> None:
        """
        Args:
            head: the handshake's path and headers, read as those of a POST.
            peer: the connected address.
            holder: the name under which the WebSockets of one client are counted.
            window: bits of the window with which answers may be compressed; 0: the client takes none.
        """
        super().__init__(host.front, host.slow, host.faults, head, holder)
        self._host = host
        self._peer = peer
        self._window = window
        self._frames = WebSocketReader(deflates=window > 0)
        self._running: set[AnswerWait | asyncio.Future[bytes]] = set()
        self._reading = True
        self._reading_on = False
        """Is `_read_on` taking frames up? A call that is answered within that leaves the next one to the same loop."""
        self._turning = False
        self._broken = False
        """Did the client break the rules of the protocol? Nothing can be read of what it sends then."""
        self._since = 0.0
        """When the wait for the rest of a message began; 0: none is waited for."""
        self._parked: WebSocketFrame | None = None
        """A message that waits for room, so that the control frames behind it can be read."""
        self._silence = Silence(monotonic())
        self.held = 0
        """Bytes that are kept of what the client sent and that was not taken up, as of the last look at them."""
        self._taken = 0
        """Bytes that the client had taken when `look` was called last."""

    def __repr__(self) -> str:
        return f"<websocket of {self._peer}, {self.state.value}>"

    # -- the client -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake was answered, and the connection is handed over."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why makes no difference
        """The client left, so its subscriptions end, and the waits for its answers are cancelled."""
        self.state, self.transport, self._frames = _CLOSED, None, WebSocketReader()
        self._weigh()
        self._host.forget(self)
        self._slow.no_longer(self)
        running, self._running = self._running, set()
        for one in running:
            one.cancel()
        self.session.close()

    def data_received(self, data: bytes) -> None:
        """The client sent frames, or parts of them."""
        self._silence.spoke = True
        if not self._broken:
            self._frames.feed(data)
            self._read_on()
            if self._host.partial > self.front.settings.max_unsent:
                self._host.relieve()

    def pause_writing(self) -> None:
        """The client does not read, so nothing more is read from it. Called within the write that was too much."""
        self.writing_paused = True
        if self.state is not _CLOSING:
            self._slow.waits(self, monotonic(), self.front.settings.max_unsent, timed=False)
        self._set_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.kept_up()
        self._slow.no_longer(self)
        self._read_on()

    # -- frames ---------------------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        """Take frames up, while there is room for their answers and for as long as one client may hold the loop."""
        if self._reading_on or self.transport is None or self._broken:
            return
        self._reading_on, ends = True, monotonic() + TURN_SECONDS
        most = self.front.settings.max_body
        try:
            if self._parked is not None and self._room() and not self.writing_paused:
                parked, self._parked = self._parked, None
                self._take(parked)
            while self._may_read() and (frame := self._frames.next(most)) is not None:
                late = monotonic() >= ends  # a large message was unmasked: its call has a turn of its own
                if late and self._parked is None and frame.opcode in _CALLS:
                    self._parked = frame
                else:
                    self._take(frame)
                if late or monotonic() >= ends:
                    self._turning = True
                    asyncio.get_running_loop().call_soon(self._next_turn)
                    break
        except FrameError as error:
            self._break(error, "malformed-websocket")
        self._reading_on = False
        if self._frames.held != self.held:
            self._weigh()
        self._set_reading()
        if self.state is _LEAVING and not (self._running or self._turning or self.writing_paused):
            self.dismiss()

    def _weigh(self) -> None:
        """Count what is kept of messages that did not come whole."""
        held = self._frames.held
        self._host.partial += held - self.held
        self.held = held

    def _break(self, error: FrameError, why: str) -> None:
        """Close the WebSocket of a client that broke the rules, and drop what it sent. It is read from until it leaves,
        because its system would drop the close frame if the connection ended with something unread."""
        self._broken, self._frames = True, WebSocketReader()
        self._weigh()
        self.front.lost(why)
        self._faults.note(self, str(error))
        self.close(error.code, str(error))
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def refuse_parts(self) -> None:
        """Close the WebSocket, because all clients together sent too much of messages that did not come whole."""
        self._break(FrameError(CloseCode.TRY_LATER, TOO_MANY_PARTS), "partial-too-much")

    def _next_turn(self) -> None:
        self._turning = False
        self._read_on()

    def _may_read(self) -> bool:
        """May another frame be taken up? Where there is no room for one more answer, one message may be, and control
        frames behind it. Once the WebSocket is being closed, only the client's own close counts."""
        if self.state is _OPEN or self.state is _LEAVING:
            if self.writing_paused or self._turning:
                return False
            return self._parked is None or not self._frames.data_next or self._room()
        return self.state is _CLOSING

    def _room(self) -> bool:
        """May one more message be answered now?"""
        return len(self._running) < self.front.settings.websocket.at_once

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
        if not wanted or not self.held:
            self._since = 0.0
        elif not self._since:
            self._since = monotonic()

    def _take(self, frame: WebSocketFrame) -> None:
        """Do what a frame asks for."""
        if frame.opcode in _CALLS:
            self._since = 0.0
            if self.state is _CLOSING:
                return
            if self._room():
                self._silence.called = True
                self._call(frame.payload)
            else:
                self._parked = frame
        elif frame.opcode == _PING:
            if self.state is not _CLOSING:
                self.write((control(_PONG, frame.payload),))
        elif frame.opcode == _CLOSE:
            self._close_asked(frame.payload)

    def _close_asked(self, payload: bytes) -> None:
        """Answer the client's close with the same code, unless it is itself the answer to ours, and end."""
        close_code(payload)
        if self.transport is None:
            return
        if self.state is not _CLOSING:
            self.write((control(_CLOSE, payload[:2]),))
            self.give_up_within(FAREWELL_SECONDS)
        self.transport.close()

    # -- calls ----------------------------------------------------------------------------------------------------

    def _call(self, body: bytes) -> None:
        """Answer one message: a call or a batch."""
        front = self.front
        visit: Visit | None = None
        came: Answered | AnswerWait | HttpAnswer
        try:
            hit = front.hit(self.head, body, self._peer, bare=True)
            if hit is not None:
                self._answer(None, cast("tuple[bytes, ...]", hit), body)
                return
            entered = front.enter(self.head, self._peer, self.session.turn())
            if isinstance(entered, HttpAnswer):
                came = entered
            else:
                visit = entered
                came = front.calls.begin(body, visit.route, visit.caller)
        except Exception:
            came = front.failed()
        if isinstance(came, AnswerWait):
            self._running.add(came)
            kept = body if len(body) <= MAX_KEPT_BYTES else b""
            came.told = partial(self._landed, cast(Visit, visit), kept, came)
        elif isinstance(came, HttpAnswer):
            self._refuse(came, visit, body)
        else:
            self._answer(visit, came.parts, body)

    def _landed(self, visit: Visit, body: bytes, wait: AnswerWait, answered: Answered | BaseException) -> None:
        """Write the answer that was waited for, and read on."""
        self._running.discard(wait)
        if isinstance(answered, Answered):
            self._answer(visit, answered.parts, body)
        elif isinstance(answered, asyncio.CancelledError):  # nobody will answer, so the client must not wait
            self._leave(visit)
            self.close(CloseCode.RESTART, RESTARTING)
        else:
            self._refuse(self.front.failed(), visit, body)
        self._read_on()

    def _refuse(self, refused: HttpAnswer, visit: Visit | None, body: bytes) -> None:
        """Answer a message that was not let in, or that met a bug: with the id of its call, so that the client finds
        it. What it subscribed to ends."""
        self._leave(visit)
        if visit is not None and visit.caller.turn is not None:
            visit.caller.turn.drop()
        if not refused.error:  # its network is gone
            self.close(CloseCode.RESTART, "the network is no longer served here")
            return
        reply = jsonrpc.error_reply(jsonrpc.id_of(body), refused.error)
        self.write((text_header(len(reply)), reply))

    def _answer(self, visit: Visit | None, parts: tuple[bytes, ...], body: bytes) -> None:
        """Write the answer to a message, compressed where that is worth while and the client takes it. A hit, which is
        counted already, has no `visit`."""
        size = sum(map(len, parts))
        if not (size and self._window) or size < self.front.settings.gzip_from:
            self._finish(visit, parts, size)
        elif size < MAX_INLINE_GZIP_BYTES:
            self._compressed(visit, deflate(parts, self._window))
        elif self.transport is not None:
            packing = asyncio.ensure_future(asyncio.to_thread(deflate, parts, self._window))
            self._running.add(packing)
            packing.add_done_callback(partial(self._packed, visit, body))
        else:
            self._leave(visit)

    def _packed(self, visit: Visit | None, body: bytes, packing: asyncio.Future[bytes]) -> None:
        """Write a long answer that was compressed in a thread, so that no other call waited for that."""
        self._running.discard(packing)
        if packing.cancelled():
            self._leave(visit)
        elif packing.exception() is not None:
            self._refuse(self.front.failed(), visit, body)
        else:
            self._compressed(visit, packing.result())
        self._read_on()

    def _compressed(self, visit: Visit | None, body: bytes) -> None:
        self._finish(visit, (body,), len(body), compressed=True)

    def _finish(self, visit: Visit | None, parts: tuple[bytes, ...], size: int, *, compressed: bool = False) -> None:
        """Write an answer, of no parts where there is nothing to say, count its message out, and begin what it
        subscribed to."""
        if visit is not None:
            self._leave(visit)
        if parts:
            self.write((text_header(size, compressed=compressed), *parts))
        if visit is not None and visit.caller.turn is not None and self.transport is not None:
            visit.caller.turn.settle()

    def _leave(self, visit: Visit | None) -> None:
        if visit is not None:
            self.front.leave(visit)

    def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and read on for the client's answer to that."""
        super().close(code, reason)
        self._set_reading()

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
            if now > self.gives_up:
                self.transport.abort()
            return
        settings, front, paused = http.websocket, self.front, self.writing_paused
        self.session.most = settings.subscriptions
        taken, before = self.sent - self.unread, self._taken
        self._taken = taken
        there = taken > before if paused else not self._reading
        busy = bool(self._running or self.session.count)
        silent = self._silence.look(now, settings, there=there, busy=busy)
        if self._since and now - self._since > http.read_timeout:
            front.lost("slow-client")
            self._faults.note(self, "slow-client")
            self.close(CloseCode.POLICY, f"a message did not arrive within {http.read_timeout:g} s")
        elif silent is Silent.GONE and paused:
            self.give_up("slow-subscriber" if self.session.count else "slow-reader")
        elif silent is Silent.GONE:
            self.close(CloseCode.INTERNAL_ERROR, "the pings are not answered")
        elif silent is Silent.IDLE:
            self.close(CloseCode.GOING_AWAY, f"nothing was called or subscribed to for {settings.idle:g} s")
        elif reason := front.outdated(self.head):
            self.close(CloseCode.RESTART if self.head.route is None else CloseCode.POLICY, reason)
        elif silent is Silent.PING:
            self.write((control(_PING),))
