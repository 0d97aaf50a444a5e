"""How quickly blocks come: told by two headers at first, then by the moves of the head, and by nothing else."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.heads.block_time import SLOWEST, BlockPace


def paced(*moves: tuple[float, int], expected: float = 12.0, headers: tuple[int, float] = (0, 0.0)) -> BlockPace:
    """The pace after two headers so many blocks and seconds apart, and a head that stood so long and then moved so far,
    again and again."""
    pace = BlockPace(expected)
    number, now = 100, 50.0
    pace.see(number, now)
    pace.state(*headers)
    for seconds, blocks in moves:
        number, now = number + blocks, now + seconds
        pace.see(number, now)
    return pace


def test_nothing_is_learned_from_a_few_moves() -> None:
    assert not paced(*[(2.0, 1)] * 3).known
    assert paced(*[(2.0, 1)] * 4).seconds == paced(*[(2.0, 1)] * 4).told == 2.0


def test_blocks_that_come_several_at_a_look_are_counted_each() -> None:
    assert paced(*[(5.0, 2), (5.0, 3)] * 5).period == 2.0


def test_calls_never_wait_by_a_slower_pace_than_expected_and_looks_do() -> None:
    slow = paced(*[(60.0, 1)] * 9)
    assert (slow.seconds, slow.period, slow.told) == (12.0, 60.0, 60.0)


@pytest.mark.parametrize("jump", [5, 500, 5000])
def test_a_jump_of_a_node_that_catches_up_does_not_count(jump: int) -> None:
    assert paced(*[(12.0, 1)] * 4, (1.0, jump), *[(12.0, 1)] * 4).period == 12.0


def test_uneven_looks_and_a_halt_of_the_chain_are_no_block_time() -> None:
    assert paced(*[(10.0, 1), (15.0, 1)] * 12).told == 12.0  # as expected, within what looks can tell
    assert paced(*[(2.0, 1)] * 10, (600.0, 1), *[(2.0, 1)] * 3).told == 2.0


def test_a_head_that_goes_back_begins_anew_from_there() -> None:
    assert paced(*[(2.0, 1)] * 5, (2.0, -3), *[(2.0, 1)] * 2).period == 2.0


def test_a_head_that_seems_to_go_back_for_a_moment_is_no_quick_block() -> None:
    assert paced(*[(2.0, 1), (0.1, -1), (0.1, 1)] * 5).period == pytest.approx(2.2, abs=0.05)


def test_what_was_quick_for_a_while_is_forgotten() -> None:
    assert paced(*[(0.1, 50)] * 16, *[(12.0, 1)] * 9).period == 12.0


@given(st.lists(st.tuples(st.floats(0.01, 100.0), st.integers(-5, 500)), max_size=30))
def test_calls_wait_by_something_between_nothing_and_what_is_expected(moves: list[tuple[float, int]]) -> None:
    for length in accumulate([1] * len(moves)):
        assert 0.0 < paced(*moves[:length], expected=2.0).seconds <= 2.0


@given(period=st.floats(0.05, 12.0), blocks=st.integers(16, 64), begun=st.floats(0.0, 1.0), at=st.floats(0.0, 1000.0))
def test_two_headers_tell_the_pace_within_what_whole_seconds_allow(
    period: float, blocks: int, begun: float, at: float
) -> None:
    seconds = int(begun + blocks * period) - int(begun)
    pace = paced(headers=(blocks, seconds))
    if seconds:
        assert abs(pace.seconds - period) <= 1 / blocks
        assert 0 < pace.pause(50.0 + at) <= pace.calm <= SLOWEST
    else:
        assert not pace.known


@pytest.mark.parametrize("headers", [(3, 6.0), (64, 0.0), (64, -5.0), (64, 2000.0), (64, 128_000.0), (64, 1e9)])
def test_headers_that_are_near_or_at_one_time_or_too_far_apart_tell_nothing(headers: tuple[int, float]) -> None:
    assert not paced(headers=headers).known


@given(st.floats(0.01, 1000.0), st.integers(0, 2))
def test_one_node_of_three_with_false_timestamps_does_not_change_the_pace(false: float, place: int) -> None:
    pace, told = BlockPace(12.0), [128.0, 128.0]
    told.insert(place, false)
    for seconds in told:
        pace.state(64, seconds)
    assert pace.period == 2.0


def test_headers_of_a_chain_that_missed_some_slots_tell_the_expected_period() -> None:
    assert paced(headers=(64, 64 * 13.0)).period == 12.0


def test_the_moves_of_the_head_come_before_headers_once_they_are_surer() -> None:
    assert paced(*[(1.0, 1)] * 15, headers=(64, 128.0)).period == 2.0
    assert paced(*[(1.0, 1)] * 16, headers=(64, 128.0)).period == 1.0
