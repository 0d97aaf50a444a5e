"""The served head of a network: one block number for every client, out of what many nodes say.

The rule (docs/architecture.md, rules of truth): the served head is the highest block that nodes holding at least
half of the eligible weight have reached. On a chain whose blocks are final at once it never goes back for a client.
When the nodes at the head are gone it waits for them a bounded time, then follows the best node left, and says so.
On a chain that can reorganise, a branch left behind moves the fork epoch, and with it every key made on that branch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from rpcaccel.core.heads.chain_view import REMEMBERED, ChainView, Sighting
from rpcaccel.core.heads.fork_choice import lead

Finality = Literal["instant", "tag", "depth"]


class Served(Struct, frozen=True):
    """The head that clients see, at one moment."""

    head: int = -1
    """Block number; -1 as long as no node has told one."""
    final: int = -1
    """The highest block that can no longer change; -1 when none is known to be. It goes back only where blocks can be
    replaced, and only when the head falls below it."""
    fork_epoch: int = 0
    """Goes up each time blocks that were served may have been replaced; always 0 where blocks are final at once."""
    doubted: int = -1
    """The fork epoch at which a final block was last seen replaced, or the head fell below what was final and may have
    fallen to another chain: what was kept as final is in doubt since then. -1: never."""
    since: float = 0.0
    """Monotonic seconds at which `head` took its number."""
    note: str = ""
    """A sentence for the operator when the head is not what it should be."""


class NodeHead(Struct, frozen=True, kw_only=True):
    """What is known about one node's view of the chain."""

    id: str
    head: int = -1
    chain_ok: bool | None = None
    """False: another chain or shard, never to be asked. None: not known yet."""
    says: dict[str, bool] = {}
    """Which of the roles that it speaks of it has, by its own word."""
    answering: bool = False
    barred: str = ""
    """Why it is not to be asked at all: its probes are not let in, or there is no JSON-RPC at its URL."""
    note: str = ""
    """A sentence for the operator."""
    latency: float | None = None
    """Seconds of the last successful probe."""
    seen_at: float | None = None
    """Monotonic seconds of the last sign of life."""

    @property
    def looked_at(self) -> bool:
        """Has a first look at it ended? One that failed left its reason in the note."""
        return self.answering or self.seen_at is not None or bool(self.note)


class NetworkHeads(Struct, frozen=True, kw_only=True):
    """Everything the workers need to know about the heads of one network."""

    network: str
    served: Served
    finalized: int = -1
    """The block that the `finalized` tag stands for; -1 where the chain has no such tag or it is not known."""
    epoch: int = -1
    """A lower bound of the current epoch; -1 where the chain has none or it is not known."""
    eth_chain_id: int | None = None
    network_id: int | None = None
    genesis: str | None = ""
    """The hash of block 0; empty: no node tells one; None: none was asked yet."""
    nodes: tuple[NodeHead, ...] = ()


def reached_by_half(reports: Iterable[tuple[int, float]]) -> int:
    """The highest number that reports holding at least half of the weight have reached; -1 without any weight."""
    ordered = sorted(reports, reverse=True)
    half = sum(weight for _, weight in ordered) / 2
    held = 0.0
    for number, weight in ordered:
        held += weight
        if held and held >= half:
            return number
    return -1


