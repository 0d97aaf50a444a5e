"""Gathers calls that wait for one node into batches (core.dispatch.batching decides when).

Stands before an upstream and looks just like it. Only reads that a rule describes as light are gathered, and only they
take slots: nothing waits here for a heavy call, a write or an unknown method. Each keeps its own deadline and its own
failure, and what a batch did not answer is asked again alone. A task is needed for each HTTP
request and none for a call: whoever offers one is called back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from rpcaccel.core.dispatch.batching import MOST_BYTES, Gathering
from rpcaccel.core.plan.rules import Bulkhead, Rule, RuleTable
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.pool import Deadlines
from rpcaccel.dataplane.upstream.trace_context import FORWARDED

_BATCH_FAULTS = frozenset(
    {
        FailureKind.UNKNOWN,
        FailureKind.NOT_JSON_RPC,
        FailureKind.WRONG_ID,
        FailureKind.HTTP_STATUS,
        FailureKind.CALL_REFUSED,
        FailureKind.BROKEN_REPLY,
        FailureKind.OVERSIZED,
    }
)
"""Failures that may be the batch's and not the call's: the item is asked again alone."""
Done = Callable[[Answer | Failure], None]
"""Told the reply, once. Must not raise."""


class Sender(Protocol):
    """The session of one node, as far as gathering needs it."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        """One call."""
        ...

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        """Several calls, answered in their order."""
        ...


class Offered:
    """One call that is on its way, or waits for a slot."""

    __slots__ = ("done", "method", "params", "sent", "task", "timeout", "until")

    def __init__(self, method: str, params: bytes, timeout: float, until: float, done: Done) -> None:
        self.method = method
        self.params = params
        self.timeout = timeout
        self.until = until
        self.sent = False
        self.done: Done | None = done
        """None once it has its reply, or nobody wants one."""
        self.task: asyncio.Task[None] | None = None
        """What carries it, others in its company perhaps; None as long as it waits."""

    def settle(self, reply: Answer | Failure) -> None:
        """This is its reply; the first one counts."""
        done, self.done = self.done, None
        if done is not None:
            done(reply)


class Gatherer:
    """One node's upstream, with waiting calls gathered."""

    def __init__(
        self, upstream: Sender, rules: RuleTable, most_slots: int, clock: Callable[[], float], state: Gathering
    ) -> None:
        self.upstream = upstream
        self._rules = rules
        self._most_slots = most_slots
        self._clock = clock
        self._waiting: deque[Offered] = deque()
        self._deadlines: Deadlines[Offered] = Deadlines(_expire)
        self._slots: dict[object, float] = {}
        """Since when each request under way has its slot, the oldest first; one that takes very long has none."""
        self._patience: asyncio.TimerHandle | None = None
        """While calls wait: when to look whether a slot has been held too long."""
        self._alone_now: set[asyncio.Task[None]] = set()
        """Those whose caller may end them by leaving."""
        self._turn_since: float | None = None
        """Since when calls are collected that go at the end of this turn of the loop."""
        self.state = state
        self._batches = 0
        """Under way."""

    def __repr__(self) -> str:
        return f"<gatherer {len(self._slots)} slots taken, {len(self._waiting)} waiting>"

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        """One call, alone or in company. Never takes longer than `timeout` seconds.

        A request has one header for the trace it belongs to, so a call of which the node is told one goes alone.
        """
        if not may_travel_together(self._rules.get(method)):
            return await self.upstream.send(method, params, timeout=timeout)
        if FORWARDED.get():
            return await self._alone(method, params, timeout)
        reply: asyncio.Future[Answer | Failure] = asyncio.get_running_loop().create_future()

        def done(told: Answer | Failure) -> None:
            if not reply.done():
                reply.set_result(told)

        offered = self.offer(method, params, timeout, done)
        try:
            return await reply
        except asyncio.CancelledError:
            self.leave(offered)
            raise

    def offer(self, method: str, params: bytes, timeout: float, done: Done) -> Offered:
        """The same without a task of the caller's, for a call that `may_travel_together`: `done` is told the reply."""
        now = self._clock()
        offered = Offered(method, params, timeout, now + timeout, done)
        busy = self.state.called(now)
        free = self._is_free(now)
        if (free and not busy) or not self.state.allowed(now):
            self._start([offered])
            return offered
        self._waiting.append(offered)
        self._deadlines.add(offered, timeout)
        if free and self._turn_since is None:
            self._turn_since = now
            asyncio.get_running_loop().call_soon(self._end_of_turn)
        elif not free and self._patience is None:
            self._wait_for_a_slot()
        return offered

    def leave(self, offered: Offered) -> None:
        """Nobody waits for it any more: it is not sent, if it was not yet, and cut off if it travels alone."""
        offered.done = None
        self._deadlines.drop(offered)
        if offered.task in self._alone_now:
            offered.task.cancel()

    async def _alone(self, method: str, params: bytes, timeout: float) -> Answer | Failure:
        slot = object()
        self._slots[slot] = self._clock()
        try:
            reply = await self.upstream.send(method, params, timeout=timeout)
        finally:
            self._slots.pop(slot, None)
            self._go_on()
        if isinstance(reply, Answer):
            self.state.single_took(reply.elapsed)
        return reply

    def _is_free(self, now: float) -> bool:
        """Is there a slot, those taken from requests that take very long among them?"""
        slots, most = self._slots, self.state.slots(self._most_slots)
        if len(slots) < most:
            return True
        lost = now - self.state.patience()
        while slots and slots[oldest := next(iter(slots))] <= lost:
            del slots[oldest]
        return len(slots) < most

    def _wait_for_a_slot(self) -> None:
        self._patience = asyncio.get_running_loop().call_later(self.state.patience(), self._look_for_a_slot)

    def _look_for_a_slot(self) -> None:
        self._patience = None
        self._go_on()
        if self._waiting:
            self._wait_for_a_slot()

    def _end_of_turn(self) -> None:
        if self._turn_since is not None:
            self.state.turn_took(self._clock() - self._turn_since)
        self._turn_since = None
        self._go_on()

    def _go_on(self) -> None:
        """What waits goes on its way, as far as slots are free."""
        while self._waiting and self._is_free(self._clock()):
            items = self._take()
            if not items:
                return
            self._start(items)

    def _start(self, items: list[Offered]) -> None:
        self._batches += len(items) > 1
        task = asyncio.get_running_loop().create_task(self._travel(items))
        self._slots[items[0]] = self._clock()
        for item in items:
            item.task, item.sent = task, True

    def _take(self) -> list[Offered]:
        """The next calls to travel together; those whose callers left are forgotten."""
        may = self.state.allowed(self._clock()) and (self.state.proved or not self._batches)
        limit = self.state.together() if may else 1
        items: list[Offered] = []
        size = 0
        while self._waiting and len(items) < limit and size < MOST_BYTES:
            waiting = self._waiting.popleft()
            if waiting.done is not None:
                items.append(waiting)
                size += len(waiting.params)
        return items

    async def _travel(self, items: list[Offered]) -> None:
        """One HTTP request. No call is left without a reply, whatever ends it."""
        FORWARDED.set("")  # the task is begun by whoever makes room, whose trace is not that of these calls
        try:
            if len(items) == 1:
                await self._travel_alone(items[0])
            else:
                await self._travel_together(items)
        finally:
            self._slots.pop(items[0], None)
            self._batches -= len(items) > 1
            for item in items:
                if item.done is not None and item.task is not None:
                    item.settle(Failure(FailureKind.UNKNOWN, "the call failed in an unforeseen way"))
            self._go_on()

    async def _travel_alone(self, item: Offered) -> None:
        if item.done is None:
            return  # who wanted it left before it went
        task = item.task
        assert task is not None
        self._alone_now.add(task)
        try:
            reply = await self.upstream.send(item.method, item.params, timeout=item.until - self._clock())
        finally:
            self._alone_now.discard(task)
            self._deadlines.drop(item)
        if isinstance(reply, Answer):
            self.state.single_took(reply.elapsed)
        item.settle(reply)

    async def _travel_together(self, items: list[Offered]) -> None:
        started = self._clock()
        timeout = max(item.until for item in items) - started
        replies = await self.upstream.send_batch([(item.method, item.params) for item in items], timeout=timeout)
        now = self._clock()
        apart = []
        for item, reply in zip(items, replies, strict=True):
            if isinstance(reply, Failure) and reply.kind in _BATCH_FAULTS:
                if item.done is not None:
                    item.task = None
                    apart.append(item)
            else:
                self._deadlines.drop(item)
                item.settle(reply)
        if apart:
            self.state.refused(now)
            # Taken apart: in front of the queue, each alone now that the node gets no batches.
            self._waiting.extendleft(reversed(apart))
        elif all(isinstance(reply, Answer) for reply in replies):
            self.state.batch_took(len(items), now - started, now)


def may_travel_together(rule: Rule) -> bool:
    """Light reads only: any other call may hold up the rest, and a write is nobody's company."""
    return rule.bulkhead is Bulkhead.LIGHT and rule.kind == "read" and rule.repeat


def _expire(offered: Offered) -> None:
    text = f"no answer within {offered.timeout:.3g} s"
    offered.settle(Failure(FailureKind.TIMEOUT, text, sent=offered.sent))
