"""What Redis answers: how large a reply may be, which errors tell of a foreign key, and why there was no answer.

Anybody may write under the prefix of this program, and anything may answer at the address of Redis. The messages of
Redis, and of its client, may quote an address or a password: `reason` says the same in words of our own.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Iterator

from msgspec import ValidationError
from redis.asyncio.sentinel import MasterNotFoundError, SlaveNotFoundError
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as LostError
from redis.exceptions import TimeoutError as LateError

MAX_REPLY_ELEMENTS = 1 << 16
"""Elements that one reply may announce, those of nested arrays included."""
MAX_REPLY_BYTES = 128 << 20
"""Bytes that one reply may announce or send."""
_MAX_LINE_BYTES = 1 << 16
"""Bytes of a header, a status or an error."""
LATE = "no answer in time"
_NO_DATABASE = ("DB index", "Invalid Database")
"""Messages about a wrong database: the error of Redis to SELECT, and the client's error when SELECT fails."""
_FOREIGN_KEY = (
    "WRONGTYPE",
    "value is not an integer",
    "increment or decrement would overflow",
    "exhausted the last possible ID",
    "ID specified in XADD is equal or smaller",
)
"""Parts of the errors, also of those from within a script, that tell of a key which this program did not write."""
_MAX_CAUSES = 8


class ForeignReplyError(InvalidResponse):
    """The reply is not one that Redis gives to the command that was sent."""


class ReplyTooLargeError(InvalidResponse):
    """The reply is larger than any that this program asks for."""


class NoServerError(Exception):
    """No server that is up holds the key."""


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
        self._bytes += len(data)
        if self._bytes > MAX_REPLY_BYTES:
            raise ReplyTooLargeError("more bytes than are read")
        if self._line:
            data, self._line = self._line + data, b""
        at = self._skip
        while at < len(data):
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _MAX_LINE_BYTES:
                    raise ReplyTooLargeError("a line without an end")
                self._line, self._skip = data[at:], 0
                return
            at = end + 2 + self._element(data[at:end])
        self._skip = at - len(data)

    def _element(self, header: bytes) -> int:
        """The bytes that follow the header of an element, with the line end after them."""
        self._expected -= 1
        length, kind = 0, header[:1]
        if kind in {b"$", b"*"}:
            try:
                length = int(header[1:32])
            except ValueError:
                raise ForeignReplyError("a length that is no number") from None
            if kind == b"*":
                self._expected += max(0, length)
                self._elements += max(0, length)
            if length > MAX_REPLY_BYTES or self._elements > MAX_REPLY_ELEMENTS:
                raise ReplyTooLargeError("more elements or bytes than are read")
        elif kind not in (b"+", b"-", b":"):
            raise ForeignReplyError("no header of RESP2")
        if not self._expected:
            self._expected, self._elements, self._bytes = 1, 0, 0
        return length + 2 if kind == b"$" and length >= 0 else 0


def is_about_key(error: object) -> bool:
    """Whether Redis refused the command because of what stands at the key, and would carry it out for another key."""
    return isinstance(error, ResponseError) and any(words in str(error) for words in _FOREIGN_KEY)


def is_about_type(error: object) -> bool:
    """Whether Redis refused the command because what stands at the key is of another type."""
    return isinstance(error, ResponseError) and "WRONGTYPE" in str(error)


def is_about_database(error: BaseException) -> bool:
    """Whether Redis, or the client, says that there is no database of the number in the address."""
    return isinstance(error, ResponseError | LostError) and any(words in str(error) for words in _NO_DATABASE)


def reason(error: BaseException) -> str:
    """Why Redis did not answer, in a few words without anything secret."""
    chain = list(_causes(error))
    if any(is_about_database(one) for one in chain):
        return "it has no database of that number"
    for kind, words in _BY_TYPE:
        found = next((one for one in chain if isinstance(one, kind)), None)
        if found is not None:
            return words if isinstance(words, str) else words(found)
    return "the connection was closed" if isinstance(error, LostError) else type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from: redis-py puts errors of the socket into its own."""
    found: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _refused(error: BaseException) -> str:
    asks = "NOAUTH" in str(error) or "Authentication required" in str(error)
    return "it asks for a password" if asks else "it does not accept the user and password"


def _of_socket(error: BaseException) -> str:
    """The words of the system; where a name has several addresses, asyncio has put the errors of all into one text."""
    if f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "the connection was refused"
    return getattr(error, "strerror", None) or "no connection"


def _of_tls(error: BaseException) -> str:
    why = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    return f"TLS failed: {why}" if why else "TLS failed"


def _answered(error: BaseException) -> str:
    """An answer that no row knows: the code that Redis begins its errors with, and nothing else."""
    code = str(error).partition(" ")[0]
    return f"it answered {code}" if code.isalpha() and code.isupper() and len(code) <= 20 else "it answered an error"


_BY_TYPE: tuple[tuple[type[BaseException], str | Callable[[BaseException], str]], ...] = (
    (ConnectionRefusedError, "the connection was refused"),
    (socket.gaierror, "its name was not found"),
    (ssl.SSLError, _of_tls),
    (FileNotFoundError, "there is no such socket"),
    (PermissionError, "its socket may not be opened by this user"),
    (AuthenticationError, _refused),
    (NoPermissionError, "its user may not run this command (NOPERM)"),
    (BusyLoadingError, "it is still loading its data"),
    (ReadOnlyError, "it is a replica and takes no writes"),
    (OutOfMemoryError, "its memory is full"),
    (MasterNotFoundError, "Sentinel knows no primary of that name, or none answers"),
    (SlaveNotFoundError, "Sentinel knows no replica of that name"),
    (ClusterDownError, "its cluster is down"),
    (MaxConnectionsError, "all connections to it are in use"),
    (ReplyTooLargeError, "it answered more than was asked for"),
    (InvalidResponse, "what answers there is no Redis"),
    (ValidationError, "what answers there is no Redis"),
    (ValueError, "what answers there is no Redis"),
    (LateError, LATE),
    (TimeoutError, LATE),
    (ConnectionResetError, "the connection was closed"),
    (OSError, _of_socket),
    (ResponseError, _answered),
)
"""The words for an error; the first row whose type fits decides."""
