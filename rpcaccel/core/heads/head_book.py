"""The served head of a network: one block number for all clients, computed from the heads of many nodes.

The served head is the highest block that nodes with at least half of the eligible weight have reached (architecture
section 5). On a chain whose blocks are final at once, it never goes back for a client. When the nodes at the head are
gone, it waits for them a bounded time, then follows the best node left, and says so. A node that was asked for its head
and says nothing neither holds the others up nor lets them go beyond what time explains. On a chain that can reorganise,
an abandoned branch increases the fork epoch, and no key made on that branch is used again.
"""

from __future__ import annotations

from collections.abc import Iterable

from rpcaccel.core.heads.block_time import BlockPace
from rpcaccel.core.heads.chain_view import BLOCKS_OF_A_NODE, ChainView, Sighting
from rpcaccel.core.heads.fork_choice import lead
from rpcaccel.core.heads.served_head import Finality, Served

SILENT_AFTER = 1.5
"""Seconds after which a node that was asked for its head, and has not told any, no longer holds up the others."""


def reached_by_half(reports: Iterable[tuple[int, float]]) -> int:
    """The highest number that reports with at least half of the weight have reached; -1 without any weight."""
    ordered = sorted(reports, reverse=True)
    half = sum(weight for _, weight in ordered) / 2
    held = 0.0
    for number, weight in ordered:
        held += weight
        if held and held >= half:
            return number
    return -1


def reached_by_most(reports: Iterable[tuple[int, float]]) -> int:
    """The highest number that reports with more than half of the weight have reached; -1 without any.

    Of several reports one alone never decides, however much it weighs: of two, the lower one counts.
    """
    ordered = sorted(reports, reverse=True)
    half = sum(weight for _, weight in ordered) / 2
    held = 0.0
    for place, (number, weight) in enumerate(ordered):
        held += weight
        if held > half and (place or len(ordered) == 1):
            return number
    return -1


