"""The wire form of an entry: what goes in comes back, and whatever bytes come back never raise."""

from __future__ import annotations

import zlib
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rpcaccel.core.cache.entry import ON_TRUST, SCHEMA, Damage, Damaged, Entry, Selection, decode, encode
from rpcaccel.core.plan.rules import CacheClass

ENTRY = Entry(
    result=b'{"a":10000000000000000000000000000}',
    cache=CacheClass.BY_NUMBER,
    block=77,
    network="harmony-s0",
    method="hmyv2_getBalance",
    stored_at=100.0,
    expires=160.0,
)


HEADER = 39
"""Bytes before the checksum."""


def squeeze(body: bytes) -> bytes | None:
    shorter = zlib.compress(body)
    return shorter if len(shorter) < len(body) else None


def expand(body: bytes, length: int) -> bytes | None:
    try:
        return zlib.decompress(body)[: length + 1]
    except zlib.error:
        return None


entries = st.builds(
    Entry,
    result=st.text(st.characters(exclude_categories=["Cs"]), max_size=100).map(str.encode),
    cache=st.sampled_from(CacheClass),
    block=st.integers(-1, 2**63 - 1),
    network=st.text(st.characters(codec="utf-8"), max_size=20),
    method=st.text(st.characters(codec="utf-8"), max_size=20),
    stored_at=st.integers(0, 10**6).map(float),
    expires=st.one_of(st.just(inf), st.integers(0, 10**9).map(float)),
)


def resealed(wire: bytes, at: int, new: bytes) -> bytes:
    """The wire form with some bytes changed and the checksum made right again."""
    changed = wire[:at] + new + wire[at + len(new) :]
    header = changed[:HEADER]
    checksum = zlib.crc32(changed[HEADER + 4 :], zlib.crc32(header))
    return header + checksum.to_bytes(4, "big") + changed[HEADER + 4 :]


@given(entries, st.booleans())
def test_an_entry_comes_back_as_it_went(entry: Entry, compressed: bool) -> None:
    wire = encode(entry, now=2e6, wall=2e6, compress=squeeze if compressed else None)
    ends = min(entry.expires, 2e6 + ON_TRUST * (entry.expires - entry.stored_at))
    assert decode(wire, now=2e6, wall=2e6, expand=expand) == structs.replace(entry, expires=ends)


def test_times_are_moved_to_the_clock_of_the_reader() -> None:
    wire = encode(ENTRY, now=110.0, wall=1_700_000_000.0)
    back = decode(wire, now=5.0, wall=1_700_000_020.0)
    assert isinstance(back, Entry)
    assert back.stored_at == 5.0 - 30.0
    late = decode(wire, now=5.0, wall=1_700_000_048.0)
    assert isinstance(late, Entry)
    assert late.expires == 5.0 + 2.0


@pytest.mark.parametrize("ahead", [-20.0, 0.0, 0.001, 30.0, 59.0, 500.0])
def test_what_was_kept_lives_hardly_longer_than_it_was_meant_to_whatever_the_writers_clock_says(ahead: float) -> None:
    wire = encode(ENTRY, now=100.0, wall=1_700_000_000.0 + ahead)
    for age in (0.0, 29.0, 59.9):  # after 60 the store has forgotten it
        back = decode(wire, now=age, wall=1_700_000_000.0 + age)
        assert isinstance(back, Entry)
        assert back.expires <= 60.0 * (1 + ON_TRUST)


def test_what_has_no_end_has_none_either_from_a_writer_with_a_clock_ahead() -> None:
    wire = encode(structs.replace(ENTRY, expires=inf), now=100.0, wall=1_700_000_500.0)
    back = decode(wire, now=5.0, wall=1_700_000_000.0)
    assert isinstance(back, Entry)
    assert (back.stored_at, back.expires) == (5.0, inf)


def test_a_writer_with_a_clock_ahead_gives_no_longer_life() -> None:
    wire = encode(ENTRY, now=100.0, wall=1_700_000_500.0)
    back = decode(wire, now=5.0, wall=1_700_000_000.0)
    assert isinstance(back, Entry)
    assert back.stored_at == 5.0
    assert back.expires == 5.0 + 6.0


def test_names_that_come_back_are_shared_objects() -> None:
    wire = encode(ENTRY, now=0.0, wall=0.0)
    first, second = decode(wire, now=0.0, wall=0.0), decode(bytes(bytearray(wire)), now=0.0, wall=0.0)
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert first.method is second.method
    assert first.network is second.network


