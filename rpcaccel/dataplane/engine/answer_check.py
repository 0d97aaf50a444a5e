"""Answers are judged by arithmetic before the client gets them (core.proof.judge).

    proved, or not provable -> given and kept
    doubted                 -> another node; given when none has a better one, and not kept
    disproved               -> another node, and a case against this one; never given

What a judgement needs of other calls is fetched like any call. An answer of an unknown form is doubted until a second
node gives the same, and a list of logs that a bloom doubts is asked of a second node as far as comparisons may cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.nodes.eligibility import others_may_be_asked
from rpcaccel.core.plan.plan import Plan, Terms
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.proof.encoding import NotProvable
from rpcaccel.core.proof.judge import judge_answer
from rpcaccel.core.proof.received_answer import Judgement, Judging, NeededCall, ReceivedAnswer, Standing
from rpcaccel.core.proof.state import NO_CODE, NO_CODE_SHOWN, code_hash_in, is_code, names_hash, proof_params, result_in
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.engine.beside import AskOther
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.event_loop import TURN_SECONDS, report_bug
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import CallOrigin

PROOF_SECONDS = 1.5
"""Seconds that an answer waits for the calls that it is judged by: they are small, and the client has waited
already."""
WHOLE_PROOF_SECONDS = 5.0
"""Seconds that an answer which is to be proved fully waits for such calls: they are heavier, and are judged by further
ones."""
ASKED_A_TURN = 4
"""Calls that are begun in one turn of the loop, which takes about a millisecond."""
LONG_ANSWER = 32 * 1024
"""Bytes from which a judgement begins in a turn of its own: many answers may arrive in one."""
Conclude = Callable[[Plan, Forwarded], object]
Again = Callable[[Plan, Sequence[str]], object]
"""Takes the call to the nodes again, except those with these ids."""


class AnswerCheck:
    """The checks of the answers that one call gets. After each `take`, one of `conclude` and `again` is called, at once
    or later, unless the checks are cancelled."""

    __slots__ = ("_again", "_attempts", "_conclude", "_ends", "_network", "_new", "_open", "_origin", "_shared",
                 "_task", "_told", "doubted")  # fmt: skip

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
        self._open = True
        self._told: list[str] = []
        """The ids of the nodes whose answers were not taken."""
        self._attempts = 0
        """The attempts at those nodes."""
        self._new: list[tuple[Plan, Forwarded, Judgement]] = []
        """The answers of which another node's answer to the same call may show that they are false, or true."""
        self.doubted: list[Forwarded] = []
        """The doubted answers, as they are concluded with when no node does better."""

    def __repr__(self) -> str:
        return f"<check of answers, {len(self._told)} not taken>"

    def take(self, plan: Plan, said: Forwarded) -> None:
        """Judge the result of a call that a node answered well."""
        result = b"null" if said.answer is None or said.answer.result is None else bytes(said.answer.result)
        received = _received(self._network, plan, result, self._proposes(said.node_id))
        judging = judge_answer(received)
        if len(received.result) <= LONG_ANSWER:
            self._advance(plan, said, judging, None)
        else:
            self._shared.judging.add(partial(self._advance, plan, said, judging, None))

    def cancel(self) -> None:
        """End the check under way, without a decision."""
        self._open = False
        if self._task is not None:
            self._task.cancel()

    # -- judging ------------------------------------------------------------------------------------------------------

    def _advance(
        self, plan: Plan, said: Forwarded, judging: Judging[Judgement], told: Sequence[bytes | None] | None
    ) -> None:
        """Go on with a judgement as far as this turn of the loop allows, and without waiting for a node."""
        if not self._open:
            return
        began = now = perf_counter()
        judgement = Judgement(Standing.UNSURE, "it was not judged")
        try:
            while self._shared.clock() < self._ends:
                asks = judging.send(told)
                told, now = None, perf_counter()
                if asks is not None and all(ask.how == "memory" for ask in asks):
                    told = [_known(self._shared, self._network.judging, ask) for ask in asks]
                elif asks is None and now - began > TURN_SECONDS:
                    self._shared.judging.add(partial(self._advance, plan, said, judging, None))
                    return
                elif asks is not None:
                    self._task = asyncio.get_running_loop().create_task(self._resume(plan, said, judging, asks))
                    return
        except StopIteration as end:
            judgement = end.value
        except Exception as error:  # the caller of the fetch is to be told, whatever is wrong here
            report_bug("an answer was not judged", error)
        finally:
            self._network.cell(plan).proof_seconds += perf_counter() - began
        self._decide(plan, said, judgement)

    async def _resume(
        self, plan: Plan, said: Forwarded, judging: Judging[Judgement], asks: Sequence[NeededCall]
    ) -> None:
        """Go on with the results of these calls."""
        told: list[bytes | None] = [None] * len(asks)
        try:
            told = await _results(self._shared, self._network.judging, plan, asks, self._origin, self._ends)
        except Exception as error:  # the caller of the fetch is to be told, whatever is wrong here
            report_bug("what an answer is judged by was not asked for", error)
        self._task = None
        self._advance(plan, said, judging, told)

    def _proposes(self, node_id: str) -> bool | None:
        """Does the node propose blocks, of which it may keep false hashes? None when it does not say so and was never
        found wrong."""
        if not self._network.chain.provable.false_log_hashes:
            return False
        if self._shared.tally.node(self._network.name, node_id).false_hashes:
            return True
        observes = next((node.has("observer") for node in self._network.pool.nodes if node.id == node_id), None)
        return None if observes is None else not observes

    # -- deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, plan: Plan, said: Forwarded, judgement: Judgement) -> None:
        """Take the answer, or ask another node."""
        self._network.cell(plan).judged(judgement.standing.name.lower())
        match judgement.standing:
            case Standing.PROVED | Standing.CONSISTENT | Standing.NOT_PROVABLE:
                self._take(plan, replace(said, proved=judgement.block) if judgement.block else said)
                for earlier_plan, earlier, doubt in self._new:
                    if doubt.false and doubt.form in judgement.proved:
                        self._disprove(earlier_plan, earlier, doubt)
            case Standing.UNSURE:
                if plan.rule.fully and not self._told:  # the node chose the block of its answer
                    self.doubted.append(self._failed(said, judgement))
                    if self._elsewhere(plan, said, FailureKind.UNPROVEN):
                        return
                    self.doubted.clear()
                self._take(plan, self.doubted.pop(0) if self.doubted else self._failed(said, judgement))
            case Standing.DOUBTED:
                self._doubt(plan, said, judgement)
            case Standing.DISPROVED:
                self._disprove(plan, said, judgement)
                if not self._elsewhere(plan, said, FailureKind.DISPROVED):
                    failed = replace(self._failed(said, judgement), answer=None)
                    self._take(plan, self.doubted.pop(0) if self.doubted else failed)

    def _doubt(self, plan: Plan, said: Forwarded, judgement: Judgement) -> None:
        """Decide about an answer for which another node may have a better one."""
        network = self._network
        if judgement.perhaps:
            sampling, now = network.sampling, self._shared.clock()
            if sampling.credit >= 1.0 and not self._told and sampling.affords(now) and self._others(plan, said):
                sampling.pay(now)
                self.doubted.append(said)
                self._pass_over(plan, said)
            else:
                self._take(plan, said)
            return
        if judgement.form.startswith("branch") and judgement.false:  # a final block cannot have become another one
            self._new.append((plan, said, judgement))
            if not self._elsewhere(plan, said, FailureKind.DISPROVED):
                failed = self._failed(said, replace(judgement, standing=Standing.DISPROVED))
                self._take(plan, self.doubted.pop(0) if self.doubted else replace(failed, answer=None))
            return
        if judgement.form:
            alike = any(self._shared.beside.alike(network, plan, said, earlier) for _, earlier, _ in self._new)
            if alike or len(network.pool.nodes) == 1:
                # Several nodes, or the only one, hash this otherwise than this program: so does the chain.
                if judgement.lasting:
                    network.sight.seen_forms.is_unknown(judgement.form)
                branch = judgement.form.startswith("branch")  # another one than is known: it may be left, or be new
                self._take(plan, self._failed(said, judgement) if branch else said)
                return
            self._new.append((plan, said, judgement))
        elif network.chain.provable.false_log_hashes:
            self._shared.tally.node(network.name, said.node_id).false_hashes += 1
        doubted = self._failed(said, judgement)
        self.doubted.append(doubted)
        # That the chain has a form of its own is found once.
        free = judgement.false or judgement.lasting
        if not self._elsewhere(plan, said, FailureKind.DISPROVED if free else FailureKind.UNPROVEN):
            self._take(plan, doubted)

    def _disprove(self, plan: Plan, said: Forwarded, judgement: Judgement) -> None:
        """Count a false answer, and tell of it."""
        cell = self._shared.tally.node(self._network.name, said.node_id)
        cell.disproved += 1
        cell.failed(FailureKind.DISPROVED)
        self._shared.beside.disproved(self._network, plan, said, judgement.why)

    def _failed(self, said: Forwarded, judgement: Judgement) -> Forwarded:
        """An answer with what is wrong with it, so that it is not kept."""
        kind = FailureKind.FALSE_HASHES if self._network.chain.provable.false_log_hashes else FailureKind.UNPROVEN
        kind = FailureKind.DISPROVED if judgement.standing is Standing.DISPROVED else kind
        text = f"the answer of node {said.node_id} was not taken: {judgement.why}"
        return replace(said, failure=Failure(kind, text, node=said.node_id))

    def _others(self, plan: Plan, said: Forwarded) -> bool:
        """Is there a node that may still be asked, and time for it?"""
        now, pool, told = self._shared.clock(), self._network.pool, [*self._told, said.node_id]
        return (
            len(told) < pool.settings.attempts and now < self._ends and others_may_be_asked(pool.nodes, plan, now, told)
        )

    def _elsewhere(self, plan: Plan, said: Forwarded, kind: FailureKind) -> bool:
        """Ask another node, if one may be asked and the retry budget pays for it."""
        paid = self._others(plan, said) and self._network.pool.budget.retry(Failure(kind, ""), self._shared.clock())
        if paid:
            self._pass_over(plan, said)
        return paid

    def _pass_over(self, plan: Plan, said: Forwarded) -> None:
        self._told.append(said.node_id)
        self._attempts += said.attempts
        self._again(plan, self._told)

    def _take(self, plan: Plan, said: Forwarded) -> None:
        """Conclude the call. The attempts at nodes whose answers were not taken were made for it, too."""
        self._conclude(plan, replace(said, attempts=said.attempts + self._attempts) if self._attempts else said)


