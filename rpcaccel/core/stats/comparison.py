"""How quick a node is compared with others: over the same methods only, and with the spread of the comparison.

Nodes that take other calls differ in their averages, however alike they are. So the means of each method are compared,
and each method counts as often as the network calls it. The spread follows from the histograms: the variance of a mean
is that of the observations divided by their number, and within a bucket observations count as spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log, sqrt

from msgspec import Struct

from rpcaccel.core.stats.histogram import BOUNDS, Histogram, together

MIN_METHOD_CALLS = 5
"""Calls of a method, on either side, below which the method is not compared."""
SURE = 2.0
"""Standard errors between the middle and the ends of a spread: 19 of 20 comparisons of equal nodes hold 1."""
_EDGES = (0.0, *BOUNDS, 2 * BOUNDS[-1])
"""The ends of the buckets in seconds; what lies above the last bound counts as up to twice that."""


class Mean(Struct, frozen=True):
    """The mean of some observations in seconds, how many there are, and the variance of the mean."""

    count: int
    seconds: float
    variance: float


class Comparison(Struct, frozen=True):
    """The seconds of a node and those of the others for the same methods, with the ratio of the two."""

    methods: tuple[str, ...]
    """Methods that were compared."""
    calls: int
    """Calls of the node to these methods."""
    mean: float
    others: float
    ratio: float
    low: float
    high: float
    """Between `low` and `high` lies the ratio with a probability of 95 %."""
    error: float
    """The standard error of `mean`, as a share of it."""


def mean_of(histogram: Histogram) -> Mean | None:
    """The mean with its spread; None of fewer than two observations."""
    count = histogram.count
    if count < 2:
        return None
    first = second = 0.0
    for bucket, inside in enumerate(histogram.counts):
        if inside:
            low, high = _EDGES[bucket], _EDGES[bucket + 1]
            middle = (low + high) / 2
            first += inside * middle
            second += inside * (middle * middle + (high - low) ** 2 / 12)
    variance = max(0.0, second / count - (first / count) ** 2)
    return Mean(count, histogram.seconds / count, variance / (count - 1))


def compare(
    mine: Mapping[str, Histogram], others: Mapping[str, Histogram], often: Mapping[str, int]
) -> Comparison | None:
    """Compare the latencies of a node with those of others.

    Args:
        mine: the latencies of the node by method.
        others: those of the others.
        often: how often the network calls each method.

    Returns:
        None when no method was called often enough on both sides.
    """
    methods: list[str] = []
    calls = 0
    weight = seconds = theirs = spread = their_spread = 0.0
    for method, histogram in mine.items():
        one, other = mean_of(histogram), mean_of(others.get(method, _NOTHING))
        if one is None or other is None or min(one.count, other.count) < MIN_METHOD_CALLS:
            continue
        count = often.get(method, one.count + other.count)
        methods.append(method)
        calls, weight = calls + one.count, weight + count
        seconds, theirs = seconds + count * one.seconds, theirs + count * other.seconds
        spread += count * count * one.variance
        their_spread += count * count * other.variance
    if not seconds or not theirs:
        return None
    ratio = seconds / theirs
    error = SURE * sqrt(spread / seconds**2 + their_spread / theirs**2)
    middle = log(ratio)
    low, high = exp(middle - min(error, 50.0)), exp(middle + min(error, 50.0))
    mean, its_error = seconds / weight, sqrt(spread) / seconds
    return Comparison(tuple(methods), calls, mean, theirs / weight, ratio, low, high, its_error)


def pool(latencies: Iterable[Mapping[str, Histogram]]) -> dict[str, Histogram]:
    """The latencies of several nodes together, by method."""
    found: dict[str, list[Histogram]] = {}
    for one in latencies:
        for method, histogram in one.items():
            if any(histogram.counts):
                found.setdefault(method, []).append(histogram)
    return {method: together(several) for method, several in found.items()}


_NOTHING = Histogram()
