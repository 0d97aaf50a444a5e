"""A fetch takes one miss to its outcome, driven by callbacks and timers, without a task.

    disk, Redis -> nodes <-> room, head -> landed

The tiers behind memory are asked first, where they may hold the answer (dataplane.engine.store_lookup). Then nodes are
asked, as the machine of core.dispatch says. Where every node is full, the call waits for room. Where the nodes that
have its block are gone, it waits for another one and then follows the best node left (dataplane.engine.head_loss). An
answer that may belong to an abandoned branch is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from enum import Enum
from functools import partial
from math import inf
from typing import Any

from msgspec import field

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.dispatch.dispatch_policy import Settle, without_pause
from rpcaccel.core.dispatch.machine import Dispatch, NextStep, NodeChooser
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import Step
from rpcaccel.dataplane.engine import head_loss
from rpcaccel.dataplane.engine.answer_check import AnswerCheck
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.engine.single_flight import Flight
from rpcaccel.dataplane.engine.store_lookup import StoreLookup
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.attempt import Attempt, CutAs, concluded
from rpcaccel.dataplane.upstream.chooser import CallOrigin, Chooser, Separation
from rpcaccel.stores.base import Lease

_FORWARD = Step.FORWARD  # looked up once (core.plan.planner)
LOOK_TIME = 0.1
"""Seconds for the news of a look to go from a node through the control plane to the workers, beside two calls."""


class Asking(Enum):
    """What the nodes are asked for, and which of them."""

    CALL = "the call as it is planned"
    LOWER = "the call at the head of the best node left"
    LAST = "whoever is left, since there was nobody to wait for"


_CALL, _LOWER, _LAST = Asking


class Fetch(Flight, eq=False, kw_only=True):
    """One call under way. However it ends, nothing of it stays with a node, in a queue or on a timer."""

    shared: FetchContext
    network: Network
    plan: Plan
    """The call as it was planned last."""
    origin: CallOrigin
    ends: float = inf
    """When the fetch must be over (monotonic seconds). Infinite: `start` sets it by the deadline of the network."""
    only: NodeChooser | None = None
    """Chooses the one node that may be asked, so that no other is waited for or followed; None: any may be."""
    separation: Separation | None = None
    """Keeps the fetch from the nodes that fetches beside it ask; None: there are none."""
    sole: bool = False
    """Do other processes fetch the same at the same time, so that one of them is to ask for all?"""
    _fork_epoch: int = 0
    """The fork epoch at which the call was planned that is taken to the nodes."""
    _open: bool = True
    _started: float = 0.0
    """When the fetch began, or when the tiers behind memory had answered."""
    _followed_to: float = inf
    """The head of the node that was followed last, below which another one may be followed."""
    _lookup: StoreLookup | None = None
    _lease: Lease | None = None
    _task: asyncio.Task[None] | None = None
    _machine: Dispatch | None = None
    _check: AnswerCheck | None = None
    _attempts: list[Attempt] = field(default_factory=list)
    """The attempts of this asking, those that are over among them."""
    _timed: tuple[tuple[Step, float], ...] = ()
    """The tiers behind memory that were asked, and how long each took (seconds)."""
    _asking: Asking = _CALL
    _without: Collection[str] = ()
    """Ids of the nodes that are not asked."""
    _found: Forwarded | None = None
    """What the nodes said before the call waited for another node."""
    _busy_until: float = 0.0
    _waited_for_block: bool = False
    """Has the call waited for nodes at the head?"""
    _watched: bool = False
    """May the call be hedged?"""
    _in_room: bool = False
    """Is the call in the queue for room?"""
    _then: Callable[[], None] | None = None
    """What follows when the view changes or a node comes along; None: the call does not wait for that."""
    _told_until: float = inf
    """Until when the answer waits for its block to be served (monotonic seconds); infinite before it waits."""

    def __repr__(self) -> str:
        return f"<fetch of {self.plan.method} with {len(self._attempts)} attempts>"

    def start(self) -> None:
        """Ask the tiers behind memory, if there are any that may have the answer, else the nodes."""
        shared, network, plan = self.shared, self.network, self.plan
        self._fork_epoch = network.sight.view.fork_epoch
        self._started = shared.clock()
        if self.ends == inf:
            self.ends = self._started + network.settings.deadline
        behind_memory = (shared.shared and plan.shared_keys) or (shared.on_disk and plan.lasting_key is not None)
        if behind_memory and not plan.rule.fresh:
            mode = "always" if self.sole else shared.single_flight
            self._lookup = StoreLookup(shared, network, plan, self._looked, self.stumble, ends=self.ends, mode=mode)
            self._lookup.begin()
        else:
            self._ask_nodes(_CALL, plan)

    def cancel(self) -> None:
        """Stop the fetch without an outcome."""
        self._close("cancelled")

    def _looked(self, entry: Entry | None, lease: Lease | None) -> None:
        """Take what the tiers behind memory have of the call; where they have nothing, ask the nodes."""
        shared, lookup = self.shared, self._lookup
        assert lookup is not None
        self._lookup, self._lease = None, lease
        if entry is None:
            self._timed = lookup.timed
            self._started = shared.clock()
            self._run(self._ask_nodes, _CALL, self.plan)
        else:
            for step, seconds in lookup.timed:
                shared.tally.step(step, seconds)
            steps = tuple((step.value, seconds) for step, seconds in lookup.timed)
            self._end(Outcome(source=lookup.source, result=entry.result, block=self.plan.head, steps=steps,
                              proved=entry.proved))  # fmt: skip

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _ask_nodes(self, asking: Asking, plan: Plan, without: Collection[str] = (), *, again: bool = False) -> None:
        """Ask the nodes for `plan`, except those whose id is in `without`. `again`: the call waited for room."""
        network, shared = self.network, self.shared
        pool, now, sends = network.pool, shared.clock(), shared.sends
        if asking is _CALL:
            if network.sight.view.fork_epoch != self._fork_epoch and self.only is None:
                # By the old plan, a node on a branch that was left might be asked. What was found false is of that.
                plan, self._check = network.replan(plan), None
            self.plan, self._fork_epoch = plan, network.sight.view.fork_epoch
        self._asking, self._without = asking, without
        if plan.rule.kind == "send":
            self._task = asyncio.get_running_loop().create_task(self._broadcast(plan))
            return
        if self.only is not None:
            chooser = self.only
        else:
            nodes = [node for node in pool.nodes if node.id not in without] if without else pool.nodes
            address = self.origin.address
            preferred = sends.holders(network, plan, address) if sends.recent.hashes else ()
            if plan.terms is not None:
                preferred = plan.terms.others(node.id for node in nodes)
            chooser = Chooser(plan, nodes, pool.balancer, pool.rng, plan.route_key or address.encode(), preferred,
                              self.separation, last=asking is _LAST)  # fmt: skip
        self._attempts = []
        self._machine = machine = Dispatch(
            plan,
            chooser,
            pool.budget,
            without_pause(pool.settings) if self._waited_for_block else pool.settings,
            pool.nodes,
            ends=self.ends,
            hedge_after=None if pool.hedging is None or len(pool.nodes) < 2 else pool.hedging.after,
            known=network.sight.hashes.named_in,
        )
        done = machine.start(now)
        if isinstance(done, Settle) and done.failure is not None and done.failure.kind is FailureKind.BUSY:
            room = pool.rooms[plan.rule.bulkhead]
            if not again:
                self._busy_until = min(self.ends, now + room.seconds)
            if room.wait(self._look_again, self._busy_until - now, again=again):
                self._in_room = True
                return
            room.refused += 1
        self._obey(done, machine)

    def _look_again(self) -> None:
        """Try again: a node may have room now."""
        self._in_room = False
        if self._machine is not None:
            self._run(partial(self._ask_nodes, again=True), self._asking, self._machine.plan, self._without)

    def _obey(self, done: NextStep, machine: Dispatch) -> None:
        """Do what the machine said after an event."""
        if isinstance(done, Settle):
            self._nodes_said(done, machine)
            return
        pool, clock = self.network.pool, self.shared.clock
        if done is not None:
            self._attempts.append(Attempt(machine.plan, pool, done, clock(), self._replied, self.origin))
        if machine.hedged or machine.due != inf:
            self._watched = True
            pool.hedged.add(self, machine.due - clock())
        elif self._watched:
            self._unwatch()

    def _unwatch(self) -> None:
        self._watched = False
        self.network.pool.hedged.pop(self, None)

    def _replied(self, attempt: Attempt, reply: Answer | Failure, kind: FailureKind | None) -> None:
        """Take in how an attempt ended, which is booked on its node."""
        machine = self._machine
        if not self._open or machine is None:
            return
        try:
            number, now = attempt.asked.number, self.shared.clock()
            if isinstance(reply, Failure):
                done = machine.failed(number, reply, now)
            else:
                done = machine.answered(number, reply, kind, now)
            if not isinstance(done, Settle):
                self._obey(done, machine)
                return
            if len(self._attempts) > 1:
                self._cut("overtaken" if kind is None else "cancelled")
            self._nodes_said(done, machine)
        except Exception as error:
            self.stumble(error)

    @property
    def waits_for(self) -> str:
        """The id of the node that the call waits for; empty when it waits for none or for several."""
        under_way = self._under_way()
        return under_way[0].node.id if len(under_way) == 1 else ""

    def overdue(self) -> None:
        """Tell the machine that the time has come for which it wanted a tick."""
        if (machine := self._machine) is not None and machine.due != inf:
            self._take_event(machine, machine.tick)

    def abandon(self, *, silent: bool = True) -> None:
        """Tell the machine that the node that the call waits for was left alone."""
        if (machine := self._machine) is not None and machine.hedged and len(self._under_way()) == 1:
            self._take_event(machine, partial(machine.abandoned, silent=silent))

    def _take_event(self, machine: Dispatch, event: Callable[[float], NextStep]) -> None:
        try:
            done = event(self.shared.clock())
            if isinstance(done, Settle):
                self._cut("cancelled" if done.failure is None else "hung")
            self._obey(done, machine)
        except Exception as error:
            self.stumble(error)

    def _cut(self, how: CutAs) -> None:
        for attempt in self._under_way():
            attempt.cut(how)

    def _under_way(self) -> list[Attempt]:
        return [attempt for attempt in self._attempts if attempt.ended is None]

    async def _broadcast(self, plan: Plan) -> None:
        """Send a transaction."""
        try:
            said = await self.shared.send(self.network, plan, self.origin, self.ends)
            self._task = None
            self._judge(plan, said)
        except Exception as error:
            self.stumble(error)

    # -- what the nodes said --------------------------------------------------------------------------------------

    def _nodes_said(self, end: Settle, machine: Dispatch) -> None:
        """Decide what follows from the end of the attempts."""
        if self._watched:
            self._unwatch()
        plan, forced = machine.plan, machine.chooser.forced
        if end.failure is None and end.answer is not None and (machine.steps or machine.doubted is not None):
            self.shared.beside.learn(self.network, end, machine)
        if forced:
            self.shared.tally.network(self.network.name).forced += 1
        said = concluded(end, machine, self._attempts, count=machine.attempts, forced=forced)
        self._machine = None
        if said.failure is not None and self._check is not None and self._check.doubted:
            self._accept(plan, self._check.doubted.pop(0), checked=True)
        elif self.only is not None:
            self._end(self.shared.conclude(self.network, plan, said, ()))
        elif self._asking is _LOWER:
            self._followed(plan, said)
        elif said.failure is None:
            if self.network.sight.absence.methods:
                head_loss.reached(self.network, plan, said.node_id)
            self._accept(plan, said)
        else:
            self._judge(plan, said)

    def _judge(self, plan: Plan, said: Forwarded) -> None:
        """Decide after a failure: conclude, wait for another node, follow the best node left, or ask the last ones."""
        network, now = self.network, self.shared.clock()
        # 1. Nobody is to be waited for.
        if self._asking is _LAST or not head_loss.waits(network, plan, said, now):
            self._accept(plan, said)
            return
        lower = head_loss.lower(network, plan, now)
        self._found, self._waited_for_block = said, True
        patient_until = min(self.ends, self._started + head_loss.patience(network, said.failure))
        until = head_loss.wait_until(network, plan, said, lower, now, patient_until)
        # 2. A node may come along in time.
        if now < until:
            self._await_view(until - now, partial(self._go_on, said))
        # 3. None came, and the best node left can answer at its own head.
        elif lower is not None:
            if self._may_go_on(plan, said):
                self._ask_nodes(_LOWER, lower, said.tried)
        # 4. None came, and what a node said is told.
        elif said.tried:
            self._accept(plan, said)
        # 5. None came, and no node was asked: whoever is left is.
        else:
            self._ask_nodes(_LAST, plan)

    def _await_view(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` when the view changes or a node comes along, or after `seconds`."""
        self._then = then
        self.network.sight.wait(seconds, self._changed)

    def _changed(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            self._run(then)

    def _go_on(self, said: Forwarded) -> None:
        network, plan = self.network, self.plan
        if self._may_go_on(plan, said):
            self._ask_nodes(_CALL, head_loss.after_a_wait(network, plan, self.shared.clock()))

    def _may_go_on(self, plan: Plan, said: Forwarded) -> bool:
        """Pay for asking nodes again; False, with the call concluded, when that may not be."""
        now = self.shared.clock()
        if now < self.ends and head_loss.paid(self.network, plan, said, now):
            return True
        self._accept(plan, said)
        return False

    def _followed(self, lower: Plan, said: Forwarded) -> None:
        """Take the answer of the best node left, which was asked for the call at its own head."""
        plan = self.plan
        if head_loss.lacks(said) and lower.head < self._followed_to:
            self._followed_to, self._asking = lower.head, _CALL
            self._judge(plan, said)  # another node further behind may have it
        elif said.answer is None:
            self._accept(plan, self._found or said)
        else:
            self._accept(lower, said)

    def _accept(self, plan: Plan, said: Forwarded, *, checked: bool = False) -> None:
        """Conclude with what the nodes said; ask again when it may be an answer of an abandoned branch, also where the
        branch was left while the answer waited for something. What was found before a wait for nodes is concluded with
        when nothing better came: to ask again would not be paid. `checked`: the answer was judged."""
        shared, network = self.shared, self.network
        if (
            said.answer is not None
            and said is not self._found
            and plan.rule.kind == "read"
            and (plan.flight_key is not None or plan.rule.fresh)
            and network.may_be_abandoned(plan, said.node_id, self._fork_epoch)
        ):
            self._ask_nodes(_CALL, network.replan(plan))
        elif plan.rule.shows and said.failure is None and not checked and network.proves:
            if self._check is None:
                accept = partial(self._run, partial(self._accept, checked=True))
                again = partial(self._run, self._ask_nodes, _CALL)
                self._check = AnswerCheck(shared, network, self.origin, accept, again, ends=self.ends)
            self._check.take(plan, said)
        elif not (plan.rule.head_at and shared.hint(network, plan, said) and self._waits_for_its_block(plan, said)):
            timed = (*self._timed, (_FORWARD, shared.clock() - self._started))
            outcome = shared.conclude(network, plan, said, timed)
            self._close("cancelled")
            self.land(outcome)
            if said.answer is not None and self.separation is None:  # fetches beside one another are compared anyhow
                sampling = network.sampling
                sampling.credit += sampling.settings.share
                if sampling.credit >= 1.0 and said.failure is None and not said.forced:
                    shared.beside.consider(network, plan, outcome)

    def _waits_for_its_block(self, plan: Plan, said: Forwarded) -> bool:
        """Let a receipt of a block above the served head wait until its block is served: a client that has it expects
        every later read to know the block. The node that gave the receipt is looked at meanwhile, and then the others.
        That takes about two calls' time. A chain may give receipts before there is a block: the wait is no longer."""
        if plan.rule.names_transaction is None:
            return False
        now = self.shared.clock()
        if self._told_until == inf:
            pause = self.network.pool.settings.behind_pause or LOOK_TIME
            self._told_until = min(self.ends, now + min(pause, LOOK_TIME + 2 * (now - self._started)))
        if now >= self._told_until:
            return False
        self._await_view(self._told_until - now, partial(self._accept, plan, said, checked=True))
        return True

    # -- the end --------------------------------------------------------------------------------------------------

    def _run(self, event: Callable[..., None], *about: Any) -> None:
        """Run `event`, unless the call is over; an exception ends the call."""
        if not self._open:
            return
        try:
            event(*about)
        except Exception as error:
            self.stumble(error)

    def _end(self, outcome: Outcome) -> None:
        self._close("cancelled")
        self.land(outcome)

    def stumble(self, error: Exception) -> None:
        if self._open:
            self._close("cancelled")
            self.land(error)

    def _close(self, how: CutAs) -> None:
        """Remove the call from every node, queue and timer. `how`: what becomes of attempts under way."""
        if not self._open:
            return
        self._open = False
        if self._machine is not None:
            self._cut(how)
        if self._watched:
            self._unwatch()
        if self._in_room and self._machine is not None:
            self.network.pool.rooms[self._machine.plan.rule.bulkhead].leave(self._look_again)
        if self._then is not None:
            self.network.sight.leave(self._changed)
        if self._lookup is not None:
            self._lookup.cancel()
        if self._check is not None:
            self._check.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._lease is not None:
            self.shared.leasing.release(self._lease)
        # What knows this call: no ring of objects is to be left.
        self._machine = self.only = self._lookup = self._check = self._then = None
