"""Everything that is remembered of calls has a bound in bytes."""

from __future__ import annotations

import sys

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.memo import ITEM_BYTES, MIN_BYTES, Lapsing, Memos, part_of

MOST = 2_000
HALF = MIN_BYTES // 2 - ITEM_BYTES


def test_what_was_remembered_first_goes_first_whichever_memo_it_is_in() -> None:
    memos, one, other = Memos(MIN_BYTES), dict[str, int](), dict[str, int]()
    memos.put(one, "a", 1, HALF)
    memos.put(other, "b", 2, HALF)
    assert (one, other, memos.size) == ({"a": 1}, {"b": 2}, MIN_BYTES)
    memos.put(other, "c", 3, 10)
    assert (one, other) == ({}, {"b": 2, "c": 3})


def test_a_new_value_under_a_known_key_weighs_nothing_more() -> None:
    memos, memo = Memos(), dict[str, int]()
    for value in range(5):
        memos.put(memo, "a", value, 100)
    assert (memo, memos.size) == ({"a": 4}, 100 + ITEM_BYTES)


def test_what_is_larger_than_everything_is_not_remembered_and_displaces_nothing() -> None:
    memos, memo = Memos(MIN_BYTES), dict[str, int]()
    memos.put(memo, "a", 1, 100)
    memos.put(memo, "b", 2, MIN_BYTES)
    assert memo == {"a": 1}


def test_a_new_bound_holds_at_once_and_is_never_less_than_is_needed() -> None:
    memos, memo = Memos(2 * MIN_BYTES), dict[int, int]()
    for number in range(4):
        memos.put(memo, number, number, HALF)
    memos.resize(0)
    assert (list(memo), memos.limit) == ([2, 3], MIN_BYTES)
    assert "2 things" in repr(memos)


def test_a_tenth_of_what_caches_may_take_is_for_memos() -> None:
    assert (part_of(256_000_000), part_of(0)) == (25_600_000, 0)


def test_a_name_holds_until_the_time_last_told() -> None:
    held = Lapsing(MOST)
    held.hold("a", 1.0)
    held.hold("a", 3.0)
    assert held.until == {"a": 3.0}
    held.clear()
    assert (len(held), repr(held)) == (0, "<0 names, 0 bytes>")


def test_what_was_held_longest_ago_goes_first() -> None:
    held = Lapsing(MOST)
    for name in ("a", "b", "a", *(f"{number:090}" for number in range(6))):
        held.hold(name, 1.0)
    assert "a" in held.until
    assert "b" not in held.until


def test_a_name_longer_than_all_the_room_is_not_held_and_displaces_nothing() -> None:
    held = Lapsing(MOST)
    held.hold("a", 1.0)
    held.hold("x" * 5_000_000, 1.0)
    assert held.until == {"a": 1.0}


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=300), max_size=60))
@example(["𝐓"] + ["𝐓𝐡𝐞 𝐪𝐮𝐢𝐜𝐤" * 3 + str(number) for number in range(9)])
def test_the_names_never_take_more_bytes_than_they_may(names: list[str]) -> None:
    held = Lapsing(MOST)
    for name in names:
        msgspec.json.encode(name)  # Python keeps the UTF-8 form that a library asks for
        held.hold(name, 1.0)
        assert sum(sys.getsizeof(kept) + sys.getsizeof(1.0) + 100 for kept in held.until) <= MOST
