"""Replies put together from pieces, however they are cut."""

from __future__ import annotations

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.bench.load.http_reader import LoadReply, Malformed, ReplyReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Rpcaccel-Cache: memory\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
AWKWARD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n"


def fed(reader: ReplyReader, data: bytes, cuts: list[int]) -> list[LoadReply]:
    """The replies that come out of `data`, cut at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    return [reply for piece in pieces if (reply := reader.feed(piece)) is not None]


@given(st.lists(st.integers(0, 200), max_size=8), st.sampled_from([PLAIN, CHUNKED]))
def test_a_reply_is_the_same_however_it_is_cut(cuts: list[int], sent: bytes) -> None:
    reader = ReplyReader()
    for _ in range(2):  # the reader is as good as new after a reply
        (reply,) = fed(reader, sent, cuts)
        assert (reply.status, reply.body, reply.keep) == (200, b"hello", True)
        assert not reader.begun


@given(st.lists(st.integers(0, 200), max_size=8))
def test_a_chunk_that_looks_like_the_end_is_not_the_end(cuts: list[int]) -> None:
    (reply,) = fed(ReplyReader(), AWKWARD, cuts)
    assert reply.body == b"0\r\n\r\n"


def test_where_the_answer_came_from_is_read() -> None:
    reply = ReplyReader().feed(PLAIN)
    assert reply is not None
    assert reply.cache == "memory"


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = ReplyReader()
    assert reader.feed(b"HTTP/1.0 200 OK\r\n\r\nhel") is None
    assert reader.feed(b"lo") is None
    reply = reader.close()
    assert reply is not None
    assert (reply.body, reply.keep) == (b"hello", False)


def test_an_unfinished_reply_is_none_when_the_connection_ends() -> None:
    reader = ReplyReader()
    reader.feed(PLAIN[:-1])
    assert reader.begun
    assert reader.close() is None


def test_a_server_that_closes_is_believed() -> None:
    reply = ReplyReader().feed(b"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert reply is not None
    assert (reply.status, reply.keep) == (503, False)


def test_a_reply_without_a_body_is_whole_at_its_head() -> None:
    reply = ReplyReader().feed(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert reply is not None
    assert reply.body == b""


def test_a_compressed_body_is_read() -> None:
    body = gzip.compress(b"hello")
    reply = ReplyReader().feed(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    assert reply is not None
    assert reply.body == b"hello"


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-x\r\n\r\n",
        PLAIN + b"more",
        b"HTTP/1.1 abc X\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n\r\n",
        b"x" * 70000,
    ],
)
def test_what_is_no_reply_is_said(sent: bytes) -> None:
    with pytest.raises(Malformed):
        ReplyReader().feed(sent)
