from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from rpcaccel.core.stats.comparison import MIN_METHOD_CALLS, compare, mean_of
from rpcaccel.core.stats.histogram import Histogram


def took(*seconds: float) -> Histogram:
    histogram = Histogram()
    for one in seconds:
        histogram.observe(one)
    return histogram


def test_the_spread_of_a_mean_is_about_that_of_the_observations() -> None:
    rng = Random(2)
    seen = [rng.expovariate(20.0) for _ in range(400)]
    found = mean_of(took(*seen))
    assert found.seconds == pytest.approx(fmean(seen))
    assert found.variance**0.5 == pytest.approx(0.05 / 20, rel=0.25)
    assert mean_of(took(0.5)) is None


def test_the_spread_holds_1_for_19_of_20_pairs_of_equal_nodes() -> None:
    rng, held = Random(4), 0
    for _ in range(400):
        pair = [took(*(rng.lognormvariate(-4, 0.5) for _ in range(40))) for _ in range(2)]
        found = compare({"m": pair[0]}, {"m": pair[1]}, {})
        held += found.low <= 1.0 <= found.high
    assert 0.93 <= held / 400 <= 0.99


def test_only_methods_that_both_were_asked_often_enough_are_compared() -> None:
    mine = {"m": took(*[0.02] * 9), "rare": took(*[9.0] * 9), "own": took(*[9.0] * 9)}
    others = {"m": took(*[0.01] * 9), "rare": took(*[0.001] * (MIN_METHOD_CALLS - 1))}
    found = compare(mine, others, {"m": 18})
    assert (found.methods, found.calls) == (("m",), 9)
    assert (found.mean, found.others, found.ratio) == pytest.approx((0.02, 0.01, 2.0))
    assert compare(mine, {}, {}) is None


def test_a_method_counts_as_often_as_it_is_called() -> None:
    mine, others = {"a": took(*[0.1] * 10), "b": took(*[0.3] * 10)}, {"a": took(*[0.1] * 10), "b": took(*[0.1] * 10)}
    seldom, often = compare(mine, others, {"a": 99, "b": 1}), compare(mine, others, {"a": 1, "b": 99})
    assert (seldom.ratio, often.ratio) == pytest.approx((1.02, 2.98))
