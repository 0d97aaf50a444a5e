"""What is learnt of a node from the answers of others: comparisons of a share of the answers, and calls that one node
failed and another one answered.

    answer of a node -> due? -> second node -> equal: counted
                                            -> different -> third node -> who is contradicted -> a case is told

A second node is asked about a share of the answers after the client has its own, and a third one where they differ.
Which answers are compared is decided in core.dispatch.sampling, and what counts as a difference in
core.agreement.equality. A comparison belongs to no client: no flight, no kept answer and no deadline of a client waits
for it, and an error of the second or third node ends it without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import time

from rpcaccel.core.agreement.cases import MAX_CASE_CHARACTERS, Case, CaseAnswer
from rpcaccel.core.agreement.equality import NOT_COMPARED, comparable, difference
from rpcaccel.core.agreement.majority import believed, is_fixed, is_proven, join
from rpcaccel.core.cache.retention import is_empty
from rpcaccel.core.dispatch.dispatch_policy import Settle
from rpcaccel.core.dispatch.machine import Dispatch
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.dispatch.sampling import is_tight, may_be_compared
from rpcaccel.core.nodes.eligibility import eligible
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan import range_segments
from rpcaccel.core.plan.plan import Plan, Terms
from rpcaccel.core.replies.failure import CONTRADICTABLE, FailureKind, policy
from rpcaccel.core.replies.result_check import block_of
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import OneNode

LONGEST_COMPARED = 512 * 1024
"""Bytes of the longest result that is compared: a longer one would hold up other calls for milliseconds."""
MAX_CASE_KEYS = 64
"""Keys of one case under which a contradicted answer may have been kept; of a longer range, those of the first
pieces."""

_NOBODYS = Outcome(source=AnswerSource.NODE, result=b"null")
"""The outcome of a call that nobody waits for."""
FinishCall = Callable[[Plan, Forwarded], Outcome]
AskOneNode = Callable[[Network, Plan, OneNode, FinishCall], None]
"""Takes a plan to the one node of the chooser, and calls `FinishCall` with what became of it."""


class SecondOpinions:
    """The comparisons of one worker."""

    def __init__(
        self,
        ask: AskOneNode,
        clock: Callable[[], float],
        tell: Callable[[Case], None],
        wall: Callable[[], float] = time,
    ) -> None:
        """`tell` is called with every case of disagreement; `wall` gives the time in seconds since 1970."""
        self._ask = ask
        self._clock = clock
        self._tell = tell
        self._wall = wall

    def consider(self, network: Network, plan: Plan, said: Forwarded) -> None:
        """Have a good answer of a node compared with that of another node, if that is due."""
        now = self._clock()
        if said.answer is None or said.answer.result is None or said.forced or not network.sampling.due(plan, now):
            return
        too_long = len(said.answer.result) > LONGEST_COMPARED
        if too_long or not comparable(plan.method, network.chain.differences):
            return
        first = NodeAnswer(said.node_id, said.node_head, bytes(said.answer.result))
        if not is_fixed(plan, (first.result,), network.sight.view):
            return
        self._go_on(_Comparison(network, plan, first))

    def decide(self, network: Network, plan: Plan, first: NodeAnswer, second: NodeAnswer) -> None:
        """Have a third node decide between the answers of two, of which the first was given to no client."""
        results, table = (first.result, second.result), network.chain.differences
        compares = may_be_compared(plan) and comparable(plan.method, table) and network.sampling.affords(self._clock())
        if compares and len(second.result) <= LONGEST_COMPARED and is_fixed(plan, results, network.sight.view):
            comparison = _Comparison(network, plan, first)
            comparison.kept = None
            comparison.take(second)
            self._go_on(comparison)

    def _go_on(self, comparison: _Comparison) -> None:
        """AskOneNode one more node, where there is one that may be asked."""
        network, now = comparison.network, self._clock()
        node = _another(network, comparison.bare, comparison.given, now)
        if node is None:
            self._conclude(comparison)
            return
        network.sampling.pay(now)
        self._ask(network, comparison.bare, OneNode(node), partial(self._took, comparison))

    def _took(self, comparison: _Comparison, _plan: Plan, said: Forwarded) -> Outcome:
        """Take in what the node said that was asked."""
        result = None if said.failure is not None or said.answer is None else said.answer.result
        taken = result is not None and len(result) <= LONGEST_COMPARED
        if taken and result is not None:
            comparison.take(NodeAnswer(said.node_id, said.node_head, bytes(result)))
        if taken and len(comparison.groups) == len(comparison.given) == 2:
            self._go_on(comparison)
        elif len(comparison.given) > 1:
            self._conclude(comparison)
        return _NOBODYS

    def _conclude(self, comparison: _Comparison) -> None:
        """Take in what the nodes said that could be asked."""
        self.heard(comparison.network, comparison.plan, comparison.groups, kept=comparison.kept)

    def heard(
        self, network: Network, plan: Plan, groups: Sequence[list[NodeAnswer]], kept: NodeAnswer | None = None
    ) -> None:
        """Count the answers of several nodes to one call, and tell of them if they differ and a node is at fault.

        Args:
            groups: the answers in groups of equal ones.
            kept: the answer that may have been kept; None: none was.
        """
        given = [one for group in groups for one in group]
        compares = may_be_compared(plan) and comparable(plan.method, network.chain.differences)
        results, cells = [one.result for one in given], network.pool.cells
        if len(given) < 2 or not compares or not is_fixed(plan, results, network.sight.view):
            return
        words = "" if len(groups) == 1 else differs(network, plan, groups[0][0], groups[1][0])
        if words:
            heads, may_reorganise = [one.head for one in given], not network.final_at_once
            proven = is_proven(plan, results, heads, network.sight.view, may_reorganise=may_reorganise)
            if not proven or words.startswith(NOT_COMPARED):
                return
        for one in given:
            cells[one.node].compared += 1
        if not words:
            return
        majority = believed(groups, 2)
        minority = [] if majority is None else [one for one in given if one not in majority]
        for one in given:
            cells[one.node].undecided += majority is None
            cells[one.node].minority += one in minority
        wrong = _keys(network, plan) if kept is not None and kept in minority else ()
        self._tell(self._case(network, plan, given, minority, words, wrong))

    def _case(
        self,
        network: Network,
        plan: Plan,
        given: Sequence[NodeAnswer],
        minority: Sequence[NodeAnswer],
        words: str,
        wrong: tuple[str, ...],
    ) -> Case:
        return Case(
            network=network.name,
            method=plan.method,
            params=_shown(plan.params),
            block=plan.block,
            at=self._wall(),
            difference=words,
            answers=tuple(one.shown() for one in given),
            minority=tuple(one.node for one in minority),
            wrong=wrong,
        )


class NodeAnswer:
    """What one node answered: its id, its head when it was asked, and the raw JSON text of the result."""

    __slots__ = ("head", "node", "result")

    def __init__(self, node: str, head: int, result: bytes) -> None:
        self.node, self.head, self.result = node, head, result

    def shown(self) -> CaseAnswer:
        """The answer as a case has it."""
        head = self.head if self.head >= 0 else None
        return CaseAnswer(node=self.node, head=head, text=_shown(self.result), size=len(self.result))


class _Comparison:
    """One answer that is being compared."""

    __slots__ = ("bare", "given", "groups", "kept", "network", "plan")

    def __init__(self, network: Network, plan: Plan, first: NodeAnswer) -> None:
        self.network = network
        self.plan = plan
        self.bare = plan if plan.terms is not None else plan.on(Terms(min_head=-1))
        """The plan on terms: what comes of it is kept nowhere and shared with nobody."""
        self.given: list[NodeAnswer] = []
        self.kept: NodeAnswer | None = first
        """The answer that may have been kept."""
        self.groups: list[list[NodeAnswer]] = []
        self.take(first)

    def take(self, answer: NodeAnswer) -> None:
        """Put an answer beside those that are equal to it."""
        self.given.append(answer)
        join(self.groups, answer, lambda one, other: not differs(self.network, self.plan, one, other))


def differs(network: Network, plan: Plan, one: NodeAnswer, other: NodeAnswer) -> str:
    """The first difference of two answers in words; empty when they are equal."""
    return difference(one.result, other.result, plan.method, network.chain.differences)


def _another(network: Network, plan: Plan, given: Sequence[NodeAnswer], now: float) -> Node | None:
    """The node to be asked beside those that answered: of the eligible ones, the one that was compared least. A node of
    a higher tier than the first one's is not asked: calls to it may be paid."""
    pool, told = network.pool, [one.node for one in given]
    tier = next((node.tier for node in pool.nodes if node.id == told[0]), 0)
    nodes = [node for node in pool.nodes if node.id not in told and node.tier <= tier and not is_tight(node, now)]
    found = eligible(nodes, plan, now)
    if found.forced or not found.nodes:
        return None
    return min(found.nodes, key=lambda node: pool.cells[node.id].compared)


