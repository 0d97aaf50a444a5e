"""Decides whether a node is behind: it lacks a block for long, or new blocks usually reach it late.

A new block reaches one node before another, and the probes see it at one node before another, so a node that lacks the
newest block for part of a block time is well. What counts is therefore the time since the served head passed the node,
and not the number of blocks at the moment of a look.
"""

from __future__ import annotations

from collections.abc import Iterator

_REMEMBERED = 256
"""Blocks whose time is remembered."""
_BLOCKS, _LOOKS = 2.0, 1.5
"""A node is behind once it has lacked a block for this many block times and this many looks together."""
_LATE_BLOCKS, _LATE_LOOKS = 0.7, 1.4
"""A node is behind while blocks reach it later, on average, than these parts of the block time and of a look."""
_RELIEF = 2 / 3
"""Share of that bound below which the average has to fall before the node is no longer behind, so that a node near the
bound does not change its state with every block."""
_SOUND = 5.0
"""Block times that pass after a node lacked a block for long, before it is no longer behind."""
_WEIGHT = 1 / 8
"""Weight of the newest block in the average."""
_MOST = 2.0
"""Multiple of that bound which a single block counts at most, so that a node that has caught up is not called behind
for much longer."""


class HeadTimes:
    """The times (monotonic seconds) at which the served head reached the newest blocks."""

    __slots__ = ("_at", "_head")

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._head = -1

    def __repr__(self) -> str:
        return f"<HeadTimes of {len(self._at)} blocks up to {self._head}>"

    def see(self, head: int, now: float) -> None:
        """Note the served head. One that went back makes the blocks above it unreached."""
        if head == self._head:
            return
        for number in self._numbers(head):
            self._at[number] = now
        for number in [number for number in self._at if not head - _REMEMBERED < number <= head]:
            del self._at[number]
        self._head = head

    def _numbers(self, head: int) -> Iterator[int]:
        first = self._head + 1 if 0 <= self._head < head else head
        return (number for number in range(max(first, head - _REMEMBERED + 1), head + 1) if number not in self._at)

    def reached(self, number: int, block_time: float) -> float | None:
        """The time at which the served head reached a block, by the block time where that is no longer known; None
        while the head is below the block."""
        if number > self._head:
            return None
        known = self._at.get(number)
        if known is not None:
            return known
        oldest = min(self._at)
        return self._at[oldest] - max(0, oldest - number) * block_time


class Lateness:
    """How late new blocks reach one node, in seconds after the served head reached them."""

    __slots__ = ("_head", "_mean", "_until", "behind", "usual")

    def __init__(self) -> None:
        self.behind = False
        """Has the node lagged for longer than a new block needs to reach it?"""
        self.usual = 0.0
        """The average of the newest blocks where that makes the node behind; else 0."""
        self._mean = 0.0
        self._until = float("-inf")
        """When a node that lacked a block for long is no longer behind, if it lacks none for long again (monotonic
        seconds)."""
        self._head = -1

    def __repr__(self) -> str:
        return f"<Lateness {self._mean:.2f} s{', behind' if self.behind else ''}>"

    def look(
        self, head: int, times: HeadTimes, now: float, *, block_time: float, interval: float, latency: float
    ) -> None:
        """Take the node's head as it is known at `now`.

        Args:
            head: the newest block that the node may be asked about; -1 when none is known.
            times: the times of the served head.
            block_time: seconds that a block takes.
            interval: seconds between two looks at a node.
            latency: seconds that the last look took, which are no delay of the block.
        """
        bound = max(_LATE_BLOCKS * block_time, _LATE_LOOKS * interval)
        if head > self._head >= 0:
            reached = times.reached(head, block_time)
            late = 0.0 if reached is None else min(max(0.0, now - latency - reached), _MOST * bound)
            self._mean += (late - self._mean) * _WEIGHT
        self._head = head
        passed = None if head < 0 else times.reached(head + 1, block_time)
        lacking = 0.0 if passed is None else now - passed
        self.usual = self._mean if self._mean > bound * (_RELIEF if self.usual else 1.0) else 0.0
        if lacking > _BLOCKS * block_time + _LOOKS * (interval + latency):
            self._until = now + _SOUND * block_time
        self.behind = bool(self.usual) or now < self._until
