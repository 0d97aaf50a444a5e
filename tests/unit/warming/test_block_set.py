"""Blocks as ranges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.warming.block_set import MOST, BlockSet


@given(st.lists(st.integers(0, 60)), st.integers(0, 30))
def test_what_was_added_comes_out_lowest_first(added: list[int], taken: int) -> None:
    blocks = BlockSet()
    for block in added:
        blocks.add(block)
    within = sorted(set(added))
    assert [block for first, last in blocks.ranges for block in range(first, last + 1)] == within
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(blocks.ranges))
    assert len(blocks) == len(within)
    assert BlockSet(blocks.ranges).ranges == blocks.ranges
    assert [blocks.pop() for _ in range(taken)] == [*within, *[None] * taken][:taken]


def test_ranges_that_touch_are_one() -> None:
    blocks = BlockSet([(1, 5)])
    blocks.append(6, 9)
    blocks.append(11, 12)
    assert blocks.ranges == [(1, 9), (11, 12)]
    assert repr(blocks) == "<BlockSet of 11 blocks in 2 ranges>"


@pytest.mark.parametrize("ranges", [[(5, 4)], [(5, 9), (9, 12)], [(5, 9), (1, 2)], [(-1, 3)]])
def test_ranges_out_of_order_are_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="not sorted"):
        BlockSet(ranges)


def test_it_stays_small_and_loses_no_block_however_many_holes_there_are() -> None:
    blocks, added = BlockSet(), [*range(0, 3 * MOST, 3), *range(10 * MOST, 20 * MOST, 10)]
    for block in reversed(added):
        blocks.add(block)
        assert len(blocks.ranges) <= MOST
    held = [block for first, last in blocks.ranges for block in range(first, last + 1)]
    assert set(added) <= set(held)
    assert len(held) == len(added) + (MOST - 1) * 2 + 9  # the narrow holes were given up, and one of the wide ones
    more = BlockSet((block, block) for block in range(0, 6 * MOST, 2))
    assert len(more.ranges) == MOST
