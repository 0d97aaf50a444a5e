"""One transaction to many nodes: whom to tell, what each refusal means for the next step, and what the client is told.

The bytes name the transaction, so telling a second node, or the same one again, can do nothing that the first telling
did not. Telling two thirds of the nodes carries nearly all of the benefit of telling every one.

Rules (docs/architecture.md, Failures):
- The first acceptance answers the client; the other nodes are told to the end. A node that knows the transaction
  already has accepted it.
- A node that is gone, or answers nothing of use, is not tried again; one that was not to be told takes its place. A
  busy node (rate limit) is asked again after a pause; one that had closed a kept connection, at once.
- A refusal of the transaction itself is final for that node. When nobody accepts, the most telling one is given, and
  before that it is looked up whether the transaction is on the chain by its exact hash.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from rpcaccel.core.dispatch.dispatch_policy import Settle, error_rank
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy

BUSY = frozenset({FailureKind.RATE_LIMITED, FailureKind.BUSY})
HAS_IT = frozenset({FailureKind.ALREADY_KNOWN, FailureKind.NONCE_TOO_LOW})
"""Refusals of a node that may have the very transaction: worth a look for it."""


class BroadcastSettings(Struct, frozen=True, kw_only=True):
    """How many nodes are told."""

    share: float = 2 / 3
    """Of the nodes that may be asked, rounded;"""
    at_least: int = 2
    """so many in any case, if there are."""
    again: int = 3
    """Times that a busy node is asked again,"""
    pause: float = 0.25
    """seconds later when it names no time; twice as long each time."""


class Ask(Struct, frozen=True):
    """Tell `node` after `delay` seconds."""

    node: Node
    delay: float = 0.0


class BroadcastChooser(Protocol):
    """Who is told next, by eligibility and balancer."""

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked and whose id is not among `avoid`."""
        ...

    def count(self, now: float) -> int:
        """How many nodes may be asked."""
        ...

    def nobody(self, now: float) -> Failure:
        """Why there is nobody at all."""
        ...


class Broadcast:
    """The telling of one transaction. `start` says whom to tell; every node's reply goes to `heard`."""

    __slots__ = ("_again", "_best", "_best_rank", "_budget", "_chooser", "_ends", "_settings", "accepted", "doubt",
                 "hash", "open", "steps", "told", "tried")  # fmt: skip

    def __init__(
        self, chooser: BroadcastChooser, budget: Budget, settings: BroadcastSettings, *, ends: float, hash: bytes | None
    ) -> None:
        """`ends`: when the client must have its answer (monotonic seconds). `hash`: JSON text, where it is certain."""
        self.hash = hash
        self.accepted: Settle | None = None
        """The first acceptance."""
        self.open = 0
        """Nodes whose last word has not come."""
        self.tried: list[str] = []
        """Ids of the nodes told, each once, in order."""
        self.told: dict[str, int] = {"accepted": 0, "known": 0, "refused": 0, "failed": 0}
        """How many nodes ended how."""
        self.steps: list[tuple[str, FailureKind]] = []
        self.doubt: Node | None = None
        """A node that may have the transaction, although it did not accept it now."""
        self._chooser = chooser
        self._budget = budget
        self._settings = settings
        self._ends = ends
        self._again: dict[str, int] = {}
        self._best: Settle | None = None
        self._best_rank = -1

    def start(self, now: float) -> list[Node]:
        """Whom to tell at once; nobody when there is nobody."""
        count = self._chooser.count(now)
        wanted = min(count, max(self._settings.at_least, round(self._settings.share * count)))
        nodes: list[Node] = []
        while len(nodes) < wanted and (node := self._fresh(now)) is not None:
            nodes.append(node)
        self.open = len(nodes)
        self._budget.call(now)
        if not nodes:
            self._best = Settle(None, self._chooser.nobody(now), None)
        return nodes

    def heard(self, node: Node, answer: Answer | None, failure: Failure | None, now: float) -> Ask | None:
        """A node replied; None: it had its last word."""
        if failure is None:
            self._accept(Settle(answer, None, node))
            self._over("accepted")
            return None
        kind = failure.kind
        if kind is FailureKind.ALREADY_KNOWN and self.hash is not None:
            self._accept(Settle(Answer(result=self.hash), None, node))
            self._over("known")
            return None
        self.steps.append((node.id, kind))
        self._remember(Settle(answer, failure, node))
        if kind in HAS_IT:
            self.doubt = node
        refused = policy(kind).retry == "never"
        following = None if refused else self._following(node, failure, now)
        if following is None:
            self._over("refused" if refused else "failed")
        return following

    def lost(self) -> None:
        """A node's telling was broken off: no word of it will come."""
        self._over("failed")

    def end(self) -> Settle | None:
        """What the client is told; None while it is not known yet."""
        if self.accepted is not None or self.open:
            return self.accepted
        return self._best

    def _following(self, node: Node, failure: Failure, now: float) -> Ask | None:
        """Whom to tell in place of what failed."""
        kind, before = failure.kind, self._again.get(node.id, 0)
        if kind is FailureKind.RESET_BEFORE_REPLY and not before:
            return self._once_more(Ask(node), failure, now)
        if kind in BUSY and before < self._settings.again:
            pause = self._settings.pause * 2.0**before if failure.retry_after is None else failure.retry_after
            if now + pause < self._ends:
                return self._once_more(Ask(node, pause), failure, now)
        if now >= self._ends or not self._budget.retry(failure, now):
            return None
        fresh = self._fresh(now)
        return None if fresh is None else Ask(fresh)

    def _once_more(self, ask: Ask, after: Failure, now: float) -> Ask | None:
        self._again[ask.node.id] = self._again.get(ask.node.id, 0) + 1
        return ask if self._budget.retry(after, now) else None

    def _fresh(self, now: float) -> Node | None:
        node = self._chooser.next(self.tried, now)
        if node is not None:
            self.tried.append(node.id)
        return node

    def _accept(self, end: Settle) -> None:
        if self.accepted is None:
            self.accepted = end

    def _remember(self, end: Settle) -> None:
        rank = error_rank(end)
        if rank > self._best_rank:
            self._best, self._best_rank = end, rank

    def _over(self, how: str) -> None:
        self.told[how] += 1
        self.open -= 1
