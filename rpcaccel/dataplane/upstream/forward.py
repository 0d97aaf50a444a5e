"""Takes one call to the nodes: drives `core.dispatch.machine` with real sends and tells each node what was learnt.

There is no task beside the caller's own until a hedge is due: an attempt is a plain await. Whatever happens, a permit
is closed and a call counted out exactly once, in the `finally` of its attempt.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from msgspec import Struct

from rpcaccel.core.dispatch.commands import Command, SetTimer, Settle, StartAttempt, dispatch_settings
from rpcaccel.core.dispatch.machine import Dispatch, NodeChooser
from rpcaccel.core.dispatch.outcome import Leg
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.dataplane.upstream.attempts import Attempts
from rpcaccel.dataplane.upstream.chooser import PoolChooser
from rpcaccel.dataplane.upstream.hedging import hedged, report
from rpcaccel.dataplane.upstream.pool import NodePool


class AttemptMachine(Protocol):
    """What has asked nodes: a machine of core.dispatch.machine or core.dispatch.broadcast."""

    tried: list[str]
    """Their ids, each once, in order."""
    steps: list[tuple[str, FailureKind]]
    """The attempts that failed: who, and how."""


class Choosing(NodeChooser, Protocol):
    """Who is asked next, and whether one was taken that is not fit."""

    @property
    def forced(self) -> bool: ...


class Forwarded(Struct, frozen=True, kw_only=True):
    """How a call that was taken to the nodes ended.

    A success has `answer` alone. A node's error that the client may see has both; anything else has `failure` alone.
    """

    answer: Answer | None
    failure: Failure | None
    node_id: str = ""
    """Who answered; empty when nobody was asked."""
    node_head: int = -1
    """That node's head when it was asked: it cannot speak truly of blocks above."""
    attempts: int = 0
    tried: tuple[str, ...] = ()
    steps: tuple[tuple[str, FailureKind], ...] = ()
    """The attempts that failed: who, and how."""
    legs: tuple[Leg, ...] = ()
    forced: bool = False
    """No node was fit, so the least bad was asked."""


async def forward(
    plan: Plan,
    pool: NodePool,
    *,
    deadline: float,
    route_key: bytes = b"",
    chooser: Choosing | None = None,
) -> Forwarded:
    """Ask nodes until one answers, or nothing more may be tried.

    Args:
        deadline: when the call must be over, on the pool's clock.
        route_key: what a hashing balancer hashes; the plan's own when empty.
        chooser: who is asked, where it is not for the balancer alone to say.
    """
    chooser = chooser or PoolChooser(plan, pool.nodes, pool.balancer, pool.rng, route_key=route_key)
    attempts = Attempts(plan, pool)
    settings = dispatch_settings(pool.settings, plan, pool.nodes)
    hedge_after = None if pool.hedging is None else partial(pool.hedging.after, plan.method)
    room = pool.rooms[plan.rule.bulkhead]
    busy_until, again = min(deadline, pool.clock() + room.seconds), False
    while True:
        machine = Dispatch(plan, chooser, pool.budget, settings, ends=deadline, hedge_after=hedge_after)
        commands = machine.start(pool.clock())
        if not _busy(commands) or not await room.wait(busy_until - pool.clock(), again=again):
            break
        again = True
    if _busy(commands):
        room.refused += 1
    end = await drive(attempts, machine, commands)
    return concluded(end, machine, attempts, count=machine.attempts, forced=chooser.forced)


def _busy(commands: list[Command]) -> bool:
    """Is every node that might be asked full at this moment?"""
    (first, *_) = commands
    return isinstance(first, Settle) and first.failure is not None and first.failure.kind is FailureKind.BUSY


async def drive(attempts: Attempts, machine: Dispatch, commands: list[Command]) -> Settle:
    """Carry out what the machine says, one thing after the other; a hedge alone goes beside another attempt."""
    while True:
        command = commands[-1]
        if isinstance(command, Settle):
            return command
        if isinstance(command, StartAttempt):
            reply, kind = await attempts.send(command)
            commands = report(machine, command.attempt, reply, kind, attempts.clock())
        elif isinstance(command, SetTimer):
            first = commands[0]
            if isinstance(first, StartAttempt):
                commands = await hedged(attempts, machine, first, attempts.send(first), command.delay)
            else:
                await asyncio.sleep(command.delay)
                commands = machine.timer(attempts.clock())


def concluded(end: Settle, machine: AttemptMachine, attempts: Attempts, *, count: int, forced: bool) -> Forwarded:
    """How the call ended, from what the machine said last."""
    failure, node = end.failure, end.node
    own = failure is not None and policy(failure.kind).client == "own-error"
    if failure is None and end.answer is not None and machine.steps:
        attempts.compare(end.answer, [node_id for node_id, kind in machine.steps if kind is FailureKind.NODE_BEHIND])
    return Forwarded(
        answer=None if own else end.answer,
        failure=failure,
        node_id="" if node is None else node.id,
        node_head=-1 if node is None else attempts.heads.get(node.id, -1),
        attempts=count,
        tried=tuple(machine.tried),
        steps=tuple(machine.steps),
        legs=attempts.legs(),
        forced=forced,
    )
