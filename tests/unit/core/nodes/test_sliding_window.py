from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.sliding_window import SlidingCounts


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
