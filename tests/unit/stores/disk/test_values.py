"""The form of an entry in the file: what goes in comes back, and nothing else ever does."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.core.cache.entry import Damage, Damaged, Entry
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.stores.disk.values import AS_IT_IS, COMPRESSED, decode, encode
from tests.support.stores.disk import block_key, lasting

KEY = block_key(7)
ENTRY = lasting(b'{"a":1}')


def squeeze(result: bytes) -> tuple[int, bytes]:
    shorter = zlib.compress(result)
    return (COMPRESSED, shorter) if len(shorter) < len(result) else (AS_IT_IS, result)


def expand(form: int, text: bytes) -> bytes | None:
    try:
        return zlib.decompress(text) if form == COMPRESSED else None
    except zlib.error:
        return None


def written(key: bytes, entry: Entry) -> bytes:
    return encode(key, entry, now=100.0, wall=1_000_100.0, compress=squeeze)


def read(key: bytes, data: bytes, later: float = 0.0) -> Entry | Damaged:
    return decode(key, data, now=500.0, wall=1_000_100.0 + later, expand=expand)


@given(st.binary(max_size=2000), st.sampled_from(CacheClass), st.integers(-1, 2**32 - 2))
def test_what_was_written_is_read(result: bytes, cache: CacheClass, block: int) -> None:
    entry = replace(ENTRY, result=result, cache=cache, block=block, stored_at=90.0)
    back = read(KEY, written(KEY, entry), later=20.0)
    assert back == replace(entry, stored_at=500.0 - 30.0)


@pytest.mark.parametrize("block", [2**32 - 1, 2**40])
def test_a_block_beyond_the_form_is_not_told(block: int) -> None:
    back = read(KEY, written(KEY, replace(ENTRY, block=block)))
    assert isinstance(back, Entry)
    assert back.block == -1


def test_what_was_stored_in_the_future_counts_as_stored_now() -> None:
    back = read(KEY, written(KEY, replace(ENTRY, stored_at=100.0)), later=-3600.0)
    assert isinstance(back, Entry)
    assert back.stored_at == 500.0


@given(st.data())
def test_no_damage_goes_unseen(data: st.DataObject) -> None:
    value = bytearray(written(KEY, replace(ENTRY, result=data.draw(st.binary(max_size=300)))))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= data.draw(st.integers(1, 255))
    assert isinstance(read(KEY, bytes(value)), Damaged)
    assert isinstance(read(KEY, bytes(value[:place])), Damaged)


@given(st.binary(max_size=100))
def test_whatever_stands_there_never_raises(data: bytes) -> None:
    assert isinstance(read(KEY, data), Damaged)


def test_the_entry_of_another_call_is_damage() -> None:
    assert read(block_key(8), written(KEY, ENTRY)) == Damaged(Damage.CHECKSUM)


def test_what_cannot_be_expanded_is_damage() -> None:
    value = encode(KEY, ENTRY, now=0.0, wall=0.0, compress=lambda result: (9, result))
    assert read(KEY, value) == Damaged(Damage.COMPRESSION)
