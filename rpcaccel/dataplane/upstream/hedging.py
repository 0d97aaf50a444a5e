"""A second attempt beside the first: a hedge, when that is slow, or a retry before its time, when its node hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import copy_context
from math import inf

from rpcaccel.core.dispatch.commands import Command, SetTimer, Settle, StartAttempt
from rpcaccel.core.dispatch.machine import Dispatch
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.attempts import Attempts, CutAs, Reply


async def hedged(
    attempts: Attempts,
    machine: Dispatch,
    first: StartAttempt,
    sending: Awaitable[Reply],
    delay: float,
    *,
    deserted: bool = False,
) -> list[Command]:
    """The first attempt, awaited in place: most calls are answered long before a hedge is due, and need no task.

    Args:
        delay: seconds until a hedge is due; infinite when none will be.
        deserted: the node hangs, so that the second attempt is a retry before its time.
    """
    hedge, loop = Hedge(attempts, machine), asyncio.get_running_loop()
    waiting = attempts.pool.waiting.setdefault(first.node.id, set())
    waiting.add(hedge)
    timer = None if delay == inf else loop.call_later(delay, hedge.desert if deserted else hedge.due)
    try:
        try:
            reply, kind = await sending
        except asyncio.CancelledError:
            if not hedge.stopped_first():
                raise
        else:
            if not hedge.stopped_first():
                hedge.first_ended = True
                commands = report(machine, first.attempt, reply, kind, attempts.clock())
                attempts.cut_as = "overtaken" if kind is None else "cancelled"
                if commands or hedge.task is None:
                    return commands
                await hedge.task
        return hedge.commands
    finally:  # a loser, or whatever is left when the caller leaves: nothing outlives the call
        if timer is not None:
            timer.cancel()
        waiting.discard(hedge)
        hedge.end()
        if hedge.task is not None:
            hedge.task.cancel()
            await asyncio.gather(hedge.task, return_exceptions=True)


class Hedge:
    """A second attempt beside the first, from the moment it is due. Where it decides the call, it stops the first."""

    __slots__ = ("_attempts", "_caller", "_cancelling", "_context", "_machine", "_patience", "_stopped", "commands",
                 "first_ended", "task")  # fmt: skip

    def __init__(self, attempts: Attempts, machine: Dispatch) -> None:
        self._attempts = attempts
        self._machine = machine
        caller = asyncio.current_task()
        assert caller is not None
        self._caller = caller
        self._cancelling = caller.cancelling()
        self._context = copy_context()
        """The caller's: who finds a node to hang has another."""
        self._stopped = False
        self._patience: asyncio.TimerHandle | None = None
        """Until the first is given up, with nobody to ask in its place."""
        self.task: asyncio.Task[None] | None = None
        self.first_ended = False
        self.commands: list[Command] = []
        """What the machine said when it ended."""

    def due(self) -> None:
        """The first is slow."""
        if self._machine.timer_set:
            self._ask(self._machine.timer(self._attempts.clock()))

    def desert(self) -> None:
        """The first is at a node that hangs."""
        if self.task is None and not self.first_ended and not self._stopped:
            self._ask(self._machine.deserted(self._attempts.clock()))

    def _ask(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, StartAttempt):
                self.task = asyncio.get_running_loop().create_task(self._run(command), context=self._context)
            elif isinstance(command, SetTimer):
                self._patience = asyncio.get_running_loop().call_later(command.delay, self.desert)
            elif isinstance(command, Settle):
                self._stop_first(commands, "hung")

    def end(self) -> None:
        """Nothing more is waited for."""
        if self._patience is not None:
            self._patience.cancel()

    async def _run(self, start: StartAttempt) -> None:
        reply, kind = await self._attempts.send(start)
        commands = self.commands = report(self._machine, start.attempt, reply, kind, self._attempts.clock())
        if commands and not self.first_ended:
            self._stop_first(commands, "overtaken" if kind is None else "cancelled")

    def _stop_first(self, commands: list[Command], how: CutAs) -> None:
        self.commands = commands
        self._attempts.cut_as = how
        self._stopped = True
        self._caller.cancel()

    def stopped_first(self) -> bool:
        """Was the first ended by the hedge, and by nobody else? Takes the cancellation back, as asyncio.timeout does;
        raises CancelledError when the caller was cancelled as well."""
        if not self._stopped:
            return False
        if self._caller.uncancel() > self._cancelling:
            raise asyncio.CancelledError
        return True


def report(
    machine: Dispatch,
    attempt: int,
    reply: Answer | Failure,
    kind: FailureKind | None,
    now: float,
) -> list[Command]:
    """Tell the machine how an attempt ended; what it says to that."""
    if isinstance(reply, Failure):
        return machine.failed(attempt, reply, now)
    return machine.answered(attempt, reply, kind, now)
