"""The writing half of a WebSocket: answers and notifications, what a client may leave unread, and the end.

Frames are written and read by our own code (core.wire.websocket_frames), because aiohttp's writer copies each
notification twice for each subscriber (3,244 bytes for one of 1,620, which are 1,624 here) in a coroutine that must be
driven beside the checks of `notify`, and its reader takes frames that are not masked, which RFC 6455 section 5.1
forbids.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from time import monotonic

from rpcaccel.core.wire.websocket_frames import CloseCode, close_frame, text_header
from rpcaccel.dataplane.http.fast_protocol import MAX_JOINED_BYTES
from rpcaccel.dataplane.http.handler import RequestHandler
from rpcaccel.dataplane.http.request_head import RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients
from rpcaccel.dataplane.live.live_session import LiveSession

FAREWELL_SECONDS = 5.0
"""Seconds in which a client must take the close frame and answer it, before its connection is broken off."""
_LINE_SECONDS = 1.0
"""Seconds between two lines in the log, at the least."""
PART_OF_UNSENT = 4
"""One part in so many of http.max_unsent is what the unread answers of one client may have."""
RESTARTING = "restarting: connect again"


class SocketState(StrEnum):
    """What a WebSocket is doing."""

    OPEN = "open"
    LEAVING = "leaving"
    """The worker drains: what was read is answered, nothing more is read, then the WebSocket is closed."""
    CLOSING = "closing"
    """A close frame was sent. What the client sends is dropped, until it answers with a close frame of its own."""
    CLOSED = "closed"


_OPEN, _LEAVING, _CLOSING, _CLOSED = SocketState


class FaultLog:
    """The lines about WebSockets that are closed through their clients' fault: one a second, at the most."""

    def __init__(self) -> None:
        self.next_line = 0.0
        """When the next line may be logged (seconds of time.monotonic)."""
        self._unlogged = 0
        """How many WebSockets were closed without a line since the last one."""

    def note(self, socket: WebSocketWriter, why: str) -> None:
        """Log why a WebSocket is closed, so that the operator finds the client."""
        now = monotonic()
        if now < self.next_line:
            self._unlogged += 1
            return
        import structlog  # noqa: PLC0415 - a worker that writes no lines does without it

        log, head = structlog.get_logger("rpcaccel.websockets"), socket.head
        network = head.place if head.route is None else head.route.network.name
        about = {"client": socket.holder, "network": network, "reason": why, "unread": socket.unread}
        log.warning("a WebSocket is closed through its client's fault", **about, more=self._unlogged)
        self.next_line, self._unlogged = now + _LINE_SECONDS, 0


class WebSocketWriter:
    """Writes to one client. Implements Sink (dataplane.live.live_session), and what dataplane.http.slow_clients
    watches. Times are seconds of time.monotonic."""

    __slots__ = ("_asked", "_faults", "_slow", "front", "gives_up", "head", "holder", "sent", "session", "state",
                 "transport", "writing_paused")  # fmt: skip

    def __init__(
        self, front: RequestHandler, slow: SlowClients, faults: FaultLog, head: RequestHead, holder: str
    ) -> None:
        """
        Args:
            head: the handshake's path and headers, read as those of a POST.
            holder: the name under which the WebSockets of one client are counted.
        """
        self.front = front
        self._slow = slow
        self._faults = faults
        self.head = head
        self.holder = holder
        limits = front.settings.websocket
        self.session = LiveSession(self, limits.subscriptions, holder, limits.queue)
        self.state = _OPEN
        self.transport: asyncio.Transport | None = None
        self.writing_paused = False
        self.sent = 0  # bytes
        self._asked = 0
        """At least the bytes of answers among what is unread."""
        self.gives_up = 0.0
        """When the connection is broken off; for CLOSING."""

    def kept_up(self) -> None:
        """Note that the client took what was written."""
        self.writing_paused, self._asked = False, 0

    @property
    def unread(self) -> int:
        """Bytes that were written and that the client has not taken yet."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def notify(self, *parts: bytes) -> bool:
        """Send one message, given in parts. False when the WebSocket is closed, or is closed now because its client
        left too much unread. Never raises."""
        if self.state is not _OPEN and self.state is not _LEAVING:
            return False
        settings = self.front.settings
        if self.writing_paused and self._too_slow(min(self._most(), settings.websocket.queue + self._asked)):
            return False
        return self._put((text_header(sum(map(len, parts))), *parts))

    def write(self, parts: tuple[bytes, ...]) -> None:
        """Write an answer or a control frame. Answers that were asked for may wait for longer than notifications, and
        do not count against these."""
        if self.state is _CLOSING or self.state is _CLOSED:
            return
        if self.writing_paused and self._too_slow(self._most()):
            return
        self._put(parts)
        if self.writing_paused:
            self._asked = min(self._asked + sum(map(len, parts)), self.unread)

    def _most(self) -> int:
        """Bytes that the client may leave unread of answers and notifications together."""
        settings = self.front.settings
        return max(settings.websocket.queue, settings.max_unsent // PART_OF_UNSENT)

    def _put(self, parts: tuple[bytes, ...]) -> bool:
        transport, paused = self.transport, self.writing_paused
        if transport is None or transport.is_closing():
            return False
        size = sum(map(len, parts))
        self.sent += size
        if size <= MAX_JOINED_BYTES:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)
        if paused:
            self._slow.grew(self, size, monotonic(), self.front.settings.max_unsent)
        return True

    def _too_slow(self, most: int) -> bool:
        """Close the WebSocket when its client left more than `most` bytes unread; was it closed?"""
        if self.unread <= most:
            return False
        self.give_up("slow-subscriber" if self.session.count else "slow-reader")
        return True

    def give_up(self, why: str) -> None:
        """Tell a client that does not keep up, and close the WebSocket; it is counted by the reason, in a word."""
        if self.transport is None or self.state is _CLOSING:
            return
        front, unread = self.front, self.unread
        front.lost(why)
        front.cut(self.head.route, self.session.count, "slow")
        self._faults.note(self, why)
        self.close(CloseCode.TRY_LATER, f"too slow: {unread} bytes unread")
        self.give_up_within(front.settings.write_timeout)

    def close(self, code: int, reason: str) -> None:
        """Close the WebSocket with a close code (RFC 6455 section 7.4.1) and a reason of at most 123 bytes."""
        if self.transport is None or self.state is _CLOSING:
            return
        self.give_up_within(FAREWELL_SECONDS)
        self._slow.leaves(self, self.front.settings.max_unsent)
        self.transport.write(close_frame(code, reason))

    def give_up_within(self, seconds: float) -> None:
        """Note that the WebSocket is being closed, and is broken off after so many seconds."""
        self.state, self.gives_up = _CLOSING, monotonic() + seconds

    def dismiss(self) -> None:
        """Close the WebSocket, whatever is under way: the worker ends."""
        if self.state is _OPEN or self.state is _LEAVING:
            self.front.cut(self.head.route, self.session.count, "drained")
            self.close(CloseCode.RESTART, RESTARTING)