@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_the_reader_raise(data: bytes) -> None:
    assert isinstance(decode(data, now=0.0, wall=0.0, expand=expand), Damaged)


@given(entries, st.integers(0, 400), st.integers(1, 255))
def test_one_changed_byte_makes_a_damaged_value(entry: Entry, at: int, bits: int) -> None:
    wire = encode(entry, now=0.0, wall=0.0)
    at %= len(wire)
    changed = bytearray(wire)
    changed[at] ^= bits
    assert isinstance(decode(bytes(changed), now=0.0, wall=0.0), Damaged)


@given(entries, st.integers(1, 60))
def test_a_cut_value_is_damaged(entry: Entry, cut: int) -> None:
    wire = encode(entry, now=0.0, wall=0.0)
    assert isinstance(decode(wire[:-cut], now=0.0, wall=0.0), Damaged)


@given(entries, st.integers(0, HEADER - 1), st.binary(min_size=1, max_size=20))
def test_a_wrong_header_under_a_right_checksum_does_not_raise(entry: Entry, at: int, new: bytes) -> None:
    wire = resealed(encode(entry, now=0.0, wall=0.0), at, new[: HEADER - at])
    assert isinstance(decode(wire, now=0.0, wall=0.0, expand=expand), Entry | Damaged)


@pytest.mark.parametrize(
    ("at", "new", "why"),
    [
        (0, b"XXXX", Damage.FOREIGN),
        (4, bytes([SCHEMA + 1]), Damage.SCHEMA),
        (5, b"\xff", Damage.FIELDS),
        (31, b"\x00\x00\x00\x01", Damage.FIELDS),
        (37, b"\xff\xff", Damage.FIELDS),
        (43, b"\xff\xff", Damage.FIELDS),
    ],
    ids=["magic", "schema", "class", "length", "names", "text"],
)
def test_damage_is_told_apart(at: int, new: bytes, why: Damage) -> None:
    wire = resealed(encode(ENTRY, now=0.0, wall=0.0), at, new)
    assert decode(wire, now=0.0, wall=0.0) == Damaged(why)


def test_a_time_that_is_no_number_is_damage() -> None:
    never = Entry(result=b"1", cache=CacheClass.HEAD, network="n", method="m", stored_at=0.0, expires=nan)
    assert decode(encode(never, now=0.0, wall=0.0), now=0.0, wall=0.0) == Damaged(Damage.FIELDS)


def test_a_compressed_value_without_a_way_to_expand_it_is_damage() -> None:
    big = Entry(result=b"0" * 5000, cache=CacheClass.HEAD, network="n", method="m", stored_at=0.0)
    wire = encode(big, now=0.0, wall=0.0, compress=squeeze)
    assert len(wire) < 200
    assert decode(wire, now=0.0, wall=0.0) == Damaged(Damage.COMPRESSION)


def test_a_block_beyond_the_header_is_refused() -> None:
    beyond = Entry(result=b"1", cache=CacheClass.HEAD, block=2**63, network="n", method="m", stored_at=0.0)
    with pytest.raises(ValueError, match="does not fit"):
        encode(beyond, now=0.0, wall=0.0)


def test_the_repr_is_short() -> None:
    assert repr(ENTRY) == "<Entry harmony-s0 hmyv2_getBalance by-number block=77 35 B>"


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        (Selection(), {b"s0:call:1", b"s0:code:1", b"s1:call:1", b"s0"}),
        (Selection(network="s0"), {b"s0:call:1", b"s0:code:1", b"s0"}),
        (Selection(method="call"), {b"s0:call:1", b"s1:call:1"}),
        (Selection(network="s0", method="call"), {b"s0:call:1"}),
        (Selection(key=b"s1:call:1"), {b"s1:call:1"}),
        (Selection(key=b"s1:call:1", network="s0"), set()),
    ],
)
def test_a_selection_means_the_entries_its_fields_name(selection: Selection, meant: set[bytes]) -> None:
    keys = [b"s0:call:1", b"s0:code:1", b"s1:call:1", b"s0"]
    assert {key for key in keys if selection.matches(key)} == meant
    assert selection.everything is (selection == Selection())


def test_a_result_that_is_not_utf8_is_damaged() -> None:
    entry = Entry(result=b'"\xff"', cache=CacheClass.HEAD, network="n", method="m", stored_at=0.0)
    assert decode(encode(entry, now=1.0, wall=1.0), now=1.0, wall=1.0) == Damaged(Damage.FIELDS)