class HeadBook:
    """Nodes' heads and weights in, the served head out. Nodes nobody weighed count as weight 1.

    `depth` is how many blocks under the head are not final, where finality is a depth or no node tells its tag;
    `wait` how many seconds the head waits for nodes that have it; `fresh` how many seconds a node's word counts;
    `stall` after how many seconds without a new block that is said; `fork_epoch` where to go on counting.
    """

    __slots__ = ("_branch", "_depth", "_doubted", "_epoch", "_fallen_from", "_final", "_finality", "_finalized",
                 "_fresh", "_head", "_may_reorganise", "_missing", "_moved", "_same", "_sealed", "_since", "_stall",
                 "_turns", "_views", "_wait")  # fmt: skip

    def __init__(
        self,
        finality: Finality,
        *,
        depth: int = 0,
        wait: float = 5.0,
        fresh: float = 15.0,
        stall: float = 45.0,
        fork_epoch: int = 0,
    ) -> None:
        self._finality = finality
        self._may_reorganise = finality != "instant"
        self._depth = depth
        self._wait = wait
        self._fresh = fresh
        self._stall = stall
        self._views: dict[str, ChainView] = {}
        self._branch: dict[int, str] = {}
        self._head = -1
        self._final = -1
        self._finalized = -1
        self._epoch = fork_epoch
        self._doubted = -1
        self._sealed: dict[int, str] = {}
        """Hashes of blocks of the served branch that were final: another one for any of them was never to be."""
        self._same = False
        """Did the head fall to nodes that are known to be on the branch that was served?"""
        self._since = 0.0
        self._moved = False
        self._turns = 0
        self._missing: float | None = None
        self._fallen_from = -1

    def __repr__(self) -> str:
        return f"<HeadBook {self._finality} head {self._head} epoch {self._epoch}, {len(self._views)} nodes>"

    def weigh(self, node_id: str, weight: float, *, eligible: bool = True) -> None:
        """How much a node's word counts: not at all while it is not eligible or weighs nothing."""
        view = self._view(node_id)
        view.weight = weight
        view.eligible = eligible

    def forget(self, node_id: str) -> None:
        """The node left the network."""
        self._views.pop(node_id, None)

    def gone(self, node_id: str) -> None:
        """The node stopped answering; its word counts again once it is observed."""
        self._view(node_id).gone = True

    def head_of(self, node_id: str) -> int:
        """The last head of a node; -1 when it never told one."""
        view = self._views.get(node_id)
        return -1 if view is None else view.head

    def usable_head_of(self, node_id: str) -> int:
        """The last block a node may be asked about: less than its head while it may be on another branch than
        the one that is served, where it would answer wrongly without an error."""
        view = self._views.get(node_id)
        return -1 if view is None else view.usable

    def in_question(self, node_id: str) -> int | None:
        """A block whose hash this node should be asked for, to show which nodes are on one branch; None: no doubt."""
        view = self._views.get(node_id)
        if view is None:
            return None
        if view.turned and self._sealed.keys().isdisjoint(view.hashes):
            sealed = max(self._sealed, default=None)
            if sealed is not None and sealed <= view.head:  # how far down did it leave its branch?
                return sealed
        others = [other for other in self._views.values() if other.doubts(view)]
        numbers = {other.head for other in others if self._final < other.head <= view.head} - view.hashes.keys()
        return max(numbers, default=None)

    def lag_of(self, node_id: str) -> int | None:
        """Blocks by which a node is behind the served head; None as long as either is unknown."""
        head = self.head_of(node_id)
        return None if head < 0 or self._head < 0 else max(0, self._head - head)

    @property
    def finalized(self) -> int:
        """The block that the `finalized` tag stands for; -1 where the chain has no such tag or no node tells it."""
        return self._finalized

    def observe(self, node_id: str, sighting: Sighting, now: float) -> None:
        """A node told its newest block; its word counts (again) from now on."""
        view = self._view(node_id)
        if view.see(sighting, now, may_reorganise=self._may_reorganise):
            self._turn(view)

    def confirm(self, node_id: str, number: int, block_hash: str) -> None:
        """A node told the hash of a block at or under its head: how a reorganisation between two polls is seen."""
        view = self._view(node_id)
        if self._may_reorganise and view.record(number, block_hash):
            self._turn(view)

    def hint(self, node_id: str, number: int, now: float, block_time: float) -> bool:
        """A node's answer named block `number`; True when that raised the node's head (`ChainView.hint`)."""
        return self._view(node_id).hint(number, now, block_time)

    def told(self, now: float) -> int:
        """The highest block that nodes holding half of the weight told themselves, hints apart; -1 without any."""
        return reached_by_half((view.told, view.weight) for view in self._live(now))

    def served(self, now: float) -> Served:
        """The head to serve from now on; `now` never goes back between calls."""
        live = self._live(now)
        if self._may_reorganise and live:
            live = self._compare(live)
        if live:
            note = self._settle(live, now)
        else:
            note = (
                "no node tells its head"
                if self._head < 0
                else f"no node tells its head; block {self._head} was the last"
            )
        return Served(self._head, self._final, self._epoch, self._doubted, self._since, note or self._standstill(now))

    def _view(self, node_id: str) -> ChainView:
        view = self._views.get(node_id)
        if view is None:
            view = self._views[node_id] = ChainView()
        return view

    def _turn(self, view: ChainView) -> None:
        """A node left the branch it was on."""
        self._turns += 1
        view.turned = self._turns
        if view.counts:
            self._fork()

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

    def _compare(self, live: list[ChainView]) -> list[ChainView]:
        """The nodes on the branch that counts; notices when that is no longer the one that was served."""
        branch, along = lead(live, self._branch)
        if any(self._branch.get(number, told) != told for number, told in branch.items()):
            self._fork()
        if any(self._sealed.get(number, told) != told for view in along for number, told in view.hashes.items()):
            self._doubt_final()
        self._branch = dict(sorted((self._branch | branch).items())[-REMEMBERED:])
        for view in live:
            view.keep_to(self._final, along=view in along)
        return along

    def _settle(self, live: list[ChainView], now: float) -> str:
        """Move the served head by what the live nodes hold; returns the note."""
        reached = reached_by_half((view.head, view.weight) for view in live)
        best = max(view.head for view in live)
        if reached >= self._head or self._moved:
            if self._moved:
                self._fallen_from, self._same = -1, False
            self._move(reached, now)
        elif best >= self._head:
            self._missing = None
        else:
            if self._missing is None:
                self._missing = now
            if now - self._missing < self._wait:
                return f"waiting for a node at block {self._head}: the best one left is at block {best}"
            self._fallen_from = max(self._fallen_from, self._head)
            self._same = self._know_the_branch(live)
            if self._may_reorganise:
                self._fork()
            self._move(best, now)
        self._settle_final(live)
        if self._head < self._fallen_from:
            return (
                f"the nodes at block {self._fallen_from} are gone: following the best one left, at block {self._head}"
            )
        self._fallen_from = -1
        return ""

    def _know_the_branch(self, live: list[ChainView]) -> bool:
        """Did one of them and another node, which had the served head, tell the same of a block?"""
        had = [view for view in self._views.values() if view.head >= self._head]
        return any(
            view.hashes.get(number) == told for view in live for other in had for number, told in other.hashes.items()
        )

    def _move(self, head: int, now: float) -> None:
        if head != self._head:
            self._since = now
        self._head, self._missing, self._moved = head, None, False

    def _settle_final(self, live: list[ChainView]) -> None:
        if self._may_reorganise and self._head < self._final:
            if not self._same:
                self._doubted = self._epoch
            self._withdraw_final()
        if self._finality == "instant":
            final = self._head
        elif self._finality == "depth":
            final = self._head - self._depth
        else:
            told = reached_by_half((view.final, view.weight) for view in live if view.final >= 0)
            self._finalized = max(self._finalized, min(told, self._head))
            final = self._finalized if self._finalized >= 0 or not self._depth else self._head - self._depth
        self._final = max(self._final, final, -1)
        if self._may_reorganise:
            self._seal(live)

    def _doubt_final(self) -> None:
        """A block that was called final is another one on the branch that counts now."""
        self._fork()
        self._doubted = self._epoch
        self._sealed.clear()
        self._final = self._finalized = -1

    def _seal(self, live: list[ChainView]) -> None:
        """Note the hashes of what is final now, as far as nodes tell them that are known to be on the branch."""
        told = {view.final: view.final_hash for view in live if view.final == self._finalized and view.final_hash}
        sealed = {number: known for view in live for number, known in view.hashes.items() if number <= self._final}
        self._sealed = dict(sorted((self._sealed | sealed | told).items())[-REMEMBERED:])

    def _withdraw_final(self) -> None:
        """The chain that is served ends below what was called final: it was said wrongly, or the chain began anew."""
        self._sealed.clear()
        self._final = self._finalized = -1
        for view in self._views.values():
            if view.final > self._head:
                view.final = -1

    def _standstill(self, now: float) -> str:
        age = now - self._since
        return f"no new block for {age:.0f} s" if self._head >= 0 and age > self._stall else ""
