"""How long a block of a network takes: every look, wait and patience follows from this.

Chains that share a table differ in their block time by a factor of fifty. The timestamps of two headers give it at the
first look, and the moves of the head once some blocks have come; until then the table's value is expected.
"""

from __future__ import annotations

from collections import deque
from statistics import median, median_high

SLOWEST = 5.0
"""Seconds between two looks at the most while no block comes."""
HEADERS_APART = 64
"""Blocks between the two headers whose timestamps, whole seconds, give the block time."""
_FEWEST_APART = 4
_STATEMENTS = 9
"""Nodes whose headers count."""
_CALMEST = 1.0
"""Seconds between two looks at the least while no block comes when one is due, and while the period is not known."""
_TIRING = 1 / 8
"""Share of the time since the newest block that is a pause while no rhythm is known: a chain that stands is looked at
less and less often."""
_REMEMBERED = 16
"""Moves of the head that are remembered: what was quick for a while is forgotten after half as many."""
_FAR = 1000
"""Blocks by which the head may move at once for the move to count: another chain is no quick one."""
_BACK = 2
"""Blocks by which the head may seem to go back while it did not."""
_ENOUGH, _ENOUGH_MORE = 4, 16
"""Blocks after which the moves of the head tell the period; more where headers have told it, since the first looks see
blocks at uneven times."""
_USUAL = 4.0
"""Multiple of the median from which the time that a block took is a halt of the chain, and part of it up to which a
node caught up."""
_ALIKE = 0.15
"""Share of the expected period by which the period may differ from it and still be told as the same."""
_SLOWER = 1.5
"""Multiple of the expected period up to which headers are believed: slots without a block are usual."""
_SHORTEST = 0.001
"""Seconds of the shortest period."""


class BlockPace:
    """The period of a network's blocks in seconds."""

    __slots__ = ("_at", "_measured", "_moves", "_number", "_stated", "expected")

    def __init__(self, expected: float) -> None:
        """`expected`: the block time of most chains of this kind, or that of the settings (seconds)."""
        self.expected = expected
        self._moves: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        """How long the newest moves of the head took, and of how many blocks each was."""
        self._number, self._at = -1, 0.0
        self._measured: float | None = None
        self._stated: deque[float] = deque(maxlen=_STATEMENTS)
        """The periods by the headers of single nodes: the median counts, so that one node alone decides nothing."""

    def __repr__(self) -> str:
        return f"<a block every {self.period:g} s{'' if self.known else ' expected'}>"

    @property
    def known(self) -> bool:
        """Is the period more than an expectation?"""
        return self._measured is not None or bool(self._stated)

    @property
    def period(self) -> float:
        """Seconds from one block to the next; as expected until that is known."""
        return self._measured or (median_high(self._stated) if self._stated else self.expected)

    @property
    def seconds(self) -> float:
        """The period by which calls wait and nodes are judged: never more than what is expected."""
        return min(self.expected, self.period)

    @property
    def told(self) -> float | None:
        """The period so that it changes seldom: in two digits, and as expected where it is about that; None until it is
        known."""
        about = abs(self.period - self.expected) < _ALIKE * self.expected
        return (self.expected if about else float(f"{self.period:.2g}")) if self.known else None

    @property
    def wait(self) -> float:
        """Seconds that the served head waits for the nodes that have it."""
        return min(15.0, max(2.0, 3 * self.seconds))

    @property
    def stall(self) -> float:
        """Seconds without a new block after which the chain is said to stand."""
        return max(45.0, 20 * self.seconds)

    @property
    def calm(self) -> float:
        """Seconds between two looks while no block comes: half a block, as far as the bounds allow."""
        return min(SLOWEST, max(_CALMEST, self.period / 2))

    def pause(self, now: float) -> float:
        """Seconds between two looks while it is not known when a block is due: a quarter of the period where that is
        known, since the expected one may be far too long."""
        least = self.period / 4 if self.known else _CALMEST
        return min(self.calm, max(least, _TIRING * (now - self._at)))

    def state(self, blocks: int, seconds: float) -> None:
        """Take the difference of two headers of one node in blocks and in seconds.

        Equal timestamps say nothing, and neither do those of a chain that stood between them, or in another unit: they
        are further apart than expected.
        """
        if blocks >= _FEWEST_APART and 0 < seconds / blocks <= _SLOWER * self.expected:
            self._stated.append(min(self.expected, max(_SHORTEST, seconds / blocks)))

    def see(self, number: int, now: float) -> None:
        """Note that the head was `number` at `now` (monotonic seconds)."""
        if self._number - _BACK <= number <= self._number:
            return
        if self._number < number <= self._number + _FAR and self._number >= 0:
            self._moves.append((now - self._at, number - self._number))
            # A single move tells the period only when it is no difference between two nodes.
            sure = len(self._moves) > 1 or now - self._at >= _CALMEST
            enough = _ENOUGH_MORE if self._stated else _ENOUGH
            if sure and sum(blocks for _, blocks in self._moves) >= enough:
                self._measured = self._mean()
        self._number, self._at = number, now

    def _mean(self) -> float:
        """The mean of the moves that are no halt of the chain and no jump of a node that catches up."""
        middle = median(seconds / blocks for seconds, blocks in self._moves)
        usual = [
            (seconds, blocks)
            for seconds, blocks in self._moves
            if middle / _USUAL * blocks <= seconds <= middle * _USUAL * blocks
        ]
        return max(_SHORTEST, sum(seconds for seconds, _ in usual) / sum(blocks for _, blocks in usual))
