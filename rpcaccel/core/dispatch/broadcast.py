"""Broadcasts one transaction to several nodes: which nodes get it, what follows each refusal, and the client's answer.

The bytes identify the transaction, so sending it to a second node, or twice to one, has no further effect. Sending to
two thirds of the nodes has nearly all of the benefit of sending to every one.

Rules (architecture section 6):
- The first acceptance answers the client; the other nodes still get the transaction. A node that already knows the
  transaction has accepted it.
- A node that fails without a useful answer is not tried again; another node takes its place. A busy node (rate limit)
  is asked again after a pause, and one that had closed a kept connection is asked again at once.
- A refusal of the transaction itself is final for that node. When no node accepts, the client gets the most specific
  refusal, unless a lookup by the exact hash finds the transaction on the chain.
"""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.dispatch.dispatch_policy import Settle, error_rank
from rpcaccel.core.dispatch.machine import NodeChooser
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy

BUSY_KINDS = frozenset({FailureKind.RATE_LIMITED, FailureKind.BUSY})
HAS_IT = frozenset({FailureKind.ALREADY_KNOWN, FailureKind.NONCE_TOO_LOW})
"""Refusals of a node that may have this very transaction, so that a lookup pays."""


class BroadcastSettings(Struct, frozen=True, kw_only=True):
    """How many nodes get a transaction, and how busy nodes are asked again."""

    share: float = 2 / 3
    """Share of the eligible nodes, rounded."""
    at_least: int = 2
    """Nodes that get the transaction in any case, if there are as many."""
    again: int = 3
    """Times that a busy node is asked again."""
    pause: float = 0.25
    """Seconds before a busy node is asked again if it names no time; doubled each time."""

    def wanted(self, count: int) -> int:
        """The number of nodes that get the transaction, of `count` eligible ones."""
        return min(count, max(self.at_least, round(self.share * count)))


ALONE = BroadcastSettings(share=0.0, at_least=1)
"""One node gets the transaction, and another one only where that fails."""


class AskNode(Struct, frozen=True):
    """Send the transaction to `node` after `delay` seconds."""

    node: Node
    delay: float = 0.0


class Broadcast:
    """The broadcast of one transaction. `start` returns the first nodes; every reply goes to `heard`."""

    __slots__ = ("_again", "_best", "_best_rank", "_budget", "_chooser", "_ends", "_settings", "accepted", "doubt",
                 "hash", "open", "steps", "told", "tried")  # fmt: skip
    stopped = ""
    """As in a Dispatch; nothing is said of a transaction."""

    def __init__(
        self, chooser: NodeChooser, budget: Budget, settings: BroadcastSettings, *, ends: float, hash: bytes | None
    ) -> None:
        """`ends`: deadline of the client's answer (monotonic seconds). `hash`: the transaction's hash as JSON text, if
        known."""
        self.hash = hash
        self.accepted: Settle | None = None
        """The first acceptance."""
        self.open = 0
        """Nodes whose final reply is outstanding."""
        self.tried: tuple[str, ...] = ()
        """Ids of the nodes that were sent the transaction, each once, in order."""
        self.told: dict[str, int] = {"accepted": 0, "known": 0, "refused": 0, "failed": 0}
        """Number of nodes by outcome."""
        self.steps: tuple[tuple[str, FailureKind], ...] = ()
        self.doubt: Node | None = None
        """A node that refused but may have the transaction."""
        self._chooser = chooser
        self._budget = budget
        self._settings = settings
        self._ends = ends
        self._again: dict[str, int] = {}
        self._best: Settle | None = None
        self._best_rank = -1

    def start(self, count: int, now: float) -> list[Node]:
        """The nodes to send to at once, of `count` eligible ones; empty without an eligible node."""
        wanted = self._settings.wanted(count)
        nodes: list[Node] = []
        while len(nodes) < wanted and (node := self._fresh(now)) is not None:
            nodes.append(node)
        self.open = len(nodes)
        self._budget.call(now)
        if not nodes:
            self._best = Settle(None, self._chooser.nobody(now), None)
        return nodes

    def heard(self, node: Node, answer: Answer | None, failure: Failure | None, now: float) -> AskNode | None:
        """Take a node's reply; return a follow-up attempt, or None when the reply is final."""
        if failure is None:
            self._accept(Settle(answer, None, node))
            self._over("accepted")
            return None
        kind = failure.kind
        if kind is FailureKind.ALREADY_KNOWN and self.hash is not None:
            self._accept(Settle(Answer(result=self.hash), None, node))
            self._over("known")
            return None
        self.steps += ((node.id, kind),)
        self._remember(Settle(answer, failure, node))
        if kind in HAS_IT:
            self.doubt = node
        refused = policy(kind).retry == "never"
        following = None if refused else self._following(node, failure, now)
        if following is None:
            self._over("refused" if refused else "failed")
        return following

    def lost(self) -> None:
        """Note that an attempt was broken off and will have no reply."""
        self._over("failed")

    def end(self) -> Settle | None:
        """The client's answer; None while it is not decided."""
        if self.accepted is not None or self.open:
            return self.accepted
        return self._best

    def _following(self, node: Node, failure: Failure, now: float) -> AskNode | None:
        """The attempt that follows a failed one, if any."""
        kind, before = failure.kind, self._again.get(node.id, 0)
        if kind is FailureKind.RESET_BEFORE_REPLY and not before:
            return self._once_more(AskNode(node), failure, now)
        if kind in BUSY_KINDS and before < self._settings.again:
            pause = self._settings.pause * 2.0**before if failure.retry_after is None else failure.retry_after
            if now + pause < self._ends:
                return self._once_more(AskNode(node, pause), failure, now)
        if now >= self._ends or not self._budget.retry(failure, now):
            return None
        fresh = self._fresh(now)
        return None if fresh is None else AskNode(fresh)

    def _once_more(self, ask: AskNode, after: Failure, now: float) -> AskNode | None:
        self._again[ask.node.id] = self._again.get(ask.node.id, 0) + 1
        return ask if self._budget.retry(after, now) else None

    def _fresh(self, now: float) -> Node | None:
        node = self._chooser.next(self.tried, now)
        if node is not None:
            self.tried += (node.id,)
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
