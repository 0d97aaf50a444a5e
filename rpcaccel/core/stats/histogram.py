"""Latency histograms with fixed buckets, which are cheap to observe and exact to merge.

All histograms have the same bounds, so that workers, the page and Prometheus show the same numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from msgspec import Struct, field

BOUNDS: tuple[float, ...] = (
    20e-6, 30e-6, 50e-6,
    100e-6, 200e-6, 300e-6, 500e-6,
    1e-3, 2e-3, 3e-3, 5e-3,
    10e-3, 20e-3, 30e-3, 50e-3,
    0.1, 0.2, 0.3, 0.5,
    1.0, 2.0, 3.0, 5.0,
    10.5, 31.0, 60.0,
)  # fmt: skip
"""Upper bounds of the buckets in seconds (inclusive), from a memory hit (20 µs) to the longest time limit (a
minute). Two are a little above the usual time limits of 10 s and 30 s: what ends by one has not taken far longer."""

BUCKETS = len(BOUNDS) + 1
"""Number of buckets; the last one holds everything above the last bound."""


def _empty() -> list[int]:
    return [0] * BUCKETS


class Histogram(Struct):
    """Observations counted by bucket, and their sum in seconds."""

    counts: list[int] = field(default_factory=_empty)
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Mean in seconds; None without observations."""
        count = self.count
        return self.seconds / count if count else None

    def quantile(self, q: float) -> float | None:
        """The quantile `q` (0..1) in seconds; None without observations.

        It is interpolated inside a bucket as Prometheus' histogram_quantile does, so that page and Grafana agree. A
        quantile above the last bound is reported as that bound.
        """
        count = self.count
        if not count:
            return None
        rank = q * count
        below = 0
        for bucket, inside in enumerate(self.counts):
            if inside and below + inside >= rank:
                if bucket == len(BOUNDS):
                    break
                low = BOUNDS[bucket - 1] if bucket else 0.0
                return low + (BOUNDS[bucket] - low) * max(0.0, rank - below) / inside
            below += inside
        return BOUNDS[-1]

    def copy(self) -> Histogram:
        return Histogram(self.counts[:], self.seconds)

    def add(self, other: Histogram) -> None:
        """Add the observations of `other`."""
        if not any(other.counts):
            return
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds

    def since(self, before: Histogram) -> Histogram:
        """The observations made after `before`; all of them if `before` has more, because the counter was reset."""
        if self is before or self.counts == before.counts:
            return Histogram()
        if not any(before.counts):
            return self.copy()
        counts = [mine - theirs for mine, theirs in zip(self.counts, before.counts, strict=True)]
        if min(counts) < 0:
            return self.copy()
        return Histogram(counts, max(0.0, self.seconds - before.seconds))


def together(histograms: Iterable[Histogram]) -> Histogram:
    """Merge histograms into one."""
    told = [histogram for histogram in histograms if any(histogram.counts)]
    if not told:
        return Histogram()
    counts = [sum(column) for column in zip(*(histogram.counts for histogram in told), strict=True)]
    return Histogram(counts, sum(histogram.seconds for histogram in told))
