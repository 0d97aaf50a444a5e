"""Which blocks are done, left, and tried again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.warming.job import (
    MAX_FAILURE_KINDS,
    MAX_RANGES,
    FailedCalls,
    JobError,
    SavedJob,
    WarmingJob,
    WarmingOrder,
    WarmingTally,
    check_same,
    merged,
    number_of,
    read,
)

CALLS = ('eth_getBlockByNumber ["{hex}",false]', 'eth_getBlockByNumber ["{hex}",true]')


def order(
    first: int = 1, last: int | str = 5, network: str = "x", calls: tuple[str, ...] = CALLS, proxy: str = "http://a"
) -> WarmingOrder:
    return WarmingOrder(proxy, network, first, last, calls)  # type: ignore[arg-type]


def all_done(job: WarmingJob, *, but: tuple[int, ...] = ()) -> list[int]:
    """Do every block that is handed out; which they were."""
    taken = []
    while (block := job.take()) is not None:
        taken.append(block)
        job.finish(block, well=block not in but)
    return taken


def again(job: WarmingJob, newest: int) -> WarmingJob:
    """The job of the next run of the same command."""
    return WarmingJob(job.order, newest, read(job.save()))


def test_blocks_are_done_in_order_both_ends_included() -> None:
    job = WarmingJob(order(), 100)
    assert all_done(job) == [1, 2, 3, 4, 5]
    assert (job.blocks, job.done, job.given_up, job.complete) == (5, 5, 0, True)
    assert repr(job) == "<WarmingJob 5 of 5 blocks done, 0 given up>"


def test_what_was_under_way_or_not_begun_is_left_for_the_next_run() -> None:
    job = WarmingJob(order(), 100)
    one, two, three = job.take(), job.take(), job.take()
    assert (one, two, three) == (1, 2, 3)
    job.finish(1, well=True)
    job.finish(3, well=True)
    assert not job.complete
    later = again(job, 100)
    assert later.blocks == 3
    assert all_done(later) == [2, 4, 5]
    assert later.complete


def test_what_failed_is_not_tried_again_in_this_run_and_first_in_the_next() -> None:
    job = WarmingJob(order(), 100)
    assert all_done(job, but=(2, 3)) == [1, 2, 3, 4, 5]
    assert (job.done, job.given_up, job.complete) == (3, 2, False)
    assert all_done(again(job, 100)) == [2, 3]


def test_however_many_blocks_failed_the_next_run_leaves_none_that_it_did() -> None:
    job = WarmingJob(order(last=9 * MAX_RANGES), 10**6)
    all_done(job, but=tuple(range(0, 9 * MAX_RANGES, 3)))
    assert len(job.left) == MAX_RANGES
    later = again(job, 10**6)
    taken = all_done(later)
    assert set(range(3, 9 * MAX_RANGES, 3)) <= set(taken)
    assert (len(taken), later.complete) == (number_of(job.left), True)


def test_failures_in_a_row_are_counted_until_a_block_is_done() -> None:
    job = WarmingJob(order(), 100)
    seen = []
    for well in (False, False, True, False):
        block = job.take()
        assert block is not None
        job.finish(block, well=well)
        seen.append(job.failed_in_a_row)
    assert seen == [1, 2, 0, 1]


def test_it_ends_at_the_newest_block_that_is_kept_and_goes_on_from_there_later() -> None:
    job = WarmingJob(order(last=9), 6)
    assert all_done(job) == [1, 2, 3, 4, 5, 6]
    assert (job.end, job.complete) == (6, False)
    later = again(job, 100)
    assert all_done(later) == [7, 8, 9]
    assert later.complete


def test_a_job_to_the_final_block_goes_on_with_what_became_final_since() -> None:
    job = WarmingJob(order(last="final"), 6)
    all_done(job, but=(3,))
    later = again(job, 8)
    assert all_done(later) == [3, 7, 8]
    assert not later.complete
    idle = again(later, 8)
    assert (idle.blocks, idle.take()) == (0, None)


def test_a_final_block_that_is_lower_than_before_takes_nothing_back() -> None:
    job = WarmingJob(order(last="final"), 6)
    all_done(job)
    assert all_done(again(again(job, 4), 8)) == [7, 8]


def test_a_range_above_what_is_kept_is_refused() -> None:
    with pytest.raises(JobError, match="block 7 is above 6, the newest block that the proxy keeps for good"):
        WarmingJob(order(first=7, last=9), 6)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (order(proxy="http://b"), "whose proxy was http://a, and not http://b"),
        (order(network="y"), "whose network was x, and not y"),
        (order(last="final"), "whose blocks were 1..5, and not 1..final"),
        (order(calls=(*CALLS, "eth_getLogs [1]")), "whose calls were eth_getBlockByNumber, and not .*, eth_getLogs"),
        (order(calls=CALLS[:1]), r'whose calls were eth_.*",true\], and not .*",false\]$'),
    ],
)
def test_the_file_of_another_job_is_refused_by_what_differs(other: WarmingOrder, said: str) -> None:
    saved = read(WarmingJob(order(), 100).save())
    check_same(saved, order())
    check_same(None, other)
    with pytest.raises(JobError, match=said):
        check_same(saved, other)


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"\xff"])
def test_another_file_is_refused(text: bytes) -> None:
    with pytest.raises(JobError, match="is no file of a job"):
        read(text)


def test_a_damaged_or_later_file_is_refused() -> None:
    saved = WarmingJob(order(), 100).save()
    with pytest.raises(JobError, match="is no file of a job"):
        read(saved.replace(b"5\n", b"0\n"))
    with pytest.raises(JobError, match="has version 2"):
        read(saved.replace(b'"version": 1', b'"version": 2'))
    assert isinstance(read(saved), SavedJob)


def test_hits_of_every_tier_count_as_there() -> None:
    tally = WarmingTally()
    for source in ("memory", "disk", "redis", "miss", "flight", ""):
        tally.answered(source, 10)
    assert (tally.calls, tally.there, tally.bytes) == (6, 3, 60)


def test_failures_are_counted_by_kind_and_only_some_kinds_are_told_apart() -> None:
    tally = WarmingTally()
    for number in range(MAX_FAILURE_KINDS + 3):
        tally.failed(number, "m", str(number))
        tally.failed(number + 1, "m", "0")
    assert (tally.failed_calls, len(tally.failures)) == (2 * MAX_FAILURE_KINDS + 6, MAX_FAILURE_KINDS)
    assert tally.failures["m", "0"] == FailedCalls("m", "0", 0, MAX_FAILURE_KINDS + 4)


@given(st.lists(st.integers(0, 60)))
def test_blocks_are_held_as_ranges_that_are_apart(blocks: list[int]) -> None:
    ranges = merged((block, block) for block in blocks)
    assert [block for first, last in ranges for block in range(first, last + 1)] == sorted(set(blocks))
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))
    assert number_of(ranges) == len(set(blocks))
    assert merged(ranges) == ranges


def test_ranges_stay_few_and_lose_no_block_however_many_holes_there_are() -> None:
    added = [*range(0, 3 * MAX_RANGES, 3), *range(10 * MAX_RANGES, 20 * MAX_RANGES, 10)]
    ranges = merged((block, block) for block in added)
    held = {block for first, last in ranges for block in range(first, last + 1)}
    assert len(ranges) == MAX_RANGES
    assert set(added) <= held
    assert len(held) == len(added) + (MAX_RANGES - 1) * 2 + 9  # the narrow holes went, and one of the wide ones
