"""Larger than the noise, or not."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from rpcaccel.bench.report.statistics import ratio, student


def test_runs_that_differ_by_a_factor_tell_it() -> None:
    found = ratio([100, 110, 90], [200, 220, 180])
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert found.certain


def test_noise_is_not_taken_for_a_difference() -> None:
    """95 % intervals of equal sides must hold 1 about 95 times of 100."""
    rng = Random(1)
    wrong = 0
    for _ in range(400):
        a, b = ([rng.lognormvariate(0, 0.2) for _ in range(5)] for _ in range(2))
        found = ratio(a, b)
        assert found is not None
        wrong += found.certain
    assert wrong < 40


def test_one_run_tells_nothing_of_the_noise() -> None:
    found = ratio([1.0], [2.0])
    assert found is not None
    assert (found.low, found.high, found.certain) == (0.0, inf, False)


@pytest.mark.parametrize(("a", "b"), [([], []), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_no_ratio_without_values_above_zero(a: list[float], b: list[float]) -> None:
    assert ratio(a, b) is None


def test_student_comes_near_the_normal_distribution() -> None:
    assert student(4) == 2.776
    assert 1.96 < student(100) < 2.0
    assert student(16) < student(15)
