"""One node's view of the chain: its newest block and the block hashes it reported, which show when it left a branch."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from msgspec import Struct

BLOCKS_OF_A_NODE = 64
"""Block hashes kept for each node: enough to notice a reorganisation between two polls."""
_UNEVEN = 1 / 4
"""Share of a block time by which the look that showed a block may have come later than that of another node."""


class Sighting(Struct, frozen=True):
    """A node's report of its newest block."""

    number: int
    """The block number, at least 0."""
    hash: str | None = None
    parent: str | None = None
    final: int | None = None
    """The newest block that the node calls finalized; None when the chain has no such tag."""
    final_hash: str | None = None
    safe: int | None = None
    """The newest block that the node calls safe; None when the chain has no such tag."""


class ChainView:
    """Everything that one node has reported so far."""

    __slots__ = ("_left", "_lower", "eligible", "final", "final_hash", "gone", "hashes", "head", "head_at",
                 "owes_since", "safe", "seen_at", "sure", "turned", "turned_at", "weight")  # fmt: skip

    def __init__(self) -> None:
        self.weight = 1.0
        self.eligible = True
        self.gone = False
        self.head = -1
        self.final = -1
        self.final_hash: str | None = None
        self.safe = -1
        self.seen_at = self.head_at = 0.0
        """When the node last told a head, and first told the one that it has (monotonic seconds)."""
        self.owes_since = inf
        """When the node was first asked for its head since it last told one (monotonic seconds); infinite: it owes
        none."""
        self.hashes: dict[int, str] = {}
        self.turned = 0
        """The rank among the nodes in the order of leaving a branch: the highest left last, 0 never left one."""
        self.turned_at = -1
        """A block that differed or was gone when the node last left a branch: the branches part there or below."""
        self.sure: int | None = None
        """The last block that was final while the node was known to be on the served branch; None while that is
        known."""
        self._lower = False
        self._left: dict[str, None] = {}
        """Hashes of blocks that the node has left behind with their branch."""

    def __repr__(self) -> str:
        state = "gone" if self.gone else "eligible" if self.eligible else "not eligible"
        return f"<ChainView head {self.head} weight {self.weight:g} {state}>"

    @property
    def counts(self) -> bool:
        """Do the node's reports count? Not if it is on another chain or takes no calls."""
        return self.eligible and self.weight > 0

    @property
    def usable(self) -> int:
        """The last block that the node may be asked about: its head, or `sure` while it may be on another branch."""
        return self.head if self.sure is None else min(self.head, self.sure)

    def keep_to(self, final: int, *, along: bool) -> None:
        """Set whether the node is known to be on the served branch; `final` is the last final block now.

        If it is not, only the blocks that were final while it was are sure, except those that turned out not to be.
        """
        if along:
            self.sure = None
        else:
            self.sure = final if self.sure is None else min(self.sure, final)

    def believed(self, now: float, period: float) -> int:
        """The head that the node has by now if it kept pace: a block each `period` seconds, the next one when that is
        due, or since the node was last seen without it."""
        due = max(self.head_at + period, self.seen_at) - _UNEVEN * period
        return self.head + 1 + int((now - due) // period)

    def see(self, sighting: Sighting, now: float, *, may_reorganise: bool) -> bool:
        """Take a report of the newest block; True when the node has left its branch."""
        self.seen_at, self.owes_since = now, inf
        self.head_at = self.head_at if sighting.number == self.head else now
        self.gone = False
        if sighting.final is not None:
            self.final = sighting.final
        if sighting.safe is not None:
            self.safe = sighting.safe
        if not may_reorganise:
            self.head = sighting.number
            return False
        # The parent comes first: one that differs makes the node forget the blocks above it.
        parent = sighting.parent if sighting.number > 0 else None
        left = self.record(sighting.number - 1, parent)
        left = self.record(sighting.number, sighting.hash) or left
        self.record(sighting.number - 1, parent)
        if sighting.final is not None:
            self.final_hash = sighting.final_hash
        return self._follow(sighting.number, left)

    def takes(self, sighting: Sighting, *, may_reorganise: bool) -> bool:
        """May a block that the node has announced by itself be taken as its newest? Announcements may be repeated, or
        late: then they name an older block, or one of a branch that was left."""
        known = self.hashes.get(sighting.number) if may_reorganise else None
        if known is None:
            return sighting.number > self.head and sighting.hash not in self._left
        return sighting.hash is not None and sighting.hash != known and sighting.hash not in self._left

    def record(self, number: int, block_hash: str | None) -> bool:
        """Note a block's hash; True when the node reported another hash for that number before."""
        if block_hash is None:
            return False
        known = self.hashes.get(number)
        if known is not None and known != block_hash:
            # Hashes of the branch that it left no longer count.
            self._leave(number)
            self._left.pop(block_hash, None)
            self.hashes, self.final_hash, self.turned_at = {number: block_hash}, None, number
            return True
        self.hashes[number] = block_hash
        if len(self.hashes) > BLOCKS_OF_A_NODE:
            del self.hashes[min(self.hashes)]
        return False

    def _leave(self, number: int) -> None:
        """Note that the blocks from this one on are left behind."""
        self._left |= {told: None for other, told in self.hashes.items() if other >= number}
        for told in [*self._left][:-BLOCKS_OF_A_NODE]:
            del self._left[told]

    def _follow(self, number: int, left: bool) -> bool:
        """Move the head. Without a changed hash it goes back only when the node reports that twice.

        An endpoint with hidden machines is sometimes a block behind although no branch was left.
        """
        if number < self.head and not left:
            if not self._lower:
                self._lower = True
                return False
            self._leave(number + 1)
            self.hashes = {told: known for told, known in self.hashes.items() if told <= number}
            left, self.turned_at = True, number + 1
        self.head, self._lower = number, False
        return left


def shows_one_branch(
    one: ChainView, its: Mapping[int, str], other: ChainView, others: Mapping[int, str], turned_at: int
) -> bool:
    """Do the block hashes of two nodes, which do not contradict each other, show that they are on one branch?

    A common block shows that, unless any node left a branch, at `turned_at` or below: then the block may lie below the
    fork. In that case only a block at or above the one that changed counts, or the head of the node that is behind.
    """
    least = min(turned_at, one.head, other.head)
    return any(number >= least for number in its.keys() & others.keys())
