"""The way of a call (architecture section 3).

`answer_now` is synchronous: what the proxy can answer by itself never creates a task. `fetch` does the rest: flight,
second tier, nodes, keep.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.client_limits import Exposure
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.messages import Hint
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.engine import head_loss, results, sticky
from rpcaccel.dataplane.engine.head_change import Refresh
from rpcaccel.dataplane.engine.leases import Leasing
from rpcaccel.dataplane.engine.ranges import Ranges, Way
from rpcaccel.dataplane.engine.read_your_writes import ReadYourWrites
from rpcaccel.dataplane.engine.results import AnswerHandler
from rpcaccel.dataplane.engine.single_flight import Flights, PendingOutcome
from rpcaccel.dataplane.engine.sticky import preferring
from rpcaccel.dataplane.engine.taskless import TasklessFetches
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.broadcaster import Broadcasts
from rpcaccel.dataplane.upstream.forward import Forwarded, forward
from rpcaccel.stores.base import Store


class Engine:
    """Answers calls. One per worker; holds the tiers and the flights, no settings of its own."""

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        tally: Tally,
        clock: Callable[[], float],
        rng: random.Random,
        on_hint: Callable[[Hint | Sent], None] = lambda _hint: None,
    ) -> None:
        """`on_hint` is told when an answer shows how far a node is, and when a transaction was sent."""
        self.memory = memory
        self.store = store
        self.tally = tally
        self.flights = Flights()
        self.sends = ReadYourWrites(store, clock, on_hint)
        self.leasing = Leasing(store, memory, clock)
        self.second_tier = store.name != "memory"
        self.broadcasts = Broadcasts()
        self._clock = clock
        stored = self._from_store if self.second_tier else None
        self._answer_handler = AnswerHandler(memory, store, tally, clock, rng, on_hint)
        self._taskless = TasklessFetches(memory, store, self.sends, self._answer_handler, tally, clock, self._ask)
        self._ranges = Ranges(
            Way(self._fly, self._answer_handler.keep, self._kept, stored), memory, self.flights, clock
        )
        self.refresh = Refresh(self._fly_alone, memory, self.flights, clock)
        self.exposure = Exposure()
        """Which methods are taken at all; the settings in force say it."""

    def now(self) -> float:
        """The time by which entries live (monotonic seconds)."""
        return self._clock()

    def refused(self, network: Network, method: str, rule: Rule) -> Outcome | None:
        """The refusal of a method that no client may call; None for all others. Asked before a call is planned."""
        why = self.exposure.refusal(method, denied=rule.deny)
        return results.refused(why, network.view.head) if why else None

    def answer_now(self, network: Network, plan: Plan) -> Outcome | None:
        """What can be said without waiting: a fact of the network, a kept answer. None: `fetch` it."""
        if plan.local is not None:
            return Outcome(source=AnswerSource.LOCAL, result=plan.local, block=network.view.head)
        if plan.range is not None and network.settings.ranges.enabled:
            outcome = self._ranges.answer_now(network, plan, plan.range)
            if outcome is not None:
                return outcome
        kept = self._kept(network, plan)
        if kept is None:
            return None
        key, entry = kept
        return Outcome(source=AnswerSource.MEMORY, result=entry.result, block=network.view.head, key=key)

    async def fetch(self, network: Network, plan: Plan, client: bytes = b"") -> Outcome:
        """Get the answer from a flight under way, the second tier or a node.

        Args:
            client: what tells this caller from others, for networks that route by client.
        """
        waiting = self.join(network, plan, client)
        if waiting is not None:
            return await waiting
        network.cell(plan).missed(results.miss_reason(plan))
        if plan.rule.kind in sticky.KINDS:
            return await self.flights.alone(lambda: self._filter(network, plan, client))
        if plan.rule.known and plan.rule.kind == "read":
            return await self._begin(network, plan, client)
        # A caller that leaves takes its read back, and not what may have changed something.
        return await self.flights.alone(lambda: self._begin(network, plan, client))

    def join(self, network: Network, plan: Plan, client: bytes = b"") -> PendingOutcome[Outcome] | None:
        """The same where the call may share a flight: a wait that needs no task. None: it flies alone, `fetch` it."""
        if plan.flight_key is None or plan.rule.kind in sticky.KINDS:
            return None
        network.cell(plan).missed(results.miss_reason(plan))
        # What was under way before a transaction was sent may not know it.
        flight = plan.flight_key + b":sent" if self.sends.holders(network, plan, b"") else plan.flight_key
        begin, start_taskless = (
            partial(self._begin, network, plan, client),
            partial(self._taskless.begin, network, plan, client),
        )
        future, joined = self.flights.join(flight, begin, start_taskless)
        return PendingOutcome(future, partial(self._joined, self._clock()) if joined else _as_it_is)

    def _joined(self, started: float, outcome: Outcome) -> Outcome:
        """The outcome of another caller's flight."""
        waited = self._clock() - started
        self.tally.step(Step.FLIGHT, waited)
        return results.joined(outcome, waited)

    def _kept(self, network: Network, plan: Plan) -> tuple[bytes, Entry] | None:
        """What memory has, and under which key of the plan."""
        now, key = self._clock(), plan.key
        entry = None if key is None else self.memory.get(key, now)
        if key is None or entry is None:
            key = plan.head_key
            entry = None if key is None else self.memory.get(key, now)
            if key is None or entry is None or self.sends.doubts(network, plan, entry.result):
                return None
        if (
            plan.rule.max_age
            and now - entry.stored_at > plan.rule.max_age
            and not self._stale(network, plan, entry, now)
        ):
            return None
        return key, entry

    def _stale(self, network: Network, plan: Plan, entry: Entry, now: float) -> bool:
        """Is an answer older than the operator wants served a little longer, while one call fetches a new one?"""
        if plan.flight_key is None or now - entry.stored_at > plan.rule.max_age + plan.rule.stale:
            return False
        self.flights.begin(plan.flight_key, lambda: self._fly(network, plan, b""))
        return True

    def _begin(self, network: Network, plan: Plan, client: bytes) -> Coroutine[Any, Any, Outcome]:
        if plan.range is not None and network.settings.ranges.enabled:
            return self._ranges.fetch(network, plan, plan.range, client)
        return self._fly(network, plan, client)

    def _fly(
        self, network: Network, plan: Plan, client: bytes, ends: float | None = None, *, alone: bool = False
    ) -> Coroutine[Any, Any, Outcome]:
        """`ends`: when it must be over, if it is a part of another call. `alone`: other processes would ask the same
        at the same time, so one of them asks for all."""
        if plan.shared_keys and self.second_tier:
            return self._ask_tier(network, plan, client, ends, alone=alone)
        return self._ask(network, plan, client, [], ends=ends)

    async def _ask_tier(
        self, network: Network, plan: Plan, client: bytes, ends: float | None, *, alone: bool
    ) -> Outcome:
        steps: list[tuple[Step, float]] = []

        def shared(entry: Entry) -> Outcome:
            return Outcome(
                source=AnswerSource.REDIS, result=entry.result, block=plan.head, steps=self._answer_handler.timed(steps)
            )

        started = self._clock()
        ends = started + network.settings.deadline if ends is None else ends
        if plan.rule.names_transaction is None:
            entry = await self._from_store(plan)
        else:
            entry, _ = await asyncio.gather(self._from_store(plan), self.sends.look(network, plan))
        steps.append((Step.REDIS, self._clock() - started))
        if entry is not None and not self.sends.doubts(network, plan, entry.result):
            return shared(entry)
        if not (plan.rule.heavy or alone):
            return await self._ask(network, plan, client, steps, ends=ends)
        return await self.leasing.fetch(
            plan.shared_keys[0],
            lambda: self._ask(network, plan, client, steps, ends=ends),
            shared,
            lambda: self._from_store(plan),
            within=ends - self._clock(),
        )

    def _fly_alone(self, network: Network, plan: Plan) -> Coroutine[Any, Any, Outcome]:
        return self._fly(network, plan, b"", alone=True)

    async def _ask(
        self,
        network: Network,
        plan: Plan,
        client: bytes,
        steps: list[tuple[Step, float]],
        started: float | None = None,
        ends: float | None = None,
        found: Forwarded | None = None,
    ) -> Outcome:
        """`started`: when, if not now; from then on its deadline counts, where it does not end with another's. `found`:
        how asking the nodes ended, if they were asked already."""
        started = self._clock() if started is None else started
        ends = started + network.settings.deadline if ends is None else ends
        plan, forwarded = await self._forward(network, plan, client, started, ends, found)
        steps.append((Step.FORWARD, self._clock() - started))
        return self._answer_handler.conclude(network, plan, forwarded, steps)

    async def _filter(self, network: Network, plan: Plan, client: bytes) -> Outcome:
        """A filter stays on the node that made it; the id the client has names that node."""
        if plan.rule.kind == "filter-new":
            return sticky.named(network, await self._ask(network, plan, client, []))
        deadline = self._clock() + network.settings.deadline
        outcome = await sticky.poll(
            network, plan, deadline, lambda asked, end: self._answer_handler.conclude(network, asked, end, [])
        )
        return outcome or await self._ask(network, plan, client, [])

    async def _from_store(self, plan: Plan) -> Entry | None:
        """Ask the second tier for the keys at once; what it has fills the memory tier."""
        asked = [self.store.get(key) for key in plan.shared_keys]
        for key, answer in zip(plan.shared_keys, asked, strict=True):
            entry, now = await answer, self._clock()
            if entry is not None and not (plan.rule.max_age and now - entry.stored_at > plan.rule.max_age):
                self.memory.put(key, entry, now)
                return entry
        return None

    async def _forward(
        self, network: Network, plan: Plan, client: bytes, began: float, deadline: float, found: Forwarded | None
    ) -> tuple[Plan, Forwarded]:
        """Ask the nodes; returns the plan that was carried out in the end. `found`: how asking them ended already.
        Patience counts from when the call `began`.

        When nobody answers who has the block asked for, and a node may come along that has, it is waited for a bounded
        time; then the best node left is followed (dataplane.engine.head_loss). An answer that may be an abandoned
        branch's is asked for again.
        """
        patient_until = min(deadline, began + head_loss.patience(network))
        shared = plan.rule.kind == "read" and plan.flight_key is not None
        followed_to = network.view.head
        if found is not None and head_loss.came_along(network, plan, found, now := self._clock()):
            found = None if head_loss.paid(network, plan, found, now) else found
        while True:
            fork_epoch = network.view.fork_epoch
            forwarded, found = found or await self._reach(network, plan, client, deadline), None
            now = self._clock()
            if head_loss.waits(network, plan, forwarded, now):
                lower = head_loss.lower(network, plan, now)
                until = head_loss.wait_until(network, plan, forwarded, lower, now, patient_until)
                if waited := now < until:
                    await network.wait_for_change(until - now)
                    now = self._clock()
                elif lower is None:
                    return plan, forwarded if forwarded.tried else await self._reach(
                        network, plan, client, deadline, last=True
                    )
                if now >= deadline or not head_loss.paid(network, plan, forwarded, now):
                    return plan, forwarded
                if waited or lower is None:
                    plan = head_loss.after_a_wait(network, plan, fork_epoch, now)
                    continue
                followed = await self._reach(network, lower, client, deadline, without=forwarded.tried)
                if head_loss.lacks(followed) and lower.head < followed_to:
                    found, followed_to = followed, lower.head  # another node further behind may have it
                    continue
                if followed.answer is None:
                    return plan, forwarded
                plan, forwarded = lower, followed
            elif forwarded.failure is None:
                head_loss.reached(network, plan, forwarded.node_id)
            if forwarded.answer is None or not shared:
                return plan, forwarded
            if not network.may_be_abandoned(plan, forwarded.node_id, fork_epoch):
                return plan, forwarded
            plan = network.plan(plan.method, plan.asked)

    async def _reach(
        self,
        network: Network,
        plan: Plan,
        client: bytes,
        deadline: float,
        *,
        last: bool = False,
        without: Collection[str] = (),
    ) -> Forwarded:
        """`last`: nodes that are behind were waited for long enough. `without`: ids of nodes that are not asked."""
        network.refreshes.call(self._clock())
        pool, route_key, cell = network.pool, plan.route_key or client, self.tally.network(network.name)
        if plan.rule.kind != "send":
            nodes = [node for node in pool.nodes if node.id not in without] if without else pool.nodes
            preferred = self.sends.holders(network, plan, client)
            chooser = preferring(plan, pool, nodes, preferred, route_key, last=last)
            forwarded = await forward(plan, pool, deadline=deadline, route_key=route_key, chooser=chooser)
            cell.forced += forwarded.forced
            return forwarded
        taken = partial(self.sends.took, network, client=client)
        return await self.broadcasts.send(plan, pool, network.plan, cell, taken, deadline=deadline, route_key=route_key)


def _as_it_is(outcome: Outcome) -> Outcome:
    return outcome
