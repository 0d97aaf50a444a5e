"""Further nodes are asked beside one, and their answers are compared: reads that several nodes must answer alike,
comparisons of a share of the answers, and what one node's answer shows of the nodes that failed the same call.

Agreed reads (`rules."METHOD".agree`), before the client is answered:

    as many nodes at once as must agree -> equal -> answered, kept
                                        -> not   -> one node more, until enough agree or none is left -> error

Comparisons of a share of the answers, once the client has its own:

    answer of a node -> due? -> second node -> equal -> counted
                                            -> different -> third node -> counted, a case is told

Each node is asked by a fetch of its own, on terms, so that nothing is kept or shared of what one node says. Which
answers are compared is decided in core.dispatch.sampling, what counts as a difference in core.agreement.equality, and
whom to believe in core.agreement.majority. A comparison belongs to no client: no flight, no kept answer and no deadline
of a client waits for it, and an error of the second or third node ends it without a word. The answer of an agreed read
is kept under a key that no answer of a single node has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field
from math import inf
from time import time
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.agreement.cases import MAX_CASE_CHARACTERS, Case, CaseAnswer
from rpcaccel.core.agreement.equality import NOT_COMPARED, comparable, difference
from rpcaccel.core.agreement.majority import believed, is_fixed, is_proven, join
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.retention import is_empty
from rpcaccel.core.dispatch.dispatch_policy import Settle
from rpcaccel.core.dispatch.machine import Dispatch, NodeChooser
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.dispatch.sampling import is_tight, may_be_compared
from rpcaccel.core.nodes.eligibility import eligible
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan import range_segments
from rpcaccel.core.plan.plan import Plan, Terms
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import CONTRADICTABLE, FailureKind, policy
from rpcaccel.core.replies.result_check import block_of
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import json_text, jsonrpc
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.engine.ranges import SMALLER
from rpcaccel.dataplane.engine.single_flight import CarriedFlight, Flights
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin, OneNode, Separation

LONGEST_COMPARED = 512 * 1024
"""Bytes of the longest result that is compared: a longer one would hold up other calls for milliseconds."""
MAX_CASE_KEYS = 64
"""Keys of one case under which a contradicted answer may have been kept; of a longer range, those of the first
pieces."""
KEPT_BY_ALL = 64
"""Blocks under a node's head that no node has dropped: one that lacks a newer block is behind, or hides a machine that
is (architecture section 5)."""
MAX_SEARCHED_BYTES = 64 * 1024
"""Bytes of the longest result that is searched for the block in which it stands."""
TOLD_SECONDS = 60.0
"""Seconds in which one false answer of a node is told of; the others are counted."""
SILENT_SECONDS = 0.3
"""Seconds after which another node is asked for a block in place of one that does not answer."""
_CUT = frozenset({"overtaken", "cancelled"})
"""Ends of attempts that were given up while the node might still have answered."""


class AskOther(Protocol):
    """Fetches a plan that nobody else may join, which must end at a time (monotonic seconds; infinite: the deadline of
    the network), from nodes that the separation allows, or from the chooser's."""

    def __call__(
        self,
        network: Network,
        plan: Plan,
        origin: CallOrigin,
        ends: float,
        separation: Separation | None = None,
        only: NodeChooser | None = None,
    ) -> Coroutine[Any, Any, Outcome]: ...


