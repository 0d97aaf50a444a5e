"""zstd at the store's edge."""

from __future__ import annotations

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.stores.redis.writes import MAX_EXPANDED_BYTES, Zstd


def test_a_large_body_comes_back_from_a_shorter_form() -> None:
    zstd = Zstd(1024)
    body = b'{"hash":"0x12"}' * 1000
    shorter = zstd.compress(body)
    assert shorter is not None
    assert len(shorter) < len(body) / 10
    assert zstd.expand(shorter, len(body)) == body


def test_a_small_body_is_left_alone() -> None:
    assert Zstd(1024).compress(b"0" * 1023) is None


def test_a_body_that_does_not_shrink_is_left_alone() -> None:
    dense = zstandard.ZstdCompressor().compress(bytes(range(256)) * 4) * 1
    assert Zstd(0).compress(dense) is None


def test_a_frame_that_claims_another_length_is_damage_before_anything_is_allocated() -> None:
    zstd = Zstd(0)
    shorter = zstd.compress(b"0" * 5000)
    assert shorter is not None
    assert zstd.expand(shorter, 4999) is None
    assert zstd.expand(shorter, MAX_EXPANDED_BYTES + 1) is None


@given(st.binary(max_size=100), st.integers(0, 1000))
def test_any_bytes_expand_or_are_damage(data: bytes, length: int) -> None:
    body = Zstd(0).expand(data, length)
    assert body is None or len(body) == length


def test_a_damaged_frame_is_damage() -> None:
    zstd = Zstd(0)
    shorter = zstd.compress(b"0" * 5000)
    assert shorter is not None
    assert zstd.expand(shorter[:-3], 5000) is None
