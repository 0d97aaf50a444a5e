"""How quickly blocks come, by the heads that were seen: many chains share a table, and each has its own pace."""

from __future__ import annotations

from collections import deque
from statistics import median

_ENOUGH = 5
"""Moves of the head after which its pace is known."""
_REMEMBERED = 9
_QUICKER = 0.75
"""Of the time expected: below it blocks do come quicker, above it we may have looked at odd moments."""


class BlockPace:
    """Seconds a block takes, expected and seen. The median of the last moves, so that one jump, as of a node that
    catches up, does not count."""

    __slots__ = ("_at", "_expected", "_moves", "_number")

    def __init__(self, expected: float) -> None:
        """`expected`: seconds a block takes on most chains of this kind."""
        self._expected = expected
        self._moves: deque[float] = deque(maxlen=_REMEMBERED)
        self._number = -1
        self._at = 0.0

    def __repr__(self) -> str:
        return f"<a block takes {self.seconds:g} s, expected {self._expected:g} s>"

    def see(self, number: int, now: float) -> None:
        """The head was `number` at `now` (monotonic seconds). One that went back is a beginning, and no move."""
        if number == self._number:
            return
        if 0 <= self._number < number:
            self._moves.append((now - self._at) / (number - self._number))
        self._number, self._at = number, now

    @property
    def seconds(self) -> float:
        """What a block takes: as expected, or less where blocks came quicker; never more."""
        if len(self._moves) < _ENOUGH:
            return self._expected
        seen = median(self._moves)
        return seen if seen < _QUICKER * self._expected else self._expected
