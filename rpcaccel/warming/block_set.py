"""A set of block numbers as ranges, so that millions of blocks that follow each other cost nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

MOST = 1000
"""Ranges that a set has at the most."""


class BlockSet:
    """A set of block numbers in at most MOST ranges.

    When there would be more ranges, the two with the smallest gap between them become one: some blocks that were never
    added are in the set, too.
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """`ranges`: first and last block of each, sorted and apart. Raises ValueError for others."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.append(first, last)

    def __repr__(self) -> str:
        return f"<BlockSet of {len(self)} blocks in {len(self._firsts)} ranges>"

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First and last block of each range, lowest first."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def append(self, first: int, last: int) -> None:
        """Add blocks above all others. Raises ValueError when they are not."""
        if not 0 <= first <= last or (self._lasts and first <= self._lasts[-1]):
            raise ValueError("ranges that are not sorted")
        self._insert(len(self._firsts), first, last)

    def add(self, block: int) -> None:
        """Add a block, which may be there already."""
        at = bisect_right(self._firsts, block)
        if not at or block > self._lasts[at - 1]:
            self._insert(at, block, block)

    def pop(self) -> int | None:
        """Take the lowest block out; None when there is none."""
        if not self._firsts:
            return None
        block = self._firsts[0]
        if block == self._lasts[0]:
            del self._firsts[0], self._lasts[0]
        else:
            self._firsts[0] += 1
        return block

    def _insert(self, at: int, first: int, last: int) -> None:
        self._firsts.insert(at, first)
        self._lasts.insert(at, last)
        for place in (at, at - 1):
            if 0 <= place < len(self._firsts) - 1 and self._gap(place) == 1:
                self._join(place)
        if len(self._firsts) > MOST:
            self._join(min(range(len(self._firsts) - 1), key=self._gap))

    def _gap(self, place: int) -> int:
        return self._firsts[place + 1] - self._lasts[place]

    def _join(self, place: int) -> None:
        del self._firsts[place + 1], self._lasts[place]
