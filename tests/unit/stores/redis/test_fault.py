"""Why Redis did not answer, in words that an operator can act on, without anything secret."""

from __future__ import annotations

import socket
import ssl

import pytest
from redis import exceptions
from redis.asyncio.sentinel import MasterNotFoundError

from rpcaccel.stores.redis.replies import LATE, reason


def lost(cause: BaseException) -> BaseException:
    """An error of the client that was raised while it handled an error of the socket."""
    try:
        try:
            raise cause
        except OSError:
            raise exceptions.ConnectionError("Error connecting to redis://:s3cret@h:1")  # noqa: B904 - as redis-py does
    except exceptions.ConnectionError as error:
        return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (lost(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")), "the connection was refused"),
        (
            lost(OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect call failed")),
            "the connection was refused",
        ),
        (lost(socket.gaierror(-2, "Name or service not known")), "its name was not found"),
        (lost(FileNotFoundError(2, "No such file")), "there is no such socket"),
        (lost(OSError(113, "No route to host")), "No route to host"),
        (lost(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")), "TLS failed"),
        (exceptions.AuthenticationError("Authentication required."), "it asks for a password"),
        (exceptions.AuthenticationError("NOAUTH HELLO must be called"), "it asks for a password"),
        (exceptions.AuthenticationError("invalid username-password pair"), "it does not accept the user and password"),
        (exceptions.NoPermissionError("s3cret has no permissions"), "its user may not run this command (NOPERM)"),
        (exceptions.ResponseError("DB index is out of range"), "it has no database of that number"),
        (exceptions.ConnectionError("Invalid Database"), "it has no database of that number"),
        (exceptions.TimeoutError("Timeout connecting to server"), LATE),
        (TimeoutError(), LATE),
        (exceptions.BusyLoadingError("loading"), "it is still loading its data"),
        (exceptions.OutOfMemoryError("OOM"), "its memory is full"),
        (exceptions.ReadOnlyError("READONLY"), "it is a replica and takes no writes"),
        (exceptions.InvalidResponse('Protocol error, got "H"'), "what answers there is no Redis"),
        (MasterNotFoundError("No master found"), "Sentinel knows no primary of that name, or none answers"),
        (exceptions.ResponseError("MISCONF s3cret"), "it answered MISCONF"),
        (exceptions.ResponseError("unknown command s3cret"), "it answered an error"),
        (exceptions.ConnectionError("Connection closed by server."), "the connection was closed"),
        (KeyError("s3cret"), "KeyError"),
    ],
)
def test_the_reason_is_said_in_words_of_our_own(error: BaseException, words: str) -> None:
    assert reason(error) == words
    assert "s3cret" not in reason(error)


def test_a_certificate_that_is_not_trusted_is_named() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    assert reason(lost(error)) == "TLS failed: self-signed certificate"


def test_errors_that_cause_each_other_in_a_circle_end() -> None:
    one, other = exceptions.ConnectionError("a"), exceptions.ConnectionError("b")
    for error, cause in ((one, other), (other, one)):
        with pytest.raises(exceptions.ConnectionError):
            raise error from cause
    assert reason(one) == "the connection was closed"
