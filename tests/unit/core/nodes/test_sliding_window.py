"""Counts over a sliding span, and bounds of what comes within a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.sliding_window import Inflow, SlidingCounts


def test_counts_leave_with_their_slice() -> None:
    counts = SlidingCounts(2, span=10.0, slices=10)
    counts.bump(0, 0.5)
    counts.bump(1, 5.0)
    assert counts.totals(9.9) == [1, 1]
    assert counts.totals(10.0) == [0, 1]
    assert counts.totals(1000.0) == [0, 0]


def test_cleared_counts_are_all_zero() -> None:
    counts = SlidingCounts(1, span=10.0, slices=10)
    counts.bump(0, 1.0)
    counts.clear()
    assert counts.totals(1.0) == [0]


@given(st.lists(st.floats(0.0, 100.0), max_size=60))
def test_totals_are_the_counts_of_the_span(times: list[float]) -> None:
    counts = SlidingCounts(1, span=10.0, slices=10)
    times.sort()
    for time in times:
        counts.bump(0, time)
    end = times[-1] if times else 0.0
    assert counts.totals(end)[0] == sum(1 for time in times if int(time) > int(end) - 10)


MIB = 1 << 20


def test_each_second_has_its_own_bounds() -> None:
    inflow = Inflow("messages", 3, 2 * MIB)
    for now in (0.0, 0.5, 0.9, 1.0, 1.1, 1.9, 5.0):
        assert inflow.take(0, now) == ""
    assert [inflow.take(0, 5.99) for _ in range(3)] == ["", "", "more than 3 messages a second"]
    assert inflow.take(2 * MIB, 6.0) == ""
    assert inflow.take(1, 6.1) == "more than 2 MiB of messages a second"
    assert inflow.take(2 * MIB, 7.0) == ""
