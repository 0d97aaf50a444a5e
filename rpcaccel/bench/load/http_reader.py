"""Reads HTTP/1.1 replies from the bytes of a connection: only what a load generator needs, and fast.

The length of a body is told by Content-Length, by chunks, or by the end of the connection (RFC 9112 section 6.3).
"""

from __future__ import annotations

import zlib
from math import inf

from msgspec import Struct

_LINE, _END = b"\r\n", b"\r\n\r\n"
_LONGEST_HEAD = 65536


class LoadReply(Struct, frozen=True, gc=False):
    """One reply."""

    status: int
    body: bytes
    cache: str = ""
    """The value of X-Rpcaccel-Cache; empty where there is none."""
    keep: bool = True
    """Whether the connection may carry another request."""


class Malformed(Exception):
    """The bytes are no HTTP/1.1 reply."""


class ReplyReader:
    """Puts one reply after the other together from pieces of bytes."""

    __slots__ = ("_at", "_body", "_chunked", "_data", "_need")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()
        self._need: float = 0
        """Bytes without which nothing can be decided; infinite for a body that ends with the connection."""
        self._at = 0
        """Where the body begins, or its next chunk; 0 until the head is read."""
        self._chunked = False
        self._body = bytearray()
        """The chunks so far."""

    @property
    def begun(self) -> bool:
        """Whether any byte of a reply has come."""
        return bool(self._data)

    def feed(self, data: bytes) -> LoadReply | None:
        """The reply that `data` completes, None while it is not whole. Raises Malformed.

        A generator sends one request at a time on a connection, so bytes after a reply are a fault.
        """
        self._data += data
        if len(self._data) < self._need or not (self._at or self._read_head()):
            return None
        if self._chunked and not self._read_chunks():
            return None
        if len(self._data) > self._need:
            raise Malformed("more bytes than the reply has")
        return self._done() if len(self._data) == self._need else None

    def close(self) -> LoadReply | None:
        """The reply that ends with the connection; None when there was none or a part is missing."""
        return self._done() if self._at and self._need == inf else None

    def _read_head(self) -> bool:
        end = self._data.find(_END)
        if end < 0:
            if len(self._data) > _LONGEST_HEAD:
                raise Malformed("a head without an end")
            return False
        if not self._data.startswith(b"HTTP/1."):
            raise Malformed("no HTTP/1.1")
        self._at = end + 4
        head = bytes(self._data[: end + 2]).lower()
        self._chunked = b"\r\ntransfer-encoding:" in head
        length = b"0" if head[9:12] in (b"204", b"304") else _header(head, b"content-length")
        self._need = self._at + int(length) if length.isdigit() else self._at if self._chunked else inf
        return True

    def _read_chunks(self) -> bool:
        """Take the chunks that are there; whether the last one is among them."""
        while True:
            line = self._data.find(_LINE, self._at)
            if line < 0:
                self._need = len(self._data) + 1
                return False
            try:
                size = int(self._data[self._at : line].partition(b";")[0], 16)
            except ValueError:
                raise Malformed("a chunk without a size") from None
            if size == 0:
                end = self._data.find(_END, line)
                self._need = end + 4 if end >= 0 else len(self._data) + 1
                return end >= 0
            start, self._need = line + 2, line + 2 + size + 2
            if len(self._data) < self._need:
                return False
            self._body += self._data[start : start + size]
            self._at = start + size + 2

    def _done(self) -> LoadReply:
        whole = bytes(self._data)
        head = whole[: whole.index(_END) + 2]
        lower = head.lower()
        body = bytes(self._body) if self._chunked else whole[self._at :]
        keep = self._need != inf and b"\r\nconnection: close" not in lower and not lower.startswith(b"http/1.0")
        try:
            if b"\r\ncontent-encoding: gzip" in lower:
                body = zlib.decompress(body, 31)
            status = int(head[9:12])
        except (zlib.error, ValueError):
            raise Malformed("a head or body that cannot be read") from None
        self._begin()
        return LoadReply(status, body, _header(lower, b"x-rpcaccel-cache").decode("latin-1"), keep)


def _header(head: bytes, name: bytes) -> bytes:
    """The value of a header in a head in lower case; empty where there is none."""
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    return head[start : head.index(_LINE, start)].strip()