@dataclass(slots=True, kw_only=True)
class AskBeside:
    """The agreed reads and the comparisons of one worker."""

    ask: AskOther
    keep: Callable[[Network, Plan, bytes, int, str], None]
    """Keeps the answer of nodes with the given head, and the block by which it was proved, where it may be kept."""
    stored: Callable[[Network, Plan], Awaitable[tuple[Entry | None, AnswerSource]]] | None
    """The entry that the tiers behind memory have of a call; None where there are no such tiers."""
    tell: Callable[[Case], None]
    """Is called with every case of disagreement."""
    flights: Flights
    tally: Tally
    clock: Callable[[], float]
    wall: Callable[[], float] = time
    """Seconds since 1970."""
    told: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a false answer of a node was told of, by network and node, within the last minute."""

    async def read(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> Outcome:
        """The outcome of a read that `plan.rule.agree` nodes must answer alike."""
        started, clock = self.clock(), self.clock
        if self.stored is not None and plan.kept and not plan.rule.fresh:
            entry, source = await self.stored(network, plan)
            if entry is not None:
                steps = ((Step.SHARED if source is AnswerSource.SHARED else Step.DISK, clock() - started),)
                return Outcome(source=source, result=entry.result, block=plan.head, steps=steps,
                               proved=entry.proved)  # fmt: skip
        while True:
            fork_epoch, began = network.view.fork_epoch, clock()
            heard = await self._ask_several(network, plan, origin, ends)
            if plan.final or network.view.fork_epoch == fork_epoch or clock() >= ends or plan.terms is not None:
                return self._agreed(heard, clock() - began)
            plan = network.replan(plan)  # some of the nodes may have spoken of the branch that was left

    async def agreed_by_most(self, network: Network, plan: Plan, origin: CallOrigin) -> bytes | None:
        """The result of a call for a block whose hash nodes name alike that hold most of the weight: of all that are
        there, so that one which says to be further than others does not decide alone. None where they do not. As many
        are asked as it takes, and further ones in place of those that are silent for a moment."""
        bare = plan.on(Terms(min_head=plan.min_head, headers_alone=True))
        found = eligible(network.pool.nodes, replace(bare, min_head=-1), self.clock()).nodes
        there = [node for node in found if node.head >= 0]
        waiting = sorted(there, key=lambda node: node.weight)
        total, silent = sum(node.weight for node in there), False
        named, asked = dict[str, float](), dict[asyncio.Task[Outcome], Node]()
        try:
            while True:
                expected = max(named.values(), default=0.0) + sum(node.weight for node in asked.values())
                while waiting and (silent or 2 * expected <= total):
                    node, silent = waiting.pop(), False
                    expected += node.weight
                    work = self.ask(network, bare, origin, inf, only=OneNode(node))
                    asked[asyncio.create_task(work)] = node
                if not asked:
                    return None
                done, _ = await asyncio.wait(asked, timeout=SILENT_SECONDS if waiting else None,
                                             return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
                silent = not done
                for task in done:
                    node, result = asked.pop(task), task.result().result
                    if (hash := _hash_in(result)) and result is not None:
                        named[hash] = named.get(hash, 0.0) + node.weight
                        if 2 * named[hash] > total:
                            return result
        finally:
            for task in asked:
                task.cancel()

    async def _ask_several(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> _Heard:
        """What the nodes say, until enough of them agree or no further one is left."""
        taken: dict[str, Separation] = {}
        wanted, heard = plan.rule.agree, _Heard(network, plan)

        def one() -> Awaitable[Outcome]:
            return self.ask(network, heard.bare, origin, ends, Separation(taken))

        for outcome in await asyncio.gather(*(one() for _ in range(wanted))):
            heard.take(outcome)
        while len(heard.outcomes) < 2 * wanted - 1 and believed(heard.groups, wanted) is None:
            for leg in (leg for outcome in heard.outcomes for leg in outcome.legs if leg.end in _CUT):
                taken.pop(leg.node, None)  # the node said nothing, and may be asked again
            heard.take(await one())
            if not _says_something(heard.outcomes[-1]):
                break
        return heard

    def _agreed(self, heard: _Heard, seconds: float) -> Outcome:
        """The outcome of a read from what the nodes said; an answer that enough of them gave is kept where it may
        be."""
        network, plan, outcomes = heard.network, heard.plan, heard.outcomes
        self._judge(heard)
        self.tally.step(Step.FORWARD, seconds)
        steps = ((str.__str__(Step.FORWARD), seconds),)
        count, agreed = sum(map(len, heard.groups)), believed(heard.groups, plan.rule.agree)
        attempts, block = sum(outcome.attempts for outcome in outcomes), min(outcome.block for outcome in outcomes)
        if agreed is None:
            return replace(heard.failed(), block=block, attempts=attempts, steps=steps, agreed=(0, count))
        # One of equal answers may have what is not compared wrong, such as the hashes in logs.
        best = next((one for one in agreed if not one.doubtful), agreed[0])
        head = min(one.node_head for one in agreed)
        current = plan.final or all(one.block == plan.head for one in agreed)
        if best.result is not None and not best.doubtful and current and plan.terms is None:
            self.keep(network, plan, best.result, head, best.proved)
        return Outcome(source=AnswerSource.NODE, result=best.result, error=best.error, kind=best.kind,
                       node=_names(agreed), node_head=head, block=block, attempts=attempts, steps=steps,
                       doubtful=best.doubtful or not current, proved=best.proved,
                       agreed=(len(agreed), count))  # fmt: skip

    # -- comparisons ----------------------------------------------------------------------------------------------

    def consider(self, network: Network, plan: Plan, first: Outcome) -> None:
        """Have a good answer of a node compared with that of another node, if that is due."""
        if first.result is not None and network.sampling.due(plan, self.clock()):
            self._compare(network, plan, first, kept=first)

    def decide(self, network: Network, plan: Plan, first: Outcome, second: Outcome) -> None:
        """Have a third node decide between the answers of two, of which the first was given to no client."""
        if may_be_compared(plan) and network.sampling.affords(self.clock()):
            self._compare(network, plan, first, second)

    def _compare(self, network: Network, plan: Plan, *given: Outcome, kept: Outcome | None = None) -> None:
        """Begin to compare answers with that of one node more, if there is one that may be asked. `kept`: the answer
        that may have been kept."""
        if not comparable(plan.method, network.chain.differences) or any(map(_is_too_long, given)):
            return
        if is_fixed(plan, [one.result or b"" for one in given], network.sight.view):
            heard = _Heard(network, plan)
            for one in given:
                heard.take(one)
            node = self._another(heard)
            if node is not None:
                CarriedFlight(flights=self.flights, work=self._ask_further(heard, node, kept)).begin()
            else:
                self._judge(heard, kept)

    async def _ask_further(self, heard: _Heard, node: Node | None, kept: Outcome | None) -> Outcome:
        """Ask the node, and another one where the first two answers differ, and judge what was said."""
        while node is not None:
            outcome = await self.ask(heard.network, heard.bare, PROXY, inf, only=OneNode(node))
            if outcome.result is None or outcome.judged is not None or _is_too_long(outcome):
                break
            heard.take(outcome)
            node = self._another(heard) if len(heard.groups) == len(heard.outcomes) == 2 else None
        self._judge(heard, kept)
        return heard.outcomes[0]

    def _another(self, heard: _Heard) -> Node | None:
        """The node to be asked beside those that answered, which is paid for: of the eligible ones, the one that was
        compared least. A node of a higher tier than the first one's is not asked: calls to it may be paid."""
        network, now = heard.network, self.clock()
        pool, told = network.pool, [one.node for one in heard.outcomes]
        tier = next((node.tier for node in pool.nodes if node.id == told[0]), 0)
        nodes = [node for node in pool.nodes if node.id not in told and node.tier <= tier and not is_tight(node, now)]
        found = eligible(nodes, heard.bare, now)
        if found.forced or not found.nodes:
            return None
        network.sampling.pay(now)
        return min(found.nodes, key=lambda node: pool.cells[node.id].compared)

    def _judge(self, heard: _Heard, kept: Outcome | None = None) -> None:
        """Count the results of several nodes to one call, and tell of them if they differ and a node is at fault."""
        network, plan = heard.network, heard.plan
        groups = [group for group in heard.groups if group[0].result is not None]
        given = [one for group in groups for one in group]
        compares = may_be_compared(plan) and comparable(plan.method, network.chain.differences)
        results, cells = [one.result or b"" for one in given], network.pool.cells
        if len(given) < 2 or not compares or not is_fixed(plan, results, network.sight.view):
            return
        words = "" if len(groups) == 1 else _difference(network, plan, groups[0][0], groups[1][0])
        if words:
            heads, may_reorganise = [one.node_head for one in given], not network.final_at_once
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
        case = Case(
            network=network.name,
            method=plan.method,
            params=_shown(plan.params),
            block=plan.block,
            at=self.wall(),
            difference=words,
            answers=tuple(map(_case_answer, given)),
            minority=tuple(one.node for one in minority),
            wrong=_keys(network, plan) if kept is not None and kept in minority else (),
        )
        self.tell(case)

    def alike(self, network: Network, plan: Plan, one: Forwarded, other: Forwarded) -> bool:
        """Do two answers to a call say the same?"""
        first, second = _result_of(one), _result_of(other)
        if len(first) + len(second) > LONGEST_COMPARED or not comparable(plan.method, network.chain.differences):
            return first == second
        return not difference(first, second, plan.method, network.chain.differences)

    def disproved(self, network: Network, plan: Plan, said: Forwarded, why: str) -> None:
        """Tell of an answer that contradicts the call, or the hash of its block; of each node once a minute, since it
        is suspected from the first one on."""
        now, name = self.clock(), (network.name, said.node_id)
        if now - self.told.get(name, -inf) < TOLD_SECONDS:
            return
        self.told = {known: at for known, at in self.told.items() if now - at < TOLD_SECONDS} | {name: now}
        result = _result_of(said)
        answer = CaseAnswer(node=said.node_id, head=said.node_head, text=_shown(result), size=len(result))
        self.tell(Case(network=network.name, method=plan.method, params=_shown(plan.params), block=plan.block,
                       at=self.wall(), difference=why, answers=(answer,), minority=(said.node_id,),
                       disproved=True))  # fmt: skip

    # -- what an answer shows of the nodes that failed ------------------------------------------------------------

    def learn(self, network: Network, end: Settle, machine: Dispatch) -> None:
        """Learn from a call that ended with a result, of the nodes that said something else before."""
        plan, answer, doubted, now = machine.plan, end.answer, machine.doubted, self.clock()
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
            said = bytes(doubted.answer.result)
            self.decide(network, plan, _answer_of(one, said), _answer_of(other, result))


