"""Says which node is asked next: eligibility and balancer behind the questions that core.dispatch.machine asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

from rpcaccel.balancers import Balancer
from rpcaccel.core.nodes.eligibility import CALLS_OF, Ineligibility, best_left, eligible, judge, sentence
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.rendezvous import rendezvous
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.failure import Failure, FailureKind


class PoolChooser:
    """The chooser of one call among the nodes of a pool."""

    __slots__ = ("_avoided", "_balancer", "_last", "_nodes", "_plan", "_rng", "_route_key", "forced")

    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[Node],
        balancer: Balancer,
        rng: Random,
        *,
        route_key: bytes = b"",
        urgent: bool = False,
        last: bool = False,
    ) -> None:
        """The chooser of `plan` among `nodes`.

        Args:
            urgent: the call is sent even to nodes without room.
            last: the call has waited for nodes that are behind, and waits no more.
        """
        self._plan = plan
        self._nodes = nodes
        self._balancer = balancer
        self._rng = rng
        self._route_key = route_key or plan.route_key
        self._avoided: Collection[str] = ("",) if urgent else ()
        """Ids to avoid from the start. An urgent call names none, but counts as one that was tried, which needs no
        room."""
        self._last = last
        self.forced = False
        """Was a node given that is not eligible, for want of a better one?"""

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """The node to ask now, among those whose id is not in `avoid`."""
        found = eligible(self._nodes, self._plan, now, avoid or self._avoided)
        if not found.nodes:
            return None
        if not found.forced:
            return found.nodes[0] if len(found.nodes) == 1 else self._pick(found.nodes, now)
        why = judge(found.nodes[0], self._plan, now)
        if avoid and why not in _MAY_BE_WELL:
            return None  # every node left is known to answer in vain, and one such answer is enough
        if why is Ineligibility.BREAKER_OPEN and not self._last and self.behind(now):
            return None  # a node that is merely behind is waited for, or followed (dataplane.engine.head_loss)
        self.forced = True
        return found.nodes[0]

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked beside `beside`; one that only need would have us ask is not given."""
        found = eligible(self._nodes, self._plan, now, avoid)
        bulkhead = self._plan.rule.bulkhead
        nodes = [node for node in found.nodes if node.tier <= beside.tier and node.has_room(now, bulkhead)]
        return None if found.forced or not nodes else self._pick(nodes, now)

    def _pick(self, nodes: Sequence[Node], now: float) -> Node:
        """The balancer's choice. A node that has just returned passes on some of its calls. Where answers differ by
        node, the caller's own node is chosen."""
        if self._plan.by_caller and self._route_key:
            return rendezvous(nodes, self._route_key)
        node = self._balancer.pick(nodes, route_key=self._route_key, now=now, rng=self._rng)
        if len(nodes) > 1 and (warmth := node.warmth(now)) < 1.0 and self._rng.random() >= warmth:
            others = [other for other in nodes if other is not node]
            node = self._balancer.pick(others, route_key=self._route_key, now=now, rng=self._rng)
        return node

    def behind(self, now: float) -> bool:
        """Is there a node that is ineligible for nothing but its head?"""
        return best_left(self._nodes, self._plan, now) >= 0

    def count(self, now: float) -> int:
        """The number of nodes that may be asked; when none is eligible, of the least bad ones."""
        return len(eligible(self._nodes, self._plan, now, self._avoided).nodes)

    def nobody(self, now: float) -> Failure:
        """Why no node can be asked: one sentence for each node."""
        plan, nodes = self._plan, self._nodes
        verdicts = [(node, judge(node, plan, now)) for node in nodes]
        said = "; ".join(sentence(node, why, plan, now) for node, why in verdicts) or "there are no nodes"
        if any(why is Ineligibility.NONE for _, why in verdicts):
            text = f"every node that may be asked has as many {CALLS_OF[plan.rule.bulkhead]} as it may have at once"
            return Failure(FailureKind.BUSY, text, sent=False, retry_after=1.0)
        limits = [_parked_until(node, why, plan, now) - now for node, why in verdicts if why in _PARKED]
        if limits:
            return Failure(FailureKind.RATE_LIMITED, said, sent=False, retry_after=min(limits))
        return Failure(FailureKind.NO_NODE, said, sent=False)


_PARKED = (Ineligibility.PARKED, Ineligibility.METHOD_PARKED, Ineligibility.SPENT)
_MAY_BE_WELL = (
    *(Ineligibility.BREAKER_OPEN, Ineligibility.EJECTED, Ineligibility.PROVING),
    *(Ineligibility.DISTRUSTED, Ineligibility.CONTRADICTED),
)


def _parked_until(node: Node, why: Ineligibility, plan: Plan, now: float) -> float:
    if why is Ineligibility.SPENT and node.quota is not None:
        return node.quota.parked_until(now) or now
    return node.parking.until if why is Ineligibility.PARKED else node.parking.of(plan.rule.method, plan.content)


class Separation:
    """Keeps one of several fetches from asking the nodes that the others ask."""

    __slots__ = ("_taken",)

    def __init__(self, taken: dict[str, Separation]) -> None:
        """`taken`: by the id of each node that one of the fetches asks, the separation of that fetch."""
        self._taken = taken

    def allows(self, node: Node) -> bool:
        """May this fetch ask the node?"""
        return self._taken.get(node.id, self) is self

    def takes(self, node: Node) -> None:
        """Note that this fetch asks the node."""
        self._taken[node.id] = self


class SeparateChooser(PoolChooser):
    """A chooser of nodes that no other of several fetches asks."""

    __slots__ = ("_all", "_separation")

    def __init__(
        self,
        separation: Separation,
        plan: Plan,
        nodes: Sequence[Node],
        balancer: Balancer,
        rng: Random,
        *,
        route_key: bytes = b"",
        last: bool = False,
    ) -> None:
        super().__init__(plan, nodes, balancer, rng, route_key=route_key, last=last)
        self._all = nodes
        self._separation = separation

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked, of those that are not taken."""
        self._nodes = [node for node in self._all if self._separation.allows(node)]
        return self._take(super().next(avoid, now))

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked beside another, of those that are not taken."""
        self._nodes = [node for node in self._all if self._separation.allows(node)]
        return self._take(super().spare(beside, avoid, now))

    def _take(self, node: Node | None) -> Node | None:
        if node is not None:
            self._separation.takes(node)
        return node


class OneNode:
    """The chooser of one node, which is asked once."""

    __slots__ = ("_node", "forced")

    def __init__(self, node: Node) -> None:
        self._node = node
        self.forced = False

    def next(self, avoid: Collection[str], now: float) -> Node | None:  # noqa: ARG002 - the port's
        """The node, unless it was asked before."""
        return None if self._node.id in avoid else self._node

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:  # noqa: ARG002 - the port's
        """No hedge: this node is meant."""
        return None

    def behind(self, now: float) -> bool:  # noqa: ARG002 - the port's
        """False: no other node is waited for."""
        return False

    def nobody(self, now: float) -> Failure:  # noqa: ARG002 - the port's
        """The node was asked and did not answer."""
        return Failure(FailureKind.NO_NODE, f"node {self._node.id} is asked once", sent=False)
