"""One node's view of the chain: its newest block, and the hashes it told, so that a branch it left is noticed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

REMEMBERED = 64
"""Block hashes kept of each node: enough to notice any reorganisation that a poll could have jumped over."""
HINT_REACH = 8
"""Blocks above a node's last own word that a hint may claim at any time: probes come every half block or later, and a
node that catches up takes in several at once."""
HINT_HASTE = 2.0
"""How many times quicker than usual blocks may have come since the node's last own word."""


class Sighting(Struct, frozen=True):
    """What a node said about its newest block."""

    number: int
    """>= 0."""
    hash: str | None = None
    parent: str | None = None
    final: int | None = None
    """The newest block it calls finalized, where the chain has such a tag."""
    final_hash: str | None = None
    asked_at: float | None = None
    """Monotonic seconds at which it was asked: a hint that came since then is the newer word."""


class ChainView:
    """What one node has told so far."""

    __slots__ = ("_hinted_at", "_lower", "_told_at", "eligible", "final", "final_hash", "gone", "hashes", "head",
                 "seen_at", "sure", "told", "turned", "turned_at", "weight")  # fmt: skip

    def __init__(self) -> None:
        self.weight = 1.0
        self.eligible = True
        self.gone = False
        self.head = -1
        self.final = -1
        self.final_hash: str | None = None
        self.seen_at = 0.0
        self.hashes: dict[int, str] = {}
        self.turned = 0
        """Grows among the nodes with each that leaves its branch: the highest has turned last; 0 never has."""
        self.turned_at = -1
        """A block that was another one, or gone, when it last left its branch: the branches part there or below."""
        self.sure: int | None = None
        """While it is not known to be on the branch that counts: the last block that was final when it still was."""
        self._lower = False
        self._hinted_at = 0.0
        self.told, self._told_at = -1, 0.0
        """The head that the node itself told last, and when: hints are measured by it, and never by one another."""

    def __repr__(self) -> str:
        state = "gone" if self.gone else "eligible" if self.eligible else "not eligible"
        return f"<ChainView head {self.head} weight {self.weight:g} {state}>"

    @property
    def counts(self) -> bool:
        """Does its word count? Not that of a node of another chain, nor of one that takes no calls."""
        return self.eligible and self.weight > 0

    @property
    def usable(self) -> int:
        """The last block it may be asked about: its head, or what is sure while it may be on another branch."""
        return self.head if self.sure is None else min(self.head, self.sure)

    def keep_to(self, final: int, *, along: bool) -> None:
        """Is it known to be on the branch that counts? How far down it left that is not known, only that it was above
        the block that was final then."""
        if along:
            self.sure = None
        elif self.sure is None:
            self.sure = final

    def doubts(self, other: ChainView) -> bool:
        """Could the two be on different branches, for all that they have told?"""
        shown = shows_one_branch(self, self.hashes, other, other.hashes)
        return (self.sure is None) != (other.sure is None) or not shown

    def see(self, sighting: Sighting, now: float, *, may_reorganise: bool) -> bool:
        """Take in the node's newest block; True when it has left the branch it told before."""
        self.seen_at = self._told_at = now
        self.told = sighting.number
        self.gone = False
        if sighting.final is not None:
            self.final = sighting.final
        if not may_reorganise:
            overtaken = sighting.asked_at is not None and self._hinted_at > sighting.asked_at
            self.head = max(sighting.number, self.head) if overtaken else sighting.number
            return False
        left = self.record(sighting.number, sighting.hash)
        if sighting.number > 0:
            left = self.record(sighting.number - 1, sighting.parent) or left
        if sighting.final is not None:
            self.final_hash = sighting.final_hash
        return self._follow(sighting.number, left)

    def hint(self, number: int, now: float, block_time: float) -> bool:
        """An answer named block `number`: a hint only ever raises the head, and only as far as blocks of `block_time`
        seconds can have come since the node last told its head itself. True when the hint raised it."""
        reach = HINT_REACH + HINT_HASTE * (now - self._told_at) / block_time
        if self.told < 0 or not self.head < number <= self.told + reach:
            return False
        self.head = number
        self.seen_at = max(self.seen_at, now)
        self._hinted_at = now
        return True

    def record(self, number: int, block_hash: str | None) -> bool:
        """Note a block's hash; True when the node told another one for that number before."""
        if block_hash is None:
            return False
        known = self.hashes.get(number)
        if known is not None and known != block_hash:
            # What it told before, of other branches, is worth nothing now.
            self.hashes, self.final_hash, self.turned_at = {number: block_hash}, None, number
            return True
        self.hashes[number] = block_hash
        if len(self.hashes) > REMEMBERED:
            del self.hashes[min(self.hashes)]
        return False

    def _follow(self, number: int, left: bool) -> bool:
        """Move the head. Back without another hash only when the node says so twice: an endpoint that hides several
        machines is a block behind now and then without any branch having been left."""
        if number < self.head and not left:
            if not self._lower:
                self._lower = True
                return False
            self.hashes = {told: known for told, known in self.hashes.items() if told <= number}
            left, self.turned_at = True, number + 1
        self.head, self._lower = number, False
        return left


def shows_one_branch(one: ChainView, its: Mapping[int, str], other: ChainView, others: Mapping[int, str]) -> bool:
    """Do the blocks that two nodes told, and that do not differ, show them to be on one branch?

    A block that both have does so unless one of them left its branch: then it may lie under the point where that
    parted from the new one. It shows something only at or above the block that was seen to be another one, or at the
    head of the node that is behind.
    """
    least = min(max(one.turned_at, other.turned_at), one.head, other.head)
    return any(number >= least for number in its.keys() & others.keys())
