"""Means with their spread, and ratios with an interval: is a difference larger than the noise?"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log, sqrt

from msgspec import Struct

_T95 = (inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t, two-sided 95 %, by degrees of freedom."""


class Spread(Struct, frozen=True):
    """Mean and standard deviation of a sample of runs."""

    mean: float
    deviation: float
    runs: int


class Ratio(Struct, frozen=True):
    """How many times larger, with the interval that holds the true ratio with 95 % confidence."""

    ratio: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Is the difference larger than the noise?"""
        return self.low > 1 or self.high < 1


def spread(values: Sequence[float]) -> Spread | None:
    """Mean ± standard deviation (of the sample, n - 1); None of nothing."""
    count = len(values)
    if not count:
        return None
    mean = sum(values) / count
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else 0.0
    return Spread(mean, deviation, count)


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """after / before of runs made in pairs. None when there is no pair, or a value is not above 0.

    The logarithms of the pairs' ratios are taken as normal: a machine that slows down for a while slows both of a pair.
    """
    pairs = list(zip(before, after, strict=True))
    if not pairs or any(value <= 0 for pair in pairs for value in pair):
        return None
    logs = spread([log(b / a) for a, b in pairs])
    assert logs is not None
    if logs.runs == 1:
        return Ratio(exp(logs.mean), 0.0, inf)
    reach = student(logs.runs - 1) * logs.deviation / sqrt(logs.runs)
    return Ratio(exp(logs.mean), exp(logs.mean - reach), exp(logs.mean + reach))


def student(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval."""
    return _T95[freedom] if freedom < len(_T95) else 1.96 + 2.5 / freedom