class HeadBook:
    """Computes the served head from the nodes' heads and weights. A node that was not weighed has weight 1.

    Args:
        pace: says how long nodes that have the head are waited for, and when a chain stands still.
        depth: blocks below the head that are not final, where finality is a depth or no node tells the tag.
        fresh: seconds for which a node's report counts.
        fork_epoch: the first fork epoch.
    """

    __slots__ = ("_branch", "_depth", "_doubted", "_epoch", "_fallen_from", "_final", "_finality",
                 "_fresh", "_head", "_may_reorganise", "_missing", "_moved", "_pace", "_safe", "_same", "_sealed",
                 "_since", "_views", "finalized", "turns")  # fmt: skip

    def __init__(
        self,
        finality: Finality,
        pace: BlockPace,
        *,
        depth: int = 0,
        fresh: float = 15.0,
        fork_epoch: int = 0,
    ) -> None:
        self._finality = finality
        self._may_reorganise = finality != "instant"
        self._depth = depth
        self._fresh = fresh
        self._pace = pace
        self._views: dict[str, ChainView] = {}
        self._branch: dict[int, str] = {}
        self._head = -1
        self._final = -1
        self.finalized = -1
        """The block that the `finalized` tag names; -1 when the chain has no such tag or no node tells it."""
        self._safe = -1, fork_epoch
        """The block that is safe, and the fork epoch in which it became so: it may go back in another one."""
        self._epoch = fork_epoch
        self._doubted = -1
        self._sealed: dict[int, str] = {}
        """Hashes of final blocks of the served branch. Another hash for one of them puts the final blocks in doubt."""
        self._same = False
        """The nodes that the head fell back to are known to be on the served branch."""
        self._since = 0.0
        self._moved = False
        self.turns = 0
        """How often a node has left its branch."""
        self._missing: float | None = None
        self._fallen_from = -1

    def __repr__(self) -> str:
        return f"<HeadBook {self._finality} head {self._head} epoch {self._epoch}, {len(self._views)} nodes>"

    def weigh(self, node_id: str, weight: float, *, eligible: bool = True) -> None:
        """Set a node's weight. Its reports do not count while it is not eligible or has weight 0."""
        view = self._view(node_id)
        view.weight = weight
        view.eligible = eligible

    def forget(self, node_id: str) -> None:
        """Remove a node that left the network."""
        self._views.pop(node_id, None)

    def gone(self, node_id: str) -> None:
        """Note that a node stopped answering. It counts again once it is observed."""
        self._view(node_id).gone = True

    def asked(self, node_id: str, now: float) -> None:
        """Note that a node is asked for its head. From then on it owes one, until it is observed."""
        view = self._view(node_id)
        view.owes_since = min(view.owes_since, now)

    def head_of(self, node_id: str) -> int:
        """The last head of a node; -1 when it never reported one."""
        view = self._views.get(node_id)
        return -1 if view is None else view.head

    def usable_head_of(self, node_id: str) -> int:
        """The last block that a node may be asked about.

        It is lower than the node's head while the node may be on another branch than the served one, because there it
        would answer wrongly without an error.
        """
        view = self._views.get(node_id)
        return -1 if view is None else view.usable

    def in_question(self, node_id: str) -> int | None:
        """A block whose hash the node should be asked for, to find out which branch it is on; None when that is
        known."""
        view = self._views.get(node_id)
        if view is None:
            return None
        if view.turned and self._sealed.keys().isdisjoint(view.hashes):
            sealed = max(self._sealed, default=None)
            if sealed is not None and sealed <= view.head:  # to find out how far down it left its branch
                return sealed
        # That both have an older block shows nothing about the newest block of the one that is behind.
        oldest = view.head - BLOCKS_OF_A_NODE
        heads = {other.head for other in self._views.values() if oldest < other.head <= view.head}
        return max(heads - view.hashes.keys(), default=None)

    def lag_of(self, node_id: str) -> int | None:
        """Blocks by which a node is behind the served head; None while either is unknown."""
        head = self.head_of(node_id)
        return None if head < 0 or self._head < 0 else max(0, self._head - head)

    @property
    def safe(self) -> int:
        """The block that the `safe` tag names; -1 when the chain has no such tag or no node tells it."""
        return self._safe[0]

    def observe(self, node_id: str, sighting: Sighting, now: float) -> None:
        """Take a node's report of its newest block. Its reports count (again) from now on."""
        view = self._view(node_id)
        if view.see(sighting, now, may_reorganise=self._may_reorganise):
            self._turn(view)

    def announced(self, node_id: str, sighting: Sighting, now: float) -> bool:
        """Take a block that a node has announced by itself, if it is news. False when only a probe can tell what the
        announcement means: it does not continue what is known of the node's branch."""
        view = self._view(node_id)
        taken = view.takes(sighting, may_reorganise=self._may_reorganise)
        repeated = view.hashes.get(sighting.number) == sighting.hash and sighting.number == view.head
        continues = sighting.number - 1 in view.hashes
        if taken:
            self.observe(node_id, sighting, now)
        return not self._may_reorganise or repeated or (taken and continues)

    def confirm(self, node_id: str, number: int, block_hash: str) -> None:
        """Take the hash of a block at or below a node's head, which shows a reorganisation between two polls."""
        view = self._view(node_id)
        if self._may_reorganise and view.record(number, block_hash):
            self._turn(view)

    def is_final(self, number: int, sighting: Sighting) -> bool:
        """Does the node with this newest block have block `number`, and is that final: by what the node reports, or by
        what was final before?"""
        if self._finality == "instant":
            final = sighting.number
        elif self._finality == "tag" and (sighting.final is not None or not self._depth):
            final = -1 if sighting.final is None else sighting.final
        else:
            final = sighting.number - self._depth
        return number <= min(sighting.number, max(final, self._final))

    def told(self, now: float) -> int:
        """The highest block that nodes with half of the weight have reported; -1 without any."""
        return self._reached(self._live(now), now)

    def served(self, now: float) -> Served:
        """The head to serve from now on; `now` must not go back between calls."""
        live = self._live(now)
        if live and self._may_reorganise and self._only_strangers(live) and self._waits(now):
            note = "waiting for a node on the served branch"
        elif live:
            note = self._settle(live, self._compare(live) if self._may_reorganise else live, now)
        else:
            note = (
                "no node tells its head"
                if self._head < 0
                else f"no node tells its head; block {self._head} was the last"
            )
        known = self._branch.get(self._head, "") if self._may_reorganise else ""
        note = note or self._standstill(now)
        return Served(self._head, self._final, self._epoch, self._doubted, self._since, note, known)

    def _view(self, node_id: str) -> ChainView:
        view = self._views.get(node_id)
        if view is None:
            view = self._views[node_id] = ChainView()
        return view

    def _turn(self, view: ChainView) -> None:
        """Note that a node left its branch."""
        self.turns += 1
        view.turned = self.turns
        if view.counts:
            self._fork()

    def renew(self) -> None:
        """Begin a fork epoch: state or blocks were changed without a new block, and no key made before may be used. A
        head that went back is not waited for."""
        if self._may_reorganise:
            self._fork()
        else:
            self._epoch += 1

    def _fork(self) -> None:
        self._epoch += 1
        self._moved = True
        self._branch.clear()

    def _live(self, now: float) -> list[ChainView]:
        return [
            view
            for view in self._views.values()
            if view.counts and view.head >= 0 and not view.gone and now - view.seen_at <= self._fresh
        ]

    def _reached(self, views: list[ChainView], now: float) -> int:
        """The highest block that half of the weight has reached, among the nodes that speak.

        A silent node is believed to have kept pace, and its weight still counts against a head that is further up: one
        light node cannot make a head of its own while a heavy one hangs.
        """
        speaking = [view for view in views if now - view.owes_since < SILENT_AFTER]
        if len(speaking) in {0, len(views)}:
            return reached_by_half((view.head, view.weight) for view in views)
        period = self._pace.period
        believed = ((view.head if view in speaking else view.believed(now, period), view.weight) for view in views)
        return min(reached_by_half((view.head, view.weight) for view in speaking), reached_by_half(believed))

    def _compare(self, live: list[ChainView]) -> list[ChainView]:
        """The nodes on the chosen branch; begins a new fork epoch when that is not the served branch."""
        branch, along = lead(live, self._branch)
        if any(self._branch.get(number, told) != told for number, told in branch.items()):
            self._fork()
        if any(self._sealed.get(number, told) != told for view in along for number, told in view.hashes.items()):
            self._doubt_final()
        self._branch = dict(sorted((self._branch | branch).items())[-BLOCKS_OF_A_NODE:])
        for view in self._views.values():
            # A silent node stays what it was, but nobody knows whether it goes along to another branch.
            if view in live or (self._moved and view.head >= 0):
                view.keep_to(self._final_for(view), along=view in along)
        return along

    def _final_for(self, view: ChainView) -> int:
        """The last final block, for a node that reported no other hash for a final one; else -1."""
        differs = (
            self._branch.get(number, told) != told for number, told in view.hashes.items() if number <= self._final
        )
        return -1 if any(differs) else self._final

    def _settle(self, live: list[ChainView], along: list[ChainView], now: float) -> str:
        """Move the served head to what the live nodes on its branch have reached; return the note."""
        reached = self._reached(along, now)
        best = max(view.head for view in along)
        if reached >= self._head or self._moved:
            if self._moved:
                self._fallen_from, self._same = -1, False
            self._move(reached, now)
        elif best >= self._head:
            self._missing = None
        else:
            if self._waits(now):
                return f"waiting for a node at block {self._head}: the best one left is at block {best}"
            self._fallen_from = max(self._fallen_from, self._head)
            self._same = self._know_the_branch(along)
            if self._may_reorganise:
                self._fork()
            self._move(best, now)
        self._settle_final(live, along)
        if self._head < self._fallen_from:
            return (
                f"the nodes at block {self._fallen_from} are gone: following the best one left, at block {self._head}"
            )
        self._fallen_from = -1
        return ""

    def _only_strangers(self, live: list[ChainView]) -> bool:
        """Is no live node known to be on the served branch, while one that was is merely silent?

        The first node to speak after a silence of all (the process was suspended, or the network was down) says nothing
        about the branch that the others are on.
        """
        silent = any(
            view.sure is None and view.counts and view.head >= 0 and not view.gone for view in self._views.values()
        )
        return silent and all(view.sure is not None for view in live)

    def _waits(self, now: float) -> bool:
        """Is the time not over for which the nodes that had the served head are waited for? It begins with the first
        call."""
        if self._missing is None:
            self._missing = now
        return now - self._missing < self._pace.wait

    def _know_the_branch(self, live: list[ChainView]) -> bool:
        """Do a live node and a node that had the served head report the same hash of some block?"""
        had = [view for view in self._views.values() if view.head >= self._head]
        return any(
            view.hashes.get(number) == told for view in live for other in had for number, told in other.hashes.items()
        )

    def _move(self, head: int, now: float) -> None:
        if head != self._head:
            self._since = now
        self._head, self._missing, self._moved = head, None, False

    def _settle_final(self, live: list[ChainView], along: list[ChainView]) -> None:
        if self._may_reorganise and self._head < self._final:
            if not self._same:
                self._doubted = self._epoch
            self._withdraw_final()
        if self._finality == "instant":
            final = self._head
        elif self._finality == "depth":
            final = self._deep(live, along)
        else:
            near = [
                view for view in along if view.head > self._head - BLOCKS_OF_A_NODE
            ]  # one that stands says nothing new
            self.finalized = self._tagged(self.finalized, ((view.final, view.weight) for view in near))
            before, epoch = self._safe
            safe = self._tagged(before if epoch == self._epoch else -1, ((view.safe, view.weight) for view in near))
            self._safe = max(safe, self.finalized) if safe >= 0 else -1, self._epoch
            final = self.finalized if self.finalized >= 0 or not self._depth else self._deep(live, along)
        self._final = max(self._final, min(final, self._head), -1)
        if self._may_reorganise:
            self._seal(along)

    def _deep(self, live: list[ChainView], along: list[ChainView]) -> int:
        """The block that is final by its depth below what most of the weight near the head has reached, on the served
        branch: one that less has reached may be of a branch that the others are leaving. A node that left the served
        branch twice that depth ago is on a fork of its own."""
        near = [view for view in live if view.head >= self._head - self._depth]
        left = sum(view.weight for view in near if view.sure is None or view.sure > self._head - 3 * self._depth) / 2
        for view in sorted((view for view in near if view in along), key=lambda view: -view.head):
            left -= view.weight
            if left < 0:
                return view.head - self._depth
        return -1

    def _tagged(self, before: int, told: Iterable[tuple[int, float]]) -> int:
        """The block that a tag names, by the nodes that tell it: no block above the head, and never back."""
        return max(before, min(self._head, reached_by_most(report for report in told if report[0] >= 0)))

    def _doubt_final(self) -> None:
        """Put the final blocks in doubt: one of them has another hash on the chosen branch."""
        self._fork()
        self._doubted = self._epoch
        self._sealed.clear()
        self._final = self.finalized = -1

    def _seal(self, live: list[ChainView]) -> None:
        """Remember the hashes of final blocks that are reported by nodes known to be on the served branch."""
        told = {view.final: view.final_hash for view in live if view.final == self.finalized and view.final_hash}
        sealed = {number: known for view in live for number, known in view.hashes.items() if number <= self._final}
        self._sealed = dict(sorted((self._sealed | sealed | told).items())[-BLOCKS_OF_A_NODE:])

    def _withdraw_final(self) -> None:
        """Forget the final blocks, because the served chain ends below them: the report was wrong, or the chain is
        new."""
        self._sealed.clear()
        self._final = self.finalized = -1
        for view in self._views.values():
            if view.final > self._head:
                view.final = -1

    def _standstill(self, now: float) -> str:
        age = now - self._since
        return f"no new block for {age:.0f} s" if self._head >= 0 and age > self._pace.stall else ""
