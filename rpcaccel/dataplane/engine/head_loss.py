"""What becomes of a call when the nodes that have the block it needs are gone, and the others are behind.

The rule (architecture section 5): the call waits a bounded time for the nodes at the head, then follows
the best node left, because an honest older answer is better than none. The control plane moves the served head when the
probes of nodes go unanswered. This module keeps the rule for a single call, whatever the nodes fail of: a node may
answer probes and no calls. A node at the head may also lack what the call needs (a method, a role, old state) while a
node that has it is a block behind, as every node is for a moment when a block comes.
"""

from __future__ import annotations

from msgspec.structs import replace

from rpcaccel.core.dispatch.outcome import Forwarded
from rpcaccel.core.nodes.eligibility import ELIGIBLE, best_left, judge, may_come
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.failure import LACKING, Failure, FailureKind, policy
from rpcaccel.dataplane.networks.network import Network

_NOT_AWAY = frozenset({FailureKind.BUSY, FailureKind.CALL_REFUSED, FailureKind.CANCELLED})
"""The proxy's own errors that do not show that the nodes at the head are gone."""


def patience(network: Network, failure: Failure | None = None) -> float:
    """Seconds for which a call waits for the nodes at the head: by then the other nodes should have caught up. Where
    those at the head answer, and say that they do not have the block (`failure`), that is no outage."""
    settings = network.pool.settings
    if failure is not None and failure.kind is FailureKind.NODE_BEHIND and settings.behind_pause is not None:
        return settings.behind_pause
    return settings.patience


_LACKS = LACKING | {FailureKind.PRUNED, FailureKind.BEYOND_WINDOW}
"""The failures of a healthy node that has the block, and lacks something else that the call needs."""


def waits(network: Network, plan: Plan, forwarded: Forwarded, now: float) -> bool:
    """Should the call wait for a node that is merely behind, because those at the head are gone or cannot answer?"""
    failure = forwarded.failure
    if failure is None:
        return False
    kind = failure.kind
    if kind is FailureKind.NODE_BEHIND:  # a restarted node may have lost the block that it was known to have
        return lower(network, plan, now) is not None
    if lacks(forwarded):
        if kind is FailureKind.PRUNED and forwarded.answer is not None and forwarded.answer.result is not None:
            return False  # each node that is at the block says that there is nothing
        return plan.rule.kind == "read" and best_left(network.pool.nodes, plan, now) >= 0
    if kind is not FailureKind.NO_NODE:
        again = plan.rule.kind == "read" and (plan.repeat or not failure.sent)
        if not again or kind in _NOT_AWAY or policy(kind).client != "own-error":
            return False
    return may_come(network.pool.nodes, plan, now)


def lacks(forwarded: Forwarded) -> bool:
    """Did the nodes that were asked lack what the call needs, apart from the block?"""
    return forwarded.failure is not None and forwarded.failure.kind in _LACKS


def wait_until(
    network: Network, plan: Plan, forwarded: Forwarded, lower: Plan | None, now: float, patient_until: float
) -> float:
    """When the call stops waiting for a node at the head (monotonic seconds).

    Where the call has something to say already (what the best node left would answer, or that the nodes lack what the
    call needs), all calls of the method in this outage share one patience. A call of a method that no table describes
    does not wait: nobody knows whether its answer has to do with the head.

    Args:
        lower: the plan at the head of the best node left, if that one can answer.
        patient_until: the end of this call's own patience.
    """
    if not plan.rule.known:
        return now
    if lower is None and forwarded.answer is None:
        return patient_until
    bound = patience(network)
    gone = [node.id for node in network.pool.nodes if node.head >= plan.min_head]
    return min(patient_until, network.sight.absence.noticed(plan.rule.method, now, 2 * bound, gone) + bound)


def paid(network: Network, plan: Plan, forwarded: Forwarded, now: float) -> bool:
    """Pay for asking nodes again after this failure; False when the retry budget forbids it. It is paid like any retry,
    so that an outage in which no breaker opens does not double the load."""
    failure = forwarded.failure
    assert failure is not None
    asked_still = any(node.id in forwarded.tried and node.breaker.allows(now) for node in network.pool.nodes)
    unknown = "" if plan.rule.known else plan.method
    return network.pool.budget.retry(failure, now, unknown=unknown, shut=not asked_still)


def lower(network: Network, plan: Plan, now: float) -> Plan | None:
    """The plan of the same call at the head of the best node left; None when no node could answer that either."""
    left = best_left(network.pool.nodes, plan, now)
    if not 0 <= left < network.view.head:
        return None
    there = network.planner.plan_at(plan.method, plan.asked, replace(network.view, head=left))
    if plan.terms is not None:
        there = there.on(plan.terms)
    if left <= network.view.final and not network.final_at_once and not _on_any_branch(there):
        # A node that may be on another branch counts as no further than the final blocks, and answers about all it has.
        return None
    return there if there.min_head <= left and _fit(network, there, now) else None


def _on_any_branch(plan: Plan) -> bool:
    """Would a node on another branch answer alike, provided that the block is final? It would if the forwarded call
    names the block by its number, or by its hash without asking for the canonical branch."""
    if plan.cache is CacheClass.FOREVER:
        return plan.final
    return plan.block is not None and plan.rule.cache is CacheClass.BY_NUMBER


def after_a_wait(network: Network, plan: Plan, now: float) -> Plan:
    """The plan to go on with after a wait: a fresh one, or the earlier one where only that can be answered.

    On a chain that moves on, a node that stays a block behind never has the newest block, but by now it has the block
    that was the newest when the call came.
    """
    fresh = network.replan(plan)
    return plan if not _fit(network, fresh, now) and _fit(network, plan, now) else fresh


def reached(network: Network, plan: Plan, node_id: str) -> None:
    """Note that this node answered a call. If the call was about the head, an outage of the node is over."""
    if plan.min_head >= network.view.head:
        network.sight.absence.ended(plan.rule.method, node_id)


def _fit(network: Network, plan: Plan, now: float) -> bool:
    return any(judge(node, plan, now) is ELIGIBLE for node in network.pool.nodes)
