"""HTTP/1.1 replies: reads those of nodes (RFC 9112), strictly and within bounds, and makes gzip bodies for clients.

What no server should send is refused instead of being guessed at: a bare line feed, a folded header, two lengths, a
length beside chunks, a coding that the request did not ask for. The body is bounded as it comes and as it unpacks.

Gzip bodies (RFC 1952) are built so that a result is compressed once for all ids: the text before the result becomes a
stored (uncompressed) block; the result and what follows become blocks of their own, which are the same for every
caller. Only the checksum is computed for each reply.
"""

from __future__ import annotations

import re
import struct
import zlib
from math import inf
from typing import Any

from msgspec import Struct, field

from rpcaccel.core.wire.jsonrpc import RESULT

RATIO = 200
"""Bytes that one byte of a packed body may unpack to. gzip can make 1,000 of one; the most repetitive of honest answers
are traces that show a contract's memory at each step."""
UNPACKED_FREELY = 32 << 20
"""Bytes up to which a body may unpack at any ratio."""
_END = b"\r\n\r\n"
_LONGEST_HEAD = 64 << 10
_LONGEST_LINE = 8190
_MOST_LINES = 128
_MOST_INTERIM = 32
_DIGITS = 18
_ANY_HEADER = 32 + zlib.MAX_WBITS
"""For zlib: gzip or zlib, whichever header comes."""
_PIECE = 1 << 17
"""Bytes that are unpacked at once."""
_SWITCHING_PROTOCOLS = 101
_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n\0]*)?((?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*)*)"
)
_MEANT = re.compile(
    rb"\r\n(content-length|transfer-encoding|content-encoding|connection):[ \t]*([^\r\n]*)", re.IGNORECASE
)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?")
_PACKED = frozenset({b"gzip", b"x-gzip", b"deflate"})
_NOT_READ = frozenset({b"br", b"zstd", b"compress", b"x-compress", b"dcb", b"dcz"})
"""Content codings that no request asks for. A word that is no coding, such as "utf-8", is passed over: the body shows
what it is."""

_AT_HEAD, _AT_LENGTH, _AT_SIZE, _AT_CHUNK, _AT_CHUNK_END, _AT_TRAILER, _UNTIL_END, _DONE = range(8)


class MalformedReply(Exception):
    """The bytes are no HTTP/1.1 reply."""


class TooLong(Exception):
    """The body is longer than it may be; `packed` when that is because it unpacks to too much."""

    def __init__(self, *, packed: bool = False) -> None:
        super().__init__("packed" if packed else "long")
        self.packed = packed


