"""RLP as another implementation writes and reads it."""

from __future__ import annotations

import pytest
import rlp as reference
from hypothesis import given
from hypothesis import strategies as st
from rlp.exceptions import DecodingError

from rpcaccel.core.hashing.rlp import MAX_NESTED_LISTS, Item, decode, encode, number

ITEMS = st.recursive(st.binary(max_size=70), lambda items: st.lists(items, max_size=5), max_leaves=20)


@given(ITEMS)
def test_items_are_written_and_read_alike(item: Item) -> None:
    assert encode(item) == reference.encode(item)
    assert decode(encode(item)) == item


@given(st.integers(0, 2**256))
def test_numbers_are_written_alike(value: int) -> None:
    assert number(value) == reference.encode(value)


@given(
    st.binary(max_size=80)
    | ITEMS.map(encode).flatmap(lambda text: st.integers(0, len(text)).map(lambda cut: text[:cut]))
)
def test_what_one_refuses_the_other_refuses(text: bytes) -> None:
    try:
        expected = reference.decode(text)
    except DecodingError:
        expected = None
    try:
        found: Item | None = decode(text)
    except ValueError:
        found = None
    assert found == expected


def test_lists_within_lists_have_a_bound() -> None:
    item: Item = []
    for _ in range(MAX_NESTED_LISTS - 1):
        item = [item]
    assert decode(encode(item)) == item
    with pytest.raises(ValueError, match=f"more than {MAX_NESTED_LISTS} lists"):
        decode(encode([[item]]))
    with pytest.raises(ValueError, match="exceeds available input length"):
        decode(b"\xc1" * 100_000)
