"""The short lane: ordinary POSTs are answered from the bytes of the socket, without an HTTP server's machinery.

Stands before aiohttp's protocol on every connection. A request that core.wire.http_head reads, whole and alone in the
buffer, is answered here. Everything else goes, unchanged, to a protocol of `server`, made when it is first needed; when
such a request was whole and has been answered, the connection comes back to this lane, else it stays there for good.
Both lanes ask the same front and write the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, Protocol, cast

from rpcaccel.core.wire.http_head import END, HttpHead
from rpcaccel.dataplane.engine.single_flight import Pending
from rpcaccel.dataplane.http.aiohttp_protocol import SharedTransport
from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler, Visit
from rpcaccel.dataplane.http.hit_path import Named, RequestHead, Shortcut
from rpcaccel.dataplane.http.slow_clients import SlowClients

ONE_WRITE = 16 * 1024
"""Bytes. Head and body up to this size are joined: one call into the socket is dearer than the copy."""
LONGEST_PART = 64 * 1024
"""Bytes. A longer body that comes in parts is for the other lane: here each part costs a copy of those before it."""
_WITHOUT_BODY = (b"GET ", b"HEAD ", b"OPTIONS ")
_END, _LAST = "\r\n\r\n", "\r\nConnection: close\r\n\r\n"
_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class Yard(Protocol):
    """What the connections of one worker have in common."""

    front: RequestHandler
    shortcut: Shortcut
    slow: SlowClients
    open: set[FastProtocol]
    """Every connection there is."""

    def complete(self) -> Any:
        """A new protocol of the complete lane."""
        ...

    def head(self, text: bytes) -> RequestHead | None:
        """The head of an ordinary POST; None when it is no such head."""
        ...

    def date(self, now: float) -> str:
        """The Date line of this second (monotonic seconds), its line break in front."""
        ...


class FastProtocol(asyncio.Protocol):
    """One connection. Also what dataplane.http.slow_clients watches."""

    __slots__ = ("_buffer", "_ended", "_full", "_inner", "_last", "_owed", "_peer", "_stays", "_touched", "_used",
                 "_yard", "body_since", "head_since", "task", "transport", "writing_paused")  # fmt: skip

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._peer = ""
        self._buffer = b""
        self._touched = 0.0
        self._last: RequestHead | None = None
        """The head of the request answered last: the next one's is mostly the same. None unless it may be answered
        here, with nothing under way and nothing kept."""
        self._used = False
        """Was a request answered since it was looked at last?"""
        self._inner: Any = None
        self._full = False
        """Does the client send more than is kept while it waits? Nothing more is taken from it until then."""
        self._ended = False
        """Has the client said that it sends no more?"""
        self._owed = False
        """Has the other lane one whole request of ours to answer?"""
        self._stays = False
        """Does the connection belong to the other lane for good?"""
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Future[Any] | Pending[Any] | None = None
        """Waits for the answer to the request under way."""
        self.writing_paused = False
        """Is there more to send than the client takes?"""
        self.head_since = 0.0
        """When the head that is not complete yet began to be waited for, in the loop's seconds; 0: none is."""
        self.body_since = 0.0
        """The same of a body."""

    def __repr__(self) -> str:
        return f"<lane {self._peer} {'complete' if self._stays or self._owed else 'short'}{' busy' * bool(self.task)}>"

    # -- the client -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected: it is to say what it wants."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        self._touched = self.head_since = monotonic()
        self._yard.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left: what it alone waited for is given up."""
        self._yard.open.discard(self)
        self._yard.slow.no_longer(self)
        self.transport = None
        if self.task is not None:
            self.task.cancel()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request, or of several, or of a part of one."""
        last, self._last = self._last, None
        if last is not None and len(data) == last.whole and data.startswith(last.text):
            self._answer(last, data[last.end :])
            return
        if self._stays or self._owed:
            if self._owed:  # what comes while an answer is owed may be a part of anything
                self._owed, self._stays = False, True
            elif not self.head_since and not self.body_since:
                self.head_since = monotonic()
            self._inner.data_received(data)
        elif self.task is not None:
            self._hold(data)
        else:
            self._take(self._buffer + data if self._buffer else data)

    def eof_received(self) -> bool:
        """The client sends no more: what it asked whole is answered, and then the connection ends.

        A client that closed its connection says the same as one that closed its sending half and waits, so the work
        for a client that left is noticed as useless only when its answer is written.
        """
        self._ended = True
        if self._owed or self._stays:
            return cast(bool, self._inner.eof_received())
        return self.task is not None

    def pause_writing(self) -> None:
        """The client does not read: nothing more is taken from it. Told of within the write that was too much."""
        self.writing_paused = True
        self._yard.slow.waits(self, monotonic(), self._yard.front.settings.max_unsent)
        if self._inner is not None:
            self._inner.pause_writing()
        if self.transport is not None and not self._stays:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        self.writing_paused = False
        self._yard.slow.no_longer(self)
        if self._inner is not None:
            self._inner.resume_writing()
        if self.transport is not None and not self._stays and not self._full:
            self.transport.resume_reading()

    # -- a request ------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        front = self._yard.front
        end = data.find(END)
        if end < 0:
            if len(data) > front.settings.max_header or b"\n" in data.replace(b"\r\n", b""):
                self._hand_over(data)
            else:
                self._keep_part(data, head=True)
            return
        end += len(END)
        asked = self._yard.head(data[:end])
        if asked is None:
            self._hand_over(data, whole=len(data) == end and data.startswith(_WITHOUT_BODY))
            return
        missing = asked.whole - len(data)
        if missing < 0 or (missing and asked.length > min(LONGEST_PART, front.settings.max_body)):
            self._hand_over(data)
        elif missing:
            self._keep_part(data, head=False)
        else:
            self._buffer = b""
            self.head_since = self.body_since = 0.0
            self._answer(asked, data[end:])

    def _keep_part(self, data: bytes, *, head: bool) -> None:
        """Keep the beginning of a request until the rest comes."""
        self._buffer = data
        if head:
            self.head_since = self.head_since or monotonic()
        else:
            self.head_since = 0.0
            self.body_since = self.body_since or monotonic()

    def _hold(self, data: bytes) -> None:
        """Keep what a client sends before it has its answer, a bounded piece of it."""
        self._buffer += data
        if self.transport is not None and len(self._buffer) > self._yard.front.settings.max_header:
            self._full = True
            self.transport.pause_reading()

    def _answer(self, asked: RequestHead, body: bytes) -> None:
        """Answer one whole request, with nothing before it and nothing behind."""
        yard, transport = self._yard, self.transport
        front = yard.front
        visit: Visit | HttpAnswer | None = None
        try:
            answer = yard.shortcut.answer(asked, body, self._peer)
            if answer is not None and transport is not None:
                if isinstance(answer, bytes):
                    transport.write(answer)
                else:
                    transport.writelines(answer)
                self._last, self._used = asked, True
                return
            if asked.length > front.settings.max_body:
                self._hand_over(asked.text + body)
                return
            visit = front.enter(asked.path, asked.headers, self._peer)
            reply = visit if isinstance(visit, HttpAnswer) else front.answer(visit, body)
        except Exception:
            reply = front.failed()
        if not isinstance(reply, HttpAnswer):
            self._end_with(cast(Visit, visit), reply)
            return
        if isinstance(visit, Visit):
            front.leave(visit)
        self._write(reply)
        self._last = asked

    def _end_with(self, visit: Visit, reply: HttpAnswer | Pending[Any] | Awaitable[HttpAnswer]) -> None:
        """Write the reply, or see to it that it is written once it is there."""
        if isinstance(reply, HttpAnswer):
            self._left(visit)
            self._write(reply)
        elif isinstance(reply, Pending):
            self.task = reply
            reply.listen(partial(self._landed, visit))
        else:
            # Told by a callback: a task that is cancelled before its first turn tells nobody itself.
            self.task = asyncio.ensure_future(reply)
            self.task.add_done_callback(partial(self._landed, visit))

    def _landed(self, visit: Visit, came: Pending[Any] | asyncio.Future[Any]) -> None:
        try:
            reply = came.result()
        except asyncio.CancelledError:
            self._left(visit)
            return
        except Exception:
            reply = self._yard.front.failed()
        self._end_with(visit, reply)
        if self.task is None:
            self._go_on()

    def _left(self, visit: Visit) -> None:
        self._yard.front.leave(visit)
        self.task = None

    def _go_on(self) -> None:
        """The answer is on its way: what came meanwhile is the next request."""
        held, self._buffer = self._buffer, b""
        full, self._full = self._full, False
        if self.transport is None or self.transport.is_closing():
            return
        if full and not self.writing_paused:
            self.transport.resume_reading()
        if held:
            self._take(held)
        if self._ended and self.task is None and not (self._owed or self._stays):
            self.transport.close()

    def _write(self, reply: HttpAnswer) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        now = self._touched = monotonic()
        body, end = reply.body, _LAST if reply.close else _END
        size = reply.size if reply.shared else len(body)
        lines = f"{_STATUS[reply.status]}{reply.headers}Content-Length: {size}{self._yard.date(now)}{end}"
        head = lines.encode("latin-1")
        if size <= ONE_WRITE:
            transport.write(head + body)
        else:
            transport.writelines((head, body, *reply.shared))
        if reply.close:
            transport.close()

    # -- the other lane -------------------------------------------------------------------------------------------

    def _hand_over(self, data: bytes, *, whole: bool = False) -> None:
        if self.transport is None:
            return
        self._buffer = b""
        self._owed, self._stays = whole, not whole
        self.head_since, self.body_since = monotonic(), 0.0
        if self._inner is None:
            self._inner = self._yard.complete()
            self._inner.connection_made(SharedTransport(self, self.transport))
        self._inner.data_received(data)
        if self._ended and not self._inner.eof_received():
            self.transport.close()

    def begun(self) -> None:
        """The other lane has a whole head."""
        self.head_since, self.body_since = 0.0, monotonic()

    def back(self) -> None:
        """The other lane has answered a request."""
        self._owed = False
        self.body_since = 0.0
        self._touched = monotonic()

    def inner_closes(self) -> None:
        """The other lane wants to close. Idle, it means only itself: this lane may be in use."""
        if self.transport is None:
            return
        if self._owed or self._stays:
            self.transport.close()
        elif self._inner is not None:
            asyncio.get_running_loop().call_soon(self._inner.connection_lost, None)
            self._inner = None

    def look(self, now: float, keepalive: float, patience: float) -> None:
        """Close what has been idle for too long; say so to a client whose body does not come."""
        if self._used:
            self._used, self._touched = False, now
        if self._stays or self._owed or self.task is not None or self.transport is None:
            return
        if self.body_since and now - self.body_since > patience:
            self.body_since = 0.0
            self._write(self._yard.front.too_slow(Named(HttpHead("", 0, {}))))
        elif not self._buffer and not self.head_since and now - self._touched > keepalive:
            self.transport.close()

    def close_if_idle(self) -> None:
        """Draining: a connection without a request under way ends now."""
        if self.task is None and not self._owed and not self._stays and self.transport is not None:
            self.transport.close()
