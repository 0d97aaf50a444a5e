"""Answers that are checked before the client gets them: the block hashes in logs, and reads that several nodes must
answer alike.

Block hashes: only chains whose nodes may give false hashes in logs have something to compare
(core.replies.log_hashes). What a result does not prove by itself is compared with the blocks that memory has. A node
that proposes blocks must be proven right: for its answers, blocks that memory does not have are asked for. A node that
proposes none keeps no false hashes. A node that does not say which it is counts as such a one while memory does not
contradict it, until it was found wrong once.

Agreed reads (`rules."METHOD".agree`):

    tiers -> as many nodes at once as must agree -> equal -> answered, kept
                                                 -> not   -> one node more, until enough agree or none is left -> error

Each node is asked by a fetch of its own, with its retries, hedges and deadline; a node that one of them asks is asked
by no other. What nodes say is compared as in all comparisons (core.agreement), and a node that is contradicted is
counted and told of in the same way. The answer is kept under a key that no answer of a single node has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.agreement.equality import comparable, difference
from rpcaccel.core.agreement.majority import believed, join
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.nodes.eligibility import others_may_be_asked
from rpcaccel.core.plan.plan import Plan, Terms
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.replies.log_hashes import named_hashes
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.wire import json_text, jsonrpc
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.engine.ranges import SMALLER
from rpcaccel.dataplane.engine.second_opinions import NodeAnswer, SecondOpinions
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import CallOrigin, Separation

MAX_PROVED_BLOCKS = 128
"""Blocks whose hashes are asked for to prove one answer: a segment of a range. An answer about more is not proven."""
PROOF_SECONDS = 1.5
"""Seconds that an answer waits for the blocks that prove it: they are small, and the client has waited already."""


class LogVerdict(Enum):
    """What is known of the hashes in an answer."""

    RIGHT = "every hash is that of its block"
    FALSE = "a log names a hash that its block does not have"
    UNPROVEN = "the hash of a block could not be had"


Conclude = Callable[[Plan, Forwarded], object]
Again = Callable[[Plan, Sequence[str]], object]
"""Takes the call to the nodes again, except those with these ids."""


class LogCheck:
    """The checks of the answers that one call gets. After each `take`, one of `conclude` and `again` is called, at once
    or later, unless the checks are cancelled."""

    __slots__ = ("_again", "_conclude", "_ends", "_network", "_origin", "_shared", "_task", "false")

    def __init__(
        self,
        shared: FetchContext,
        network: Network,
        origin: CallOrigin,
        conclude: Conclude,
        again: Again,
        *,
        ends: float,
    ) -> None:
        """`origin`: where the call comes from; `ends`: when it must be over (monotonic seconds)."""
        self._origin = origin
        self._shared = shared
        self._network = network
        self._conclude = conclude
        self._again = again
        self._ends = ends
        self._task: asyncio.Task[None] | None = None
        self.false: list[Forwarded] = []
        """The answers with false hashes, as they are concluded with when no node does better: each with a failure, so
        that it is not kept."""

    def __repr__(self) -> str:
        return f"<check of logs, {len(self.false)} false answers>"

    def take(self, plan: Plan, said: Forwarded) -> None:
        """Check the result of a call that a node answered well."""
        result = b"null" if said.answer is None or said.answer.result is None else bytes(said.answer.result)
        found = named_hashes(plan, result)
        if found.false:
            self._decide(plan, said, LogVerdict.FALSE)
            return
        proposes = self._proposes(said.node_id) if found.unproven else False
        if proposes is False:
            self._decide(plan, said, LogVerdict.RIGHT)
            return
        left = {}
        for number, named in islice(found.unproven.items(), MAX_PROVED_BLOCKS):
            true = _hash(self._shared.own.known(self._network, self._plan(number)))
            if true and true != named:
                self._decide(plan, said, LogVerdict.FALSE)
                return
            if not true:
                left[number] = named
        if not left or not proposes:
            self._decide(plan, said, LogVerdict.RIGHT)
        elif len(found.unproven) > MAX_PROVED_BLOCKS:
            self._decide(plan, said, LogVerdict.UNPROVEN)
        else:
            self._task = asyncio.get_running_loop().create_task(self._prove(plan, said, left))

    def cancel(self) -> None:
        """End the check under way, without a decision."""
        if self._task is not None:
            self._task.cancel()

    def _decide(self, plan: Plan, said: Forwarded, verdict: LogVerdict) -> None:
        """Take the answer, or ask another node. An answer with false hashes is taken when no other node has a better
        one; neither that nor one that could not be proven is kept."""
        if verdict is LogVerdict.RIGHT:
            self._take(plan, said)
            return
        network, now = self._network, self._shared.clock()
        doubted = replace(said, failure=Failure(FailureKind.FALSE_HASHES, verdict.value, node=said.node_id))
        if verdict is LogVerdict.FALSE:
            self.false.append(doubted)
            self._shared.tally.node(network.name, said.node_id).false_hashes += 1
            told, pool = [one.node_id for one in self.false], network.pool
            others = len(told) < pool.settings.attempts and others_may_be_asked(pool.nodes, plan, now, told)
            if others and now < self._ends and doubted.failure and pool.budget.retry(doubted.failure, now):
                self._again(plan, told)
                return
        self._take(plan, doubted)

    def _take(self, plan: Plan, said: Forwarded) -> None:
        """Conclude the call. The attempts at nodes that gave false hashes were made for it, too."""
        before = sum(one.attempts for one in self.false if one is not said)
        self._conclude(plan, replace(said, attempts=said.attempts + before) if before else said)

    def _proposes(self, node_id: str) -> bool | None:
        """Does the node propose blocks? None when it does not say so and was never found wrong."""
        if self._shared.tally.node(self._network.name, node_id).false_hashes:
            return True
        observes = next((node.has("observer") for node in self._network.pool.nodes if node.id == node_id), None)
        return None if observes is None else not observes

    async def _prove(self, plan: Plan, said: Forwarded, named: dict[int, str]) -> None:
        """Ask for the hashes that memory does not have."""
        told: list[str] = [""]
        try:
            async with asyncio.timeout(min(PROOF_SECONDS, self._ends - self._shared.clock())):
                told = await asyncio.gather(*(self._ask(number) for number in named))
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # A flight that was joined has been given up.
        except Exception as error:  # the caller of the fetch is to be told, whatever is wrong here
            about = {"message": "the hashes of blocks were not asked for", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
        self._task = None
        if any(true and true != hash for true, hash in zip(told, named.values(), strict=False)):
            self._decide(plan, said, LogVerdict.FALSE)
        else:
            self._decide(plan, said, LogVerdict.RIGHT if all(told) else LogVerdict.UNPROVEN)

    async def _ask(self, number: int) -> str:
        outcome = await self._shared.own.outcome(self._network, self._plan(number), self._origin)
        return _hash(outcome.result)

    def _plan(self, number: int) -> Plan:
        """The plan of the call for a block, which subscriptions and many clients make as well."""
        network = self._network
        return network.plan(network.chain.live.block, b'["0x%x",false]' % number)


class _Block(Struct):
    hash: str | None = None


_block = msgspec.json.Decoder(_Block | None).decode


def _hash(block: bytes | None) -> str:
    """The hash of a block in lower case; empty when it is not known."""
    try:
        read = _block(block or b"null")
    except UNREADABLE:
        return ""
    return "" if read is None or read.hash is None else read.hash.lower()


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
