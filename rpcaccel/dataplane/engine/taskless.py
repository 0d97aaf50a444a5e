"""Ordinary calls without a task: the second tier is asked, then a node, and each calls back.

What is not ordinary (ranges, leases, transactions sent a moment ago) is left to the engine's coroutines, and so is a
call that turns out to need them on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.engine import head_loss
from rpcaccel.dataplane.engine.read_your_writes import ReadYourWrites
from rpcaccel.dataplane.engine.results import AnswerHandler
from rpcaccel.dataplane.engine.single_flight import Flight
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream import first_attempt
from rpcaccel.dataplane.upstream.forward import Forwarded
from rpcaccel.stores.base import Store

Steps = list[tuple[Step, float]]
Ask = Callable[
    [Network, Plan, bytes, Steps, float | None, float | None, Forwarded | None], Coroutine[Any, Any, Outcome]
]
"""Takes a call to the nodes as a coroutine: its deadline counted from the first time or ending at the second, and how
asking the nodes ended, if they were asked already."""

_REDIS, _FORWARD = Step.REDIS, Step.FORWARD  # looked up once (core.plan.planner)


class TasklessFetches:
    """Begins calls for one worker."""

    __slots__ = ("answer_handler", "ask", "clock", "memory", "second_tier", "sends", "store", "tally")

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        sends: ReadYourWrites,
        answer_handler: AnswerHandler,
        tally: Tally,
        clock: Callable[[], float],
        ask: Ask,
    ) -> None:
        self.memory = memory
        self.store = store
        self.second_tier = store.name != "memory"
        self.sends = sends
        self.answer_handler = answer_handler
        self.tally = tally
        self.clock = clock
        self.ask = ask

    def begin(self, network: Network, plan: Plan, client: bytes, flight: Flight) -> TasklessFetch | None:
        """Begin a call whose outcome lands `flight`; None: it needs more than this."""
        if plan.range is not None or self.sends.holders(network, plan, client):
            return None
        fetch = TasklessFetch(self, network, plan, client, flight)
        if not (self.second_tier and plan.shared_keys):
            return fetch if fetch.to_a_node() else None
        if plan.rule.heavy or plan.rule.names_transaction is not None:
            return None
        return fetch if self.store.look(plan.shared_keys, fetch.accepts, fetch.looked) else None


class TasklessFetch:
    """One call on its way."""

    __slots__ = ("_cancelled", "_client", "_context", "_first", "_flight", "_fork_epoch", "_network", "_plan",
                 "_started", "_steps", "_way")  # fmt: skip

    def __init__(self, way: TasklessFetches, network: Network, plan: Plan, client: bytes, flight: Flight) -> None:
        self._way = way
        self._network = network
        self._plan = plan
        self._client = client
        self._flight = flight
        self._fork_epoch = network.view.fork_epoch
        self._started = way.clock()
        self._steps: Steps = []
        self._first: first_attempt.FirstAttempt | None = None
        self._cancelled = False
        self._context = copy_context()
        """The caller's: answers come in that of others."""

    def __repr__(self) -> str:
        return f"<taskless fetch of {self._plan.method} {'to a node' if self._first else 'to the second tier'}>"

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._cancelled = True
        if self._first is not None:
            self._first.cancel()

    def accepts(self, key: bytes, entry: Entry) -> bool:
        """May what the second tier has be given? If it is not too old, it fills the memory tier."""
        way, plan, now = self._way, self._plan, self._way.clock()
        if plan.rule.max_age and now - entry.stored_at > plan.rule.max_age:
            return False
        try:
            way.memory.put(key, entry, now)
        except Exception as error:  # or nobody would ever be told
            self._cancelled = True
            self._flight.crash(error)
            return False
        return True

    def looked(self, entry: Entry | None) -> None:
        """The second tier had this."""
        if self._cancelled:
            return
        way, plan = self._way, self._plan
        try:
            now = way.clock()
            self._steps.append((_REDIS, now - self._started))
            self._started = now
            if entry is not None and not way.sends.doubts(self._network, plan, entry.result):
                steps = way.answer_handler.timed(self._steps)
                self._flight.land(Outcome(source=AnswerSource.REDIS, result=entry.result, block=plan.head, steps=steps))
            elif not self.to_a_node():
                self._carry(plan, None)
        except Exception as error:
            self._flight.crash(error)

    def to_a_node(self) -> bool:
        """Ask a node; False when that cannot be done without a task."""
        network, plan = self._network, self._plan
        deadline, route_key = self._started + network.settings.deadline, plan.route_key or self._client
        self._first = first_attempt.begin(
            plan, network.pool, deadline=deadline, route_key=route_key, ended=self._arrived
        )
        if self._first is None:
            return False
        network.refreshes.call(self._started)
        return True

    def _arrived(self, found: Forwarded | Exception) -> None:
        """How asking the nodes ended. What may be an abandoned branch's answer is asked for again."""
        way, network, plan = self._way, self._network, self._plan
        self._first = None  # which knows this call: nothing is to be left to the garbage collector
        if isinstance(found, Exception):
            self._flight.crash(found)
            return
        if found.forced:
            way.tally.network(network.name).forced += 1
        try:
            if found.answer is not None and network.may_be_abandoned(plan, found.node_id, self._fork_epoch):
                self._carry(network.plan(plan.method, plan.asked), self._started)
                return
            if found.failure is not None:
                if head_loss.waits(network, plan, found, way.clock()):
                    self._carry(plan, self._started, found)
                    return
            elif network.sight.absence.methods:
                head_loss.reached(network, plan, found.node_id)
            self._steps.append((_FORWARD, way.clock() - self._started))
            outcome = way.answer_handler.conclude(network, plan, found, self._steps)
        except Exception as error:
            self._flight.crash(error)
        else:
            self._flight.land(outcome)

    def _carry(self, plan: Plan, started: float | None, found: Forwarded | None = None) -> None:
        ask = partial(self._way.ask, self._network, plan, self._client, self._steps, started, None, found)
        self._flight.carry(ask, self._context)
