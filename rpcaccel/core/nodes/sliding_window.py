"""Counts over a sliding span of time.

Time is cut into slices; one that leaves the span takes its counts with it. The totals of those that are over are kept.
"""

from __future__ import annotations


class SlidingCounts:
    """`columns` counters over the last `span` seconds (exact to one slice). What happens with every call is counted
    without calling a function: `turn` when `now >= ends`, then an addition to `current[column]`."""

    __slots__ = ("_number", "_over", "_slice_seconds", "_slices", "current", "ends")

    def __init__(self, columns: int, *, span: float, slices: int) -> None:
        self._slice_seconds = span / slices
        self._slices = [[0] * columns for _ in range(slices)]
        self._over = [0] * columns
        """Totals of the slices that are over."""
        self._number = -1
        """Number of the current slice since monotonic zero."""
        self.current = self._slices[-1]
        """Counts of the current slice."""
        self.ends = float("-inf")
        """Monotonic time at which the current slice ends."""

    def bump(self, column: int, now: float, count: int = 1) -> None:
        """Add `count` to `column`."""
        if now >= self.ends:
            self.turn(now)
        self.current[column] += count

    def totals(self, now: float) -> list[int]:
        """The counts of the span that ends at `now`."""
        self.turn(now)
        return [over + count for over, count in zip(self._over, self.current, strict=True)]

    def clear(self) -> None:
        """Set every count to zero."""
        for counts in (*self._slices, self._over):
            counts[:] = [0] * len(counts)

    def turn(self, now: float) -> None:
        """Begin the slice of `now`, and drop the slices that have left the span."""
        number = int(now / self._slice_seconds)
        passed, size = number - self._number, len(self._slices)
        if passed <= 0:
            return
        self._over = [over + count for over, count in zip(self._over, self.current, strict=True)]
        for offset in range(1, min(passed, size) + 1):
            leaving = self._slices[(self._number + offset) % size]
            for column, count in enumerate(leaving):
                self._over[column] -= count
                leaving[column] = 0
        self._number = number
        self.current = self._slices[number % size]
        self.ends = (number + 1) * self._slice_seconds