def _received(network: Network, plan: Plan, result: bytes, proposes: bool | None = False) -> ReceivedAnswer:
    """An answer with what is known of its chain; `proposes`: as in a ReceivedAnswer."""
    sight, terms = network.sight, plan.terms
    return ReceivedAnswer(
        plan=plan,
        result=result,
        form=network.chain.provable,
        block_method=network.chain.live.block,
        by_hash_method=network.chain.live.block_by_hash,
        blocks=sight.known_blocks,
        seen=sight.seen_forms,
        final=sight.view.final,
        full=plan.rule.fully and not (terms is not None and terms.headers_alone),
        proposes=proposes,
    )


async def judged_alone(
    shared: FetchContext, network: Network, plan: Plan, result: bytes, origin: CallOrigin, ends: float
) -> Judgement:
    """How a result is judged that no node gave now: what memory, the disk or Redis has."""
    judging, cell, turn = judge_answer(_received(network, plan, result)), network.cell(plan), 0.0
    told: Sequence[bytes | None] | None = None
    try:
        while shared.clock() < ends:
            began = perf_counter()
            try:
                asks, told = judging.send(told), None
            finally:
                spent = perf_counter() - began
                cell.proof_seconds += spent
            turn += spent
            if asks is not None:
                told, turn = await _results(shared, network.judging, plan, asks, origin, ends), 0.0
            elif turn > TURN_SECONDS:
                await shared.judging.turn()
                turn = 0.0
    except StopIteration as end:
        found: Judgement = end.value
        return found
    return Judgement(Standing.UNSURE, "there was no time to prove it")


