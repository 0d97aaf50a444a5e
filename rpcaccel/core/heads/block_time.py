"""Estimates the block time of a chain from the heads that were seen: chains that share a table differ in it."""

from __future__ import annotations

from collections import deque
from statistics import median

_ENOUGH = 5
"""Moves of the head after which the block time can be estimated."""
_REMEMBERED = 32
_NEWEST = 9
"""Moves of the head whose median shows that blocks come more quickly than expected."""
_ALIKE = 0.15
"""Share of the expected block time by which the measured one may differ from it and still be taken for the same."""
_QUICKER = 0.75
"""Share of the expected block time below which an estimate counts; above it, the polls may just have been uneven."""


class BlockPace:
    """The expected and the measured block time in seconds."""

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
    def measured(self) -> float | None:
        """Seconds that a block took lately; None until a few blocks have come.

        The probes see a block up to one interval late, so many moves are averaged, without the quickest and the slowest
        quarter of them: a halt of the chain or a node that catches up is no block time.
        """
        if len(self._moves) < _ENOUGH:
            return None
        cut = len(self._moves) // 4
        middle = sorted(self._moves)[cut : len(self._moves) - cut]
        mean = sum(middle) / len(middle)
        return self._expected if abs(mean - self._expected) < _ALIKE * self._expected else mean

    @property
    def seconds(self) -> float:
        """The block time in seconds: as expected, or less if blocks came more quickly; never more.

        It follows the median of the newest moves, so that a single jump (a node that catches up) does not count.
        """
        if len(self._moves) < _ENOUGH:
            return self._expected
        seen = median(list(self._moves)[-_NEWEST:])
        return seen if seen < _QUICKER * self._expected else self._expected