def _keys(network: Network, plan: Plan) -> tuple[str, ...]:
    """The keys under which the answer to a call may have been kept, those of the pieces of a range among them."""
    keys = [key for key in (plan.key, plan.head_key) if key is not None]
    if plan.range is not None:
        pieces = range_segments.cut(plan.range, network.settings.ranges.segment)
        keys += [plan.range.key(piece.first, piece.last) for piece in pieces if not piece.open]
    return tuple(key.decode("utf-8", "replace") for key in keys[:MAX_CASE_KEYS])


def _shown(text: bytes) -> str:
    return printable(text[:MAX_CASE_CHARACTERS].decode("utf-8", "replace"))[:MAX_CASE_CHARACTERS]


KEPT_BY_ALL = 64
"""Blocks under a node's head that no node has dropped: one that lacks a newer block is behind, or hides a machine that
is (architecture section 5)."""
MAX_SEARCHED_BYTES = 64 * 1024
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
    named = block_of(result) if len(result) <= MAX_SEARCHED_BYTES else None
    one, other = doubted.node, end.node
    if one is not None and other is not None and doubted.answer is not None and doubted.answer.result is not None:
        _has_dropped(network, one, plan, plan.oldest if named is None else named, now)
        said = NodeAnswer(one.id, one.head, bytes(doubted.answer.result))
        decide(network, plan, said, NodeAnswer(other.id, other.head, result))


def _has_dropped(network: Network, node: Node, plan: Plan, block: int | None, now: float) -> None:
    """Note that a node has no more of a block, or of its state, than nothing; another one has."""
    if block is not None and block <= node.head - min(KEPT_BY_ALL, network.pool.most_lag):
        node.dropped(block, plan, now, state=plan.rule.old_state)