async def _results(
    shared: FetchContext, network: Network, plan: Plan, asks: Sequence[NeededCall], origin: CallOrigin, ends: float
) -> list[bytes | None]:
    """The results of calls that an answer is judged by, as far as they can be had in time."""
    patience = WHOLE_PROOF_SECONDS if plan.rule.fully else PROOF_SECONDS
    tasks = list[asyncio.Task[bytes | None]]()
    try:
        for ask in asks:
            tasks.append(asyncio.create_task(_result(shared, network, ask, origin, ends)))
            if len(tasks) % ASKED_A_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.wait(tasks, timeout=min(patience, (ends - shared.clock()) / 2))
        # A flight that was joined may have been given up.
        return [task.result() if task.done() and not task.cancelled() else None for task in tasks]
    finally:
        for task in tasks:
            task.cancel()


def _known(shared: FetchContext, network: Network, ask: NeededCall) -> bytes | None:
    """The result that memory has of a call that an answer is judged by."""
    outcome = shared.answer_now(network, network.plan(ask.method, ask.params))
    return None if outcome is None or (ask.how == "proved" and not outcome.proved) else outcome.result


async def _result(
    shared: FetchContext, network: Network, ask: NeededCall, origin: CallOrigin, ends: float
) -> bytes | None:
    """The result of a call that an answer is judged by."""
    plan = network.plan(ask.method, ask.params)
    key = plan.flight_key or b"%b:%b" % (network.name.encode(), plan.params)
    if ask.how == "agreed":
        outcome = await shared.flights.fly(key + b":agreed", partial(_agreed, shared, network, plan, origin))
    elif (known := _known(shared, network, ask)) is not None or ask.how == "memory":
        return known
    elif ask.how == "header":
        work = partial(_header, shared, network, plan, origin, ends)
        outcome = await shared.flights.fly(key + b":header", work)
    else:
        outcome = await shared.outcome(network, plan, origin)
    wanting = outcome.judged is not None or (ask.how == "proved" and not outcome.proved)
    return None if wanting else outcome.result


