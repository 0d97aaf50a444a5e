"""The newest blocks of a branch, each the child of the one before, and blocks that are known beside them.

Some chains have heights without a block (Filecoin's null rounds): the number of a block says where in the order it
stands, and not how many are below it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from rpcaccel.core.live.block import LiveBlock

_number = attrgetter("number")


class BlockWindow:
    """Blocks of a branch, oldest first.

    Args:
        most, most_bytes: blocks, and bytes of their headers, from which the oldest are forgotten.
        least: blocks that are kept whatever their bytes.
    """

    def __init__(self, most: int, most_bytes: int, least: int) -> None:
        self._most, self._most_bytes, self._least = most, most_bytes, least
        self._blocks: list[LiveBlock] = []
        self._numbers: dict[str, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def first(self) -> LiveBlock:
        """The oldest block."""
        return self._blocks[0]

    @property
    def tip(self) -> LiveBlock:
        """The newest block."""
        return self._blocks[-1]

    @property
    def full(self) -> bool:
        """May the window hold no more blocks?"""
        return len(self._blocks) >= self._most or self._bytes > self._most_bytes

    def number_of(self, block_hash: str) -> int | None:
        """The number of the block with this hash; None when the window does not hold it."""
        return self._numbers.get(block_hash)

    def after(self, number: int, most: int) -> list[LiveBlock]:
        """At most `most` blocks after this height, oldest first."""
        place = self._place(number)
        return self._blocks[place : place + most]

    def extend(self, block: LiveBlock, *, below: bool = False) -> None:
        """Take the next block above, or the one below."""
        self._blocks.insert(0 if below else len(self._blocks), block)
        self._numbers[block.hash] = block.number
        self._bytes += len(block.header)

    def leave(self, number: int) -> list[LiveBlock]:
        """Give up the blocks above this height, which are returned, oldest first."""
        return self._drop(self._place(number), len(self._blocks))

    def trim(self) -> list[LiveBlock]:
        """Forget the oldest of too many blocks, which are returned."""
        forgotten: list[LiveBlock] = []
        while len(self) > self._most or (self._bytes > self._most_bytes and len(self) > self._least):
            forgotten += self._drop(0, 1)
        return forgotten

    def _place(self, number: int) -> int:
        """The place of the first block above this height."""
        return bisect_right(self._blocks, number, key=_number)

    def _drop(self, first: int, end: int) -> list[LiveBlock]:
        dropped = self._blocks[first:end]
        del self._blocks[first:end]
        for block in dropped:
            del self._numbers[block.hash]
            self._bytes -= len(block.header)
        return dropped


class BlockPool:
    """Blocks by hash. The oldest of too many are forgotten, and beyond `least` those of too many bytes."""

    def __init__(self, most: int, most_bytes: int, least: int) -> None:
        self._most, self._most_bytes, self._least = most, most_bytes, least
        self._bytes = 0
        self._held: dict[str, LiveBlock] = {}

    def __iter__(self) -> Iterator[LiveBlock]:
        return iter(self._held.values())

    def __contains__(self, block_hash: str) -> bool:
        return block_hash in self._held

    def get(self, block_hash: str) -> LiveBlock | None:
        return self._held.get(block_hash)

    def add(self, block: LiveBlock) -> None:
        self.drop(block.hash)
        self._held[block.hash] = block
        self._bytes += len(block.header)
        while len(self._held) > self._most or (self._bytes > self._most_bytes and len(self._held) > self._least):
            self.drop(next(iter(self._held)))

    def drop(self, block_hash: str) -> None:
        block = self._held.pop(block_hash, None)
        if block is not None:
            self._bytes -= len(block.header)


MAX_PUSHED_HEADERS, MAX_PUSHED_BYTES = 32, 2 * 1024 * 1024
"""Pushed headers that are kept, and their bytes."""
MAX_DOUBTED = 256
"""Hashes that are remembered because a false header was pushed with them, or may have been."""


class PushedHeaders(BlockPool):
    """The headers that nodes pushed, but for those of blocks that are fetched whatever is pushed."""

    def __init__(self) -> None:
        super().__init__(MAX_PUSHED_HEADERS, MAX_PUSHED_BYTES, 1)
        self._doubted: dict[str, None] = {}

    def add(self, block: LiveBlock) -> None:
        if block.hash not in self._doubted:
            super().add(block)

    def doubt(self, block_hash: str) -> None:
        """Take no pushed header for this block."""
        self.drop(block_hash)
        self._doubted[block_hash] = None
        if len(self._doubted) > MAX_DOUBTED:
            del self._doubted[next(iter(self._doubted))]
