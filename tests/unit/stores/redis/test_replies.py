"""How large a reply of Redis may be: decided while its headers arrive."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.stores.redis.replies import (
    MAX_REPLY_BYTES,
    MAX_REPLY_ELEMENTS,
    ForeignReplyError,
    ReplyBounds,
    ReplyTooLargeError,
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