class HttpReplyReader(Struct, eq=False, gc=False):
    """One reply, put together from pieces. After `feed` or `end` returned True, its public fields hold the reply."""

    _most: int
    """Bytes that the body may have, packed or not."""
    _state: int = _AT_HEAD
    _buffer: bytes = b""
    """Bytes that cannot be understood yet: a part of the head, of a chunk's size or of the trailer."""
    _interim: int = 0
    """Interim replies (RFC 9110 section 15.2) that came before this reply."""
    _left: int = 0
    """Bytes that are missing of the body, or of the chunk."""
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0
    """Bytes of the parts."""
    _raw: int = 0
    """Bytes that came for the parts."""
    _inflate: Any = None
    _packed: list[bytes] = field(default_factory=list)
    """What is still to be unpacked by `assemble`."""
    at_once: float = inf
    """Bytes of a body that are unpacked and joined as its pieces come; the others are left to `assemble`."""
    in_pieces: bool = False
    """Is the reply whole, and its body still to be put together by `assemble`?"""
    status: int = 0
    """0 until the head was read."""
    head: bytes = b""
    """Status line and headers, without the empty line."""
    body: bytes = b""
    keep: bool = False
    """May the connection carry another request?"""
    overrun: bool = False
    """Did more bytes come than the reply has? Then the connection is not kept."""

    def __repr__(self) -> str:
        return f"<reply {self.status or 'without a head'} {self._size} bytes{' whole' * (self._state == _DONE)}>"

    @property
    def begun(self) -> bool:
        """Did any byte of the reply come?"""
        return bool(self.status or self._buffer or self._interim)

    def feed(self, data: bytes) -> bool:
        """Take the next piece; True when the reply is whole. Raises MalformedReply and TooLong."""
        if self._state != _AT_HEAD:
            return self._take_more(data)
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        end = data.find(_END)
        if end < 0:
            if len(data) > _LONGEST_HEAD:
                raise MalformedReply("a head without an end")
            self._buffer = data
            return False
        head, start = data[:end], end + len(_END)
        found = _HEAD.fullmatch(head)
        if found is None:
            raise MalformedReply("no HTTP/1.1 reply")
        if end > _LONGEST_LINE or head.count(b"\r\n") > _MOST_LINES:
            lines = head.split(b"\r\n")
            if len(lines) > _MOST_LINES or max(map(len, lines)) > _LONGEST_LINE:
                raise MalformedReply("headers that are too long")
        status = int(found[2])
        if status < 200 and status != _SWITCHING_PROTOCOLS:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                raise MalformedReply("interim replies without an end")
            return start < len(data) and self.feed(data[start:])
        self.head, self.keep = head, found[1] == b"1"
        return self._begin_body(status, data, start)

    def end(self) -> bool:
        """Note that the connection ended: True when the reply ends with it, False when a part is missing."""
        if self._state != _UNTIL_END:
            return self._state == _DONE
        return self._finish()

    def header(self, name: str) -> str:
        """The value of the first header of that name (in lower case); empty where there is none."""
        start = self.head.lower().find(b"\r\n%b:" % name.encode())
        if start < 0:
            return ""
        start += len(name) + 3
        end = self.head.find(b"\r\n", start)
        return self.head[start : end if end >= 0 else None].strip().decode("latin-1")

    def _begin_body(self, status: int, data: bytes, start: int) -> bool:
        """Read the headers that say how the body comes, and take what came of the body, from `start` on."""
        meant: dict[bytes, bytes] = {}
        for raw_name, raw in _MEANT.findall(self.head):
            name, value = raw_name.lower(), raw.strip().lower()
            meant[name] = meant[name] + b"," + value if name in meant else value  # several of one name are one list
        length, coding = meant.get(b"content-length"), meant.get(b"transfer-encoding")
        packing, options = meant.get(b"content-encoding"), meant.get(b"connection")
        if length is not None and (not length.isdigit() or len(length) > _DIGITS):
            raise MalformedReply("a length that is none")
        if options is not None:
            self.keep = (self.keep or b"keep-alive" in options) and b"close" not in options
        self.status = status
        if status in (204, 304, _SWITCHING_PROTOCOLS):
            self.overrun = start < len(data)
            self.keep = self.keep and status != _SWITCHING_PROTOCOLS and not self.overrun
            return self._finish()
        if packing is not None:
            if packing in _NOT_READ or b"," in packing:
                raise MalformedReply("a coding that nobody asked for")
            if packing in _PACKED:
                self._inflate = zlib.decompressobj(_ANY_HEADER)
        if coding is not None:
            if coding != b"chunked" or length is not None:
                raise MalformedReply("a coding that nobody asked for")
            self._state = _AT_SIZE
            return self._take_chunks(data, start)
        if length is None:
            self._state, self.keep = _UNTIL_END, False
            return self._take_more(data[start:])
        self._state, self._left = _AT_LENGTH, int(length)
        if self._left > self._most:
            raise TooLong
        if self._inflate is None and len(data) - start == self._left:
            self.body, self._size, self._state = data[start:], self._left, _DONE
            return True
        return self._take_more(data[start:])

    def _take_more(self, data: bytes) -> bool:
        """Take the next piece of a body that has begun."""
        if self._state == _AT_LENGTH:
            return self._take_length(data)
        if self._state == _UNTIL_END:
            if data:
                self._take(data)
            return False
        data, self._buffer = self._buffer + data, b""
        return self._take_chunks(data, 0)

    def _take_length(self, data: bytes) -> bool:
        size = len(data)
        if size > self._left:
            data, self.keep, self.overrun = data[: self._left], False, True
        elif size < self._left:
            self._left -= size
            if size:
                self._take(data)
            return False
        if not self._parts and self._inflate is None:
            self.body, self._state, self._size = data, _DONE, len(data)
            return True
        self._take(data)
        return self._finish()

    def _take_chunks(self, data: bytes, at: int) -> bool:
        """Take what there is of a chunked body, from `at` on."""
        while True:
            if self._state == _AT_CHUNK:
                piece = data[at : at + self._left]
                if piece:
                    self._take(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    return False
                self._state = _AT_CHUNK_END
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            line, at = data[at:end], end + 2
            if self._take_line(line):
                self.overrun = at < len(data)
                self.keep = self.keep and not self.overrun
                return self._finish()
        self._buffer = data[at:]
        if len(self._buffer) > (_LONGEST_LINE if self._state != _AT_CHUNK_END else 1):
            raise MalformedReply("a chunk that is longer than its size, or a line without an end")
        return False

    def _take_line(self, line: bytes) -> bool:
        """A line between chunks; True for the empty one that ends the body."""
        if self._state == _AT_TRAILER:
            self._left += len(line)
            if self._left > _LONGEST_LINE:
                raise MalformedReply("a trailer without an end")
            return not line
        if self._state == _AT_CHUNK_END:
            if line:
                raise MalformedReply("a chunk that is longer than its size")
            self._state = _AT_SIZE
            return False
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise MalformedReply("a chunk without a size")
        self._left = int(size[1], 16)
        self._state = _AT_CHUNK if self._left else _AT_TRAILER
        return False

    def _take(self, data: bytes) -> None:
        """A piece of the body."""
        self._raw += len(data)
        if self._inflate is None:
            self._put(data)
        elif self._packed:
            if self._raw > self._most:
                raise TooLong
            self._packed.append(data)
        else:
            self._unpack(data, self.at_once)

    def _unpack(self, data: bytes, at_once: float) -> None:
        """Unpack a piece; the rest of one that unpacks to more than `at_once` bytes is left to `assemble`."""
        size = self._size
        try:
            while True:
                if self._inflate.eof:  # RFC 1952 section 2.2: members follow each other
                    self._inflate = zlib.decompressobj(_ANY_HEADER)
                piece = self._inflate.decompress(data, _PIECE)
                self._put(piece)
                data = self._inflate.unconsumed_tail or self._inflate.unused_data
                if not data and (len(piece) < _PIECE or self._inflate.eof):
                    break
                if self._size - size >= at_once:
                    self._packed.append(data)
                    break
        except zlib.error:
            raise MalformedReply("a body that cannot be unpacked") from None

    def _put(self, piece: bytes) -> None:
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._most:
            raise TooLong
        if self._size > UNPACKED_FREELY and self._size > RATIO * self._raw:
            raise TooLong(packed=True)

    def _finish(self) -> bool:
        self._state = _DONE
        if self._packed or self._size > self.at_once:
            self.in_pieces = True
        else:
            self.assemble()
        return True

    def assemble(self) -> None:
        """Put the body together; in a thread where the reply is `in_pieces`, since zlib and the joining of long pieces
        hold no lock. Raises MalformedReply and TooLong."""
        parts, packed, self._packed = self._parts, self._packed, []
        try:
            for data in packed:
                self._unpack(data, inf)
            if self._inflate is not None and self._raw and not self._inflate.eof:
                raise MalformedReply("a body that was packed and cut off")
            self.body = parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            while parts:  # one by one, so that a thread lets others go on: the system takes each part back by itself
                parts.pop()
        self.in_pieces = False


_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""The gzip header: deflate, no name, no time, fastest algorithm (4), unknown system (255)."""
_STORED = struct.Struct("<BHH")
"""Header of a stored block that is not the last: its length, and the inverted length (RFC 1951 section 3.2.4)."""
_LONGEST_STORED = 0xFFFF
_GZIP_END = struct.Struct("<II")
_LEVEL = 1


def pack(body: bytes) -> bytes:
    """Compress a body; for a reply, the result equals that of `member` for its parts."""
    cut = body.find(RESULT)
    if not 0 <= cut <= _LONGEST_STORED:
        cut = 0
    rest = memoryview(body)[cut:]  # no copy: the body may be long
    return member(body[:cut], rest, squeeze(rest))


def squeeze(rest: bytes | memoryview) -> bytes:
    """Compress the rest of a body into deflate blocks, the last block included."""
    squeezing = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeezing.compress(rest) + squeezing.flush()


def member(before: bytes, rest: bytes | memoryview, squeezed: bytes) -> bytes:
    """The gzip form of `before` + `rest`, where `squeezed` is `squeeze(rest)`; `before` has at most 65,535 bytes."""
    size = len(before)
    checksum = zlib.crc32(rest, zlib.crc32(before))
    stored = _STORED.pack(0, size, size ^ _LONGEST_STORED)
    return b"".join((_GZIP_HEADER, stored, before, squeezed, _GZIP_END.pack(checksum, (size + len(rest)) & 0xFFFFFFFF)))
