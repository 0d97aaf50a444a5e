"""Calls about a filter, which belong to the node that made it.

A filter is made on any node. The id that the client gets names the node (core.plan.filter_id), which alone knows the
filter.
"""

from __future__ import annotations

from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.plan import filter_id
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import OneNode

NOT_FOUND = jsonrpc.error_object(-32000, "filter not found")
"""What a node says about a filter it does not have (facts: harmony.md section 5)."""
KINDS = frozenset({"filter-new", "filter-poll", "filter-drop"})
"""The kinds of the rules whose methods are about filters."""
_GONE = frozenset({FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS, FailureKind.NO_NODE})
"""Failures after which the node cannot be reached, nor its filters: a client that is told "not found" makes a new
filter elsewhere."""


def pinned(network: Network, plan: Plan) -> tuple[Plan, OneNode | None] | None:
    """The plan of a call to a filter, with the id as its node knows it, and the chooser of that node. The chooser is
    None when the node is gone from the settings. None in place of both when the params name no filter."""
    read = filter_id.read(plan.asked, network.name, (node.id for node in network.pool.nodes))
    if read is None:
        return None
    node = next((node for node in network.pool.nodes if node.id == read.node), None)
    if node is None:
        return plan, None
    asked = plan.with_params(read.params)
    return asked, OneNode(node, asked)


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
