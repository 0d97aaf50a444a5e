"""A block and its logs as subscribers are told of them."""

from __future__ import annotations

from msgspec import Struct

LONGEST_HEADER = 256 * 1024
"""Bytes of a header that a node pushes; a longer one is ignored, and the block fetched."""


class LiveBlock(Struct, frozen=True, gc=False):
    """A block of the served branch."""

    number: int
    hash: str
    """In lower case, with 0x."""
    parent: str
    """The hash of the block before, in lower case."""
    header: bytes
    """The result of its newHeads notification: raw JSON text."""

    def stands_as(self, other: LiveBlock) -> bool:
        """Does another header put the block in the same place?"""
        return self.number == other.number and self.parent == other.parent


class Log(Struct, frozen=True, gc=False):
    """One log of a block."""

    address: str
    """In lower case, with 0x."""
    topics: tuple[str, ...]
    """In lower case, with 0x."""
    text: bytes
    """The result of its notification: raw JSON text with `"removed":false`."""
