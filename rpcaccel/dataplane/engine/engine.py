"""Answers calls: at once from what the proxy knows and memory has, else by a fetch (architecture section 3).

`answer_now` is synchronous, so a hit waits for nothing. `fetch` begins a fetch, which identical calls share.

A filter is made on any node. The id that the client gets names the node (core.plan.filter_id), which alone knows the
filter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from math import inf

from msgspec.structs import replace

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.client_limits import Exposure
from rpcaccel.core.dispatch.machine import NodeChooser
from rpcaccel.core.dispatch.outcome import Outcome, refused
from rpcaccel.core.dispatch.sole_fetch import Mode
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.messages import Hint, Rewritten
from rpcaccel.core.nodes.eligibility import eligible
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan import filter_id
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.proof.received_answer import Standing
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.engine import store_lookup
from rpcaccel.dataplane.engine.answer_check import ProvedReads, judged_alone
from rpcaccel.dataplane.engine.beside import AskBeside
from rpcaccel.dataplane.engine.fetch import Fetch
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.engine.head_change import Refresh
from rpcaccel.dataplane.engine.ranges import Ranges
from rpcaccel.dataplane.engine.single_flight import CarriedFlight, Flight, Waiter, awaited
from rpcaccel.dataplane.event_loop import in_turns
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin, OneNode, Separation
from rpcaccel.stores.base import NoStore, Store

FILTER_NOT_FOUND = jsonrpc.error_object(-32000, "filter not found")
"""What a node says about a filter it does not have (facts: harmony.md section 5)."""
NOT_KEPT = jsonrpc.error_object(-32001, "no answer to this call is kept, and X-Rpcaccel-Cache: only asks no node")
"""The code is that of a resource that is not found (EIP-1474)."""
FILTER_KINDS = frozenset({"filter-new", "filter-poll", "filter-drop"})
"""The kinds of the rules whose methods are about filters."""
_GONE = frozenset({FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS, FailureKind.NO_NODE})
"""Failures after which the node cannot be reached, nor its filters: a client that is told "not found" makes a new
filter elsewhere."""


def filter_not_found(network: Network, plan: Plan) -> Outcome:
    """The outcome of a call to an unknown filter, as nodes give it: an error to a poll, `false` to a removal."""
    head = network.view.head
    if plan.rule.kind == "filter-drop":
        return Outcome(source=AnswerSource.LOCAL, result=b"false", block=head)
    return Outcome(source=AnswerSource.LOCAL, error=FILTER_NOT_FOUND, block=head, kind=FailureKind.FILTER_NOT_FOUND)


TOGETHER_SECONDS = 2.0
"""Seconds that the call for all receipts of a block may take; then each is asked for by itself."""
REWRITTEN_WITHIN = 1.0
"""Seconds that the answer to a call that changes state without a new block waits for the control plane at the most."""


def _cost(node: Node, plan: Plan) -> float:
    """The units that a call costs at a node; one where the settings name no costs."""
    costs = None if node.quota is None else node.quota.settings.costs
    return costs.of(plan.method, plan.rule.heavy) if costs is not None and costs.billed else 1.0


class Engine(FetchContext):
    """Answers the calls of one worker. Holds the tiers and the flights; settings belong to the networks."""

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        tally: Tally,
        clock: Callable[[], float],
        rng: random.Random,
        on_hint: Callable[[Hint | Sent | Case | Rewritten], None] = lambda _hint: None,
        *,
        disk: Store | None = None,
        single_flight: Mode = "auto",
    ) -> None:
        """Arguments as for a FetchContext. `single_flight` says which misses one process fetches for all that share the
        store."""
        super().__init__(memory, store, tally, clock, rng, on_hint, disk or NoStore())
        self.single_flight = single_flight
        stored = partial(store_lookup.stored, self) if self.shared or self.on_disk else None
        self.beside = AskBeside(
            ask=self._part,
            keep=self.keep,
            stored=stored,
            tell=on_hint,
            flights=self.flights,
            tally=tally,
            clock=clock,
        )
        self.proved_reads = ProvedReads(shared=self, ask=self._part)
        self._ranges = Ranges(
            carry=self._part_of_call,
            keep=self.keep,
            kept=self._kept,
            stored=stored,
            memory=memory,
            flights=self.flights,
            clock=clock,
        )
        self.refresh = Refresh(self._fetch_for_all, memory, self.flights, clock)
        self.exposure = Exposure()
        """The methods that are accepted at all, by the settings in force."""

    def now(self) -> float:
        """The time on the clock by which entries expire (monotonic seconds)."""
        return self.clock()

    def refused(self, network: Network, method: str, rule: Rule) -> Outcome | None:
        """The refusal of a method that no client may call; None for all others. Asked before a call is planned."""
        why = self.exposure.refusal(method, denied=rule.deny)
        return refused(why, network.view.head) if why else None

    def answer_now(self, network: Network, plan: Plan) -> Outcome | None:
        """The outcome of a call that a fact of the network or a kept answer decides; None: `fetch` it."""
        if plan.local is not None:
            return Outcome(source=AnswerSource.LOCAL, result=plan.local, block=network.view.head)
        if plan.range is not None and network.settings.ranges.enabled:
            outcome = self._ranges.answer_now(network, plan, plan.range)
            if outcome is not None:
                return outcome
        now = self.clock()
        kept = (plan.key is not None or plan.head_key is not None) and not plan.rule.fresh
        found = self.memory.first(now, plan.key, plan.head_key) if kept else None
        if found is None or not self._may_be_given(network, plan, *found, now):
            return None
        key, entry = found
        head = network.view.head
        return Outcome(source=AnswerSource.MEMORY, result=entry.result, block=head, key=key, proved=entry.proved)

    def fetch(self, network: Network, plan: Plan, origin: CallOrigin, waiter: Waiter) -> None:
        """Get the answer from a flight under way, from a tier behind memory, or from a node. The waiter may be told
        before this returns.

        When the caller leaves, a read that nobody else may wait for is cancelled. A call that may have changed
        something goes on.

        Args:
            origin: where the call comes from; a flight under way keeps the origin of the call that began it.
        """
        rule, key, flights = plan.rule, plan.flight_key, self.flights
        if rule.kept_only:
            CarriedFlight(flights=flights, work=self._kept_behind(network, plan)).begin(waiter)
            return
        if rule.kind in FILTER_KINDS:
            CarriedFlight(flights=flights, work=self._filter(network, plan, origin)).begin(waiter)
            return
        if rule.rewrites:
            CarriedFlight(flights=flights, work=self._rewrite(network, plan, origin)).begin(waiter)
            return
        if key is not None:
            if self.sends.recent.hashes and self.sends.holders(network, plan):
                key += b":sent"  # what was under way before a transaction was sent may not know it
            flight = flights.running.get(key)
            if flight is not None:
                flights.joined += 1
                network.planner.remember(plan, network.sight.view)
                flight.join(waiter, self.clock())
                return
        bound = key is None and rule.known and rule.kind == "read"
        if rule.of_block and plan.kept and not rule.fresh:
            whole = self._whole_block(network, plan, origin)
            if whole is not None:
                work = self._out_of(network, plan, *whole, origin)
                CarriedFlight(flights=flights, key=key, work=work, bound=bound).begin(waiter)
                return
        if plan.range is not None and network.settings.ranges.enabled:
            work = self._ranges.fetch(network, plan, plan.range, origin)
            CarriedFlight(flights=flights, key=key, work=work, bound=bound).begin(waiter)
        elif rule.agree > 1 and not (self.sends.recent.hashes and self.sends.holders(network, plan, origin.address)):
            self._agree(network, plan, origin, key=key, bound=bound).begin(waiter)
        elif rule.prove:
            self._prove(network, plan, origin, key=key, bound=bound).begin(waiter)
        else:
            Fetch(flights=flights, key=key, bound=bound, shared=self, network=network, plan=plan, origin=origin).begin(
                waiter
            )

    # -- what a kept block holds ----------------------------------------------------------------------------------

    def holder(self, network: Network, plan: Plan) -> tuple[Plan, bytes, Entry] | None:
        """The call whose answer in memory holds the answer to this one, which may be kept, and that answer with its
        key; None when there is none that may be given now. Nothing is counted."""
        call = network.sight.contents.holder(plan)
        if call is None:
            return None
        whole, now = network.plan(*call), self.clock()
        if whole.rule.sure_scope != plan.rule.sure_scope:
            return None
        # What is kept for good holds nothing of a call whose answer is kept until the next head only.
        for key in (None if plan.key is None else whole.key, whole.head_key):
            entry = None if key is None else self.memory.peek(key, now)
            if key is not None and entry is not None:
                ages = [age for age in (whole.rule.max_age, plan.rule.max_age) if age]
                return None if ages and now - entry.stored_at > min(ages) else (whole, key, entry)
        return None

    def _whole_block(self, network: Network, plan: Plan, origin: CallOrigin) -> tuple[Plan, Entry | None] | None:
        """The call out of whose answer this one is to be answered: with that answer where it is kept, or else worth
        asking for."""
        contents, pool = network.sight.contents, network.pool
        if not contents or self.sends.holders(network, plan, origin.address):
            return None
        if (held := self.holder(network, plan)) is not None:
            return held[0], self.memory.get(held[1], self.clock())
        if plan.rule.unkept:
            return None
        method, now = network.chain.provable.receipts_method, pool.clock()
        known = contents.wants_all(plan, network.view.final, self.clock())
        if known is None or not method:
            return None
        whole = network.plan(method, b'["0x%x"]' % known.number)
        refused = self.exposure.refusal(method, denied=whole.rule.deny)
        if refused or not whole.kept or whole.rule.sure_scope != plan.rule.sure_scope or whole.tag != plan.tag:
            return None
        able = eligible(pool.nodes, whole, now)
        if able.forced or not able.nodes:  # a light call waits behind no heavy one
            return None
        # Together they never cost more than twice what is the least in hindsight.
        dear = any(_cost(node, whole) > _cost(node, plan) * known.missed for node in able.nodes)
        return None if dear else (whole, None)

    async def _out_of(
        self, network: Network, plan: Plan, whole: Plan, kept: Entry | None, origin: CallOrigin
    ) -> Outcome:
        """The outcome of a call out of that of another one, which is `kept` or asked for, or by itself where that does
        not hold it."""
        contents, fork_epoch = network.sight.contents, network.view.fork_epoch
        ends = self.clock() + network.settings.deadline
        if kept is None and (self.shared or self.on_disk):
            entry, source = await store_lookup.stored(self, network, plan)
            if entry is not None:
                return Outcome(source=source, result=entry.result, block=plan.head, proved=entry.proved)
        key = (whole.flight_key or b"") + b":whole"
        outcome = await self.flights.fly(key, lambda: self._opened(network, whole, kept, origin, ends))
        sound = outcome.result is not None and not outcome.doubtful
        if kept is None and (whole.key is None or not sound or self.memory.peek(whole.key, self.clock()) is None):
            contents.failed(self.clock())
        part = contents.part(plan, whole, outcome.result or b"") if sound else None
        if part is not None and await self._is_sound(network, plan, part, outcome, origin, ends):
            if network.view.fork_epoch == fork_epoch:
                self.keep(network, plan, part, network.view.head, outcome.proved)
                return replace(outcome, result=part, key=b"")
            plan = network.replan(plan)
        if plan.rule.kept_only:
            return self._not_kept(network)
        return await self._part_of_call(network, plan, origin, ends)

    async def _opened(
        self, network: Network, whole: Plan, kept: Entry | None, origin: CallOrigin, ends: float
    ) -> Outcome:
        """The outcome of a call that holds others, which are at hand then."""
        if kept is None:
            until = min(ends, self.clock() + min(TOGETHER_SECONDS, network.settings.deadline / 2))
            outcome = await self._part_of_call(network, whole, origin, until)
        else:
            head = network.view.head
            outcome = Outcome(source=AnswerSource.MEMORY, result=kept.result, block=head, proved=kept.proved)
        if outcome.result is not None:
            await in_turns(network.sight.contents.read(whole, outcome.result))
        return outcome

    async def _is_sound(
        self, network: Network, plan: Plan, part: bytes, outcome: Outcome, origin: CallOrigin, ends: float
    ) -> bool:
        """Is the part not false, as far as arithmetic tells? Of a block that was judged, what stands in it was not."""
        if not network.proves or outcome.proved or not plan.rule.shows:
            return True
        judgement = await judged_alone(self, network, plan, part, origin, ends)
        return judgement.standing in (Standing.PROVED, Standing.CONSISTENT, Standing.NOT_PROVABLE)

    async def _kept_behind(self, network: Network, plan: Plan) -> Outcome:
        """The outcome of a call for which no node may be asked, and which memory does not answer."""
        if plan.rule.of_block and plan.kept and (held := self.holder(network, plan)) is not None:
            return await self._out_of(network, plan, held[0], held[2], PROXY)
        entry, source = None, AnswerSource.MEMORY
        if plan.kept and plan.range is None:
            entry, source = await store_lookup.stored(self, network, plan)
        if entry is None:
            return self._not_kept(network)
        return Outcome(source=source, result=entry.result, block=plan.head, proved=entry.proved)

    def _not_kept(self, network: Network) -> Outcome:
        return Outcome(source=AnswerSource.REFUSED, error=NOT_KEPT, block=network.view.head)

    async def outcome(self, network: Network, plan: Plan, origin: CallOrigin = PROXY) -> Outcome:
        """The outcome of `fetch`, awaited."""
        return await awaited(partial(self.fetch, network, plan, origin))

    async def _rewrite(self, network: Network, plan: Plan, origin: CallOrigin) -> Outcome:
        """Forward a call that changes state or blocks without a new block. Its answer waits until what was kept before
        is found no more, so that who reads afterwards reads what it wrote."""
        fork_epoch = network.view.fork_epoch
        outcome = await self._alone(network, plan, origin).outcome()
        if outcome.result is not None or outcome.kind is FailureKind.TIMEOUT:
            self.rewritten(network)
            await network.sight.turned(fork_epoch, REWRITTEN_WITHIN)
        return outcome

    def _agree(
        self,
        network: Network,
        plan: Plan,
        origin: CallOrigin = PROXY,
        *,
        key: bytes | None,
        bound: bool = False,
        ends: float | None = None,
    ) -> Flight:
        """Fetch a call from as many nodes as must agree. Arguments as for a `Fetch`."""
        until = self.clock() + network.settings.deadline if ends is None else ends
        work = self.beside.read(network, plan, origin, until)
        return CarriedFlight(flights=self.flights, key=key, work=work, bound=bound)

    def _prove(
        self, network: Network, plan: Plan, origin: CallOrigin = PROXY, *, key: bytes | None, bound: bool = False
    ) -> Flight:
        """Fetch a read that must be proved. Arguments as for a `Fetch`."""
        work = self.proved_reads.read(network, plan, origin, self.clock() + network.settings.deadline)
        return CarriedFlight(flights=self.flights, key=key, work=work, bound=bound)

    def _alone(self, network: Network, plan: Plan, origin: CallOrigin, ends: float = inf) -> Fetch:
        """A fetch that no other caller may join; `ends` as for a `Fetch`."""
        return Fetch(flights=self.flights, shared=self, network=network, plan=plan, origin=origin, ends=ends)

    async def _part(
        self,
        network: Network,
        plan: Plan,
        origin: CallOrigin,
        ends: float,
        separation: Separation | None = None,
        only: NodeChooser | None = None,
    ) -> Outcome:
        """Fetch a part of a call, or beside one, which must end at `ends` (monotonic seconds; infinite: the deadline of
        the network), from nodes that the separation allows or the chooser gives. Nobody else may join."""
        fetch = self._alone(network, plan, origin, ends)
        fetch.bound, fetch.separation, fetch.only = True, separation, only
        return await fetch.outcome()

    def _kept(self, network: Network, plan: Plan) -> tuple[bytes, Entry] | None:
        """The entry that answers the call from memory, and its key; None: there is none that may be served."""
        now = self.clock()
        found = self.memory.first(now, plan.key, plan.head_key) if plan.kept else None
        return None if found is None or not self._may_be_given(network, plan, *found, now) else found

    def _may_be_given(self, network: Network, plan: Plan, key: bytes, entry: Entry, now: float) -> bool:
        """May a kept answer be given: no transaction was sent since that makes it doubtful, and it is not too old?"""
        if key != plan.key and self.sends.doubts(network, plan, entry.result):
            return False
        oldest = now - plan.rule.max_age
        return not plan.rule.max_age or entry.stored_at >= oldest or self._stale(network, plan, entry, now)

    def _stale(self, network: Network, plan: Plan, entry: Entry, now: float) -> bool:
        """May an answer that is older than the operator wants be served once more, while one call fetches a new
        one?"""
        if plan.flight_key is None or now - entry.stored_at > plan.rule.max_age + plan.rule.stale:
            return False
        if plan.flight_key not in self.flights and not plan.rule.kept_only:
            self._fetch_for_all(network, plan, sole=False)
        return True

    async def _part_of_call(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> Outcome:
        """Fetch a part of a call, such as a run of a range, from as many nodes as must agree."""
        if plan.rule.agree > 1:
            return await self._agree(network, plan, origin, key=None, bound=True, ends=ends).outcome()
        return await self._part(network, plan, origin, ends)

    def _fetch_for_all(self, network: Network, plan: Plan, *, sole: bool = True) -> None:
        """Fetch a call that nobody waits for yet; with `sole`, one process fetches it for all that share Redis."""
        if plan.rule.agree > 1:
            self._agree(network, plan, key=plan.flight_key).begin()
            return
        if plan.rule.prove:
            self._prove(network, plan, key=plan.flight_key).begin()
            return
        fetch = self._alone(network, plan, PROXY)
        fetch.key, fetch.sole = plan.flight_key, sole
        fetch.begin()

    async def _filter(self, network: Network, plan: Plan, origin: CallOrigin) -> Outcome:
        """Make a filter, or ask the node that made it: the id that the client has names that node, and the call gets
        the id as its node knows it."""
        fetch = self._alone(network, plan, origin)
        if plan.rule.kind == "filter-new":
            return await fetch.outcome()
        read = filter_id.read(plan.asked, network.name, (node.id for node in network.pool.nodes))
        if read is None:  # the params name no filter, so that a node says what is wrong
            return await fetch.outcome()
        node = next((node for node in network.pool.nodes if node.id == read.node), None)
        if node is None:  # it is gone from the settings
            return filter_not_found(network, plan)
        fetch.plan = plan.with_params(read.params)
        fetch.only = OneNode(node, fetch.plan)
        outcome = await fetch.outcome()
        return filter_not_found(network, plan) if outcome.kind in _GONE else outcome
