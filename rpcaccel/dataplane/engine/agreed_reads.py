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

from msgspec.structs import replace

from rpcaccel.core.agreement.equality import comparable, difference
from rpcaccel.core.agreement.majority import believed, join
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan, Terms
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import FailureKind, policy
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.wire import json_text, jsonrpc
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.engine.ranges import SMALLER
from rpcaccel.dataplane.engine.second_opinions import NodeAnswer, SecondOpinions
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.call_origin import CallOrigin
from rpcaccel.dataplane.upstream.chooser import Separation

FetchOne = Callable[[Network, Plan, CallOrigin, float, Separation], Awaitable[Outcome]]
Stored = Callable[[Network, Plan], Awaitable[tuple[Entry | None, AnswerSource]]]
_CUT = frozenset({"overtaken", "cancelled"})
"""Ends of attempts that were given up while the node might still have answered."""
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

    async def read(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> Outcome:
        """The outcome of a read that `plan.rule.agree` nodes must answer alike."""
        started, clock = self._shared.clock(), self._shared.clock
        if self._stored is not None and plan.kept:
            entry, source = await self._stored(network, plan)
            if entry is not None:
                steps = ((Step.REDIS if source is AnswerSource.REDIS else Step.DISK, clock() - started),)
                return Outcome(source=source, result=entry.result, block=plan.head, steps=steps)
        while True:
            fork_epoch, began = network.view.fork_epoch, clock()
            heard = await self._ask(network, plan, origin, ends)
            if plan.final or network.view.fork_epoch == fork_epoch or clock() >= ends or plan.terms is not None:
                return self._outcome(network, plan, heard, clock() - began)
            plan = network.replan(plan)  # some of the nodes may have spoken of the branch that was left

    async def _ask(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> _Heard:
        """What the nodes say, until enough of them agree or no further one is left."""
        taken: dict[str, Separation] = {}
        bare = plan if plan.terms is not None else plan.on(_WHATEVER)

        def one() -> Awaitable[Outcome]:
            return self._fetch(network, bare, origin, ends, Separation(taken))

        wanted, heard = plan.rule.agree, _Heard(network, plan)
        for outcome in await asyncio.gather(*(one() for _ in range(wanted))):
            heard.take(outcome)
        while len(heard.outcomes) < 2 * wanted - 1 and heard.believed is None:
            for leg in (leg for outcome in heard.outcomes for leg in outcome.legs if leg.end in _CUT):
                taken.pop(leg.node, None)  # the node said nothing, and may be asked again
            heard.take(await one())
            if not _says_something(heard.outcomes[-1]):
                break
        return heard

    def _outcome(self, network: Network, plan: Plan, heard: _Heard, seconds: float) -> Outcome:
        self._opinions.heard(network, plan, heard.results())
        self._shared.tally.step(Step.FORWARD, seconds)
        steps = ((str.__str__(Step.FORWARD), seconds),)
        believed, outcomes, count = heard.believed, heard.outcomes, heard.count
        attempts, block = sum(outcome.attempts for outcome in outcomes), min(outcome.block for outcome in outcomes)
        if believed is None:
            return replace(heard.failed(), block=block, attempts=attempts, steps=steps, agreed=(0, count))
        # One of equal answers may have what is not compared wrong, such as the hashes in logs.
        best = next((one for one in believed if not one.doubtful), believed[0])
        head = min(one.node_head for one in believed)
        current = plan.final or all(one.block == plan.head for one in believed)
        if best.result is not None and not best.doubtful and current and plan.kept and plan.terms is None:
            self._shared.keep(network, plan, best.result, head)
        return Outcome(source=AnswerSource.NODE, result=best.result, error=best.error, kind=best.kind,
                       node=_names(believed), node_head=head, block=block, attempts=attempts, steps=steps,
                       doubtful=best.doubtful or not current, agreed=(len(believed), count))  # fmt: skip


class _Heard:
    """What the nodes said to one read."""

    __slots__ = ("_groups", "_network", "_plan", "outcomes")

    def __init__(self, network: Network, plan: Plan) -> None:
        self._network = network
        self._plan = plan
        self._groups: list[list[Outcome]] = []
        self.outcomes: list[Outcome] = []
        """How the fetch of each node ended."""

    def take(self, outcome: Outcome) -> None:
        """Put an outcome beside those that say the same."""
        self.outcomes.append(outcome)
        if _says_something(outcome):
            join(self._groups, outcome, self._same)

    @property
    def believed(self) -> list[Outcome] | None:
        """The outcomes that enough nodes agree in."""
        return believed(self._groups, self._plan.rule.agree)

    @property
    def count(self) -> int:
        """The number of nodes that answered."""
        return sum(len(group) for group in self._groups)

    def results(self) -> list[list[NodeAnswer]]:
        """The results in groups of equal ones, without the errors."""
        return [
            [NodeAnswer(one.node, one.node_head, one.result) for one in group if one.result is not None]
            for group in self._groups
            if group[0].result is not None
        ]

    def failed(self) -> Outcome:
        """The outcome of a read in which too few nodes agree."""
        plan, wanted = self._plan, self._plan.rule.agree
        answers = [one for group in self._groups for one in group]
        missing = [one for one in self.outcomes if not _says_something(one)]
        refused = next((one for one in self.outcomes if one.kind in SMALLER), None)
        if refused is not None and plan.range is not None:
            return refused  # the range is asked for in halves (dataplane.engine.ranges)
        wants = f"{plan.rule.origin or 'a route'} wants {wanted} nodes to give the same answer to {plan.method}"
        if len(answers) >= wanted:
            text = f"{wants}, and those that answered differ: {_names(answers)}"
        else:
            got = f"only {_names(answers)} answered" if answers else "none answered"
            text = f"{wants}, and {got}" + "".join(f": {_message(one)}" for one in missing[:1])
        limited = bool(missing) and all(one.kind is FailureKind.RATE_LIMITED for one in missing)
        row = policy(FailureKind.RATE_LIMITED if limited else FailureKind.DISAGREED)
        waits = [one.retry_after for one in missing if one.retry_after is not None]
        error = jsonrpc.error_object(row.code, text)
        return Outcome(source=AnswerSource.NODE, error=error, node=_names(answers), http=row.http,
                       retry_after=max(waits) if limited and waits else None,
                       kind=FailureKind.RATE_LIMITED if limited else FailureKind.DISAGREED)  # fmt: skip

    def _same(self, one: Outcome, other: Outcome) -> bool:
        table, method = self._network.chain.differences, self._plan.method
        if one.result is None or other.result is None:
            alike = one.result is other.result and one.kind is other.kind
            return alike and not difference(_data(one), _data(other), method, table)
        if not comparable(method, table):
            return one.result == other.result
        return not difference(one.result, other.result, method, table)


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


def _names(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(sorted({outcome.node for outcome in outcomes if outcome.node}))


def _message(outcome: Outcome) -> str:
    return error_parts(outcome.error or b"{}")[1]