class _Heard:
    """What the nodes said to one call."""

    __slots__ = ("bare", "groups", "network", "outcomes", "plan")

    def __init__(self, network: Network, plan: Plan) -> None:
        self.network = network
        self.plan = plan
        self.bare = plan if plan.terms is not None else plan.on(Terms(min_head=-1))
        """The plan on terms: what comes of it is kept nowhere and shared with nobody."""
        self.groups: list[list[Outcome]] = []
        """The answers, equal ones together."""
        self.outcomes: list[Outcome] = []
        """How the fetch of each node ended."""

    def take(self, outcome: Outcome) -> None:
        """Put an outcome beside those that say the same."""
        self.outcomes.append(outcome)
        if _says_something(outcome):
            join(self.groups, outcome, lambda one, other: not _difference(self.network, self.plan, one, other))

    def failed(self) -> Outcome:
        """The outcome of a read in which too few nodes agree."""
        plan, wanted = self.plan, self.plan.rule.agree
        answers = [one for group in self.groups for one in group]
        missing = [one for one in self.outcomes if not _says_something(one)]
        refused = next((one for one in self.outcomes if one.kind in SMALLER), None)
        if refused is not None and plan.range is not None:
            return refused  # the range is asked for in halves (dataplane.engine.ranges)
        wants = f"{plan.rule.origin or 'a route'} wants {wanted} nodes to give the same answer to {plan.method}"
        if len(answers) >= wanted:
            text = f"{wants}, and those that answered differ: {_names(answers)}"
        else:
            got = f"only {_names(answers)} answered" if answers else "none answered"
            text = f"{wants}, and {got}" + "".join(f": {error_parts(one.error or b'{}')[1]}" for one in missing[:1])
        limited = bool(missing) and all(one.kind is FailureKind.RATE_LIMITED for one in missing)
        kind = FailureKind.RATE_LIMITED if limited else FailureKind.DISAGREED
        waits = [one.retry_after for one in missing if one.retry_after is not None]
        error = jsonrpc.error_object(policy(kind).code, text)
        return Outcome(source=AnswerSource.NODE, error=error, node=_names(answers), http=policy(kind).http,
                       retry_after=max(waits) if limited and waits else None, kind=kind)  # fmt: skip


