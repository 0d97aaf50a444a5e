"""Reads that several nodes must answer alike before the client is answered (`rules."METHOD".agree`).

    tiers -> as many nodes at once as must agree -> equal -> answered, kept
                                                 -> not   -> one node more, until enough agree or none is left -> error

Each node is asked by a fetch of its own, with its retries, hedges and deadline; a node that one of them asks is asked
by no other. What nodes say is compared as in all comparisons (core.agreement), and a node that is contradicted is
counted and told of in the same way. The answer is kept under a key that no answer of a single node has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from rpcaccel.core.agreement.equality import comparable, difference
from rpcaccel.core.agreement.majority import agreed
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan, Terms
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.engine.second_opinions import NodeAnswer, SecondOpinions
from rpcaccel.dataplane.engine.single_flight import Pending
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import Separation

FetchOne = Callable[[Network, Plan, bytes, float, Separation], Pending[Outcome]]
Stored = Callable[[Network, Plan], Awaitable[tuple[Entry | None, AnswerSource]]]
_WHATEVER = Terms(min_head=-1)
"""Each fetch is on terms, so that nothing is kept or shared of what one node says."""


class AgreedReads:
    """The agreed reads of one worker."""

    def __init__(self, shared: FetchContext, fetch: FetchOne, stored: Stored | None, opinions: SecondOpinions) -> None:
        """
        Args:
            fetch: fetches a plan, which must end at the given time (monotonic seconds), from nodes that the separation
                allows.
            stored: the entry that the tiers behind memory have of a call; None where there are no such tiers.
        """
        self._shared = shared
        self._fetch = fetch
        self._stored = stored
        self._opinions = opinions

    async def read(self, network: Network, plan: Plan, client: bytes, ends: float) -> Outcome:
        """The outcome of a read that `plan.rule.agree` nodes must answer alike."""
        started, clock = self._shared.clock(), self._shared.clock
        if self._stored is not None and plan.kept:
            entry, source = await self._stored(network, plan)
            if entry is not None:
                steps = ((Step.REDIS if source is AnswerSource.REDIS else Step.DISK, clock() - started),)
                return Outcome(source=source, result=entry.result, block=plan.head, steps=steps)
        while True:
            fork_epoch, began = network.view.fork_epoch, clock()
            outcomes = await self._ask(network, plan, client, ends)
            if plan.final or network.view.fork_epoch == fork_epoch or clock() >= ends or plan.terms is not None:
                return self._outcome(network, plan, outcomes, clock() - began)
            plan = network.replan(plan)  # some of the nodes may have spoken of the branch that was left

    async def _ask(self, network: Network, plan: Plan, client: bytes, ends: float) -> list[Outcome]:
        """What the nodes say, until enough of them agree or no further one is left."""
        taken: dict[str, Separation] = {}
        bare = plan if plan.terms is not None else plan.on(_WHATEVER)

        def one() -> Pending[Outcome]:
            return self._fetch(network, bare, client, ends, Separation(taken))

        wanted = plan.rule.agree
        outcomes = list(await asyncio.gather(*(one() for _ in range(wanted))))
        while len(outcomes) < 2 * wanted - 1 and self._believed(network, plan, outcomes) is None:
            outcomes.append(await one())
            if not _says_something(outcomes[-1]):
                break
        return outcomes

    def _believed(self, network: Network, plan: Plan, outcomes: Sequence[Outcome]) -> list[Outcome] | None:
        """Those outcomes that enough nodes agree in."""
        answers = [outcome for outcome in outcomes if _says_something(outcome)]
        table, method = network.chain.differences, plan.method
        compares = comparable(method, table)

        def same(one: Outcome, other: Outcome) -> bool:
            if one.result is None or other.result is None:
                return one.result is other.result and one.kind is other.kind
            if not compares:
                return one.result == other.result
            return not difference(one.result, other.result, method, table)

        return agreed(answers, same, plan.rule.agree)

    def _outcome(self, network: Network, plan: Plan, outcomes: Sequence[Outcome], seconds: float) -> Outcome:
        answers = [outcome for outcome in outcomes if _says_something(outcome)]
        self._opinions.heard(network, plan, [
            NodeAnswer(one.node, one.node_head, one.result) for one in answers if one.result is not None
        ])  # fmt: skip
        believed = self._believed(network, plan, outcomes)
        self._shared.tally.step(Step.FORWARD, seconds)
        attempts, block = sum(outcome.attempts for outcome in outcomes), min(outcome.block for outcome in outcomes)
        steps = ((str.__str__(Step.FORWARD), seconds),)
        if believed is None:
            failure = _failure(plan, answers, outcomes)
            row = policy(failure.kind)
            error = jsonrpc.error_object(row.code, failure.text)
            return Outcome(source=AnswerSource.NODE, error=error, node=_names(answers), block=block, http=row.http,
                           attempts=attempts, kind=failure.kind, steps=steps, agreed=(0, len(answers)))  # fmt: skip
        first, count = believed[0], (len(believed), len(answers))
        if first.result is None:
            return Outcome(source=AnswerSource.NODE, error=first.error, node=_names(believed), block=block,
                           attempts=attempts, kind=first.kind, steps=steps, agreed=count)  # fmt: skip
        head, doubtful = min(one.node_head for one in believed), any(one.doubtful for one in believed)
        if not doubtful and plan.kept and plan.terms is None:
            self._shared.keep(network, plan, first.result, head)
        return Outcome(source=AnswerSource.NODE, result=first.result, node=_names(believed), block=block,
                       attempts=attempts, node_head=head, steps=steps, doubtful=doubtful, agreed=count)  # fmt: skip


def _says_something(outcome: Outcome) -> bool:
    """Is the outcome an answer of a node: a result, or an error that every node would give?"""
    if outcome.source is not AnswerSource.NODE or not outcome.node:
        return False
    return outcome.result is not None or (outcome.kind is not None and policy(outcome.kind).fault == "client")


def _names(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(sorted({outcome.node for outcome in outcomes if outcome.node}))


def _failure(plan: Plan, answers: Sequence[Outcome], outcomes: Sequence[Outcome]) -> Failure:
    """Why the read is not answered."""
    wanted = plan.rule.agree
    wants = f"{plan.rule.origin or 'a route'} wants {wanted} nodes to give the same answer to {plan.method}"
    if len(answers) >= wanted:
        return Failure(FailureKind.DISAGREED, f"{wants}, and those that answered differ: {_names(answers)}")
    reason = next((f": {_message(outcome)}" for outcome in outcomes if not _says_something(outcome)), "")
    got = f"only {_names(answers)} answered" if answers else "none answered"
    return Failure(FailureKind.DISAGREED, f"{wants}, and {got}{reason}")


def _message(outcome: Outcome) -> str:
    return error_parts(outcome.error or b"{}")[1]
