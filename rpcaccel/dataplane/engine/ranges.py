"""Calls about a range of blocks: known pieces come from the tiers, the others from nodes, in few calls side by side.

Each run of missing pieces is fetched like any call. A run that a node finds too large is asked for in parts of the
length that the node's words name, or in halves; where no node takes as long a run, as far as is known, it is divided
before any is asked. When a run fails, its error is the error of the call; the other pieces stay kept, so that the next
try is small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TypeAlias

from msgspec.structs import replace

from rpcaccel.config.model import RangeSettings
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.nodes.eligibility import eligible
from rpcaccel.core.plan import range_segments
from rpcaccel.core.plan.block_range import MOST_TRACES, Range
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.range_segments import Piece
from rpcaccel.core.proof.judge_logs import MAX_PROVED_BLOCKS
from rpcaccel.core.proof.known_chain import MAX_KNOWN_BLOCKS
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import FailureKind, policy
from rpcaccel.core.replies.range_limit import is_of_blocks, suggested_length
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stepwise import at_once
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.engine.single_flight import Flights
from rpcaccel.dataplane.event_loop import in_turns
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin

SMALLER = frozenset({FailureKind.TOO_LARGE, FailureKind.NODE_TIMEOUT})
"""Failures of a run that a node may be able to answer for fewer blocks."""
JOINED_BYTES_A_TURN = 256 * 1024
"""Bytes of kept pieces that are put together within one turn of the loop; of more, each piece is cut in turns."""
MOST_RUNS = 32
"""Runs of missing pieces that are fetched for one range. Where there are more, known pieces between them are fetched as
well, so that a range of which every other piece is known takes few calls."""
MINDED = frozenset({FailureKind.INVALID_PARAMS, FailureKind.UNKNOWN})
"""Failures of a run of traces that may be about their number, which the client did not say."""
INCOMPLETE = b'{"code":-32603,"message":"the node left out a part of the range"}'


StoredEntry: TypeAlias = Callable[[Network, Plan], Awaitable[tuple[Entry | None, AnswerSource]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Cuts calls about ranges into pieces and puts the results together. One per engine."""

    carry: Callable[[Network, Plan, CallOrigin, float], Awaitable[Outcome]]
    """Fetches a plan, which must end at the given time (monotonic seconds)."""
    keep: Callable[[Network, Plan, bytes, int, str], None]
    """Keeps the answer of a node with the given head, and the block by which it was proved, where it may be kept."""
    kept: Callable[[Network, Plan], tuple[bytes, Entry] | None]
    """The entry that memory has for a plan, and its key."""
    stored: StoredEntry | None
    """The entry that the tiers behind memory have for a plan, and the tier that has it; it is put into memory. None
    when there are no such tiers."""
    memory: MemoryTier
    flights: Flights
    clock: Callable[[], float]

    def answer_now(self, network: Network, plan: Plan, span: Range) -> Outcome | None:
        """The outcome of a range that is longer than nodes take, that is empty, or that memory has as a whole; None:
        `fetch` it."""
        limit = network.chain.ranges.get(span.way)
        if limit is not None and span.last - span.first > limit.most:
            error = jsonrpc.error_object(limit.code, limit.message)
            return Outcome(source=AnswerSource.REFUSED, error=error, block=network.view.head)
        if plan.rule.fully and span.way == "logs" and span.length > MAX_KNOWN_BLOCKS:
            why = f'{plan.method} takes {MAX_KNOWN_BLOCKS} blocks at the most where all is proved (prove = "full")'
            error = jsonrpc.error_object(policy(FailureKind.TOO_LARGE).code, why)
            return Outcome(source=AnswerSource.REFUSED, error=error, block=network.view.head)
        if span.first > span.last:
            return Outcome(source=AnswerSource.LOCAL, result=b"[]", block=network.view.head)
        work = self._work(network, plan, span, PROXY, 0.0)
        if work is None:
            return None
        found, proofs, size = [], [], 0
        for piece in work.pieces:
            entry, to_cut = work.known(piece) or (None, False)
            size += 0 if entry is None else len(entry.result)
            if entry is None or size > JOINED_BYTES_A_TURN:
                return None
            text = at_once(range_segments.within(entry.result, piece.first, piece.last)) if to_cut else entry.result
            if text is None:
                return None
            found.append(text)
            proofs.append(entry.proved)
        result, proved = range_segments.merge(found), _joined_proof(network, span.last, proofs)
        return Outcome(source=AnswerSource.MEMORY, result=result, block=network.view.head, proved=proved)

    async def fetch(self, network: Network, plan: Plan, span: Range, origin: CallOrigin) -> Outcome:
        """The outcome of a range whose pieces come from the tiers and from nodes.

        When a reorganisation was noticed meanwhile, a piece above the settled blocks may be of the abandoned branch:
        then the whole range is fetched again.
        """
        ends = self.clock() + network.settings.deadline
        while True:
            fork_epoch = network.view.fork_epoch
            work = self._work(network, plan, span, origin, ends)
            outcome = None if work is None else await work.done()
            if outcome is None:
                whole = [Piece(span.first, span.last, open=span.last > span.settled)]
                work = _Work(self, network, plan, span, whole, origin, ends)
                if work.too_long(plan, whole):
                    outcome = await work.run(whole)
                else:
                    outcome = await self.carry(network, plan, origin, ends)
                    if outcome.kind not in SMALLER:
                        return outcome
                    outcome = await work.ask_for_less(plan, whole, outcome)
            if span.last <= span.settled or network.view.fork_epoch == fork_epoch or self.clock() >= ends:
                return outcome
            plan = network.plan(plan.method, plan.asked)
            if plan.range is None:
                return await self.carry(network, plan, origin, ends)
            span = plan.range

    def _work(self, network: Network, plan: Plan, span: Range, origin: CallOrigin, ends: float) -> _Work | None:
        """The range cut into pieces; None when there is nothing to gain from cutting."""
        cuts = range_segments.cut(span, network.settings.ranges.segment)
        if not cuts or (len(cuts) == 1 and cuts[0].open):
            return None
        return _Work(self, network, plan, span, cuts, origin, ends)


