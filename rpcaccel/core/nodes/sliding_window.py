"""Counts over a sliding span of time, and bounds of what one connection may bring within a second.

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


_MIB = 1 << 20
_SECOND = 1.0


class Inflow:
    """What came within the present second. The next one begins with what comes first after its end."""

    __slots__ = ("_bytes", "_count", "_since", "most", "most_bytes", "what")

    def __init__(self, what: str, most: int, most_bytes: int) -> None:
        """`what` comes, in the plural; `most_bytes` are whole MiB."""
        self.what = what
        self.most = most
        self.most_bytes = most_bytes
        self._since = float("-inf")
        self._count = self._bytes = 0

    def __repr__(self) -> str:
        return f"<inflow of {self._count} {self.what}, {self._bytes} bytes>"

    def take(self, size: int, now: float) -> str:
        """Count one more of so many bytes, at a time in seconds; returns which bound it exceeds, or an empty text."""
        if now - self._since >= _SECOND:
            self._since, self._count, self._bytes = now, 0, 0
        self._count += 1
        self._bytes += size
        if self._count > self.most:
            return f"more than {self.most} {self.what} a second"
        if self._bytes > self.most_bytes:
            return f"more than {self.most_bytes // _MIB} MiB of {self.what} a second"
        return ""
