"""How quickly blocks come: learned where it is quicker than expected, and from nothing else."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.heads.block_time import BlockPace


def after(*moves: tuple[float, int], expected: float = 12.0) -> float:
    """Seconds a block takes, after the head stood so long and then moved so far, again and again."""
    pace = BlockPace(expected)
    number, now = 100, 50.0
    pace.see(number, now)
    for seconds, blocks in moves:
        number, now = number + blocks, now + seconds
        pace.see(number, now)
    return pace.seconds


def test_nothing_is_learned_from_a_few_moves() -> None:
    assert after(*[(2.0, 1)] * 4) == 12.0
    assert after(*[(2.0, 1)] * 5) == 2.0


def test_blocks_that_come_several_at_a_look_are_counted_each() -> None:
    assert after(*[(5.0, 2), (5.0, 3)] * 5) in {5 / 2, 5 / 3}


def test_a_chain_is_never_taken_for_a_slower_one_nor_for_a_slightly_quicker_one() -> None:
    assert after(*[(60.0, 1)] * 9) == 12.0
    assert after(*[(10.0, 1), (15.0, 1)] * 5) == 12.0


def test_a_jump_of_a_node_that_catches_up_does_not_count() -> None:
    assert after(*[(12.0, 1)] * 4, (1.0, 5000), *[(12.0, 1)] * 4) == 12.0


def test_a_head_that_goes_back_begins_anew_from_there() -> None:
    assert after(*[(2.0, 1)] * 5, (2.0, -3), *[(2.0, 1)] * 2) == 2.0


def test_what_was_quick_for_a_while_is_forgotten() -> None:
    assert after(*[(0.1, 50)] * 9, *[(12.0, 1)] * 5) == 12.0


@given(st.lists(st.tuples(st.floats(0.01, 100.0), st.integers(-5, 500)), max_size=30))
def test_it_lies_between_nothing_and_what_is_expected(moves: list[tuple[float, int]]) -> None:
    for length in accumulate([1] * len(moves)):
        assert 0.0 < after(*moves[:length], expected=2.0) <= 2.0


def measured(*moves: float, expected: float = 12.0) -> float | None:
    """The measured block time after moves of one block each, in seconds."""
    pace, now = BlockPace(expected), 50.0
    pace.see(100, now)
    for number, seconds in enumerate(moves, 101):
        now += seconds
        pace.see(number, now)
    return pace.measured


def test_the_measured_block_time_is_not_known_before_some_blocks_have_come() -> None:
    assert measured(*[2.0] * 4) is None
    assert measured(*[2.0] * 5) == 2.0


def test_the_measured_block_time_may_be_longer_than_the_expected_one() -> None:
    assert measured(*[60.0] * 9) == 60.0


def test_uneven_looks_and_a_halt_of_the_chain_are_no_block_time() -> None:
    assert measured(*[10.0, 15.0] * 12) == 12.0  # as expected, within what looks can tell
    assert measured(*[2.0] * 20, 600.0, *[2.0] * 5) == 2.0
