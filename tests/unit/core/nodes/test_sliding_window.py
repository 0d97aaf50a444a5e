from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.sliding_window import BOUNDS, LatencyWindow, SlidingCounts


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


def test_an_unused_window_knows_nothing() -> None:
    window = LatencyWindow()
    assert not window.known
    assert window.quantile(0.9, 1.0) is None
    assert window.peak(5.0) == 0.0
    assert window.count(1.0) == 0


@pytest.mark.parametrize("seconds", [0.0001, 0.004, 0.2, 3.0])
def test_a_quantile_is_right_to_within_a_bucket(seconds: float) -> None:
    window = LatencyWindow()
    for step in range(100):
        window.add(seconds, step * 0.01)
    quantile = window.quantile(0.5, 1.0)
    assert quantile is not None
    assert seconds / 1.35 - BOUNDS[0] <= quantile <= max(seconds * 1.35, BOUNDS[0])


def test_what_is_slower_than_every_bucket_counts_as_the_last() -> None:
    window = LatencyWindow()
    window.add(500.0, 1.0)
    assert window.quantile(1.0, 1.0) == BOUNDS[-1]


def test_old_samples_are_forgotten() -> None:
    window = LatencyWindow(span=60.0)
    window.add(5.0, 0.0)
    window.add(0.01, 120.0)
    assert window.count(120.0) == 1
    assert window.ewma == pytest.approx(0.01, rel=0.01)


def test_the_peak_jumps_up_at_once_and_sinks_slowly() -> None:
    window = LatencyWindow(decay=10.0)
    window.add(0.01, 0.0)
    window.add(2.0, 0.1)
    assert window.last_peak == 2.0
    window.add(0.01, 0.2)
    assert 1.9 < window.peak(0.2) < 2.0
    assert window.peak(60.0) < 0.01
    assert window.ewma < 0.1


def test_a_clock_that_does_not_move_spoils_nothing() -> None:
    window = LatencyWindow()
    window.add(0.1, 1.0)
    window.add(0.2, 1.0)
    assert window.ewma == 0.1
    assert window.count(1.0) == 2
    assert "100.0 ms" in repr(window)
