"""Replies of HTTP/1.1 from pieces of bytes: however they are cut, the same comes out, and nothing without a bound."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.wire.http_reply import UNPACKED_FREELY, HttpReplyReader, MalformedReply, TooLong

MOST = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"


def read(pieces: Iterable[bytes], most: int = MOST, at_once: float = inf) -> HttpReplyReader:
    """What comes out of pieces, the last of which ends the reply or is followed by the end of the connection."""
    reader = HttpReplyReader(most, at_once=at_once)
    whole = False
    for piece in pieces:
        assert not whole, "pieces are left"
        whole = reader.feed(piece)
    assert whole or reader.end()
    return reader


def packed(body: bytes) -> bytes:
    """Without the time of day, which would be part of the names of tests."""
    return gzip.compress(body, mtime=0)


def chunked(pieces: Iterable[bytes]) -> bytes:
    return b"".join(b"%x;x=y\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\nT: x\r\n\r\n"


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": packed,
    "x-gzip": packed,
    "deflate": zlib.compress,
}
FRAMINGS = ("length", "chunks", "end")


@st.composite
def replies(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """The text of a reply, its body, and whether the connection may be kept."""
    body, framing = draw(st.binary(max_size=300)), draw(st.sampled_from(FRAMINGS))
    packing = draw(st.sampled_from(sorted(PACKINGS)))
    sent = PACKINGS[packing](body)
    close = draw(st.booleans())
    lines = [b"X-Who: me"] + [b"Content-Encoding: " + packing.upper().encode()] * bool(packing)
    lines += [b"Connection: close"] * close
    if framing == "length":
        lines.append(b"content-length:%d" % len(sent))
    elif framing == "chunks":
        cuts = sorted(draw(st.lists(st.integers(0, len(sent)), max_size=4)))
        sent = chunked(sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True))
        lines.append(b"Transfer-Encoding: Chunked")
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 X\r\nLink: <x>\r\n\r\n" * 3]))
    head = OK + b"\r\n".join(draw(st.permutations(lines))) + b"\r\n\r\n"
    return interim + head + sent, body, not close and framing != "end"


@given(replies(), st.data())
def test_however_a_reply_is_cut_it_is_the_same(reply: tuple[bytes, bytes, bool], data: st.DataObject) -> None:
    text, body, keep = reply
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=8)))
    at_once = data.draw(st.sampled_from([inf, 100, 0]))
    got = read((text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)), at_once=at_once)
    if got.in_pieces:
        got.assemble()
    assert (got.status, got.body, got.keep, got.header("x-who")) == (200, body, keep, "me")


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([OK, b"\r\n", b"\r\n\r\n", b"Content-Length: 3\r\n"])))
)
def test_whatever_comes_is_a_reply_or_none(pieces: list[bytes]) -> None:
    reader = HttpReplyReader(100)
    try:
        for piece in pieces:
            if reader.feed(piece):
                assert len(reader.body) <= 100
                return
        reader.end()
    except (MalformedReply, TooLong):
        return


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_a_reply_without_a_body_has_none_whatever_its_headers_say(status: bytes) -> None:
    got = read([b"HTTP/1.1 " + status + b" X\r\nContent-Length: 7\r\n\r\n"])
    assert (got.status, got.body, got.keep) == (int(status), b"", True)


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
    ],
)
def test_which_connections_are_kept(head: bytes, keep: bool) -> None:
    assert read([head + b"Content-Length: 1\r\n\r\nx"]).keep is keep


def test_bytes_behind_a_reply_end_its_connection() -> None:
    got = read([OK + b"Content-Length: 1\r\n\r\nxy"])
    assert (got.body, got.keep, got.overrun) == (b"x", False, True)
    chunks = read([OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\ny"])
    assert (chunks.keep, chunks.overrun) == (False, True)
    empty = read([b"HTTP/1.1 204 No Content\r\n\r\ny"])
    assert (empty.keep, empty.overrun) == (False, True)
    closing = read([OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nx"])
    assert (closing.keep, closing.overrun) == (False, False)


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        OK + b"X: a\r\n b\r\n\r\n",
        OK + b"X : a\r\n\r\n",
        OK + b"X: a\0b\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        OK + b"Content-Length: +1\r\n\r\nx",
        OK + b"Content-Length: 1e1\r\n\r\nx",
        OK + b"Content-Length:\r\n\r\nx",
        OK + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nx",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + packed(b"x" * 99)[:20],
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 16 + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 9000,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 3000,
        OK + b"X: " + b"y" * 9000 + b"\r\n\r\n",
        OK + b"X: y\r\n" * 200 + b"\r\n",
        b"x" * 70_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 40,
    ],
)
def test_what_no_server_should_send_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedReply):
        read([text])


@pytest.mark.parametrize(
    "text",
    [
        OK + b"Content-Length: 101\r\n\r\n",
        OK + b"\r\n" + b"x" * 101,
        OK + b"Transfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101,
        OK + b"Content-Encoding: gzip\r\n\r\n" + packed(b"x" * 101),
    ],
)
def test_a_body_over_the_bound_is_too_long(text: bytes) -> None:
    with pytest.raises(TooLong) as raised:
        read([text], most=100)
    assert not raised.value.packed


def test_a_body_that_unpacks_to_far_too_much_is_told_so() -> None:
    bomb = packed(bytes(UNPACKED_FREELY * 2))
    with pytest.raises(TooLong) as raised:
        read([OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb], most=1 << 40)
    assert raised.value.packed


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, 2 << 20, (2 << 20) + 1])
def test_a_body_may_unpack_to_any_size(size: int) -> None:
    body = packed(bytes(size))
    text = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert len(read([text + body], most=4 << 20).body) == size


@pytest.mark.parametrize("coding", [b"utf-8", b"none"])
def test_a_word_that_is_no_content_coding_is_passed_over(coding: bytes) -> None:
    assert read([OK + b"Content-Encoding: " + coding + b"\r\nContent-Length: 1\r\n\r\nx"]).body == b"x"


def test_members_of_gzip_follow_each_other() -> None:
    members = packed(b"one") + packed(b"two")
    assert (
        read([OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(members), members]).body == b"onetwo"
    )


def test_a_part_that_is_missing_is_no_reply() -> None:
    for text in (b"", OK, OK + b"Content-Length: 3\r\n\r\nxx", OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"):
        reader = HttpReplyReader(MOST)
        assert not reader.feed(text)
        assert not reader.end()
        assert reader.begun == bool(text)
    assert repr(reader) == "<reply 200 1 bytes>"


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
def test_no_piece_is_unpacked_to_much_more_than_is_wanted_at_once(framing: str) -> None:
    body = b"[" + b"1," * (8 << 20) + b"1]"
    sent, head = packed(body), OK + b"Content-Encoding: gzip\r\n"
    text = {
        "length": head + b"Content-Length: %d\r\n\r\n" % len(sent) + sent,
        "chunks": head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked([sent[:4000], sent[4000:]]),
        "end": head + b"\r\n" + sent,
    }[framing]
    reader = read([text[at : at + 5000] for at in range(0, len(text), 5000)], most=64 << 20, at_once=1 << 20)
    (unpacked,) = [int(word) for word in repr(reader).split() if word.isdigit() and word != "200"]
    assert unpacked <= 1 << 21
    reader.assemble()
    assert reader.body == body


def test_a_packed_body_that_is_left_for_later_is_bounded_as_well() -> None:
    sent = packed(b" " * (4 << 20))
    reader = read([OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(sent), sent], 2 << 20, 1000)
    with pytest.raises(TooLong):
        reader.assemble()
    cut = sent[:-9]
    reader = read([OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(cut), cut], 8 << 20, 1000)
    with pytest.raises(MalformedReply):
        reader.assemble()
