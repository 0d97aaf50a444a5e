"""Says which node is asked next: eligibility and balancer behind the questions that core.dispatch.machine asks; and
where a call comes from.

The origin of a call is the client's address, by which a network may route, and the trace that the call is a part of.
Each attempt at a node is a part of the trace, and the node learns its span. OpenTelemetry is not imported here: it is
loaded only where traces are switched on (dataplane.rpc.tracing).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple, Protocol

from msgspec import Struct

from rpcaccel.balancers import Balancer
from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.nodes.eligibility import Ineligibility, best_left, eligible, judge, sentence, why_full
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.rendezvous import rendezvous
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind


class TracedAttempt(Protocol):
    """An attempt at a node, as a part of a traced call."""

    @property
    def header(self) -> str:
        """The header that names the attempt to the node (a traceparent)."""
        ...

    def end(self, reply: Answer | Failure | None) -> None:
        """End the attempt's span with its reply; None: the attempt was given up."""
        ...


class TracedCall(Protocol):
    """A call that is traced."""

    @property
    def trace(self) -> str:
        """The id of the trace, 32 hex digits."""
        ...

    def attempt(self, method: str, asked: Asked) -> TracedAttempt:
        """Begin the span of an attempt at a node."""
        ...


class CallOrigin(Protocol):
    """Where a call comes from. Everything that is asked of nodes for the call carries its origin; a flight that several
    callers share is a part of the call that began it."""

    @property
    def address(self) -> str:
        """The address of the client, trusted proxies looked through; empty for the proxy itself."""
        ...

    @property
    def trace(self) -> TracedCall | None:
        """The traced call; None: the call is not traced."""
        ...


class _Proxy(NamedTuple):
    address: str = ""
    trace: TracedCall | None = None


PROXY: CallOrigin = _Proxy()
"""The origin of the calls that the proxy makes by itself."""


