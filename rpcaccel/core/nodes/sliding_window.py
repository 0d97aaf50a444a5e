"""What happened lately: counts over a sliding span of time, and latency that forgets.

Time is cut into slices; a slice that leaves the span takes its counts with it. Totals are kept running, so that
reading costs nothing however long the span.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp

BOUNDS: tuple[float, ...] = tuple(0.0005 * 1.35**step for step in range(38))
"""Upper bounds of the latency buckets in seconds, 0.5 ms to 33 s; quantiles are exact to within 35 %."""


class SlidingCounts:
    """`columns` counters over the last `span` seconds (exact to one slice)."""

    __slots__ = ("_ends", "_now", "_slice_seconds", "_slices", "_totals", "_turn")

    def __init__(self, columns: int, *, span: float, slices: int) -> None:
        self._slice_seconds = span / slices
        self._slices = [[0] * columns for _ in range(slices)]
        self._totals = [0] * columns
        self._turn = -1
        self._now = self._slices[-1]
        """The slice of this turn,"""
        self._ends = float("-inf")
        """and when it is over."""

    def bump(self, column: int, now: float) -> None:
        """Count one in `column`."""
        if now >= self._ends:
            self._advance(now)
        self._now[column] += 1
        self._totals[column] += 1

    def totals(self, now: float) -> list[int]:
        """The counts of the span that ends at `now`, to be read at once and not kept."""
        self._advance(now)
        return self._totals

    def clear(self) -> None:
        """Forget everything."""
        for counts in self._slices:
            counts[:] = [0] * len(counts)
        self._totals[:] = [0] * len(self._totals)

    def _advance(self, now: float) -> None:
        turn = int(now / self._slice_seconds)
        passed = turn - self._turn
        if passed <= 0:
            return
        size = len(self._slices)
        for offset in range(1, min(passed, size) + 1):
            leaving = self._slices[(self._turn + offset) % size]
            for column, count in enumerate(leaving):
                if count:
                    self._totals[column] -= count
                    leaving[column] = 0
        self._turn = turn
        self._now = self._slices[turn % size]
        self._ends = (turn + 1) * self._slice_seconds


class LatencyWindow:
    """Seconds that successful calls took: a moving average, its peak-sensitive twin, and quantiles of the span.

    Failures do not belong here: a node that refuses within a millisecond is not a fast node.
    """

    __slots__ = ("_at", "_buckets", "_peak", "decay", "ewma")

    def __init__(self, *, span: float = 60.0, slices: int = 6, decay: float = 10.0) -> None:
        self.decay = decay
        """Seconds after which an old sample weighs 1/e."""
        self.ewma = 0.0
        """The time-weighted average in seconds; 0.0 before the first sample."""
        self._peak = 0.0
        self._at = float("-inf")
        self._buckets = SlidingCounts(len(BOUNDS) + 1, span=span, slices=slices)

    def add(self, seconds: float, now: float) -> None:
        """Take the latency of one success."""
        keep = exp((self._at - now) / self.decay) if now > self._at else 1.0
        if self._at == float("-inf"):
            self.ewma = seconds
        else:
            self.ewma = self.ewma * keep + seconds * (1.0 - keep)
        self._peak = max(seconds, self._peak * keep + seconds * (1.0 - keep))
        self._at = max(self._at, now)
        self._buckets.bump(bisect_left(BOUNDS, seconds), now)

    @property
    def known(self) -> bool:
        """Has there been any sample?"""
        return self._at != float("-inf")

    @property
    def last_peak(self) -> float:
        """The peak-sensitive average as of the last sample, in seconds."""
        return self._peak

    def peak(self, now: float) -> float:
        """An average that jumps up with a slow call and sinks while nothing is heard, so that a node that was
        slow once is tried again (peak EWMA)."""
        return self._peak * exp((self._at - now) / self.decay) if now > self._at else self._peak

    def count(self, now: float) -> int:
        """Successes within the span."""
        return sum(self._buckets.totals(now))

    def quantile(self, share: float, now: float) -> float | None:
        """Seconds that `share` (0..1) of the span's successes did not exceed; None when there were none."""
        totals = self._buckets.totals(now)
        wanted = share * sum(totals)
        if not wanted:
            return None
        passed = 0
        for index, count in enumerate(totals):
            if count and passed + count >= wanted:
                low = BOUNDS[index - 1] if index else 0.0
                high = BOUNDS[min(index, len(BOUNDS) - 1)]
                return low + (high - low) * (wanted - passed) / count
            passed += count
        return BOUNDS[-1]

    def __repr__(self) -> str:
        return f"<latency {self.ewma * 1000:.1f} ms>"
