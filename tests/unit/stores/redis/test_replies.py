"""How large a reply of Redis may be, decided while its headers arrive; why there was none, without anything secret."""

from __future__ import annotations

import itertools
import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import exceptions
from redis.asyncio.sentinel import MasterNotFoundError

from rpcaccel.stores.redis.replies import (
    LATE,
    MAX_REPLY_BYTES,
    MAX_REPLY_ELEMENTS,
    ForeignReplyError,
    ReplyBounds,
    ReplyTooLargeError,
    reason,
)
from tests.support.stores.any_redis import resp

VALUES = st.recursive(
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.binary() | st.sampled_from(["+OK", "-ERR it is full"]),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def taken(arriving: list[bytes]) -> None:
    bounds = ReplyBounds()
    for piece in arriving:
        bounds.take(piece)


@given(st.lists(VALUES, min_size=1), st.lists(st.integers(0, 10_000), max_size=8))
def test_ordinary_replies_pass_in_whatever_pieces_they_arrive(values: list[object], cuts: list[int]) -> None:
    taken(pieces(b"".join(map(resp, values)), cuts))


@pytest.mark.parametrize(
    "announced",
    [
        b"*1000000000\r\n",
        b"*%d\r\n" % (MAX_REPLY_ELEMENTS + 1),
        b"*1\r\n*2\r\n:1\r\n*1000000000\r\n",
        b"*60000\r\n*60000\r\n",
        b"*9" + b"9" * 100 + b"\r\n",
        b"$%d\r\n" % (MAX_REPLY_BYTES + 1),
        b"*2\r\n$3\r\nabc\r\n$9999999999\r\n",
        b"+" + b"x" * 100_000,
    ],
)
@given(before=st.lists(VALUES, max_size=3), cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_what_announces_too_much_is_refused_before_it_arrives_and_in_whatever_pieces(
    announced: bytes, before: list[object], cuts: list[int]
) -> None:
    with pytest.raises(ReplyTooLargeError):
        taken(pieces(b"".join(map(resp, before)) + announced, cuts))


def test_a_string_that_looks_like_a_header_is_a_string() -> None:
    bounds = ReplyBounds()
    for _ in range(3):
        bounds.take(resp([b"\r\n*1000000000\r\n", b"*1000000000\r\n"]))


def test_replies_are_counted_each_for_itself() -> None:
    bounds = ReplyBounds()
    for _ in range(10):
        bounds.take(b"*%d\r\n" % (MAX_REPLY_ELEMENTS // 2) + b":1\r\n" * (MAX_REPLY_ELEMENTS // 2))


@pytest.mark.parametrize("header", [b"HTTP/1.1 200 OK", b"%1", b"~1000000000", b">1", b"*x", b"$", b""])
def test_what_is_no_header_of_this_protocol_is_refused(header: bytes) -> None:
    with pytest.raises(ForeignReplyError):
        ReplyBounds().take(header + b"\r\n")


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
