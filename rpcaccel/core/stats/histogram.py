"""Latencies in fixed buckets: cheap to observe, exact to merge, honest to read.

The same bounds everywhere, so that workers, the page and Prometheus speak of the same figures.
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
    10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds in seconds, inclusive, from a memory hit (20 µs) to the longest patience (a minute)."""

BUCKETS = len(BOUNDS) + 1
"""The last bucket holds whatever took longer than the last bound."""


def _empty() -> list[int]:
    return [0] * BUCKETS


class Histogram(Struct):
    """Observations counted by bucket, and their sum in seconds."""

    counts: list[int] = field(default_factory=_empty)
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        """How many were observed."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Seconds; None when nothing was observed."""
        count = self.count
        return self.seconds / count if count else None

    def quantile(self, q: float) -> float | None:
        """The value in seconds under which a share `q` (0..1) lies; None when nothing was observed.

        Interpolated evenly inside a bucket, as Prometheus' histogram_quantile does, so that page and Grafana agree.
        What lies above the last bound is reported as that bound.
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
        """An independent copy."""
        return Histogram(self.counts[:], self.seconds)

    def add(self, other: Histogram) -> None:
        """Count everything `other` counted, too."""
        if not any(other.counts):
            return
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds

    def since(self, before: Histogram) -> Histogram:
        """What was observed after `before`; everything when `before` counts more (the counter began anew)."""
        if self is before or self.counts == before.counts:
            return Histogram()
        if not any(before.counts):
            return self.copy()
        counts = [mine - theirs for mine, theirs in zip(self.counts, before.counts, strict=True)]
        if min(counts) < 0:
            return self.copy()
        return Histogram(counts, max(0.0, self.seconds - before.seconds))


def together(histograms: Iterable[Histogram]) -> Histogram:
    """All observations of `histograms` in one."""
    total = Histogram()
    for histogram in histograms:
        total.add(histogram)
    return total
