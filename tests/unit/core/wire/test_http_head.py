"""Heads of ordinary POSTs, and everything that is not one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.wire.http_head import read_head

PLAIN = b"POST /api/v1/eth HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\nX-Key:  v \r\n\r\n"


def test_an_ordinary_post_is_read() -> None:
    head = read_head(PLAIN)
    assert head is not None
    assert (head.path, head.length) == ("/api/v1/eth", 5)
    assert head.headers == {"host": "a:1", "content-length": "5", "x-key": "v"}


@pytest.mark.parametrize(
    "change",
    [
        (b"POST", b"GET"),
        (b"POST", b"post"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b" HTTP", b"  HTTP"),
        (b"/api/v1/eth", b"http://a/"),
        (b"/api/v1/eth", b"/%61"),
        (b"/api/v1/eth", b"*"),
        (b"Content-Length: 5", b"Content-Length: +5"),
        (b"Content-Length: 5", b"Content-Length: 5, 5"),
        (b"Content-Length: 5", b"Content-Length: 0x5"),
        (b"Content-Length: 5", b"Content-Length: 55555555555"),
        (b"Content-Length: 5", b"Content-Length: 5\r\nContent-Length: 5"),
        (b"Content-Length: 5", b"Content-Length : 5"),
        (b"Content-Length: 5", b"Content-Length: 5\r\nTransfer-Encoding: chunked"),
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"X-Key:  v ", b"Expect: 100-continue"),
        (b"X-Key:  v ", b"Connection: close"),
        (b"X-Key:  v ", b"Upgrade: h2c"),
        (b"X-Key:  v ", b"Content-Encoding: gzip"),
        (b"X-Key:  v ", b"X-Key: a\r\n folded"),
        (b"X-Key:  v ", b"X-Key: a\nY: b"),
        (b"X-Key:  v ", b"X-Key: a\x00"),
        (b"X-Key:  v ", b"X-Key: a\r"),
        (b"X-Key:  v ", b"no colon"),
        (b"Host: a:1\r\n", b""),
        (b"\r\n\r\n", b"\n\n"),
    ],
)
def test_what_readers_may_disagree_on_is_not_read(change: tuple[bytes, bytes]) -> None:
    assert read_head(PLAIN.replace(*change, 1)) is None


@pytest.mark.parametrize("lines", [24, 64, 65, 1000])
@pytest.mark.parametrize("end", [b"\r\n", b"\x00\r\n\r\n", b"no colon\r\n\r\n"])
def test_no_head_takes_longer_than_its_length_warrants(lines: int, end: bytes) -> None:
    since = time.process_time()
    read_head(b"POST / HTTP/1.1\r\n" + b"X-Y:  \t v\r\n" * lines + end)
    assert time.process_time() - since < 5.0  # it takes microseconds; two ways to read a blank took for ever


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    read_head(data)
    read_head(PLAIN[:-2] + data + b"\r\n\r\n")


@given(st.sampled_from(range(len(PLAIN))), st.integers(0, 255))
def test_a_changed_byte_never_moves_the_end_of_the_body_unseen(at: int, byte: int) -> None:
    changed = PLAIN[:at] + bytes([byte]) + PLAIN[at + 1 :]
    head = read_head(changed)
    if head is not None:
        stated = re.search(rb"(?i)content-length: *([0-9]+) *\r", changed)
        assert stated is not None
        assert int(stated[1]) == head.length
