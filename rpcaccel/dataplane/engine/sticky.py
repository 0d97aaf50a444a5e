"""Choosers for calls that belong to certain nodes: the node that made a filter, or those that took a transaction.

A filter is made on any node. The id that the client gets names the node (core.plan.filter_id), which alone knows the
filter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

from rpcaccel.balancers import Balancer
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.nodes.eligibility import CALLS_OF, Ineligibility, judge, sentence
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan import filter_id
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import PoolChooser

_PARKED = (Ineligibility.PARKED, Ineligibility.METHOD_PARKED)
_NOT_EVEN_PINNED = (Ineligibility.WRONG_CHAIN, *_PARKED)
"""What keeps even the one node that has a filter from being asked. A drained or weightless node still serves the
filters that it holds."""


class Pinned:
    """A chooser that knows one node and no other."""

    __slots__ = ("_node", "_plan", "forced")

    def __init__(self, plan: Plan, node: Node) -> None:
        self._plan = plan
        self._node = node
        self.forced = False

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """The node, unless it was asked before or must not be asked."""
        node = self._node
        why = judge(node, self._plan, now)
        gone = why is Ineligibility.BREAKER_OPEN and node.breaker.held  # where probes are answered, it has what it had
        if node.id in avoid or gone or why in _NOT_EVEN_PINNED:
            return None
        return node if self._has_room(now) else None

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:  # noqa: ARG002 - the port's
        """No hedge: the filter lives on one node."""
        return None

    def behind(self, now: float) -> bool:  # noqa: ARG002 - the port's
        """False: no other node is waited for."""
        return False

    def nobody(self, now: float) -> Failure:
        """Why the node cannot be asked."""
        why = judge(self._node, self._plan, now)
        if why not in _NOT_EVEN_PINNED and not self._has_room(now):
            text = f"node {self._node.id} has as many {CALLS_OF[self._plan.rule.bulkhead]} as it may have at once"
            return Failure(FailureKind.BUSY, text, sent=False, retry_after=1.0)
        kind = FailureKind.RATE_LIMITED if why in _PARKED else FailureKind.NO_NODE
        return Failure(kind, sentence(self._node, why, self._plan, now), sent=False)

    def _has_room(self, now: float) -> bool:
        bulkhead = self._plan.rule.bulkhead
        return bulkhead is Bulkhead.LIGHT or self._node.has_room(now, bulkhead)


class Preferring(PoolChooser):
    """A chooser that prefers some nodes by id, as long as they are eligible."""

    __slots__ = ("_preferred",)

    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[Node],
        balancer: Balancer,
        rng: Random,
        *,
        preferred: Collection[str],
        route_key: bytes = b"",
    ) -> None:
        super().__init__(plan, nodes, balancer, rng, route_key=route_key)
        self._preferred = preferred

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """A preferred node while there is one, then whoever else is eligible."""
        wanted = [
            node
            for node in self._nodes
            if node.id in self._preferred
            and node.id not in avoid
            and judge(node, self._plan, now) is Ineligibility.NONE
        ]
        if wanted:
            return self._balancer.pick(wanted, route_key=self._route_key, now=now, rng=self._rng)
        return super().next(avoid, now)


NOT_FOUND = jsonrpc.error_object(-32000, "filter not found")
"""What a node says about a filter it does not have (facts: harmony.md section 5)."""
KINDS = frozenset({"filter-new", "filter-poll", "filter-drop"})
"""The kinds of the rules whose methods are about filters."""
_GONE = frozenset({FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS, FailureKind.NO_NODE})
"""Failures after which the node cannot be reached, nor its filters: a client that is told "not found" makes a new
filter elsewhere."""


def pinned(network: Network, plan: Plan) -> tuple[Plan, Pinned | None] | None:
    """The plan of a call to a filter, with the id as its node knows it, and the chooser of that node. The chooser is
    None when the node is gone from the settings. None in place of both when the params name no filter."""
    read = filter_id.read(plan.asked, network.name, (node.id for node in network.pool.nodes))
    if read is None:
        return None
    node = next((node for node in network.pool.nodes if node.id == read.node), None)
    if node is None:
        return plan, None
    asked = plan.with_params(read.params)
    return asked, Pinned(asked, node)


def conclude(network: Network, context: FetchContext, plan: Plan, said: Forwarded) -> Outcome:
    """The outcome of a call to a filter: a filter whose node cannot be reached is not found."""
    gone = said.failure is not None and said.failure.kind in _GONE
    return not_found(network, plan) if gone else context.conclude(network, plan, said, ())


def not_found(network: Network, plan: Plan) -> Outcome:
    """The outcome of a call to an unknown filter, as nodes give it: an error to a poll, `false` to a removal."""
    head = network.view.head
    if plan.rule.kind == "filter-drop":
        return Outcome(source=AnswerSource.LOCAL, result=b"false", block=head)
    return Outcome(source=AnswerSource.LOCAL, error=NOT_FOUND, block=head, kind=FailureKind.FILTER_NOT_FOUND)
