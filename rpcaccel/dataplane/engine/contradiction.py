"""What the result of one node shows of the nodes that were asked the same call before and had none.

Only a result shows anything. Whatever a call makes all nodes say, a client may have meant it to.
"""

from __future__ import annotations

from collections.abc import Callable

from rpcaccel.core.cache.retention import is_empty
from rpcaccel.core.dispatch.dispatch_policy import Settle
from rpcaccel.core.dispatch.machine import Dispatch
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.failure import CONTRADICTABLE, FailureKind, policy
from rpcaccel.core.replies.result_check import block_of
from rpcaccel.dataplane.engine.second_opinions import NodeAnswer
from rpcaccel.dataplane.networks.network import Network

KEPT_BY_ALL = 64
"""Blocks under a node's head that no node has dropped: one that lacks a newer block is behind, or hides a machine that
is (architecture section 5)."""
LONGEST_READ = 64 * 1024
"""Bytes of the longest result that is searched for the block in which it stands."""


Decide = Callable[[Network, Plan, NodeAnswer, NodeAnswer], None]
"""Has a third node decide between the answers of two."""


def learn(network: Network, end: Settle, machine: Dispatch, decide: Decide, now: float) -> None:
    """Learn from a call that ended with a result, of the nodes that said something else before."""
    plan, answer, doubted = machine.plan, end.answer, machine.doubted
    if answer is None or answer.result is None:
        return
    pool, result = network.pool, bytes(answer.result)
    nodes = {node.id: node for node in pool.nodes}
    for id, kind in machine.steps:
        node = nodes.get(id)
        if node is None:
            continue
        if policy(kind).pays == "apart":
            pool.budget.answered_elsewhere(now)
        if kind in CONTRADICTABLE and plan.rule.known:
            if (cell := pool.cells.get(id)) is not None:
                cell.contradict(plan.method)
            node.contradictions.noted(plan.rule.method, now)
        elif kind is FailureKind.PRUNED and node is end.node:  # another machine of the same address had it
            pool.budget.found_again(now)
        elif kind is FailureKind.PRUNED:
            _has_dropped(network, node, plan, plan.oldest, now)
        elif kind is FailureKind.NODE_BEHIND and plan.block is not None and not is_empty(result):
            node.lacked(plan.block, pool.most_lag, now)
    if doubted is None or doubted is end:
        return
    pool.budget.rightly_doubted(now)
    named = block_of(result) if len(result) <= LONGEST_READ else None
    one, other = doubted.node, end.node
    if one is not None and other is not None and doubted.answer is not None and doubted.answer.result is not None:
        _has_dropped(network, one, plan, plan.oldest if named is None else named, now)
        said = NodeAnswer(one.id, one.head, bytes(doubted.answer.result))
        decide(network, plan, said, NodeAnswer(other.id, other.head, result))


def _has_dropped(network: Network, node: Node, plan: Plan, block: int | None, now: float) -> None:
    """Note that a node has no more of a block, or of its state, than nothing; another one has."""
    if block is not None and block <= node.head - min(KEPT_BY_ALL, network.pool.most_lag):
        node.dropped(block, plan, now, state=plan.rule.old_state)
