"""Filters: made on any node, asked of the node that made them, which the id tells (core.filterid)."""

from __future__ import annotations

from collections.abc import Callable

from rpcaccel.core import filterid, jsonrpc
from rpcaccel.core.cells import Source
from rpcaccel.core.failure import FailureKind
from rpcaccel.core.outcome import Outcome
from rpcaccel.core.plan import Plan
from rpcaccel.dataplane.forward import Forwarded, forward
from rpcaccel.dataplane.network import Network
from rpcaccel.dataplane.pinning import Pinned

NOT_FOUND = jsonrpc.error_object(-32000, "filter not found")
"""What a node says about a filter it does not have (facts: harmony.md section 5)."""
KINDS = frozenset({"filter-new", "filter-poll", "filter-drop"})
"""What rules call the methods that are treated here."""
_GONE = frozenset({FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS, FailureKind.NO_NODE})
"""The node cannot be reached, and its filters with it: a client that is told so makes a new one elsewhere."""


def named(network: Network, outcome: Outcome) -> Outcome:
    """The outcome of making a filter, with the node's name in the id."""
    if outcome.result is None:
        return outcome
    return Outcome(
        source=outcome.source,
        result=filterid.attach(outcome.result, network.name, outcome.node),
        node=outcome.node,
        block=outcome.block,
        attempts=outcome.attempts,
        steps=outcome.steps,
    )


async def poll(
    network: Network, plan: Plan, deadline: float, conclude: Callable[[Plan, Forwarded], Outcome]
) -> Outcome | None:
    """Ask the node that made the filter; None when the params name no filter, so that a node says what is wrong.

    A filter whose node is gone, from the settings or from the network, is not found.
    """
    read = filterid.read(plan.asked, network.name, (node.id for node in network.pool.nodes))
    if read is None:
        return None
    node = next((node for node in network.pool.nodes if node.id == read.node), None)
    if node is None:
        return _not_found(network, plan)
    asked = plan.with_params(read.params)
    forwarded = await forward(asked, network.pool, deadline=deadline, chooser=Pinned(asked, node))
    outcome = conclude(asked, forwarded)
    gone = forwarded.failure is not None and forwarded.failure.kind in _GONE
    return _not_found(network, plan) if gone else outcome


def _not_found(network: Network, plan: Plan) -> Outcome:
    """As nodes say it: an error to a poll, `false` to the removal of what is not there."""
    head = network.view.head
    if plan.rule.kind == "filter-drop":
        return Outcome(source=Source.LOCAL, result=b"false", block=head)
    return Outcome(source=Source.LOCAL, error=NOT_FOUND, block=head)
