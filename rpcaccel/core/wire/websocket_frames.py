"""WebSocket frames (RFC 6455 section 5) with permessage-deflate (RFC 7692), from a server's side.

`WebSocketReader` takes a client's bytes apart, whatever pieces they come in; nothing is kept of a message that breaks
the rules or is too long. Compression keeps no state between messages, in either direction: both sides agreed to that in
the handshake, so that an idle connection costs no window of zlib.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import NamedTuple

from rpcaccel.core.wire.json_text import is_utf8

_SLICE = 1 << 16
"""Bytes that are unmasked at once; a multiple of the four of a mask."""


class Opcode(IntEnum):
    """What a frame is (section 5.2)."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """Why a connection is closed (section 7.4.1, and IANA's registry)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INVALID_DATA = 1007
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    RESTART = 1012
    TRY_LATER = 1013


class WebSocketFrame(NamedTuple):
    """A whole message (TEXT or BINARY, its fragments joined), a control frame, or UNFINISHED."""

    opcode: int
    payload: bytes


UNFINISHED = WebSocketFrame(Opcode.CONTINUATION, b"")
"""Stands for a fragment that is not the last one of its message. The reader keeps its payload."""


class FrameError(Exception):
    """A client broke the rules of the protocol."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        """The close code that the client is told."""


_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = Opcode
_DATA = frozenset({_CONTINUATION, _TEXT, _BINARY})
_CONTROL = frozenset({_CLOSE, _PING, _PONG})
LONGEST_CONTROL = 125
"""Bytes of the longest payload of a control frame."""
LONGEST_REASON = LONGEST_CONTROL - 2
_FIN, _COMPRESSED, _RESERVED, _MASKED = 0x80, 0x40, 0x30, 0x80
_FLUSHED = b"\x00\x00\xff\xff"
"""The end of every flushed deflate stream, which messages leave out (RFC 7692 section 7.2.1)."""
_LEVEL = 1
MOST_INFLATED = 1 << 20
"""Bytes of the longest message that may come compressed, after it is decompressed: a thousandth of that may be sent to
make it, and nothing else is done meanwhile."""
MOST_FRAGMENTS = 10_000
"""The fragments that one message may have."""
_CODES = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
"""The close codes that may be sent in a frame."""
_SHORT = [bytes((_FIN | _TEXT, size)) for size in range(126)]
"""The headers of short text messages, by size."""


class WebSocketReader:
    """Reads what one client sends."""

    __slots__ = ("_at", "_buffer", "_compressed", "_deflates", "_fragments", "_message", "_opcode")

    def __init__(self, *, deflates: bool = False) -> None:
        """`deflates`: may messages be compressed?"""
        self._deflates = deflates
        self._buffer: bytes | bytearray = b""
        self._at = 0
        """The bytes of the buffer that were read already."""
        self._message: bytearray | None = None
        """The payloads of the fragments so far; None where no message has begun."""
        self._fragments = 0
        self._opcode = 0
        self._compressed = False

    @property
    def held(self) -> int:
        """Bytes that are kept of messages and frames that are not whole or not asked for yet."""
        return len(self._buffer) - self._at + (0 if self._message is None else len(self._message))

    @property
    def data_next(self) -> bool:
        """Does a part of a message come next, and no control frame?"""
        return self._at < len(self._buffer) and self._buffer[self._at] & 0x0F not in _CONTROL

    def feed(self, data: bytes) -> None:
        """Take what came."""
        if self._at == len(self._buffer):
            self._buffer, self._at = data, 0
            return
        if isinstance(self._buffer, bytes):
            self._buffer = bytearray(self._buffer)
        del self._buffer[: self._at]
        self._at = 0
        self._buffer += data

    def next(self, most: int) -> WebSocketFrame | None:
        """The next message, control frame or UNFINISHED; None until more came. Raises FrameError, after which there is
        no next. One call reads one frame, so that a caller may pause between the fragments of a message.

        Args:
            most: bytes of the longest message, before and after it is decompressed; at most MOST_INFLATED after it.
        """
        found = self._frame(most)
        if found is None:
            return None
        first, payload = found
        opcode = first & 0x0F
        if opcode in _CONTROL:
            return WebSocketFrame(opcode, payload)
        if opcode != _CONTINUATION:
            self._opcode, self._compressed, self._fragments = opcode, bool(first & _COMPRESSED), 0
        if not first & _FIN:
            self._keep(payload)
            return UNFINISHED
        if self._message is not None:
            self._message += payload
            payload, self._message = bytes(self._message), None
        if self._compressed:
            payload = inflate(payload, min(most, MOST_INFLATED))
        if self._opcode == _TEXT and not payload.isascii() and not is_utf8(payload):
            raise FrameError(CloseCode.INVALID_DATA, "the text message is not UTF-8")
        return WebSocketFrame(self._opcode, payload)

    def _keep(self, payload: bytes) -> None:
        """Keep a fragment that is not the last one of its message."""
        self._fragments += 1
        if self._fragments > MOST_FRAGMENTS:
            raise FrameError(CloseCode.POLICY, f"the message has more than {MOST_FRAGMENTS} fragments")
        if self._message is None:
            self._message = bytearray(payload)
        else:
            self._message += payload

    def _frame(self, most: int) -> tuple[int, bytes] | None:
        """The first byte and the unmasked payload of the next frame, once all of it is there. The header is checked as
        soon as it came."""
        buffer, at = self._buffer, self._at
        have = len(buffer) - at
        if have < 2:
            return None
        first, second = buffer[at], buffer[at + 1]
        size, start = second & 0x7F, at + 6
        self._check(first, second, size)
        if size > LONGEST_CONTROL:
            wide = 2 if size == 126 else 8
            if have < 2 + wide:
                return None
            size, start = int.from_bytes(buffer[at + 2 : at + 2 + wide], "big"), start + wide
        if size + (0 if self._message is None else len(self._message)) > most and first & 0x0F in _DATA:
            raise FrameError(CloseCode.TOO_BIG, f"the message is larger than {most} bytes")
        end = start + size
        if at + have < end:
            return None
        payload = _unmasked(buffer[start:end], bytes(buffer[start - 4 : start]))
        if end == len(buffer):
            self._buffer, self._at = b"", 0
        else:
            self._at = end
        return first, payload

    def _check(self, first: int, second: int, size: int) -> None:
        """Raise FrameError for a header that may not come here."""
        opcode = first & 0x0F
        wrong = ""
        if first & _RESERVED:
            wrong = "a reserved bit is set"
        elif not second & _MASKED:
            wrong = "the frame is not masked"
        elif opcode in _CONTROL:
            if not first & _FIN or size > LONGEST_CONTROL or first & _COMPRESSED:
                wrong = f"a control frame is whole, uncompressed and of {LONGEST_CONTROL} bytes at the most"
        elif opcode not in _DATA:
            wrong = f"the opcode {opcode} is reserved"
        elif first & _COMPRESSED and (not self._deflates or opcode == _CONTINUATION):
            wrong = "a frame is compressed without agreement"
        elif (opcode == _CONTINUATION) != (self._message is not None):
            wrong = "a continuation without a beginning" if self._message is None else "a message within a message"
        if wrong:
            raise FrameError(CloseCode.PROTOCOL_ERROR, wrong)


def _unmasked(payload: bytes | bytearray, mask: bytes) -> bytes:
    size = len(payload)
    if size > _SLICE:  # what is in the processor's cache is unmasked in less than half the time
        view = memoryview(payload)
        return b"".join([_unmasked(bytes(view[at : at + _SLICE]), mask) for at in range(0, size, _SLICE)])
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")


def inflate(data: bytes, most: int) -> bytes:
    """Decompress a message; FrameError when it has more than `most` bytes, which are not made, or is no such data."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        text = stream.decompress(data + _FLUSHED, most + 1)
    except zlib.error:
        raise FrameError(CloseCode.INVALID_DATA, "the message cannot be decompressed") from None
    if len(text) > most:
        raise FrameError(CloseCode.TOO_BIG, f"the message is larger than {most} bytes when it is decompressed")
    return text


def deflate(parts: tuple[bytes, ...], window: int) -> bytes:
    """Compress a message in parts for a window of so many bits."""
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, -window)
    squeezed = [stream.compress(part) for part in parts]
    squeezed.append(stream.flush(zlib.Z_SYNC_FLUSH))
    return b"".join(squeezed)[: -len(_FLUSHED)]


def text_header(size: int, *, compressed: bool = False) -> bytes:
    """The header of a text message of `size` bytes, which follow it unmasked."""
    if size <= LONGEST_CONTROL and not compressed:
        return _SHORT[size]
    first = _FIN | _TEXT | (_COMPRESSED if compressed else 0)
    if size <= LONGEST_CONTROL:
        return bytes((first, size))
    if size <= 0xFFFF:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")


def control(opcode: int, payload: bytes = b"") -> bytes:
    """A control frame."""
    return bytes((_FIN | opcode, len(payload))) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """A close frame; a reason that is too long for one is cut."""
    told = reason.encode()[:LONGEST_REASON].decode(errors="ignore")
    return control(_CLOSE, code.to_bytes(2, "big") + told.encode())


def close_code(payload: bytes) -> int | None:
    """The code in a client's close frame; None where it has none. Raises FrameError for what may not stand there."""
    if not payload:
        return None
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or code not in _CODES:
        raise FrameError(CloseCode.PROTOCOL_ERROR, "the close code may not be sent")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise FrameError(CloseCode.INVALID_DATA, "the reason of the close is not UTF-8") from None
    return code