class Separation:
    """Keeps one of several fetches from asking the nodes that the others ask."""

    __slots__ = ("_taken",)

    def __init__(self, taken: dict[str, Separation]) -> None:
        """`taken`: by the id of each node that one of the fetches asks, the separation of that fetch."""
        self._taken = taken

    def left(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that this fetch may ask."""
        return [node for node in nodes if self._taken.get(node.id, self) is self]

    def takes(self, node: Node) -> None:
        """Note that this fetch asks the node."""
        self._taken[node.id] = self


class Chooser(Struct, eq=False, gc=False):
    """The chooser of one call among the nodes of a pool."""

    plan: Plan
    nodes: Sequence[Node]
    balancer: Balancer
    rng: Random
    route_key: bytes = b""
    """The key for a consistent-hash balancer."""
    preferred: Collection[str] = ()
    """Ids of nodes that are asked before all others, as long as they are eligible."""
    separation: Separation | None = None
    """Keeps the call from the nodes that fetches beside it ask; None: there are none."""
    urgent: bool = False
    """Is the call sent even to nodes without room?"""
    last: bool = False
    """Has the call waited for nodes that are behind, so that it waits no more?"""
    forced: bool = False
    """Was a node given that is not eligible, for want of a better one?"""

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """The node to ask now, among those whose id is not in `avoid`."""
        plan, nodes = self.plan, self.nodes if self.separation is None else self.separation.left(self.nodes)
        if self.preferred:
            wanted = [node for node in nodes if node.id in self.preferred and node.id not in avoid]
            if wanted := [node for node in wanted if judge(node, plan, now) is Ineligibility.NONE]:
                return self._pick(wanted, now)
        found = eligible(nodes, plan, now, avoid or (_TRIED if self.urgent else ()))
        if not found.nodes:
            return None
        if not found.forced:
            alone = len(found.nodes) == 1 and self.separation is None
            return found.nodes[0] if alone else self._pick(found.nodes, now)
        why = judge(found.nodes[0], plan, now)
        if avoid and why not in _MAY_BE_WELL:
            return None  # every node left is known to answer in vain, and one such answer is enough
        if why is Ineligibility.BREAKER_OPEN and not self.last and self.behind(now):
            return None  # a node that is merely behind is waited for, or followed (dataplane.engine.head_loss)
        self.forced = True
        return self._pick(found.nodes[:1], now)

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked beside `beside`; one that only need would have us ask is not given."""
        found = eligible(self._left(), self.plan, now, avoid)
        bulkhead = self.plan.rule.bulkhead
        fit = [node for node in found.nodes if node.tier <= beside.tier and node.has_room(now, bulkhead)]
        return None if found.forced or not fit else self._pick(fit, now)

    def _pick(self, nodes: Sequence[Node], now: float) -> Node:
        """The balancer's choice. A node that has just returned passes on some of its calls. Where answers differ by
        node, the caller's own node is chosen."""
        if len(nodes) == 1:
            node = nodes[0]
        elif self.plan.by_caller and self.route_key:
            node = rendezvous(nodes, self.route_key)
        else:
            node = self.balancer.pick(nodes, route_key=self.route_key, now=now, rng=self.rng)
            if (warmth := node.warmth(now)) < 1.0 and self.rng.random() >= warmth:
                others = [other for other in nodes if other is not node]
                node = self.balancer.pick(others, route_key=self.route_key, now=now, rng=self.rng)
        if self.separation is not None:
            self.separation.takes(node)
        return node

    def _left(self) -> Sequence[Node]:
        """The nodes that no fetch beside this one asks."""
        return self.nodes if self.separation is None else self.separation.left(self.nodes)

    def behind(self, now: float) -> bool:
        """Is there a node that is ineligible for nothing but its head?"""
        return best_left(self._left(), self.plan, now) >= 0

    def count(self, now: float) -> int:
        """The number of nodes that may be asked; when none is eligible, of the least bad ones."""
        return len(eligible(self._left(), self.plan, now, _TRIED if self.urgent else ()).nodes)

    def nobody(self, now: float) -> Failure:
        """Why no node can be asked: one sentence for each node."""
        plan, nodes = self.plan, self._left()
        verdicts = [(node, judge(node, plan, now)) for node in nodes]
        said = "; ".join(sentence(node, why, plan, now) for node, why in verdicts) or "there are no nodes"
        if full := [node for node, why in verdicts if why is Ineligibility.NONE]:
            return _busy(f"every node that may be asked {why_full(full, plan, now)}")
        limits = [_parked_until(node, why, plan, now) - now for node, why in verdicts if why in _PAUSED]
        if limits:
            return Failure(FailureKind.RATE_LIMITED, said, sent=False, retry_after=min(limits))
        return Failure(FailureKind.NO_NODE, said, sent=False)


_TRIED = ("",)
"""Ids to avoid for an urgent call. It names none, but counts as one that was tried, which needs no room."""
_PARKED = (Ineligibility.PARKED, Ineligibility.METHOD_PARKED)
_PAUSED = (*_PARKED, Ineligibility.SPENT)
_MAY_BE_WELL = (
    *(Ineligibility.BREAKER_OPEN, Ineligibility.EJECTED, Ineligibility.EXAMINING),
    *(Ineligibility.DISTRUSTED, Ineligibility.CONTRADICTED),
)


def _parked_until(node: Node, why: Ineligibility, plan: Plan, now: float) -> float:
    if why is Ineligibility.SPENT and node.quota is not None:
        return node.quota.parked_until(now) or now
    return node.parking.until if why is Ineligibility.PARKED else node.parking.of(plan.rule.method, plan.content)


def _busy(text: str) -> Failure:
    return Failure(FailureKind.BUSY, text, sent=False, retry_after=1.0)


class OneNode(Struct, eq=False):
    """The chooser of one node and no other: that which made the filter of `plan`, or that which is to be asked once in
    any case (None)."""

    node: Node
    plan: Plan | None = None
    forced: bool = False

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """The node, unless it was asked before or must not be asked. A drained or weightless node still serves the
        filters that it holds, and where it answers probes while its breaker is open, it has what it had."""
        node, plan = self.node, self.plan
        if node.id in avoid:
            return None
        if plan is None:
            return node
        why = judge(node, plan, now)
        gone = why is Ineligibility.BREAKER_OPEN and node.breaker.held
        return None if gone or why in _NOT_EVEN_ALONE or self._is_full(plan, now) else node

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:  # noqa: ARG002 - the port's
        """No hedge: this node is meant."""
        return None

    def behind(self, now: float) -> bool:  # noqa: ARG002 - the port's
        """False: no other node is waited for."""
        return False

    def nobody(self, now: float) -> Failure:
        """Why the node cannot be asked."""
        node, plan = self.node, self.plan
        if plan is None:
            return Failure(FailureKind.NO_NODE, f"node {node.id} is asked once", sent=False)
        why = judge(node, plan, now)
        if why not in _NOT_EVEN_ALONE and self._is_full(plan, now):
            return _busy(f"node {node.id} {why_full([node], plan, now)}")
        kind = FailureKind.RATE_LIMITED if why in _PARKED else FailureKind.NO_NODE
        return Failure(kind, sentence(node, why, plan, now), sent=False)

    def _is_full(self, plan: Plan, now: float) -> bool:
        return plan.rule.bulkhead is not Bulkhead.LIGHT and not self.node.has_room(now, plan.rule.bulkhead)


_NOT_EVEN_ALONE = (Ineligibility.WRONG_CHAIN, *_PARKED)
"""What keeps even the one node that has a filter from being asked."""
