from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.stats.histogram import BOUNDS, BUCKETS, Histogram, together

SECONDS = st.lists(st.floats(0.0, 100.0), max_size=60)


def observed(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    return histogram


def test_the_bounds_rise_from_twenty_microseconds_to_a_minute() -> None:
    assert BOUNDS[0] == 20e-6
    assert BOUNDS[-1] == 60.0
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert all(after / before <= 3.01 for before, after in pairwise(BOUNDS))
    assert observed([BOUNDS[3]]).counts[3] == 1, "a bound is inside its own bucket"
    assert observed([1000.0]).counts[BUCKETS - 1] == 1
    assert observed([1000.0]).quantile(0.99) == BOUNDS[-1]


def test_nothing_observed_has_neither_mean_nor_quantile() -> None:
    assert Histogram().mean is None
    assert Histogram().quantile(0.99) is None


def test_a_quantile_is_interpolated_inside_its_bucket() -> None:
    assert observed([4e-3] * 10).quantile(0.5) == pytest.approx(4e-3)
    assert observed([1e-6] * 4).quantile(0.5) == pytest.approx(10e-6)


@given(SECONDS)
def test_the_mean_is_that_of_the_values(values: list[float]) -> None:
    histogram = observed(values)
    assert histogram.count == len(values)
    if values:
        assert histogram.mean == pytest.approx(sum(values) / len(values))


@given(st.lists(st.floats(0.0, 60.0), min_size=1, max_size=60), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_quantiles_rise_and_stay_within_the_bucket_of_the_largest(values: list[float], one: float, two: float) -> None:
    histogram = observed(values)
    low, high = histogram.quantile(min(one, two)), histogram.quantile(max(one, two))
    assert low is not None
    assert high is not None
    assert 0.0 <= low <= high
    assert high <= next(bound for bound in BOUNDS if bound >= max(values))


@given(SECONDS, SECONDS)
def test_what_came_since_is_what_was_added(before: list[float], after: list[float]) -> None:
    old = observed(before)
    new = old.copy()
    new.add(observed(after))
    assert new.since(old).counts == observed(after).counts
    assert new.counts == together([old, observed(after)]).counts


def test_a_histogram_that_began_anew_is_all_new() -> None:
    assert observed([1.0]).since(observed([2.0, 2.0])).counts == observed([1.0]).counts