async def _agreed(shared: FetchContext, network: Network, plan: Plan, origin: CallOrigin) -> Outcome:
    """The outcome of a call for a block about which nodes agree that hold most of the weight."""
    result = await shared.beside.agreed_by_most(network, plan, origin)
    if result is None:
        return _own_error(plan, FailureKind.DISAGREED, "nodes with most of the weight do not name one block")
    return Outcome(source=AnswerSource.NODE, result=result)


async def _header(shared: FetchContext, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> Outcome:
    """The outcome of a call for a block of which no more than the header is judged."""
    return await shared.beside.ask(network, plan.on(Terms(min_head=plan.min_head, headers_alone=True)), origin, ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedReads:
    """The reads that must be proved (`rules."METHOD".prove`), of one worker.

        proof of the account, as for any call -> proved     -> taken from it, and kept in memory
                                              -> not proved -> error

    Of nodes whose answer is no proof, the AnswerCheck asks another one. What disk or Redis had is judged here, and
    asked for anew where it is no proof: others may write there.
    """

    shared: FetchContext
    ask: AskOther

    async def read(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> Outcome:
        """The outcome of a read that must be proved, which must end at `ends` (monotonic seconds)."""
        try:
            proof = network.plan(network.chain.provable.state_method, proof_params(plan))
        except NotProvable as error:
            return _own_error(plan, FailureKind.INVALID_PARAMS, f"{plan.method}: {error}")
        if plan.pending:
            return _unproven(plan, Outcome(source=AnswerSource.LOCAL), "what is pending belongs to no block")
        if proof.block is None and not names_hash(proof):
            return _unproven(plan, Outcome(source=AnswerSource.LOCAL), "no block is named but by a tag")
        outcome, judgement = await self._proof(network, plan, proof, origin, ends)
        shown = outcome.result
        if judgement.standing is not Standing.PROVED or shown is None:
            return _unproven(plan, outcome, judgement.why)
        if plan.rule.part != "code":
            outcome = replace(outcome, result=result_in(plan.rule.part, shown))
        elif (code_hash := code_hash_in(shown)) == NO_CODE:
            outcome = replace(outcome, result=NO_CODE_SHOWN)
        else:
            outcome = await self._code(network, plan, outcome, code_hash, origin, ends)
        if outcome.result is None:
            return outcome
        if outcome.block == plan.head:  # else it may be about the block of another head
            self.shared.keep(network, plan, outcome.result, network.view.head, judgement.block)
        return replace(outcome, key=b"", doubtful=False, judged=None, proved=judgement.block)

    async def _proof(
        self, network: Network, plan: Plan, proof: Plan, origin: CallOrigin, ends: float
    ) -> tuple[Outcome, Judgement]:
        """The proof of an account, and how it was judged."""
        rule, shared = plan.rule, self.shared
        # A read that the operator wants kept for a shorter time than proofs are is proved anew.
        if rule.cache is CacheClass.BY_NUMBER and not rule.off and not rule.max_age:
            outcome = shared.answer_now(network, proof) or await shared.outcome(network, proof, origin)
            judgement = await self._judge(network, proof, outcome, origin, ends)
            proved = judgement.standing is Standing.PROVED
            if proved or outcome.result is None or outcome.source is AnswerSource.NODE:
                return outcome, judgement
        outcome = await self.ask(network, proof.on(Terms(min_head=proof.min_head)), origin, ends)
        judgement = await self._judge(network, proof, outcome, origin, ends)
        if judgement.standing is Standing.PROVED and outcome.result is not None:
            shared.keep(network, proof, outcome.result, outcome.node_head)
        return outcome, judgement

    async def _judge(
        self, network: Network, proof: Plan, outcome: Outcome, origin: CallOrigin, ends: float
    ) -> Judgement:
        """How the proof is judged: as its AnswerCheck has found, or anew."""
        if outcome.result is None:
            return Judgement(Standing.UNSURE, error_parts(outcome.error or b"{}")[1])
        if outcome.proved:
            return Judgement(Standing.PROVED, block=outcome.proved)
        if outcome.judged is not None:
            return Judgement(Standing.UNSURE, "what the nodes gave could not be proved")
        return await judged_alone(self.shared, network, proof, outcome.result, origin, ends)

    async def _code(
        self, network: Network, plan: Plan, proof: Outcome, code_hash: bytes, origin: CallOrigin, ends: float
    ) -> Outcome:
        """The code with a proved hash: nodes are asked for it until one gives it."""
        told, outcome = dict[str, None](), proof
        attempts, steps = proof.attempts, proof.steps
        while len(told) < network.pool.settings.attempts:
            terms = Terms(min_head=plan.min_head, told=frozenset(told))
            outcome = await self.ask(network, plan.on(terms), origin, ends)
            attempts, steps = attempts + outcome.attempts, (*steps, *outcome.steps)
            outcome = replace(outcome, attempts=attempts, steps=steps, block=min(proof.block, outcome.block))
            if outcome.result is None or is_code(outcome.result, code_hash):
                return outcome
            if outcome.node in told:
                break
            told[outcome.node] = None
            self._tell(network, plan, outcome)
        return _unproven(plan, outcome, f"{', '.join(told)} gave other code than that whose hash is proved")

    def _tell(self, network: Network, plan: Plan, outcome: Outcome) -> None:
        """Tell of false code, which a node may have of another branch where the block is not final."""
        if not plan.final:
            return
        self.shared.tally.node(network.name, outcome.node).disproved += 1
        said = Forwarded(answer=Answer(result=outcome.result), failure=None, node_id=outcome.node,
                         node_head=outcome.node_head)  # fmt: skip
        self.shared.beside.disproved(network, plan, said, "it is not the code whose hash the state has")


def _unproven(plan: Plan, outcome: Outcome, why: str) -> Outcome:
    """The outcome of a read for which there is no proof; any other failure of the call for the proof stays."""
    kind = outcome.kind
    if kind is not None and policy(kind).fault != "lack" and kind not in (FailureKind.UNKNOWN, FailureKind.DISPROVED):
        return outcome
    block = "its block" if plan.block is None else f"block {plan.block}"
    text = f"{plan.rule.origin} wants {plan.method} to be proved, and there is no proof at {block}: {printable(why)}"
    error = _own_error(plan, FailureKind.UNPROVEN, text)
    return replace(error, node=outcome.node, attempts=outcome.attempts, steps=outcome.steps, legs=outcome.legs)


def _own_error(plan: Plan, kind: FailureKind, text: str) -> Outcome:
    row = policy(kind)
    error = jsonrpc.error_object(row.code, text)
    return Outcome(source=AnswerSource.NODE, error=error, block=plan.head, http=row.http, kind=kind)