def _difference(network: Network, plan: Plan, one: Outcome, other: Outcome) -> str:
    """The first difference of two outcomes that say something, in words; empty when they say the same."""
    table, method = network.chain.differences, plan.method
    if one.result is None or other.result is None:
        if one.result is not other.result or one.kind is not other.kind:
            return "an error, and another one or a result"
        return difference(_data(one), _data(other), method, table)
    if not comparable(method, table):
        return "" if one.result == other.result else "other bytes"
    return difference(one.result, other.result, method, table)


def _data(outcome: Outcome) -> bytes:
    """The `data` of an error: to some calls a contract answers by what it reverts with."""
    try:
        return bytes(json_text.members(outcome.error or b"{}").get("data", b"null"))
    except (json_text.NotJson, json_text.TooDeep):
        return b"null"


def _says_something(outcome: Outcome) -> bool:
    """Is the outcome an answer of a node: a result, or an error that every node would give?"""
    if outcome.source is not AnswerSource.NODE or not outcome.node:
        return False
    return outcome.result is not None or (outcome.kind is not None and policy(outcome.kind).fault == "client")


class _Named(Struct):
    hash: str = ""


_decode_named = msgspec.json.Decoder(_Named | None).decode


def _hash_in(block: bytes | None) -> str:
    """The hash that a block names; empty where it is none."""
    try:
        named = _decode_named(block or b"null")
    except UNREADABLE:
        return ""
    return "" if named is None else named.hash.lower()


