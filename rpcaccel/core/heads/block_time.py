"""Estimates the block time of a chain from the heads that were seen: chains that share a table differ in it."""

from __future__ import annotations

from collections import deque
from statistics import median

_ENOUGH = 5
"""Moves of the head after which the block time can be estimated."""
_REMEMBERED = 9
_QUICKER = 0.75
"""Share of the expected block time below which an estimate counts; above it, the polls may just have been uneven."""


class BlockPace:
    """The expected and the measured block time in seconds.

    The measured one is a median of the last moves, so that a single jump (a node that catches up) does not count.
    """

    __slots__ = ("_at", "_expected", "_moves", "_number")

    def __init__(self, expected: float) -> None:
        """`expected`: block time in seconds of most chains of this kind."""
        self._expected = expected
        self._moves: deque[float] = deque(maxlen=_REMEMBERED)
        self._number = -1
        self._at = 0.0

    def __repr__(self) -> str:
        return f"<a block takes {self.seconds:g} s, expected {self._expected:g} s>"

    def see(self, number: int, now: float) -> None:
        """Note that the head was `number` at `now` (monotonic seconds). A head that went back starts a new
        measurement."""
        if number == self._number:
            return
        if 0 <= self._number < number:
            self._moves.append((now - self._at) / (number - self._number))
        self._number, self._at = number, now

    @property
    def seconds(self) -> float:
        """The block time in seconds: as expected, or less if blocks came more quickly; never more."""
        if len(self._moves) < _ENOUGH:
            return self._expected
        seen = median(self._moves)
        return seen if seen < _QUICKER * self._expected else self._expected
