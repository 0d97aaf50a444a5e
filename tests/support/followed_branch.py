"""Blocks that are named by their number and the letter of their branch, and a branch that is given them."""

from __future__ import annotations

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.branch import Abandoned, BranchMove, FollowedBranch, Want


def block(number: int, branch: str = "a", parent: str = "", size: int = 2) -> LiveBlock:
    """A block of a branch that is named by a letter, on the block before of the same branch unless said otherwise."""
    return LiveBlock(number, f"{number}{branch}", parent or f"{number - 1}{branch}", b" " * size)


def begun(number: int = 100, **options: bool | int) -> FollowedBranch:
    branch = FollowedBranch(number, f"{number}a", **{"final_at_once": False, **options})  # type: ignore[arg-type]
    branch.take(Want(number, f"{number}a"), block(number))
    return branch


def give(branch: FollowedBranch, *blocks: LiveBlock) -> None:
    """Answer what the branch wants with these blocks."""
    by_hash, by_number = {one.hash: one for one in blocks}, {one.number: one for one in blocks}
    for want in branch.wants():
        found = by_hash.get(want.hash) if want.hash else by_number.get(want.number)
        if found is not None:
            branch.take(want, found)


def said(moves: list[BranchMove]) -> list[str]:
    """The hashes of blocks, those that were abandoned with a minus."""
    return [("-" if isinstance(move, Abandoned) else "") + move.block.hash for move in moves]


def followed(branch: FollowedBranch, number: int, block_hash: str, *blocks: LiveBlock) -> list[str]:
    """What follows from a new served head when these blocks can be had."""
    branch.aim(number, block_hash)
    told: list[str] = []
    for _ in range(50):
        told += said(branch.moves())
        give(branch, *blocks)
    return told
