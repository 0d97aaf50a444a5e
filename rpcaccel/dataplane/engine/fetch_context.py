"""What the fetches of one worker have in common: tiers, counters, leases, what was sent lately, and what becomes of a
node's answer.

A node's answer gives a hint of the node's head, is kept where and as long as it may be, and becomes the outcome that
callers get.

Read your writes: lookups of a transaction that was just sent go to a node that took it, in every worker.

- A worker tells the others on its host over the link, and other hosts by a short-lived mark in the second tier.
- No answer that says "not there (yet)" is taken from a tier for such a transaction, nor from a flight that began
  before it was sent.
- What a pool holds changes without a new head, so null to a lookup that would show a pooled transaction is kept by
  nobody (core.cache.retention). A worker the news has not reached yet, some milliseconds, therefore asks a node.
- Pending reads (the nonce) go to the nodes that took what the same client sent last. The client is told by its address
  and not by the account: the sender of a transaction is in its signature, and to recover it costs milliseconds of this
  process for each transaction. Clients behind one address share the preference, which harms none of them.

Distributed single-flight: one node call for identical misses in several processes and hosts, where a call costs a node
much. The process that gets the lease of a key fetches; the others wait for what it puts. A lease has a bounded life, by
how long the nodes take (core.dispatch.sole_fetch): when its holder dies, or has nothing to put (an error, an answer
that is not kept), every process fetches for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from math import inf

import msgspec
from msgspec import structs

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.recent_purges import RecentPurges
from rpcaccel.core.cache.retention import SPREAD, Keep, is_mined, judge, lifetime
from rpcaccel.core.dispatch.broadcast import ALONE
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome, failed, joined, with_uniform_code
from rpcaccel.core.dispatch.sole_fetch import Mode
from rpcaccel.core.heads.recent_writes import (
    UNFILLED,
    WRITE_SECONDS,
    PrivateSend,
    PrivateSends,
    Recent,
    Sent,
    hash_named,
    hash_text,
)
from rpcaccel.core.messages import Hint, Rewritten
from rpcaccel.core.nodes.latency import LatencyAverage
from rpcaccel.core.plan import cache_key, filter_id
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource, Step, bump
from rpcaccel.core.stats.histogram import BOUNDS
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire.json_params import MAX_TEXT, number_at
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.engine.beside import AskBeside
from rpcaccel.dataplane.engine.single_flight import Flights
from rpcaccel.dataplane.event_loop import OneATurn, in_turns
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.broadcaster import Broadcasts
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin
from rpcaccel.stores.base import Lease, Store


class Leasing:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._releasing: set[asyncio.Task[None]] = set()

    async def claim(
        self,
        key: bytes,
        accepts: Callable[[Entry], bool],
        look: Callable[[], Awaitable[Entry | None]],
        patience: float,
        *,
        within: float,
    ) -> Lease | Entry | None:
        """Claim the lease of `key`.

        Returns the lease, to be given to `release` once the answer was put; or the entry that the holder of the lease
        put, which `look` finds under any key of the call; or None when the holder put nothing in time.

        Args:
            accepts: decides whether an entry answers the call.
            patience: seconds that the lease lives, and that its holder is waited for at the most.
            within: seconds that the call has left; half of them are kept for asking a node.
        """
        lease = await self._store.lease(key, patience)
        if lease is not None:
            return lease
        entry = await self._store.wait(key, min(patience, within / 2), accepts)
        return await look() if entry is None else entry

    def release(self, lease: Lease) -> None:
        """Give a lease back in the background. That waits until the answer is written, which callers need not."""
        task = asyncio.get_running_loop().create_task(lease.release())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def close(self) -> None:
        """Wait until the leases that are being given back are given back."""
        await asyncio.gather(*self._releasing, return_exceptions=True)


MARK = "sent"
"""Stands in place of a method in the keys of marks, so that marks are purged with their network."""
_decode_nodes = msgspec.json.Decoder(tuple[str, ...]).decode


class ReadYourWrites:
    """The transactions sent lately, by this worker and by those it has heard of."""

    def __init__(self, store: Store, clock: Callable[[], float], tell: Callable[[Sent], None]) -> None:
        """`tell` sends a message to the other workers of this host."""
        self.recent = Recent()
        """As long as it is empty, no call need ask for `holders`."""
        self._store = store
        self._shared = store.holds
        self._clock = clock
        self._tell = tell

    def took(self, network: Network, result: bytes, nodes: tuple[str, ...], address: str) -> None:
        """Note that these nodes took a transaction of the client at `address` and answered `result`, its hash."""
        name = hash_text(result)
        if name is None:
            return
        sent = Sent(network.name, name, nodes, address.encode())
        self.heard(sent)
        self._tell(sent)
        if self._shared and network.view.known:
            all_of_them = self.recent.of_hash(network.name, name, self._clock())
            self._store.put(_mark(network, name), self._entry(network, all_of_them), WRITE_SECONDS)

    def heard(self, sent: Sent) -> None:
        """Note that this worker or another one sent a transaction."""
        self.recent.add(sent, self._clock())

    def holders(self, network: Network, plan: Plan, address: str = "") -> tuple[str, ...]:
        """Ids of the nodes that should be asked first for the client at `address`, as far as this worker knows; empty
        when any node will do."""
        if plan.rule.names_transaction is None:
            return self.recent.of_client(network.name, address.encode(), self._clock()) if plan.pending else ()
        name = hash_named(plan)
        return () if name is None else self.recent.of_hash(network.name, name, self._clock())

    def doubts(self, network: Network, plan: Plan, result: bytes) -> bool:
        """May a transaction that was sent since have made this kept answer untrue?"""
        if plan.rule.names_transaction is None or result not in UNFILLED:
            return False
        return bool(self.holders(network, plan))

    def look(self, network: Network, plan: Plan, done: Callable[[], None]) -> bool:
        """Ask the second tier whether another host sent the transaction that a lookup names; `done` is called when that
        is known. False when there is nothing to ask: then `done` is not called."""
        name = hash_named(plan) if self._shared and network.view.known else None
        if name is None or self.recent.of_hash(network.name, name, self._clock()):
            return False

        def found(mark: Entry | None) -> None:
            if mark is not None:
                with contextlib.suppress(*UNREADABLE):
                    self.heard(Sent(network.name, name, _decode_nodes(mark.result)))
            done()

        return self._store.look([_mark(network, name)], lambda _key, _mark: True, found)

    def _entry(self, network: Network, nodes: tuple[str, ...]) -> Entry:
        now = self._clock()
        return Entry(
            result=msgspec.json.encode(nodes),
            cache=CacheClass.NEVER,
            network=network.name,
            method=MARK,
            stored_at=now,
            expires=now + WRITE_SECONDS,
        )


def _mark(network: Network, name: bytes) -> bytes:
    view = network.view
    tag = cache_key.network_tag(network.name, view.eth_chain_id, view.genesis or "", view.block_one or "")
    return cache_key.cache_key(tag, MARK, cache_key.SCOPE_SENT, name)


LOOKED_UP_AT_A_HEAD = 20
"""Private transactions that are looked up at one head; further ones are at the next."""
_SKIP, _LASTING = Keep.SKIP, Keep.LASTING  # looked up once (core.plan.planner)
_HEAD, _NODE = CacheClass.HEAD, AnswerSource.NODE


class FetchContext(ABC):
    """What the fetches of one worker have in common. The engine is the one that there is."""

    beside: AskBeside
    """How further nodes are asked beside one."""

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        tally: Tally,
        clock: Callable[[], float],
        rng: random.Random,
        on_hint: Callable[[Hint | Sent | Case | Rewritten], None],
        disk: Store,
    ) -> None:
        """The context of one worker's fetches.

        Args:
            on_hint: is called when an answer shows how far a node is, when a transaction was sent, and when nodes
                differ about final data.
            store: the tier that hosts share; `disk` is this host's own.
        """
        self.single_flight: Mode = "auto"
        """Which misses one process fetches for all that share the store."""
        self.store_pace = LatencyAverage()
        """How long the store takes for a lookup lately."""
        self.memory = memory
        self.disk = disk
        self.on_disk = disk.holds
        """Is there a tier on disk?"""
        self.store = store
        self.shared = store.holds
        """Is there a tier that hosts share?"""
        self.purges = RecentPurges()
        self.tally = tally
        self.clock = clock
        self.sends = ReadYourWrites(store, clock, on_hint)
        self.flights = Flights(self._joined)
        self.leasing = Leasing(store)
        self.broadcasts = Broadcasts()
        self.private = PrivateSends()
        self.judging = OneATurn()
        """Parts of judgements of long answers (dataplane.engine.answer_check)."""
        self._rng = rng
        self._on_hint = on_hint

    @abstractmethod
    def answer_now(self, network: Network, plan: Plan) -> Outcome | None:
        """The outcome of a call that a fact of the network or a kept answer decides; None: a node is to be asked."""

    async def send(self, network: Network, plan: Plan, origin: CallOrigin, ends: float) -> Forwarded:
        """Tell several nodes of a transaction, or one, where its route says so."""
        private = network.private_route(plan)
        said = await self.broadcasts.send(
            plan,
            network.pool,
            network.pool.broadcast if private is None else ALONE,
            network.plan,
            self.tally.network(network.name),
            lambda result, nodes: self.sends.took(network, result, nodes, origin.address),
            deadline=ends,
            origin=origin,
        )
        if private is not None and private.fallback and said.failure is None and said.answer is not None:
            sent, due = bytes(said.answer.result or b""), network.view.head + private.fallback
            self._let_wait(network, PrivateSend(network.name, sent, plan.method, plan.params, due))
        return said

    def _let_wait(self, network: Network, one: PrivateSend) -> None:
        if not self.private.add(one):
            bump(self.tally.network(network.name).broadcasts, "no-room")

    def tell_due(self, network: Network) -> None:
        """Look up the private transactions that are due at the head of a network in force, some at a time, and tell all
        nodes of those that no block has."""
        for one in self.private.take_due(network.name, network.view.head, LOOKED_UP_AT_A_HEAD):
            self.broadcasts.begin(self._tell_all(network, one))

    async def _tell_all(self, network: Network, one: PrivateSend) -> None:
        plan = network.plan(one.method, one.params)
        private = network.private_route(plan)
        if private is None or not private.fallback:
            return  # the settings are others than when it was sent
        found = (await self.outcome(network, network.plan(plan.rule.found_by, b"[%b]" % one.hash), PROXY)).result
        if found is None and one.lookups > 1:
            self._let_wait(network, structs.replace(one, due=network.view.head + 1, lookups=one.lookups - 1))
        if found is None or is_mined(found):
            return
        bump(self.tally.network(network.name).broadcasts, "fallback")
        await self.send(network, structs.replace(plan, tag=""), PROXY, self.clock() + network.settings.deadline)

    @abstractmethod
    async def outcome(self, network: Network, plan: Plan, origin: CallOrigin) -> Outcome:
        """Get the answer to a call from the tiers behind memory, or from a node."""

    def _joined(self, outcome: Outcome, since: float) -> Outcome:
        """The outcome for a caller that joined the flight of another one at the time `since`."""
        waited = self.clock() - since
        self.tally.step(Step.FLIGHT, waited)
        return joined(outcome, waited)

    def accepts(self, plan: Plan, key: bytes, entry: Entry) -> bool:
        """Decide whether an entry of a tier behind memory answers the call: it must be neither too old nor purged
        since."""
        now = self.clock()
        if plan.rule.max_age and now - entry.stored_at > plan.rule.max_age:
            return False
        return not self.purges.cover(key, entry.stored_at, now)

    def take(self, plan: Plan, key: bytes, entry: Entry, source: AnswerSource) -> None:
        """Put an accepted entry of the tier `source` into the tiers before that one."""
        self.memory.put(key, entry, self.clock())
        if source is AnswerSource.SHARED and self.on_disk and key == plan.lasting_key:
            self.disk.put(key, entry, inf)

    def conclude(
        self, network: Network, plan: Plan, forwarded: Forwarded, timed: Sequence[tuple[Step, float]]
    ) -> Outcome:
        """The outcome of a call that was taken to the nodes. A good answer is kept where it may be.

        Args:
            timed: the steps of the call and their durations in seconds; they are counted here.
        """
        steps: tuple[tuple[str, float], ...] = ()
        for step, seconds in timed:
            histogram = self.tally.steps[step]
            histogram.counts[bisect_left(BOUNDS, seconds)] += 1  # as Histogram.observe has it, without a further call
            histogram.seconds += seconds
            steps += ((str.__str__(step), seconds),)  # words that format quickly
        answer = forwarded.answer
        if answer is None:
            return failed(forwarded, plan.head, steps)
        if answer.result is None:
            error = answer.error or b"null"
            if network.settings.uniform_error_codes:
                error = with_uniform_code(error, forwarded.failure)
            return Outcome(
                source=_NODE,
                error=error,
                node=forwarded.node_id,
                block=plan.head,
                attempts=forwarded.attempts,
                kind=forwarded.failure.kind if forwarded.failure is not None else None,
                steps=steps,
                legs=forwarded.legs,
                stopped=forwarded.stopped,
            )
        result = bytes(answer.result)
        if plan.rule.kind == "filter-new":
            result = filter_id.attach(result, network.name, forwarded.node_id)
        # With a failure, it is what a node answers that cannot know better.
        doubtful = forwarded.failure is not None or forwarded.node_id in network.sight.suspects
        if not doubtful:
            if result[0] in b"{[":
                network.sight.hashes.note(result)
            self.keep(network, plan, result, forwarded.node_head, forwarded.proved)
        return Outcome(
            source=_NODE,
            result=result,
            node=forwarded.node_id,
            block=plan.head,
            attempts=forwarded.attempts,
            node_head=forwarded.node_head,
            steps=steps,
            legs=forwarded.legs,
            doubtful=doubtful,
            judged=None if forwarded.failure is None else forwarded.failure.kind,
            proved=forwarded.proved,
        )

    def keep(self, network: Network, plan: Plan, result: bytes, node_head: int, proved: str = "") -> None:
        """Keep an answer of a node whose head was `node_head`, where and as long as it may be. `proved`: as in an
        Outcome."""
        key, head_key = plan.key, plan.head_key
        if key is None and head_key is None and (plan.range is not None or plan.terms is not None):
            return  # the pieces of a run are kept one by one, and what comes of a plan on terms is kept nowhere
        if plan.rule.unkept:
            return
        verdict = judge(plan, result, node_head, network.sight.view, self.memory.max_entry)
        if verdict.reason:
            network.cell(plan).skipped(verdict.reason)
        if verdict.keep is _SKIP:
            return
        lasting = verdict.keep is _LASTING
        key = key if lasting else head_key
        if key is None:
            return
        now, rule = self.clock(), plan.rule
        cache = plan.cache if lasting else _HEAD
        life = lifetime(cache, network.chain.block_time, rule.max_age, rule.stale)
        share = 1.0 - SPREAD * self._rng.random()
        entry = Entry(
            result=result,
            cache=plan.cache,
            block=plan.head if plan.block is None else plan.block,
            network=network.name,
            method=plan.method,
            stored_at=now,
            expires=now + life.memory * share,
            proved=proved,
        )
        self.memory.put(key, entry, now)
        if self.on_disk and key == plan.lasting_key:
            self.disk.put(key, entry, inf)
        if self.shared and key in plan.shared_keys:
            self.store.put(key, entry, life.store * share)
        if rule.of_block and rule.shows in ("block", "receipts"):
            self.broadcasts.begin(in_turns(network.sight.contents.read(plan, result)))

    def rewritten(self, network: Network) -> None:
        """Drop what was kept of a network, because a call changed its state or blocks without a new block. The control
        plane drops it everywhere else, and begins a fork epoch, so that what is under way is kept under no key that is
        looked for."""
        selection = Selection(network=network.name)
        self.purges.add(selection, self.clock())
        self.memory.purge(selection)
        self.flights.detach(selection.matches)
        self._on_hint(Rewritten(network.name))

    def hint(self, network: Network, plan: Plan, said: Forwarded) -> bool:
        """Tell the control plane of a block that an answer names and that its node was not known to have. The control
        plane decides how much of it is believed. False: the served head is no lower than that block."""
        if said.answer is None or said.answer.result is None or len(said.answer.result) > MAX_TEXT:
            return False  # to parse a long answer for one number would hold up other calls
        head = number_at(bytes(said.answer.result), plan.rule.head_at)
        if head is None or head <= network.view.head:
            return False
        for node in network.pool.nodes:
            if node.id == said.node_id and node.head < head:
                self._on_hint(Hint(network.name, node.id, head))
        return True
