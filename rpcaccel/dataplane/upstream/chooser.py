"""Who is asked next: eligibility and balancer as the one question that core.dispatch.machine puts."""

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
    """Eligibility and balancer as one question."""

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
        """`urgent`: the call is taken on even where there is no room. `last`: nodes that are behind were waited for."""
        self._plan = plan
        self._nodes = nodes
        self._balancer = balancer
        self._rng = rng
        self._route_key = route_key or plan.route_key
        self._avoided: Collection[str] = ("",) if urgent else ()
        """An urgent call avoids nobody, and still goes on like one that is under way."""
        self._last = last
        self.forced = False
        """Has a node been given that is not fit, for want of better?"""

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """Who is asked now, among those whose id is not in `avoid`."""
        found = eligible(self._nodes, self._plan, now, avoid or self._avoided)
        if not found.nodes:
            return None
        if not found.forced:
            return found.nodes[0] if len(found.nodes) == 1 else self._pick(found.nodes, now)
        why = judge(found.nodes[0], self._plan, now)
        if avoid and why not in _MAY_BE_WELL:
            return None  # each is known to answer in vain: one such answer is enough
        if why is Ineligibility.BREAKER_OPEN and not self._last and self.behind(now):
            return None  # a node that is merely behind comes along, or is followed (dataplane.engine.head_loss)
        self.forced = True
        return found.nodes[0]

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        """Who may be asked beside `beside`: nobody whom only need would have us ask."""
        found = eligible(self._nodes, self._plan, now, avoid)
        bulkhead = self._plan.rule.bulkhead
        nodes = [node for node in found.nodes if node.tier <= beside.tier and node.has_room(now, bulkhead)]
        return None if found.forced or not nodes else self._pick(nodes, now)

    def _pick(self, nodes: Sequence[Node], now: float) -> Node:
        """The balancer's choice; a node that has just returned passes on some of what falls to it. What differs by
        node is the caller's own node's to answer."""
        if self._plan.by_caller and self._route_key:
            return rendezvous(nodes, self._route_key)
        node = self._balancer.pick(nodes, route_key=self._route_key, now=now, rng=self._rng)
        if len(nodes) > 1 and (warmth := node.warmth(now)) < 1.0 and self._rng.random() >= warmth:
            others = [other for other in nodes if other is not node]
            node = self._balancer.pick(others, route_key=self._route_key, now=now, rng=self._rng)
        return node

    def behind(self, now: float) -> bool:
        """Is there a node that nothing but its head keeps from being asked?"""
        return best_left(self._nodes, self._plan, now) >= 0

    def count(self, now: float) -> int:
        """How many nodes may be asked, the least bad among them when none is fit."""
        return len(eligible(self._nodes, self._plan, now, self._avoided).nodes)

    def nobody(self, now: float) -> Failure:
        """Why there is nobody to ask: one sentence for each node."""
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
_MAY_BE_WELL = (Ineligibility.BREAKER_OPEN, Ineligibility.EJECTED)


def _parked_until(node: Node, why: Ineligibility, plan: Plan, now: float) -> float:
    if why is Ineligibility.SPENT and node.quota is not None:
        return node.quota.parked_until(now) or now
    return node.parking.until if why is Ineligibility.PARKED else node.parking.of(plan.rule.method)
