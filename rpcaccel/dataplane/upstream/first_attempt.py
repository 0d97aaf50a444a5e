"""The first attempt of an ordinary call, without a task and without the machine of attempts.

Most calls are answered well by the first node that is asked. Until that is known not to be so, a call is an attempt on
the books of its node and a callback. When the reply is no good one, or a hedge is due, `core.dispatch.machine` takes
the call over as if it had been there from the beginning (dataplane.upstream.forward), in a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from math import inf

from rpcaccel.core.dispatch.commands import Command, Settle, StartAttempt, dispatch_settings
from rpcaccel.core.dispatch.machine import Dispatch
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.attempts import Attempts, Booking, CutAs, Reply, ask
from rpcaccel.dataplane.upstream.chooser import PoolChooser
from rpcaccel.dataplane.upstream.forward import Forwarded, concluded, drive
from rpcaccel.dataplane.upstream.hedging import hedged, report
from rpcaccel.dataplane.upstream.pool import NodeClient, NodePool
from rpcaccel.dataplane.upstream.trace_context import CURRENT as TRACED

Ended = Callable[[Forwarded | Exception], None]
"""Told how the call ended, once, or by what bug. Must not raise."""


class FirstAttempt:
    """A call with its first attempt under way. `cancel` ends it without a word to anybody."""

    __slots__ = ("_booking", "_chooser", "_context", "_deadline", "_ended", "_leave", "_open", "_plan", "_pool",
                 "_reply", "_task")  # fmt: skip

    def __init__(
        self, plan: Plan, pool: NodePool, chooser: PoolChooser, booking: Booking, deadline: float, ended: Ended
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._chooser = chooser
        self._booking = booking
        self._deadline = deadline
        self._ended = ended
        self._reply: asyncio.Future[Reply] | None = None
        """What a task that took the call over waits for."""
        self._task: asyncio.Task[None] | None = None
        self._open = True
        """Is the attempt on the books?"""
        self._context = copy_context()
        """The caller's: what happens to the attempt is told in that of others."""
        self._leave: Callable[[], object]
        """Cuts the attempt off."""
        start = booking.start
        upstream = pool.upstreams[start.node.id]
        if TRACED.get() is None:
            under_way = upstream.call(plan.method, plan.params, timeout=start.timeout, done=self._replied)
            self._leave = under_way.cancel
        else:
            self._leave = asyncio.get_running_loop().create_task(self._send(upstream)).cancel

    def __repr__(self) -> str:
        return f"<first attempt of {self._plan.method} on {self._booking.node.id}>"

    @property
    def node_id(self) -> str:
        """Who has the attempt."""
        return self._booking.node.id

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        if self._task is not None:
            self._task.cancel()
        self._pool.late.drop(self)
        self._give_up("cancelled")  # here and now: a task that has not begun is never told

    def late(self) -> None:
        """A hedge is due: a task takes over, with the attempt as it is."""
        self._go_beside(deserted=False)

    def desert(self) -> None:
        """The node was found to hang: the same, for a retry before its time."""
        self._go_beside(deserted=True)

    def _go_beside(self, *, deserted: bool) -> None:
        self._reply = asyncio.get_running_loop().create_future()
        machine, attempts = self._machine(timer_set=True)
        self._take_over(machine, attempts, partial(self._beside, machine, attempts, deserted=deserted))

    async def _send(self, upstream: NodeClient) -> None:
        """Where the call is traced."""
        try:
            reply = await ask(upstream, self._plan, self._booking.start)
        except Exception as error:
            self._close()
            self._crash(error)
        else:
            self._replied(reply)

    def _replied(self, reply: Answer | Failure) -> None:
        try:
            try:
                kind = self._booking.replied(reply)
            finally:
                self._close()
            if self._reply is None:
                self._pool.late.drop(self)
                self._judged(reply, kind)
            elif not self._reply.done():
                self._reply.set_result((reply, kind))
        except Exception as error:
            self._crash(error)

    def _crash(self, error: Exception) -> None:
        if self._reply is None:
            self._pool.late.drop(self)
            self._ended(error)
        elif not self._reply.done():
            self._reply.set_exception(error)

    def _judged(self, reply: Answer | Failure, kind: FailureKind | None) -> None:
        if kind is None and isinstance(reply, Answer):
            booking, chooser = self._booking, self._chooser
            node = booking.node.id
            self._ended(
                Forwarded(
                    answer=reply,
                    failure=None,
                    node_id=node,
                    node_head=booking.head,
                    attempts=1,
                    tried=(node,),
                    forced=chooser.forced,
                )
            )
            return
        machine, attempts = self._machine(timer_set=False)
        commands = report(machine, self._booking.start.attempt, reply, kind, self._pool.clock())
        if isinstance(end := commands[-1], Settle):
            self._ended(concluded(end, machine, attempts, count=machine.attempts, forced=self._chooser.forced))
        else:
            self._take_over(machine, attempts, partial(_as_they_are, commands))

    def _machine(self, *, timer_set: bool) -> tuple[Dispatch, Attempts]:
        plan, pool, booking = self._plan, self._pool, self._booking
        settings = dispatch_settings(pool.settings, plan, pool.nodes)
        hedge_after = None if pool.hedging is None else partial(pool.hedging.after, plan.method)
        machine = Dispatch(plan, self._chooser, pool.budget, settings, ends=self._deadline, hedge_after=hedge_after)
        machine.begun(booking.start, booking.began, timer_set=timer_set)
        attempts = Attempts(plan, pool)
        attempts.take(booking)
        return machine, attempts

    def _take_over(self, machine: Dispatch, attempts: Attempts, before: Callable[[], Awaitable[list[Command]]]) -> None:
        going_on = self._go_on(machine, attempts, before)
        self._task = asyncio.get_running_loop().create_task(going_on, context=self._context)

    async def _go_on(
        self, machine: Dispatch, attempts: Attempts, before: Callable[[], Awaitable[list[Command]]]
    ) -> None:
        try:
            commands = await before()
            end = await drive(attempts, machine, commands)
            forwarded = concluded(end, machine, attempts, count=machine.attempts, forced=self._chooser.forced)
        except Exception as error:
            self._ended(error)
        else:
            self._ended(forwarded)

    async def _beside(self, machine: Dispatch, attempts: Attempts, *, deserted: bool) -> list[Command]:
        return await hedged(attempts, machine, self._booking.start, self._wait(attempts), 0.0, deserted=deserted)

    async def _wait(self, attempts: Attempts) -> Reply:
        """The attempt under way, for the task that took over."""
        assert self._reply is not None
        try:
            return await self._reply
        except asyncio.CancelledError:
            self._give_up(attempts.cut_as)
            raise

    def _give_up(self, how: CutAs) -> None:
        if not self._open:
            return
        booking = self._booking
        self._leave()
        booking.cut(how)
        self._close()

    def _close(self) -> None:
        self._open = False
        self._booking.close()


async def _as_they_are(commands: list[Command]) -> list[Command]:
    return commands


def begin(plan: Plan, pool: NodePool, *, deadline: float, route_key: bytes, ended: Ended) -> FirstAttempt | None:
    """Ask the first node, where that can be done without a task; None: it cannot, and nothing was done."""
    if plan.rule.kind != "read":
        return None
    now = pool.clock()
    if now >= deadline:
        return None
    chooser = PoolChooser(plan, pool.nodes, pool.balancer, pool.rng, route_key=route_key)
    node = chooser.next((), now)
    if node is None:
        return None
    pool.budget.call(now)
    start = StartAttempt(1, node, min(node.timeout, deadline - now))
    first = FirstAttempt(plan, pool, chooser, Booking(plan, pool, start, now), deadline, ended)
    hedging = pool.hedging
    if hedging is not None and plan.hedge and len(pool.nodes) > 1 and pool.settings.attempts > 1:
        delay = hedging.after(plan.method, node)
        pool.late.add(first, delay if delay is not None and now + delay < deadline else inf)
    return first
