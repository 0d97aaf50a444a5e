"""When the job may make its next call: a rate, pauses that the proxy asks for, and pauses after failures.

Times are seconds on the caller's clock.
"""

from __future__ import annotations

LONGEST_PAUSE = 60.0
"""Seconds of the longest pause that the job makes of its own accord."""


def backoff(times: int) -> float:
    """Seconds to wait after a call has failed so many times (from 1) in a row."""
    return min(2.0 ** min(times - 1, 16), LONGEST_PAUSE)


class Pace:
    """The times at which calls may be made."""

    __slots__ = ("_every", "_held", "_next")

    def __init__(self, rate: float = 0.0) -> None:
        """`rate`: calls a second; 0: as many as there may be."""
        self._every = 1 / rate if rate else 0.0
        self._next = self._held = float("-inf")

    def __repr__(self) -> str:
        return f"<Pace a call every {self._every:g} s>"

    def wait(self, now: float) -> float:
        """Seconds until the next call may be made; 0 or less: it may be made now."""
        return max(self._next, self._held) - now

    def take(self, now: float) -> None:
        """Note that a call is made. A timer that was a little late is made up for, a pause is not."""
        late = now - self._next
        self._next = (now if late > self._every else self._next) + self._every

    def hold(self, seconds: float, now: float) -> None:
        """Have no call made for so long."""
        self._held = max(self._held, now + seconds)
