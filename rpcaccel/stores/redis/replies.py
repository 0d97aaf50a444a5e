"""Reads what Redis answers: how large a reply may be, and of which shape.

Anybody may write under the prefix of this program, and anything may answer at the address of Redis. Each reader here
returns the expected shape or raises ForeignReplyError; no other module of this package takes a reply as it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import InvalidResponse, ResponseError

MAX_REPLY_ELEMENTS = 1 << 16
"""Elements that one reply may announce, those of nested arrays included."""
MAX_REPLY_BYTES = 128 << 20
"""Bytes that one reply may announce or send."""
_MAX_LINE = 1 << 16
"""Bytes of a header, a status or an error."""
_FOREIGN_KEY = ("WRONGTYPE", "value is not an integer", "increment or decrement would overflow", "hash value is not")
"""What the errors begin with that tell of a key which this program did not write."""


class ForeignReplyError(InvalidResponse):
    """The reply is not one that Redis gives to the command that was sent."""


class ReplyTooLargeError(InvalidResponse):
    """The reply is larger than any that this program asks for."""


class ReplyBounds:
    """Follows the replies of one connection through the bytes that arrive, before any parser allocates for them.

    An array of 10^9 elements takes a header of 13 bytes, and a parser makes a list of that length at once.
    """

    __slots__ = ("_bytes", "_elements", "_expected", "_line", "_skip")

    def __init__(self) -> None:
        self._line = b""
        """The beginning of a header that has not arrived whole."""
        self._skip = 0
        """Bytes of a string that have yet to arrive, with the line end after them."""
        self._expected = 1
        """Elements that the reply still lacks; 0 is never kept, because the next reply begins."""
        self._elements = self._bytes = 0

    def take(self, data: bytes) -> None:
        """Follow the next bytes. Raises ReplyTooLargeError, and ForeignReplyError for a header that is none."""
        self._count(size=len(data))
        if self._line:
            data, self._line = self._line + data, b""
        at = self._passed(data, 0)
        while at < len(data):
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _MAX_LINE:
                    raise ReplyTooLargeError("a line without an end")
                self._line = data[at:]
                return
            self._element(data[at:end])
            at = self._passed(data, end + 2)

    def _passed(self, data: bytes, at: int) -> int:
        """The place after the bytes of the string that is being sent."""
        passed = min(self._skip, len(data) - at)
        self._skip -= passed
        return at + passed

    def _element(self, header: bytes) -> None:
        self._expected -= 1
        kind = header[:1]
        if kind in {b"$", b"*"}:
            try:
                length = int(header[1:32])
            except ValueError:
                raise ForeignReplyError("a length that is no number") from None
            if length > MAX_REPLY_BYTES:
                raise ReplyTooLargeError("more elements or bytes than are read")
            if kind == b"$":
                self._skip = length + 2 if length >= 0 else 0
            elif length > 0:
                self._count(elements=length)
                self._expected += length
        elif kind not in (b"+", b"-", b":"):
            raise ForeignReplyError("no header of RESP2")
        if not self._expected:
            self._expected, self._elements, self._bytes = 1, 0, 0

    def _count(self, *, elements: int = 0, size: int = 0) -> None:
        self._elements += elements
        self._bytes += size
        if self._elements > MAX_REPLY_ELEMENTS or self._bytes > MAX_REPLY_BYTES:
            raise ReplyTooLargeError("more elements or bytes than are read")


def is_about_key(error: object) -> bool:
    """Whether Redis refused the command because of what stands at the key, and would carry it out for another key."""
    return isinstance(error, ResponseError) and str(error).removeprefix("ERR ").startswith(_FOREIGN_KEY)


def as_list(reply: Any, length: int | None = None) -> Sequence[Any]:
    """A list, of `length` elements if one is given."""
    if type(reply) is not list or (length is not None and len(reply) != length):
        raise ForeignReplyError("no list of that length")
    return reply


def as_bytes(reply: Any) -> bytes:
    """A string."""
    if type(reply) is not bytes:
        raise ForeignReplyError("no string")
    return reply


def as_optional_bytes(reply: Any) -> bytes | None:
    """A string or nil."""
    return None if reply is None else as_bytes(reply)


def as_integer(reply: Any) -> int:
    """An integer of 64 bits, which Redis sends as a number or, in some replies, as a string of digits."""
    try:
        if type(reply) is bytes and len(reply) <= 20:
            return int(reply)
    except ValueError:
        raise ForeignReplyError("no integer") from None
    if type(reply) is not int or not -(1 << 63) <= reply < 1 << 63:
        raise ForeignReplyError("no integer")
    return reply


def as_values(reply: Any, length: int) -> list[bytes | None]:
    """`length` values, of which each may be missing."""
    return [as_optional_bytes(value) for value in as_list(reply, length)]
