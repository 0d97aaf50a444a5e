"""A set of block numbers as ranges, so that millions of blocks that follow each other cost nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

MOST = 1000
"""Ranges that a set has at the most."""
_NEWEST = 64
"""The last ranges are not joined with others: there the job is at work."""


class BlockSet:
    """A set of block numbers in at most MOST ranges.

    When blocks are removed here and there, so that there would be more ranges, the two with the smallest gap between
    them become one: some removed blocks are in the set again.
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
        if self._lasts and first == self._lasts[-1] + 1:
            self._lasts[-1] = last
        else:
            self._firsts.append(first)
            self._lasts.append(last)

    def lowest_from(self, block: int) -> int | None:
        """The lowest block of the set that is not below `block`."""
        at = bisect_right(self._firsts, block) - 1
        if at >= 0 and block <= self._lasts[at]:
            return block
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else None

    def remove(self, block: int) -> None:
        """Take a block of the set out."""
        at = bisect_right(self._firsts, block) - 1
        first, last = self._firsts[at], self._lasts[at]
        parts = [part for part in ((first, block - 1), (block + 1, last)) if part[0] <= part[1]]
        self._firsts[at : at + 1] = [part[0] for part in parts]
        self._lasts[at : at + 1] = [part[1] for part in parts]
        if len(self._firsts) > MOST:
            self._join()

    def _join(self) -> None:
        places = range(len(self._firsts) - _NEWEST)
        at = min(places, key=lambda place: self._firsts[place + 1] - self._lasts[place])
        del self._firsts[at + 1], self._lasts[at]