class _Work:
    """One range that is being put together."""

    __slots__ = ("_again", "_attempts", "_ends", "_gate", "_left", "_most", "_network", "_nodes", "_open", "_origin",
                 "_plan", "_ranges", "_settings", "_span", "_started", "pieces")  # fmt: skip

    def __init__(
        self,
        ranges: Ranges,
        network: Network,
        plan: Plan,
        span: Range,
        cuts: list[Piece],
        origin: CallOrigin,
        ends: float,
    ) -> None:
        self.pieces = cuts
        self._ranges = ranges
        self._network = network
        self._plan = plan
        self._span = span
        self._origin = origin
        self._ends = ends
        self._settings: RangeSettings = network.settings.ranges
        # Planned now, so that the open piece is kept under the fork epoch in which the call began.
        self._open = self._planned(cuts[-1].first, cuts[-1].last) if cuts[-1].open else None
        self._left = self._again = self._settings.max_pieces
        """The pieces that runs may still be divided into, and the runs that may still be asked of another node."""
        self._most: int | None = None
        """The blocks that a node said to take at once, in answer to a run of this range."""
        self._gate = asyncio.Semaphore(self._settings.at_once)
        self._started = ranges.clock()
        self._nodes: dict[str, None] = {}
        self._attempts = 0

    def known(self, piece: Piece) -> tuple[Entry, bool] | None:
        """The entry of a piece that memory has. True beside it: it is that of the whole segment at the edge of a
        range, from which the piece is still to be cut."""
        if self._plan.rule.fresh:
            return None
        if piece.open:
            kept = self._ranges.kept(self._network, self._open) if self._open is not None else None
            return None if kept is None else (kept[1], False)
        now = self._ranges.clock()
        get = self._ranges.memory.get
        entry = get(self._span.key(piece.first, piece.last), now)
        if entry is not None:
            return entry, False
        if piece.whole is None or (entry := get(self._span.key(*piece.whole), now)) is None:
            return None
        return entry, True

    async def done(self) -> Outcome | None:
        """The outcome of the range; None when a node left out a part, so that the whole is to be asked for."""
        found, proofs = list[bytes | None](), list[str]()
        for piece in self.pieces:
            entry, to_cut = self.known(piece) or (None, False)
            text = None if entry is None else entry.result
            if text is not None and to_cut:
                text = await in_turns(range_segments.within(text, piece.first, piece.last))
            found.append(text)
            proofs.append("" if entry is None else entry.proved)
        source = await self._look_further(found, proofs)
        most = min(MOST_RUNS, self._settings.max_pieces)
        runs = range_segments.missing(self.pieces, [text is not None for text in found], most)
        if not runs:
            result = await _merged(text for text in found if text is not None)
            proved = _joined_proof(self._network, self._span.last, proofs)
            return replace(self._outcome(source, result=result), proved=proved)
        parts = [part for begin, end in runs for part in self._divide(self.pieces[begin : end + 1])]
        outcomes = await asyncio.gather(*(self._fetch(part) for part in parts))
        errors = [outcome for outcome in outcomes if outcome.error is not None]
        if any(outcome.error is INCOMPLETE for outcome in errors):
            return None
        if errors:
            return self._failed(errors)
        fetched = {
            part[0].first: (part[-1].last, outcome.result or b"[]")
            for part, outcome in zip(parts, outcomes, strict=True)
        }
        known = [proof for text, proof in zip(found, proofs, strict=True) if text is not None]
        proved = _joined_proof(self._network, self._span.last, [*known, *(outcome.proved for outcome in outcomes)])
        cached = self._span.length - sum(part[-1].last - part[0].first + 1 for part in parts)
        result = await _merged(self._in_order(found, fetched))
        source = AnswerSource.PARTIAL if cached else AnswerSource.NODE
        outcome = self._outcome(source, result=result, cached=(cached, self._span.length))
        block = min(outcome.block, *(part.block for part in outcomes))
        agreed = min((part.agreed for part in outcomes if part.agreed is not None), default=None)
        return replace(outcome, block=block, node_head=min(part.node_head for part in outcomes), agreed=agreed,
                       proved=proved)  # fmt: skip

    def _in_order(self, found: Sequence[bytes | None], fetched: dict[int, tuple[int, bytes]]) -> list[bytes]:
        """The results of known pieces and fetched runs, in order. A run replaces the known pieces that it bridged."""
        results, reached = [], -1
        for piece, text in zip(self.pieces, found, strict=True):
            if piece.first in fetched:
                reached, result = fetched[piece.first]
                results.append(result)
            elif piece.first > reached and text is not None:
                results.append(text)
        return results

    async def _look_further(self, found: list[bytes | None], proofs: list[str]) -> AnswerSource:
        """Ask the tiers behind memory for the pieces that memory lacks; the gets of one turn of the loop travel
        together. Returns the furthest tier that had one."""
        stored, furthest = self._ranges.stored, AnswerSource.MEMORY
        if stored is None or self._plan.rule.fresh:
            return furthest
        asked = [position for position, text in enumerate(found) if text is None]
        plans = [self._piece_plan(self._plan, self.pieces[position]) for position in asked]
        if self._plan.rule.fully:  # to prove one takes calls
            stored = partial(self._one_of_few, stored)
        entries = await asyncio.gather(*(stored(self._network, plan) for plan in plans))
        for position, (entry, source) in zip(asked, entries, strict=True):
            if entry is not None and entry.result[:1] == b"[":
                found[position], proofs[position], furthest = entry.result, entry.proved, max(furthest, source)
        return furthest

    async def _one_of_few(self, stored: StoredEntry, network: Network, plan: Plan) -> tuple[Entry | None, AnswerSource]:
        async with self._gate:
            return await stored(network, plan)

    def _divide(self, run: Sequence[Piece]) -> list[Sequence[Piece]]:
        """Divide a long run among the nodes that may be asked."""
        length = run[-1].last - run[0].first + 1
        able = len(eligible(self._network.pool.nodes, self._plan, self._ranges.clock()).nodes)
        return range_segments.divide(run, max(1, min(able, length // self._settings.divide_from)))

    async def _fetch(self, run: Sequence[Piece]) -> Outcome:
        """The outcome of a run. At the edges of a long range, whole segments are fetched, because they are kept."""
        limit = self._network.chain.ranges.get(self._span.way)
        wide = range_segments.widen(run, self._span, self._settings.segment, None if limit is None else limit.most)
        if wide != run:
            outcome = await self.run(wide)
            result = outcome.result
            within = result and range_segments.within(result, run[0].first, run[-1].last)
            text = await in_turns(within) if within else None
            if text is not None:
                return replace(outcome, result=text)
        return await self.run(run)  # the wider run was refused, so no more is asked for than the client wants

    async def run(self, run: Sequence[Piece]) -> Outcome:
        """The outcome of consecutive pieces from a node; calls that want the same run share one flight."""
        plan = self._planned(run[0].first, run[-1].last)
        if (most := self.too_long(plan, run)) and (parts := self._parts(run, most)):
            return await self._joined(plan, run, parts)
        if plan.flight_key is None:
            return await self._ask(plan, run)
        return await self._ranges.flights.fly(plan.flight_key + b":run", lambda: self._ask(plan, run))

    async def _ask(self, plan: Plan, run: Sequence[Piece]) -> Outcome:
        outcome = await self._carry(plan)
        if outcome.kind in SMALLER:
            return await self.ask_for_less(plan, run, outcome)
        if outcome.kind in MINDED and self._span.way == "traces":
            return replace(outcome, error=INCOMPLETE)
        if outcome.result is None:
            return outcome
        shares = await in_turns(range_segments.share(self._span.way, outcome.result, run))
        if shares is None and self._span.way == "traces" and outcome.result.count(b'"traceAddress"') >= MOST_TRACES:
            return await self.ask_for_less(plan, run, replace(outcome, result=None, error=INCOMPLETE))
        if shares is None:  # a node that lags behind its own word, perhaps: another may do better
            outcome = await self._carry(plan)
            result = outcome.result
            shares = None if result is None else await in_turns(range_segments.share(self._span.way, result, run))
        if shares is None:
            return outcome if outcome.error is not None else replace(outcome, result=None, error=INCOMPLETE)
        for piece, text in zip(run, shares, strict=True):
            self._keep(plan, piece, text, outcome)
        return outcome

    async def ask_for_less(self, plan: Plan, run: Sequence[Piece], refusal: Outcome) -> Outcome:
        """The outcome of smaller runs in place of one that a node found too large, or of the whole run from another
        node when there is no piece left for the smaller ones; the refusal when there is none of these, or no time."""
        said = error_parts(refusal.error or b"")[1] if refusal.kind is FailureKind.TOO_LARGE else ""
        most = suggested_length(said, run[-1].last - run[0].first + 1)
        if most is not None:
            self._most = min(most, self._most or most)
        parts = self._parts(run, most)
        if most is not None and not parts and self._has_another(plan, refusal.node):
            self._again, self._most = self._again - 1, None
            return await self._ask(plan, run)
        outcome = await self._joined(plan, run, parts) if parts else refusal
        if most is None and outcome.result is not None and is_of_blocks(said):
            self._learn(refusal.node, max(part[-1].last - part[0].first + 1 for part in parts))
        return outcome

    def _has_another(self, plan: Plan, id: str) -> bool:
        """May another node take the run that this one would have in too many pieces?"""
        now = self._ranges.clock()
        able = eligible(self._network.pool.nodes, plan, now)
        return self._again > 0 and now < self._ends and not able.forced and any(node.id != id for node in able.nodes)

    def _learn(self, id: str, length: int) -> None:
        """Note that a node refused the double of a range that was answered: as long are later ones from the start."""
        for node in self._network.pool.nodes:
            if node.id == id:
                node.takes_at_once(self._plan.method, length, self._ranges.clock())

    def too_long(self, plan: Plan, run: Sequence[Piece]) -> int | None:
        """The most blocks that a node takes at once, as far as is known, or that are proved at once, if the run has
        more."""
        nodes, now, most = self._network.pool.nodes, self._ranges.clock(), self._most
        if any(node.limits_ranges for node in nodes):
            limits = [node.longest_range(plan, now) or inf for node in eligible(nodes, plan, now).nodes]
            most = int(max(limits)) if limits and max(limits) < inf else most
        if plan.rule.fully and plan.rule.shows == "logs":
            most = min(most or MAX_PROVED_BLOCKS, MAX_PROVED_BLOCKS)
        return most if most is not None and run[-1].last - run[0].first >= most else None

    def _parts(self, run: Sequence[Piece], most: int | None) -> list[Sequence[Piece]]:
        """The smaller runs in place of a run; none when it cannot be divided, or when no time or no piece is left."""
        parts = range_segments.smaller(run, self._span, most)
        cost = sum(most is None or part[-1].last - part[0].first < most for part in parts)  # others are divided again
        if cost > self._left or self._ranges.clock() >= self._ends:
            return []
        self._left -= cost
        return parts

    async def _joined(self, plan: Plan, run: Sequence[Piece], parts: Sequence[Sequence[Piece]]) -> Outcome:
        """The outcome of a run from those of its parts."""
        outcomes = await asyncio.gather(*(self.run(part) for part in parts))
        failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
        if failed is not None:
            return failed
        result = await _merged(outcome.result or b"[]" for outcome in outcomes)
        head = min(outcome.node_head for outcome in outcomes)
        block, doubtful = min(outcome.block for outcome in outcomes), any(outcome.doubtful for outcome in outcomes)
        mixed = parts[-1][0].first > self._span.final + 1  # blocks that are not final, in several calls
        proofs = [outcome.proved for outcome in outcomes]
        joined = replace(outcomes[-1], result=result, node_head=head, block=block, doubtful=doubtful or mixed,
                         proved=_joined_proof(self._network, run[-1].last, proofs))  # fmt: skip
        if len(run) == 1:
            self._keep(plan, run[0], result, joined)
        return joined

    async def _carry(self, plan: Plan) -> Outcome:
        """Take a run to the nodes. The run has no keys, because its pieces are kept one by one."""
        async with self._gate:
            bare = replace(plan, key=None, head_key=None, shared_keys=())
            outcome = await self._ranges.carry(self._network, bare, self._origin, self._ends)
        self._attempts += outcome.attempts
        if outcome.node:
            self._nodes[outcome.node] = None
        return outcome

    def _keep(self, plan: Plan, piece: Piece, result: bytes, outcome: Outcome) -> None:
        if not outcome.doubtful:
            proved = _joined_proof(self._network, piece.last, [outcome.proved])
            self._ranges.keep(self._network, self._piece_plan(plan, piece), result, outcome.node_head, proved)

    def _piece_plan(self, plan: Plan, piece: Piece) -> Plan:
        """The plan of a piece, made from that of a run: planning a thousand pieces anew would hold up other calls."""
        if piece.open:
            open_plan = self._open if self._open is not None and piece is self.pieces[-1] else None
            return open_plan or self._planned(piece.first, piece.last)
        key = self._span.key(piece.first, piece.last)
        return replace(plan, key=key, head_key=None, shared_keys=(key,), first_block=piece.first, block=piece.last,
                       min_head=piece.last + self._span.depth, final=True, range=None)  # fmt: skip

    def _planned(self, first: int, last: int) -> Plan:
        return self._network.plan(self._plan.method, self._span.params(first, last))

    def _failed(self, errors: Sequence[Outcome]) -> Outcome:
        """The most telling of several errors: that of a node comes before that of a connection, then that of the lowest
        block."""
        said = [outcome for outcome in errors if outcome.http == 200]
        return replace((said or errors)[0], attempts=self._attempts)

    def _outcome(self, source: AnswerSource, *, result: bytes, cached: tuple[int, int] | None = None) -> Outcome:
        return Outcome(
            source=source,
            result=result,
            node=", ".join(sorted(self._nodes)),
            block=self._plan.head,
            attempts=self._attempts,
            cached=cached,
            steps=((Step.FORWARD, self._ranges.clock() - self._started),),
        )


def _joined_proof(network: Network, last: int, proofs: Iterable[str]) -> str:
    """The hash of the last block of a range, if its parts are proved."""
    return network.sight.known_blocks.of(last) if all(proofs) else ""


async def _merged(results: Iterable[bytes]) -> bytes:
    """Join lists into one; what follows from a long one has a turn of the loop by itself."""
    joined = range_segments.merge(results)
    if len(joined) > JOINED_BYTES_A_TURN:
        await asyncio.sleep(0)
    return joined
