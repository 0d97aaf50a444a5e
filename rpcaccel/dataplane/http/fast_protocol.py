"""The fast protocol: ordinary POSTs are answered from the bytes of the socket, without an HTTP server's machinery.

It stands before aiohttp's protocol on every connection. A request that core.wire.http_head reads is answered here, and
a well-formed handshake makes the connection a WebSocket. Everything else goes, unchanged, to a protocol of aiohttp,
which is made when it is first needed. A whole request without a body is lent to aiohttp, and the connection comes back
when it is answered; any other connection is given to aiohttp for good. Both protocols ask the same request handler and
write the same bytes.

What comes behind a whole request is looked at when that has its answer, in another turn of the loop: aiohttp would
answer nothing of what came together with something malformed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from http import HTTPStatus
from time import monotonic
from typing import Any, cast

from msgspec.structs import replace

from rpcaccel.config.sections import HttpSettings
from rpcaccel.core.wire.http_head import END
from rpcaccel.core.wire.websocket_handshake import Handshake, accepted, read_handshake
from rpcaccel.dataplane.http.aiohttp_server import MAX_PART_BYTES, WITHOUT_BODY, Connection, SharedTransport
from rpcaccel.dataplane.http.handler import SERVER, HttpAnswer, RequestHandler, Visit
from rpcaccel.dataplane.http.request_head import NO_HEADERS, HeadMemo, Named, RequestHead
from rpcaccel.dataplane.http.slow_clients import SlowClients
from rpcaccel.dataplane.rpc.calls import Answered, AnswerWait
from rpcaccel.dataplane.rpc.response_headers import DateHeader

MAX_JOINED_BYTES = 16 * 1024
"""Bytes of the longest answer whose head and body are joined: one call into the socket is dearer than the copy."""
_GET = b"GET "
_BEGINNINGS = (b"POST ", *WITHOUT_BODY)
"""How a request begins whose head is waited for here. aiohttp says at once what is wrong with another one."""
_WITHOUT_BODY = re.compile(
    rb"(?:GET|HEAD|OPTIONS) (?!.*\n(?i:content-length|transfer-encoding|upgrade)[ \t]*:)", re.DOTALL
)
"""The head of a request that has no body behind it."""
_END, _LAST = "\r\n\r\n", "\r\nConnection: close\r\n\r\n"
_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class RequestState(StrEnum):
    """What a connection is doing about the requests of its client."""

    IDLE = "idle"
    """No request is under way, and nothing of the next one came."""
    HEAD = "head"
    """A part of a head came."""
    BODY = "body"
    """A whole head came, and a part of its body."""
    ASKED = "asked"
    """A whole request came, and its answer is waited for. What the client sends meanwhile is kept."""
    FULL = "full"
    """As ASKED; the client sent more than is kept, and is not read from until it has its answer."""
    LENT = "lent"
    """aiohttp answers one whole request."""
    GIVEN = "given"
    """The connection belongs to aiohttp for good."""
    CLOSED = "closed"


_IDLE, _HEAD, _BODY, _ASKED, _FULL, _LENT, _GIVEN, _CLOSED = RequestState

NEXT: dict[RequestState, dict[str, RequestState]] = {
    _IDLE: {"head": _HEAD, "body": _BODY, "whole": _IDLE, "wait": _ASKED, "lend": _LENT, "give": _GIVEN,
            "lost": _CLOSED},
    _HEAD: {"head": _HEAD, "body": _BODY, "whole": _IDLE, "lend": _LENT, "give": _GIVEN, "lost": _CLOSED},
    _BODY: {"body": _BODY, "whole": _IDLE, "give": _GIVEN, "lost": _CLOSED},
    _ASKED: {"flood": _FULL, "answered": _IDLE, "lost": _CLOSED},
    _FULL: {"flood": _FULL, "answered": _IDLE, "lost": _CLOSED},
    _LENT: {"more": _GIVEN, "flood": _LENT, "back": _IDLE, "lost": _CLOSED},
    _GIVEN: {"more": _GIVEN, "back": _GIVEN, "lost": _CLOSED},
    _CLOSED: {"answered": _CLOSED, "back": _CLOSED},
}  # fmt: skip
"""The legal events of each state, and the state that follows; any other event raises KeyError and changes nothing.

