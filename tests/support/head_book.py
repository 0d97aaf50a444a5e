"""A book of heads, and what nodes report to it."""

from __future__ import annotations

from collections.abc import Iterable

from rpcaccel.core.heads.block_time import BlockPace
from rpcaccel.core.heads.chain_view import Sighting
from rpcaccel.core.heads.head_book import HeadBook

WAIT = 5.0
FRESH = 15.0


def book(finality: str = "instant", **options: float) -> HeadBook:
    """A book of heads with the patience of these tests."""
    return HeadBook(finality, BlockPace(WAIT / 3), **{"fresh": FRESH, **options})  # type: ignore[arg-type]


def tell(heads: HeadBook, now: float, **numbers: int) -> None:
    """Report the head of each node by its name."""
    for node, number in numbers.items():
        heads.observe(node, Sighting(number), now)


def block(heads: HeadBook, node: str, number: int, now: float = 1.0, branch: str = "a") -> None:
    """Report that a node has a block of a branch."""
    heads.observe(node, Sighting(number, f"{branch}{number}"), now)


def blocks(heads: HeadBook, nodes: Iterable[str], *numbers: int, now: float = 1.0, branch: str = "a") -> None:
    """Report that each of these nodes has these blocks of a branch, one after the other."""
    for node in nodes:
        for number in numbers:
            block(heads, node, number, now, branch)
