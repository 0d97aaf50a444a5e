"""Compressed replies."""

from __future__ import annotations

import gzip
import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.wire import http_reply
from rpcaccel.core.wire.jsonrpc import RESULT


@given(st.binary(max_size=300), st.binary(max_size=3000))
@example(b"", b"")
@example(b"x" * 65_535, b"y" * 200_000)
def test_parts_make_the_whole(before: bytes, rest: bytes) -> None:
    assert gzip.decompress(http_reply.member(before, rest, http_reply.squeeze(rest))) == before + rest


@given(st.binary(max_size=300), st.binary(max_size=300))
@example(b"x" * 65_536, b"1}")
def test_a_body_is_packed_as_its_parts_are(before: bytes, result: bytes) -> None:
    rest = RESULT + result
    packed = http_reply.pack(before + rest)
    assert gzip.decompress(packed) == before + rest
    if RESULT not in before and len(before) <= 65_535:
        assert packed == http_reply.member(before, rest, http_reply.squeeze(rest))


def test_it_says_nothing_of_the_time_and_is_smaller() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"result":' + b'"0x00"' * 1000 + b"}"
    assert http_reply.pack(body) == http_reply.pack(body)
    assert len(http_reply.pack(body)) < len(body) / 10


def test_a_long_body_is_not_copied_to_be_packed() -> None:
    body = b'[{"jsonrpc":"2.0","id":1' + RESULT + b'"0x00"' * 2_000_000 + b"}]"
    tracemalloc.start()
    packed = http_reply.pack(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert gzip.decompress(packed) == body
    assert peak < len(body) / 2