def _is_too_long(outcome: Outcome) -> bool:
    return len(outcome.result or b"") > LONGEST_COMPARED


def _result_of(said: Forwarded) -> bytes:
    return b"null" if said.answer is None or said.answer.result is None else bytes(said.answer.result)


def _names(outcomes: Collection[Outcome]) -> str:
    return ", ".join(sorted({outcome.node for outcome in outcomes if outcome.node}))


def _answer_of(node: Node, result: bytes) -> Outcome:
    return Outcome(source=AnswerSource.NODE, result=result, node=node.id, node_head=node.head)


def _case_answer(outcome: Outcome) -> CaseAnswer:
    head, text = outcome.node_head if outcome.node_head >= 0 else None, outcome.result or b""
    return CaseAnswer(node=outcome.node, head=head, text=_shown(text), size=len(text))


def _keys(network: Network, plan: Plan) -> tuple[str, ...]:
    """The keys under which the answer to a call may have been kept, those of the pieces of a range among them."""
    keys = [key for key in (plan.key, plan.head_key) if key is not None]
    if plan.range is not None:
        pieces = range_segments.cut(plan.range, network.settings.ranges.segment)
        keys += [plan.range.key(piece.first, piece.last) for piece in pieces if not piece.open]
    return tuple(key.decode("utf-8", "replace") for key in keys[:MAX_CASE_KEYS])


def _shown(text: bytes) -> str:
    return printable(text[:MAX_CASE_CHARACTERS].decode("utf-8", "replace"))[:MAX_CASE_CHARACTERS]


def _has_dropped(network: Network, node: Node, plan: Plan, block: int | None, now: float) -> None:
    """Note that a node has no more of a block, or of its state, than nothing; another one has."""
    if block is not None and block <= node.head - min(KEPT_BY_ALL, network.pool.most_lag):
        node.dropped(block, plan, now, state=plan.rule.old_state)
