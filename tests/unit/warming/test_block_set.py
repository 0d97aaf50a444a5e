"""Blocks as ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.warming.block_set import MOST, BlockSet


@given(st.sets(st.integers(0, 60)), st.integers(0, 70))
def test_what_is_left_is_what_was_not_removed(removed: set[int], start: int) -> None:
    blocks = BlockSet([(0, 60)])
    for block in removed:
        blocks.remove(block)
    left = [block for block in range(61) if block not in removed]
    assert [block for first, last in blocks.ranges for block in range(first, last + 1)] == left
    assert len(blocks) == len(left)
    assert blocks.lowest_from(start) == next((block for block in left if block >= start), None)
    assert BlockSet(blocks.ranges).ranges == blocks.ranges


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
    blocks = BlockSet([(0, 10_000_000)])
    for block in range(1, 6 * MOST, 3):
        blocks.remove(block)
        assert len(blocks.ranges) <= MOST
    kept = {block for first, last in blocks.ranges if last < 10_000_000 for block in range(first, last + 1)}
    wanted = {block for block in range(6 * MOST) if block % 3 != 1}
    assert wanted <= kept | set(range(blocks.ranges[-1][0], 6 * MOST))
    assert blocks.ranges[-1] == (6 * MOST - 1, 10_000_000)


def test_where_the_job_is_at_work_no_ranges_are_joined() -> None:
    blocks = BlockSet([(0, 10_000_000)])
    for block in range(1, 4 * MOST, 4):  # holes of two blocks, as many as there may be
        blocks.remove(block)
        blocks.remove(block + 1)
    newest = 4 * MOST + 101
    for block in range(newest, newest + 40, 2):
        blocks.remove(block)
        assert blocks.lowest_from(block) == block + 1
    assert all(blocks.lowest_from(block) == block + 1 for block in range(newest, newest + 40, 2))
    assert len(blocks.ranges) <= MOST
