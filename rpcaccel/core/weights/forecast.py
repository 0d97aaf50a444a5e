"""What calls would have taken with other shares of the nodes: the calls of an hour, replayed.

Each call is given to the nodes by their new shares, and takes there what the node took for calls of its method in that
hour. A node gets no more calls than it can take; what it cannot take goes to the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rpcaccel.core.stats.histogram import BOUNDS, BUCKETS, Histogram, together
from rpcaccel.core.weights.comparison import EDGES

LACKS = 20.0
"""A node that answered no call of a method, where its part of the answers let expect this many, does not serve the
method: it lacks a role, or a route leads elsewhere."""
_FINE = 1000
"""Parts of a call that are counted when it is divided among nodes."""


class Forecast(Struct, frozen=True):
    """How long calls take, in seconds; None without calls."""

    p50: float | None = None
    p99: float | None = None
    mean: float | None = None


def forecast_of(histogram: Histogram) -> Forecast:
    """The figures of some latencies."""
    return Forecast(histogram.quantile(0.5), histogram.quantile(0.99), histogram.mean)


def limited(shares: Mapping[str, float], capacity: Mapping[str, float]) -> dict[str, float]:
    """The shares of the calls (0..1, together 1) once no node has more than its capacity, in the same unit.

    What a node cannot take goes to the others by their shares. Where all are full, what is left is divided by what
    they can take.
    """
    total = sum(shares.values())
    if total <= 0:
        return dict(shares)
    found = {id: share / total for id, share in shares.items()}
    full: set[str] = set()
    while over := {id for id, share in found.items() if id not in full and share > capacity[id] * (1 + 1e-9)}:
        full |= over
        rest = 1.0 - sum(capacity[id] for id in full)
        free = sum(shares[id] for id in found if id not in full)
        if rest <= 0 or free <= 0:
            whole = sum(min(capacity[id], 1.0) for id in found)
            return {id: min(capacity[id], 1.0) / whole for id in found} if whole > 0 else found
        found = {id: capacity[id] if id in full else rest * shares[id] / free for id in found}
    return found


def replay(
    latencies: Mapping[str, Mapping[str, Histogram]], shares: Mapping[str, float], paces: Mapping[str, float]
) -> Histogram:
    """The latencies of all calls, had the nodes got these shares of them.

    Args:
        latencies: by node and method, what was measured.
        shares: by node, its share of the calls that it can serve, 0 to 1.
        paces: by node, how many times the seconds of all nodes together it takes, for methods that were not measured.
    """
    pooled = pool(latencies.values())
    answers = {id: sum(histogram.count for histogram in one.values()) for id, one in latencies.items()}
    total = max(1, sum(answers.values()))
    parts: list[Histogram] = []
    for method, all_of_it in pooled.items():
        count = all_of_it.count
        had = {id: own if (own := one.get(method)) and any(own.counts) else None for id, one in latencies.items()}
        servers = {id: shares[id] for id in had if shares.get(id) and (had[id] or answers[id] * count / total < LACKS)}
        if not any(had[id] for id in servers):
            parts.append(_times(all_of_it, _FINE, 1.0))  # only nodes without a share serve it: they go on doing so
            continue
        whole = sum(servers.values())
        for id, share in servers.items():
            own = had[id]
            source, pace = (all_of_it, paces.get(id, 1.0)) if own is None else (own, 1.0)
            parts.append(_times(source, _FINE * count * share / whole / source.count, pace))
    return together(parts)


def pool(latencies: Iterable[Mapping[str, Histogram]]) -> dict[str, Histogram]:
    """The latencies of several nodes together, by method."""
    found: dict[str, list[Histogram]] = {}
    for one in latencies:
        for method, histogram in one.items():
            if any(histogram.counts):
                found.setdefault(method, []).append(histogram)
    return {method: together(several) for method, several in found.items()}


def _times(histogram: Histogram, factor: float, pace: float) -> Histogram:
    """The histogram with `factor` times the observations, each of which took `pace` times as long."""
    counts = [round(count * factor) for count in histogram.counts]
    if pace == 1.0:
        return Histogram(counts, histogram.seconds * factor)
    moved = [0] * BUCKETS
    for bucket, count in enumerate(counts):
        if count:
            middle = (EDGES[bucket] + EDGES[bucket + 1]) / 2
            moved[bisect_left(BOUNDS, middle * pace)] += count
    return Histogram(moved, histogram.seconds * factor * pace)
