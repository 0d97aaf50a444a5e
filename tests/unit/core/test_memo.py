"""One account for everything that is remembered of calls."""

from __future__ import annotations

from rpcaccel.core.memo import ITEM_BYTES, LEAST, Memos, part_of

HALF = LEAST // 2 - ITEM_BYTES


def test_what_was_remembered_first_goes_first_whichever_memo_it_is_in() -> None:
    memos, one, other = Memos(LEAST), dict[str, int](), dict[str, int]()
    memos.put(one, "a", 1, HALF)
    memos.put(other, "b", 2, HALF)
    assert (one, other, memos.size) == ({"a": 1}, {"b": 2}, LEAST)
    memos.put(other, "c", 3, 10)
    assert (one, other) == ({}, {"b": 2, "c": 3})


def test_a_new_value_under_a_known_key_weighs_nothing_more() -> None:
    memos, memo = Memos(), dict[str, int]()
    for value in range(5):
        memos.put(memo, "a", value, 100)
    assert (memo, memos.size) == ({"a": 4}, 100 + ITEM_BYTES)


def test_what_is_larger_than_everything_is_not_remembered_and_displaces_nothing() -> None:
    memos, memo = Memos(LEAST), dict[str, int]()
    memos.put(memo, "a", 1, 100)
    memos.put(memo, "b", 2, LEAST)
    assert memo == {"a": 1}


def test_a_new_bound_holds_at_once_and_is_never_less_than_is_needed() -> None:
    memos, memo = Memos(2 * LEAST), dict[int, int]()
    for number in range(4):
        memos.put(memo, number, number, HALF)
    memos.resize(0)
    assert (list(memo), memos.limit) == ([2, 3], LEAST)
    assert "2 things" in repr(memos)


def test_a_tenth_of_what_caches_may_take_is_for_memos() -> None:
    assert (part_of(256_000_000), part_of(0)) == (25_600_000, 0)