A part of a request came: "head" or "body". A request is there: "whole". Its answer must be waited for: "wait"; it is
answered: "answered", also where the client left meanwhile. The client sent more than is kept: "flood". aiohttp gets a
request: "lend" or "give"; answered one: "back". The client sent something while aiohttp had the connection: "more",
which may be a part of anything. The connection ended: "lost"."""
READING = frozenset({_IDLE, _HEAD, _BODY})
"""States in which the next request is waited for here."""
_ANSWERING = frozenset({_ASKED, _FULL})
"""States in which an answer is made or waits to be read before what came behind its request is looked at."""


class ConnectionHost:
    """What the connections of one worker have in common."""

    def __init__(
        self,
        front: RequestHandler,
        slow: SlowClients,
        complete: Callable[[], Connection],
        upgrade: Callable[[Handshake, str], asyncio.Protocol | HttpAnswer],
    ) -> None:
        """
        Args:
            complete: makes a protocol of aiohttp.
            upgrade: gives the protocol of a WebSocket, or the answer with which its handshake is turned away.
        """
        self.front = front
        self.slow = slow
        self.complete = complete
        self.upgrade = upgrade
        self.heads = HeadMemo(lambda: front.settings.max_header)
        self.date = DateHeader()
        """The Date line of answers, on the clock of time.monotonic."""
        self.open: set[FastProtocol] = set()  # without WebSockets


class FastProtocol(asyncio.Protocol):
    """One connection of a client. Implements what dataplane.http.slow_clients watches."""

    __slots__ = ("_asked", "_buffer", "_ended", "_host", "_inner", "_peer", "_touched", "_used", "_visit",
                 "body_since", "head_since", "state", "task", "transport", "writing_paused")  # fmt: skip

    def __init__(self, host: ConnectionHost) -> None:
        self._host = host
        self._peer = ""
        self.state = _IDLE
        self._buffer = b""
        """The part of a request that came, or what the client sent before it has its answer."""
        self._touched = 0.0
        """When the connection was used last (seconds of time.monotonic)."""
        self._asked: RequestHead | None = None
        """The head of the latest request: most clients send the same head again."""
        self._used = False
        """Did the hit path answer a request since `look` was called last?"""
        self._inner: Any = None  # aiohttp's protocol, once it was needed
        self._ended = False
        """Did the client say that it sends no more? That may be so in every state."""
        self.transport: asyncio.Transport | None = None
        self._visit: Visit | None = None
        """The request under way, while its answer is waited for."""
        self.task: asyncio.Future[Any] | AnswerWait | None = None
        """The wait for the answer to the request under way."""
        self.writing_paused = False
        self.head_since = 0.0
        """When the wait for the rest of a head began (seconds of time.monotonic); 0: no head is waited for."""
        self.body_since = 0.0
        """When the wait for the rest of a body began (seconds of time.monotonic); 0: no body is waited for."""

    def __repr__(self) -> str:
        return f"<connection of {self._peer}, {self.state.value}>"

    # -- the client -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected; it must send a request in time."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        self._touched = self.head_since = monotonic()
        self._host.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left, so the wait for its answer is cancelled."""
        self.state = NEXT[self.state]["lost"]
        self._host.open.discard(self)
        self._host.slow.no_longer(self)
        self.transport = None
        if self.task is not None:
            self.task.cancel()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The client sent a request, several requests, or a part of one."""
        asked, state = self._asked, self.state
        if state is _IDLE and asked is not None and len(data) == asked.whole and data.startswith(asked.text):
            self._answer(asked, data[asked.end :])
        elif state in READING:
            self._take(self._buffer + data if self._buffer else data)
        elif state is _ASKED or state is _FULL or (state is _LENT and self._buffer):
            self._hold(data)
        else:
            self.state = NEXT[state]["more"]
            if state is _GIVEN and not self.head_since and not self.body_since:
                self.head_since = monotonic()
            self._inner.data_received(data)

    def eof_received(self) -> bool:
        """The client sends no more: what it asked whole is answered, and then the connection ends.

        A client that closed its connection says the same as one that closed its sending half and waits, so the work
        for a client that left is noticed as useless only when its answer is written.
        """
        self._ended = True
        if self.state is _GIVEN or (self.state is _LENT and not self._buffer):
            return cast(bool, self._inner.eof_received())
        return self.task is not None or self.state is _ASKED or self.state is _LENT

    def pause_writing(self) -> None:
        """The client does not read, so nothing more is read from it. Called within the write that was too much."""
        self.writing_paused = True
        self._host.slow.waits(self, monotonic(), self._host.front.settings.max_unsent)
        if self._inner is not None:
            self._inner.pause_writing()
        if self.transport is not None and self.state is not _GIVEN:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.writing_paused = False
        self._host.slow.no_longer(self)
        if self._inner is not None:
            self._inner.resume_writing()
        if self.transport is not None and self.state is not _GIVEN and self.state is not _FULL:
            self.transport.resume_reading()
        if self._buffer and self.task is None and self.state in _ANSWERING:
            asyncio.get_running_loop().call_soon(self._look_behind)

    # -- a request ------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Read what came of the next request, and answer it, keep it or hand it over."""
        front = self._host.front
        end = data.find(END)
        if end < 0:
            begins = any(data.startswith(one) or one.startswith(data) for one in _BEGINNINGS)
            if not begins or len(data) > front.settings.max_header or b"\n" in data.replace(b"\r\n", b""):
                self._hand_over(data, "give")
            else:
                self._keep_part(data, "head")
            return
        end += len(END)
        if data.startswith(_GET) and (handshake := read_handshake(data[:end])) is not None:
            self._upgrade(handshake, data, end)
            return
        asked = self._host.heads.read(data[:end])
        if asked is None:
            if _WITHOUT_BODY.match(data, 0, end):
                self._hand_over(data[:end], "lend", data[end:])
            else:
                self._hand_over(data, "give")
            return
        missing = asked.whole - len(data)
        # A longer body is read by aiohttp: here each part costs a copy of those before it.
        if asked.length > (front.settings.max_body if missing <= 0 else min(MAX_PART_BYTES, front.settings.max_body)):
            self._hand_over(data, "give")
        elif missing > 0:
            self._keep_part(data, "body")
        else:
            self.state = NEXT[self.state]["whole"]
            self._buffer, self._asked = data[asked.whole :], asked
            self.head_since = self.body_since = 0.0
            self._answer(asked, data[end : asked.whole])
            if missing and self.state is _IDLE:
                self._look_later()

    def _look_later(self) -> None:
        """Look at what came behind a request in another turn of the loop: a client may have sent very many at once."""
        self.state = NEXT[self.state]["wait"]
        asyncio.get_running_loop().call_soon(self._look_behind)

    def _look_behind(self) -> None:
        """Go on with what came together with a request that is answered, once the client reads what it has got."""
        if self.writing_paused or self.task is not None or self.state not in _ANSWERING:
            return
        self.state = NEXT[self.state]["answered"]
        self._go_on(full=self.transport is not None and not self.transport.is_reading())

    def _keep_part(self, data: bytes, part: str) -> None:
        """Keep the beginning of a request until the rest comes."""
        self.state = NEXT[self.state][part]
        self._buffer = data
        if self.state is _HEAD:
            self.head_since = self.head_since or monotonic()
        else:
            self.head_since = 0.0
            self.body_since = self.body_since or monotonic()

    def _hold(self, data: bytes) -> None:
        """Keep what a client sends before it has its answer, a bounded piece of it."""
        self._buffer += data
        if self.transport is not None and len(self._buffer) > self._host.front.settings.max_header:
            self.state = NEXT[self.state]["flood"]
            self.transport.pause_reading()

    def _answer(self, asked: RequestHead, body: bytes) -> None:
        """Answer one whole request, with nothing before it and nothing behind."""
        front, transport = self._host.front, self.transport
        visit: Visit | None = None
        reply: HttpAnswer | AnswerWait | Awaitable[HttpAnswer]
        try:
            hit = front.hit(asked, body, self._peer)
            if hit is not None and transport is not None:
                if isinstance(hit, bytes):
                    transport.write(hit)
                else:
                    transport.writelines(hit)
                self._used = True
                return
            if asked.length > front.settings.max_body:
                self._hand_over(asked.text + body, "give")
                return
            entered = front.enter(asked, self._peer)
            if isinstance(entered, HttpAnswer):
                reply = entered
            else:
                visit = entered
                answered = front.calls.begin(body, visit.route, visit.caller)
                reply = front.reply(visit, answered) if isinstance(answered, Answered) else answered
        except Exception:
            reply = front.failed()
        if isinstance(reply, HttpAnswer):
            if visit is not None:
                front.leave(visit)
            self._write(reply)
            return
        assert visit is not None
        self.state = NEXT[self.state]["wait"]
        if isinstance(reply, AnswerWait):
            self.task = reply
            self._visit, reply.told = visit, self._landed
        else:
            self._visit = visit
            self._await(reply)

    def _await(self, reply: Awaitable[HttpAnswer]) -> None:
        """Wait for an answer that a coroutine makes. A callback tells its end: a task that is cancelled before its
        first turn runs nothing."""
        self.task = asyncio.ensure_future(reply)
        self.task.add_done_callback(self._made)

    def _made(self, made: asyncio.Future[HttpAnswer]) -> None:
        error = asyncio.CancelledError() if made.cancelled() else made.exception()
        self._landed(error or made.result())

    def _landed(self, found: Answered | HttpAnswer | BaseException) -> None:
        """Write the answer that was waited for, and go on with what the client sent meanwhile."""
        front, visit = self._host.front, self._visit
        assert visit is not None
        reply: HttpAnswer | Awaitable[HttpAnswer] | None = None
        try:
            if isinstance(found, Answered):
                reply = front.reply(visit, found)
            elif isinstance(found, HttpAnswer):
                reply = found
            elif not isinstance(found, asyncio.CancelledError):
                reply = front.failed()
        except Exception:
            reply = front.failed()
        if reply is not None and not isinstance(reply, HttpAnswer):
            self._await(reply)
            return
        self._visit = None
        front.leave(visit)
        full, self.task, self.state = self.state is _FULL, None, NEXT[self.state]["answered"]
        if reply is not None:
            self._write(reply)
            if self._buffer and self.writing_paused:
                self.state = NEXT[self.state]["wait"]
            elif self._buffer or self._ended:
                self._go_on(full=full)
        elif self.transport is not None:  # nobody will answer, so the client must not wait
            self.transport.close()

    def _go_on(self, *, full: bool) -> None:
        """Take what the client sent before it had its answer; end the connection when it sends no more."""
        held, self._buffer = self._buffer, b""
        if self.transport is None or self.transport.is_closing():
            return
        if full and not self.writing_paused:
            self.transport.resume_reading()
        if held:
            self._take(held)
        if self._ended and self.state in READING:
            self.transport.close()

    def _write(self, reply: HttpAnswer) -> None:
        """Write an answer, with the header lines that depend on the moment."""
        transport, date = self.transport, self._host.date
        if transport is None or transport.is_closing():
            return
        now = self._touched = monotonic()
        if now >= date.until:
            date.turn(now)
        size, end = sum(map(len, reply.parts)), _LAST if reply.close else _END
        lines = f"{_STATUS[reply.status]}{reply.headers}Content-Length: {size}{date.text}{end}"
        head = lines.encode("latin-1")
        if size <= MAX_JOINED_BYTES:
            transport.write(b"".join((head, *reply.parts)))
        else:
            transport.writelines((head, *reply.parts))
        if reply.close:
            transport.close()

    def _upgrade(self, handshake: Handshake, data: bytes, end: int) -> None:
        """Make the connection a WebSocket, or turn it away; the head of the handshake is `data` up to `end`."""
        transport, paused, front = self.transport, self.writing_paused, self._host.front
        if transport is None:
            return
        if self._ended:
            transport.close()
            return
        taken: asyncio.Protocol | HttpAnswer
        if end > front.settings.max_header:
            taken = front.header_too_large(Named(handshake.headers))
        else:
            taken = self._host.upgrade(handshake, self._peer)
        if isinstance(taken, HttpAnswer):
            self.state, self._buffer, self.head_since = NEXT[self.state]["whole"], b"", 0.0
            self._write(replace(taken, close=True))
            return
        self.connection_lost(None)  # from here on it is another protocol's
        transport.set_protocol(taken)
        taken.connection_made(transport)
        transport.write(accepted(handshake, SERVER))
        if paused:
            taken.pause_writing()
        if len(data) > end:
            taken.data_received(data[end:])

    # -- aiohttp --------------------------------------------------------------------------------------------------

    def _hand_over(self, data: bytes, event: str, behind: bytes = b"") -> None:
        """Let aiohttp read what came of a request: "lend" the connection, or "give" it away. `behind`: what is kept
        until the answer is written."""
        if self.transport is None:
            return
        self.state = NEXT[self.state][event]
        self._buffer = behind
        self.head_since, self.body_since = monotonic(), 0.0
        if self._inner is None:
            inner = self._inner = self._host.complete()
            inner.begun, inner.back = self.begun, self.back
            inner.connection_made(cast(asyncio.Transport, SharedTransport(self.transport, self.inner_closes)))
            if self.writing_paused:
                self._inner.pause_writing()
        self._inner.data_received(data)
        if self._ended and not behind and not self._inner.eof_received():
            self.transport.close()

    def begun(self) -> None:
        """aiohttp has a whole head."""
        self.head_since, self.body_since = 0.0, monotonic()

    def back(self) -> None:
        """aiohttp has answered a request."""
        self.state = NEXT[self.state]["back"]
        self.body_since = 0.0
        self._touched = monotonic()
        if self._buffer and self.state is _IDLE:
            self._look_later()

    def inner_closes(self) -> None:
        """aiohttp wants to close. While it has no request it may close only itself: the connection may be in use."""
        if self.transport is None:
            return
        if self.state is _LENT or self.state is _GIVEN:
            self.transport.close()
        elif self._inner is not None:
            asyncio.get_running_loop().call_soon(self._inner.connection_lost, None)
            self._inner = None

    def look(self, now: float, http: HttpSettings) -> None:
        """Close the connection when it has been idle, or sending a head, for too long; refuse a request whose body does
        not come."""
        if self._used:
            self._used, self._touched = False, now
        if self.transport is None:
            return
        if self.head_since and now - self.head_since > http.read_timeout:
            self._host.front.lost("slow-head")
            self.transport.abort()
        elif self.state not in READING:
            return
        elif self.body_since and now - self.body_since > http.read_timeout:
            self.body_since = 0.0
            self._write(self._host.front.too_slow(NO_HEADERS))
        elif self.state is _IDLE and not self.head_since and now - self._touched > http.keepalive:
            self.transport.close()

    def close_if_idle(self) -> None:
        """Close the connection if no request is under way, because the worker drains."""
        if self.transport is not None and self.state in READING:
            self.transport.close()
