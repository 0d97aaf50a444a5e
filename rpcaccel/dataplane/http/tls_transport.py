"""TLS between the loop's transport and a protocol, over ssl.MemoryBIO.

uvloop's own TLS hands each record through several callbacks, and reads once more after each request to learn that
nothing is left: a hit took four times the processor time of one without TLS there, and takes 1.5 times that here.

An answer is encrypted as its client takes it, so that what waits is not held twice, and no turn of the loop is long.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from rpcaccel.core.wire import jsonrpc

RECORD_BYTES = 16 * 1024
"""Bytes of the longest record (RFC 8446 section 5.1). A MemoryBIO keeps the room that it once needed, so no more goes
into one at a time."""
TURN_BYTES = 256 * 1024
"""Bytes that are encrypted for one client in one turn of the loop."""
_METHOD = re.compile(rb"[A-Z]{3,8} ")
_HTTPS_HERE = jsonrpc.refusal(
    jsonrpc.Invalid(jsonrpc.INVALID_REQUEST, "this port speaks TLS: the address begins with https:// or wss://")
)
_PLAIN_HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n\r\n%s" % (
    len(_HTTPS_HERE),
    b"Connection: close",
    _HTTPS_HERE,
)
"""The answer to a request that came without TLS."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One connection: a protocol of the loop's transport, and the transport of the protocol above it.

    The protocol above has the connection from its beginning, and limits the time that the handshake takes together with
    the head of the first request.
    """

    __slots__ = ("_above", "_backlog", "_below", "_closing", "_context", "_ended", "_full", "_in", "_on_failed", "_out",
                 "_paused", "_pumping", "_shaken", "_tls", "_waiting")  # fmt: skip

    def __init__(
        self, context: ssl.SSLContext, above: asyncio.Protocol, on_failed: Callable[[str], None] | None = None
    ) -> None:
        """`on_failed` is called with the reason, in a word, when the client breaks the rules of TLS."""
        super().__init__()
        self._context = context
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._above = above
        self._below: asyncio.Transport | None = None
        """The loop's transport; None once the connection is lost."""
        self._on_failed = on_failed
        self._shaken = False
        """Has the handshake ended?"""
        self._ended = False
        """Did the client say that it sends no more?"""
        self._closing = False
        self._backlog: deque[memoryview] = deque()
        """What was written and is not encrypted yet."""
        self._waiting = 0  # bytes of the backlog
        self._full = False
        """Does the loop's transport hold more than its client takes?"""
        self._paused = False
        """Was the protocol above told to pause?"""
        self._pumping = False
        """Is `_encrypt` at work, or is a turn of the loop scheduled for it?"""

    def __repr__(self) -> str:
        return f"<TLS under {self._above!r}>"

    # -- the loop's transport -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)
        self._above.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._below, self._closing = None, True
        self._backlog.clear()
        self._waiting = 0
        self._above.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Records came, or parts of them. The protocol above gets what they hold in one piece."""
        if self._closing or self._ended:
            return
        begins, below = not self._shaken, self._below
        try:
            texts = self._texts(data)
        except ssl.SSLError:
            self._fail(data)
            return
        if self._out.pending and below is not None:
            below.write(self._out.read())
        if begins and self._shaken:
            self._pump()
        if text := texts[0] if len(texts) == 1 else b"".join(texts):
            self._above.data_received(text)
        if texts and not texts[-1]:
            self.eof_received()

    def _texts(self, data: bytes) -> list[bytes]:
        """What the records hold that are whole now, which may be nothing; last b"", where the client sent its
        close_notify. Raises ssl.SSLError."""
        incoming, tls = self._in, self._tls
        texts: list[bytes] = []
        for start in range(0, len(data), RECORD_BYTES):
            incoming.write(data[start : start + RECORD_BYTES])
            try:
                if not self._shaken:
                    tls.do_handshake()
                    self._shaken = True
                while incoming.pending and not (texts and not texts[-1]):
                    texts.append(tls.read(RECORD_BYTES))
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLZeroReturnError:  # as b"", in the middle of the handshake
                texts.append(b"")
        return texts

    def eof_received(self) -> bool:
        """The client sends no more. The protocol above says whether it still writes; what it wrote is sent."""
        if not self._ended:
            self._ended = True
            if not self._shaken or not self._above.eof_received():
                self.close()
        return True

    def pause_writing(self) -> None:
        self._full = True
        if not self._pumping:
            self._tell()

    def resume_writing(self) -> None:
        self._full = False
        self._pump()

    def _fail(self, data: bytes) -> None:
        """End the connection of a client that broke the rules, with the alert that says so; one that does not speak TLS
        at all gets an answer that it understands."""
        below, self._closing = self._below, True
        self._backlog.clear()  # nothing can be encrypted any more
        self._waiting = 0
        plain = not self._shaken and _METHOD.match(data) is not None
        if self._on_failed is not None:
            self._on_failed("plain-http" if plain else "tls-failed")
        if below is not None:
            below.write(_PLAIN_HTTP if plain else self._out.read())
            below.close()

    # -- the protocol above ---------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write, at once where nothing waits before it."""
        if self._backlog or not self._shaken or self._closing or not 0 < len(data) <= RECORD_BYTES:
            self.writelines((data,))
        elif self._below is not None:
            self._tls.write(data)
            self._below.write(self._out.read())

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write several parts, which are not copied."""
        if self._closing:
            return
        for part in list_of_data:
            if part:
                self._backlog.append(memoryview(part))
                self._waiting += len(part)
        self._pump()

    def close(self) -> None:
        """Send what was written, and the close_notify, then end the connection. Nothing more is read."""
        if self._closing or self._below is None:
            return
        self._closing = True
        if self._backlog and self._shaken:
            self._below.pause_reading()
        else:
            self._finish()

    def abort(self) -> None:
        """End the connection at once."""
        self._closing = True
        if self._below is not None:
            self._below.abort()

    def is_closing(self) -> bool:
        return self._closing or self._below is None or self._below.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that the client has not taken, encrypted or not."""
        return self._waiting + (0 if self._below is None else self._below.get_write_buffer_size())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._context
        return default if self._below is None else self._below.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._above

    def is_reading(self) -> bool:
        return self._below is not None and self._below.is_reading()

    def pause_reading(self) -> None:
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._below is not None and not self._closing:
            self._below.resume_reading()

    # -- what waits -----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Encrypt what waits, now or in the turn that is scheduled for it."""
        if not self._pumping and self._shaken:
            self._pumping = True
            self._encrypt()

    def _encrypt(self) -> None:
        """Encrypt as much as the client takes now and one turn may take; a further turn follows where more is left."""
        below, left = self._below, TURN_BYTES
        while below is not None and self._backlog and not self._full and left > 0:
            record = self._next_record()
            left -= len(record)
            self._tls.write(record)
            below.write(self._out.read())
        self._pumping = bool(self._backlog) and not self._full
        if self._pumping:
            asyncio.get_running_loop().call_soon(self._encrypt)
        self._tell()
        if self._closing and not self._backlog:
            self._finish()

    def _next_record(self) -> bytes | memoryview:
        """What the next record holds: a part of a long part, or short ones joined."""
        parts = [self._backlog.popleft()]
        if len(parts[0]) > RECORD_BYTES:
            self._backlog.appendleft(parts[0][RECORD_BYTES:])
            parts[0] = parts[0][:RECORD_BYTES]
        size = len(parts[0])
        while self._backlog and size + len(self._backlog[0]) <= RECORD_BYTES:
            parts.append(self._backlog.popleft())
            size += len(parts[-1])
        self._waiting -= size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _tell(self) -> None:
        """Tell the protocol above to pause, or that it may write again, where that has changed."""
        paused, self._paused = self._paused, self._full or bool(self._backlog)
        if self._paused and not paused:
            self._above.pause_writing()
        elif paused and not self._paused and self._below is not None:
            self._above.resume_writing()

    def _finish(self) -> None:
        """Say that nothing more comes, and end the connection. The client's close_notify is not waited for (RFC 8446
        section 6.1)."""
        below = self._below
        if below is None or below.is_closing():
            return
        if self._shaken:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            below.write(self._out.read())
        below.close()
