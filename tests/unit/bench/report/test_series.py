"""Figures from what was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.bench.report.statistics import Series, Summary, percentile, together


def test_figures_of_known_values() -> None:
    series = Series()
    for number in range(1, 1001):
        series.add(number / 1000, "", "memory" if number <= 250 else "miss")
    found = series.summary(10.0)
    assert (found.p50, found.p90, found.p99, found.p999, found.max) == (0.5, 0.9, 0.99, 0.999, 1.0)
    assert (found.rate, found.hit_ratio, found.failures) == (100.0, 0.25, 0)


def test_failures_have_no_latency_but_timeouts_do() -> None:
    series = Series()
    series.add(0.001, "")
    series.add(0.0001, "http 502")
    series.add(10.0, "timeout")
    found = series.summary(2.0)
    assert (found.calls, found.failures, found.errors) == (3, 2, {"http 502": 1, "timeout": 1})
    assert (found.max, found.rate) == (10.0, 0.5)
    assert "3 calls, 2 failed" in repr(series)


def test_nothing_measured_is_no_zero() -> None:
    found = Series().summary(0.0)
    assert found == Summary(0, 0)
    assert (found.mean, found.rate, found.hit_ratio) == (None, None, None)


def test_blocks_of_a_range_count_as_one_source() -> None:
    series = Series()
    series.add(0.1, "", "partial; cached=3; of=4")
    assert series.sources == {"partial": 1}


def test_every_tier_of_the_cache_counts_as_a_hit() -> None:
    series = Series()
    for source in ("local", "memory", "disk", "redis", "flight", "miss"):
        series.add(0.1, "", source)
    assert series.summary(1.0).hit_ratio == pytest.approx(4 / 6)


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered) - 1e-9


@given(st.lists(st.lists(st.floats(0, 1))))
def test_series_together_hold_all_calls(parts: list[list[float]]) -> None:
    made = []
    for part in parts:
        one = Series()
        for value in part:
            one.add(value, "")
        made.append(one)
    assert together(made).calls == sum(map(len, parts))
