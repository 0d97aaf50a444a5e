"""Replies of HTTP/1.1 from the bytes of a connection: only what a load generator needs, and fast.

Lengths by Content-Length, chunks, or the end of the connection (RFC 9112 section 6.3).
"""

from __future__ import annotations

import zlib

from msgspec import Struct

_END = b"\r\n\r\n"
_LONGEST_HEAD = 65536


class LoadReply(Struct, frozen=True, gc=False):
    """One reply."""

    status: int
    body: bytes
    cache: str = ""
    """The value of X-Rpcaccel-Cache; empty where there is none."""
    keep: bool = True
    """May the connection carry another request?"""


class Malformed(Exception):
    """What came is no HTTP/1.1 reply."""


class ReplyReader:
    """Puts one reply after the other together from pieces of bytes."""

    __slots__ = ("_head_end", "_length", "_need", "_parts", "_size", "_tail")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._need = 0
        self._head_end = -1
        self._length = -1
        """Of the body; -1 not known yet, -2 in chunks, -3 until the connection ends."""
        self._tail = b""

    @property
    def begun(self) -> bool:
        """Has any byte of a reply come?"""
        return self._size > 0

    def feed(self, data: bytes) -> LoadReply | None:
        """The reply that `data` completes, None while it is not whole. Raises Malformed.

        A generator sends one request at a time on a connection, so bytes after a reply are a fault.
        """
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._need:
            return None
        if self._length == -3 or (self._length == -2 and not self._maybe_last(data)):
            return None
        whole = self._whole()
        if self._head_end < 0 and not self._read_head(whole):
            return None
        if self._length >= 0:
            if self._size < self._need:
                return None
            if self._size > self._need:
                raise Malformed("more bytes than the reply has")
            return self._done(whole, whole[self._head_end :])
        if self._length == -2 and (body := _unchunked(whole, self._head_end)) is not None:
            return self._done(whole, body)
        return None

    def close(self) -> LoadReply | None:
        """The connection ended: the reply that ends with it, None when there was none or a part is missing."""
        if self._length != -3:
            return None
        whole = self._whole()
        return self._done(whole, whole[self._head_end :])

    def _whole(self) -> bytes:
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]

    def _maybe_last(self, data: bytes) -> bool:
        self._tail = (self._tail + data)[-4:]
        return self._tail == _END

    def _read_head(self, whole: bytes) -> bool:
        end = whole.find(_END)
        if end < 0:
            if len(whole) > _LONGEST_HEAD:
                raise Malformed("a head without an end")
            return False
        if not whole.startswith(b"HTTP/1."):
            raise Malformed("no HTTP/1.1")
        self._head_end = end + 4
        head = whole[:end].lower()
        if head[9:12] in (b"204", b"304"):
            self._length = 0
        elif b"\r\ntransfer-encoding:" in head:
            self._length = -2
            self._tail = whole[-4:]
        else:
            length = _header(head, b"content-length")
            self._length = int(length) if length.isdigit() else -3
        self._need = self._head_end + max(0, self._length)
        return True

    def _done(self, whole: bytes, body: bytes) -> LoadReply:
        head = whole[: self._head_end]
        lower = head.lower()
        keep = self._length != -3 and b"\r\nconnection: close" not in lower and not lower.startswith(b"http/1.0")
        start = lower.find(b"\r\nx-rpcaccel-cache:")
        cache = head[start + 19 : head.index(b"\r\n", start + 19)].strip().decode("latin-1") if start >= 0 else ""
        try:
            if b"\r\ncontent-encoding: gzip" in lower:
                body = zlib.decompress(body, 31)
            status = int(head[9:12])
        except (zlib.error, ValueError):
            raise Malformed("a head or body that cannot be read") from None
        self._begin()
        return LoadReply(status, body, cache, keep)


def _header(head: bytes, name: bytes) -> bytes:
    """The value of a header in a head in lower case; empty where there is none."""
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


def _unchunked(whole: bytes, at: int) -> bytes | None:
    """The body that comes in chunks from `at` on; None while the last one is missing. Raises Malformed."""
    parts: list[bytes] = []
    while True:
        line = whole.find(b"\r\n", at)
        if line < 0:
            return None
        try:
            size = int(whole[at:line].partition(b";")[0], 16)
        except ValueError:
            raise Malformed("a chunk without a size") from None
        at = line + 2
        if size == 0:
            return b"".join(parts) if whole.endswith(_END) or whole.endswith(b"\r\n\r\n", at - 2) else None
        if len(whole) < at + size + 2:
            return None
        parts.append(whole[at : at + size])
        at += size + 2
