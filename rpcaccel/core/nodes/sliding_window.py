"""Counts over a sliding span of time.

Time is cut into slices; a slice that leaves the span takes its counts with it. Totals are kept up to date, so that
reading them costs the same however long the span is.
"""

from __future__ import annotations


class SlidingCounts:
    """`columns` counters over the last `span` seconds (exact to one slice)."""

    __slots__ = ("_ends", "_now", "_slice_seconds", "_slices", "_totals", "_turn")

    def __init__(self, columns: int, *, span: float, slices: int) -> None:
        self._slice_seconds = span / slices
        self._slices = [[0] * columns for _ in range(slices)]
        self._totals = [0] * columns
        self._turn = -1
        """Number of the current slice since monotonic zero."""
        self._now = self._slices[-1]
        """Counts of the current slice."""
        self._ends = float("-inf")
        """Monotonic time at which the current slice ends."""

    def bump(self, column: int, now: float, count: int = 1) -> None:
        """Add `count` to `column`."""
        if now >= self._ends:
            self._advance(now)
        self._now[column] += count
        self._totals[column] += count

    def totals(self, now: float) -> list[int]:
        """The counts of the span that ends at `now`. The list changes with the next `bump`: read it at once."""
        self._advance(now)
        return self._totals

    def clear(self) -> None:
        """Set every count to zero."""
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
