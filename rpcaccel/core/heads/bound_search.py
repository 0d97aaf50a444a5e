"""Finds how far a node's answers reach, by asking few questions: "does the node answer at distance N?"

The distance counts from a point at which a good node always answers: blocks below its head, blocks in a range, calls in
a batch. A node is expected to answer up to some distance and not beyond. The search first asks at the least and at the
greatest distance, goes up in strides, then halves. Before it ends, it asks at the bound and beyond it once more, and at
some distances between, so that one wrong answer, or a hole, makes no wrong bound.
"""

from __future__ import annotations

from msgspec import Struct

STRIDE = 64
"""The first distance that is tried between the least and the greatest: pruned nodes keep the state of 64 to 128
blocks."""
_GROWS = 8
"""Each stride is this many times as long as the one before."""
_PATIENCE = 3
"""Questions at one distance that may stay without an answer, before the search gives up."""
_CONTRADICTIONS = 6
"""Answers that may contradict earlier ones, before the search gives up."""
_QUARTERS = 4
"""The distances between 0 and the bound at which the node is asked as well divide it into so many parts."""


class Reach(Struct, frozen=True):
    """The result of a search."""

    greatest: int | None
    """The greatest distance at which the node answers; -1 where it answers nowhere, None where that was not found
    out."""
    why: str = ""
    """Why that was not found out."""


class BoundSearch:
    """One search. `next` gives the distance to ask about, and `tell` takes the answer, until `next` gives None.

    Answers that agree with each other need about 2 * log2(most) questions at the most, and 8 more.
    """

    __slots__ = ("_asked", "_contradictions", "_most", "_no", "_stride", "_stuck", "_unsure", "_yes")

    def __init__(self, most: int, *, stride: int = STRIDE) -> None:
        """`most`: the greatest distance that is asked about (>= 0). `stride`: the first one tried between."""
        self._most = most
        self._stride = stride
        self._yes: list[int] = []
        self._no: list[int] = []
        """The distances of the answers that still hold: every one of `_yes` is less than every one of `_no`."""
        self._asked: dict[int, int] = {}
        """How often each of these distances was answered alike."""
        self._unsure: dict[int, int] = {}
        self._contradictions = 0
        self._stuck = ""

    def __repr__(self) -> str:
        return f"<BoundSearch answers to {max(self._yes, default=-1)}, not from {min(self._no, default=None)}>"

    @property
    def answered(self) -> int:
        """The greatest distance at which the node has answered so far; -1 without any."""
        return max(self._yes, default=-1)

    def next(self) -> int | None:
        """The distance to ask about now; None when the search has ended."""
        if self._stuck:
            return None
        yes, no = max(self._yes, default=-1), min(self._no, default=self._most + 1)
        if yes < 0:
            return 0 if self._asked.get(0, 0) < 2 else None
        if not self._no and yes < self._most:
            return self._most
        if no - yes > 1:
            stride = max(self._stride, yes * _GROWS)
            upwards = no == self._most and stride < no - 1
            return stride if upwards and stride > yes else (yes + no) // 2
        return self._check(yes, no)

    def _check(self, yes: int, no: int) -> int | None:
        """A distance whose answer would confirm the bound between `yes` and `no`; None when it is confirmed."""
        for edge in (yes, no):
            if edge <= self._most and self._asked.get(edge, 0) < 2:
                return edge
        between = {yes * part // _QUARTERS for part in range(1, _QUARTERS)}
        return next((distance for distance in sorted(between) if distance not in self._asked), None)

    def tell(self, distance: int, answers: bool | None) -> None:
        """Take the answer to a question; None: the node was too busy, or could not be reached, to say yes or no."""
        if answers is None:
            self._unsure[distance] = self._unsure.get(distance, 0) + 1
            if self._unsure[distance] >= _PATIENCE:
                self._stuck = "it gave no answer that says so"
            return
        wrong = (
            [one for one in self._no if one <= distance] if answers else [one for one in self._yes if one >= distance]
        )
        for one in wrong:
            (self._no if answers else self._yes).remove(one)
            self._asked.pop(one, None)
        if wrong:
            self._contradictions += 1
            if self._contradictions > _CONTRADICTIONS:
                self._stuck = "its answers contradict each other"
        self._asked[distance] = self._asked.get(distance, 0) + 1
        kept = self._yes if answers else self._no
        if distance not in kept:
            kept.append(distance)

    def found(self) -> Reach:
        """The result, once `next` has given None; before, that nothing was found out."""
        if self._stuck or self.next() is not None:
            return Reach(None, self._stuck or "there was no time or no call left to find out")
        return Reach(max(self._yes, default=-1))
