"""Says in words of our own why Redis did not answer: its own messages, and the client's, may quote an address."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Iterator

from redis.asyncio.sentinel import MasterNotFoundError, SlaveNotFoundError
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
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

from rpcaccel.stores.redis.replies import ReplyTooLargeError

LATE = "no answer in time"
_NO_DATABASE = ("DB index", "Invalid Database")
"""Messages about a wrong database: the error of Redis to SELECT, and the client's error when SELECT fails."""
_MOST_CAUSES = 8


def reason(error: BaseException) -> str:
    """Why Redis did not answer, in a few words without anything secret."""
    chain = list(_causes(error))
    if any(is_about_database(one) for one in chain):
        return "it has no database of that number"
    for kind, words in _BY_TYPE:
        found = next((one for one in chain if isinstance(one, kind)), None)
        if found is not None:
            return words if isinstance(words, str) else words(found)
    if any(isinstance(one, ResponseError) for one in chain):
        return _answered(str(error))
    return "the connection was closed" if isinstance(error, LostError) else type(error).__name__


def is_about_database(error: BaseException) -> bool:
    """Whether Redis, or the client, says that there is no database of the number in the address."""
    return isinstance(error, ResponseError | LostError) and any(word in str(error) for word in _NO_DATABASE)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from: redis-py puts errors of the socket into its own."""
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
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


def _answered(said: str) -> str:
    """An answer that no row knows: the code that Redis begins its errors with, and nothing else."""
    code = said.partition(" ")[0]
    return f"it answered {code}" if code.isalpha() and code.isupper() and len(code) <= 20 else "it answered an error"


_BY_TYPE: tuple[tuple[type[BaseException], str | Callable[[BaseException], str]], ...] = (
    (ConnectionRefusedError, "the connection was refused"),
    (socket.gaierror, "its name was not found"),
    (ssl.SSLCertVerificationError, lambda error: f"TLS failed: {getattr(error, 'verify_message', '')}".rstrip(": ")),
    (ssl.SSLError, lambda error: f"TLS failed: {getattr(error, 'reason', None) or ''}".rstrip(": ")),
    (FileNotFoundError, "there is no such socket"),
    (PermissionError, "its socket may not be opened by this user"),
    (AuthenticationWrongNumberOfArgsError, "it does not accept the user and password"),
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
    (LateError, LATE),
    (TimeoutError, LATE),
    (ConnectionResetError, "the connection was closed"),
    (OSError, _of_socket),
)
"""The words for an error; the first row whose type fits decides."""
