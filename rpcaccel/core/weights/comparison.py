"""How quick a node is compared with others: over the same methods only, and with the spread of the comparison.

Nodes that take other calls differ in their averages, however alike they are. So the means of each method are compared,
and each method counts as often as the network calls it. The spread follows from the histograms: the variance of a mean
is that of the observations divided by their number, and within a bucket observations count as spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log, sqrt

from msgspec import Struct

from rpcaccel.core.stats.histogram import BOUNDS, Histogram

FEWEST = 5
"""Calls of a method, on either side, below which the method is not compared."""
SURE = 2.0
"""Standard errors between the middle and the ends of a spread: 19 of 20 comparisons of equal nodes hold 1."""
_ROUNDS = 30
"""Rounds in which paces are found; each brings them closer by a multiple."""
EDGES = (0.0, *BOUNDS, 2 * BOUNDS[-1])
"""The ends of the buckets in seconds; what lies above the last bound counts as up to twice that."""


class Mean(Struct, frozen=True):
    """The mean of some observations in seconds, how many there are, and the variance of the mean."""

    count: int
    seconds: float
    variance: float


class Comparison(Struct, frozen=True):
    """The seconds of a node and those of the others for the same methods, with the ratio of the two."""

    methods: int
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
            low, high = EDGES[bucket], EDGES[bucket + 1]
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
    methods = calls = 0
    weight = seconds = theirs = spread = their_spread = 0.0
    for method, histogram in mine.items():
        one, other = mean_of(histogram), mean_of(others.get(method, _NOTHING))
        if one is None or other is None or min(one.count, other.count) < FEWEST:
            continue
        count = often.get(method, one.count + other.count)
        methods, calls, weight = methods + 1, calls + one.count, weight + count
        seconds, theirs = seconds + count * one.seconds, theirs + count * other.seconds
        spread += count * count * one.variance
        their_spread += count * count * other.variance
    if not seconds or not theirs:
        return None
    ratio = seconds / theirs
    error = SURE * sqrt(spread / seconds**2 + their_spread / theirs**2)
    middle = log(ratio)
    low, high = exp(middle - min(error, 50.0)), exp(middle + min(error, 50.0))
    return Comparison(methods, calls, seconds / weight, theirs / weight, ratio, low, high, sqrt(spread) / seconds)


class Paces(Struct, frozen=True):
    """Latencies taken apart into what is the node's and what is the method's: a call takes their product in seconds."""

    nodes: Mapping[str, float]
    """By node, how many times as long as calls to all nodes together its calls take. Nodes without a method in common
    with these are left out."""
    methods: Mapping[str, float]
    """By method, the seconds at a pace of 1."""
    compared: Mapping[str, int]
    """By node, the calls to methods that another of these nodes answers as well."""


def paces_of(latencies: Mapping[str, Mapping[str, Histogram]]) -> Paces:
    """The paces of nodes that are asked different methods, by node and method.

    Pace and seconds are found by the method of marginal totals (Bailey, 1963): with them each node, and each method,
    takes as many seconds as it did. Nodes are compared by methods of which both answered FEWEST calls or more.
    """
    shared = _shared(latencies)
    members = _connected(shared)
    pace = dict.fromkeys(members, 1.0)
    seconds: dict[str, float] = {}
    for _ in range(_ROUNDS):
        seconds = _by_method(latencies, pace)
        for id in members:
            own = {method: one for method, one in latencies[id].items() if any(one.counts)}
            took = sum(one.seconds for one in own.values())
            pace[id] = took / max(1e-12, sum(one.count * seconds[method] for method, one in own.items()))
    calls = {id: sum(one.count for one in latencies[id].values()) for id in members}
    whole = sum(calls.values())
    mean = sum(pace[id] * calls[id] for id in members) / whole if whole else 1.0
    if not mean:
        return Paces({}, {}, {})
    return Paces(
        nodes={id: pace[id] / mean for id in members},
        methods={method: one * mean for method, one in _by_method(latencies, pace).items()},
        compared={
            id: sum(latencies[id][method].count for method, ids in shared.items() if id in ids) for id in members
        },
    )


def _by_method(latencies: Mapping[str, Mapping[str, Histogram]], pace: Mapping[str, float]) -> dict[str, float]:
    """The seconds of each method at a pace of 1."""
    took: dict[str, float] = {}
    paced: dict[str, float] = {}
    for id, factor in pace.items():
        for method, one in latencies[id].items():
            took[method] = took.get(method, 0.0) + one.seconds
            paced[method] = paced.get(method, 0.0) + one.count * factor
    return {method: seconds / paced[method] for method, seconds in took.items() if paced[method] > 0.0}


def _shared(latencies: Mapping[str, Mapping[str, Histogram]]) -> dict[str, list[str]]:
    """The nodes that answered a method often enough, for each method with two of them."""
    found: dict[str, list[str]] = {}
    for id, methods in latencies.items():
        for method, one in methods.items():
            if one.count >= FEWEST:
                found.setdefault(method, []).append(id)
    return {method: ids for method, ids in found.items() if len(ids) > 1}


def _connected(shared: Mapping[str, Sequence[str]]) -> list[str]:
    """The largest group of nodes each of which has a method in common with another of them."""
    groups: list[set[str]] = []
    for ids in shared.values():
        joined = set(ids)
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    largest: set[str] = max(groups, key=len, default=set())
    return sorted(largest)


_NOTHING = Histogram()
