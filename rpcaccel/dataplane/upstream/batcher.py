"""Gathers calls that wait for one node into batches (core.dispatch.batching decides when).

Stands before a node's client and looks just like it. Only reads that a rule describes as light are gathered, and only
they take slots: nothing waits here for a heavy call, a write or an unknown method. Each keeps its own deadline and its
own failure, and what a batch did not answer is asked again alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from rpcaccel.core.dispatch.batching import MOST_BYTES, Gathering
from rpcaccel.core.plan.rules import Bulkhead, Rule, RuleTable
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.pool import Deadlines, Done, UnderWay

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


class Sender(Protocol):
    """The client of one node, as far as gathering needs it."""

    def call(self, method: str, params: bytes, *, timeout: float, done: Done, span: str = "") -> UnderWay:
        """One call."""
        ...

    def batch(
        self, calls: Sequence[tuple[str, bytes]], *, timeout: float, done: Callable[[list[Answer | Failure]], None]
    ) -> UnderWay:
        """Several calls, answered in their order."""
        ...


class Offered:
    """One call that is on its way, or waits for a slot."""

    __slots__ = ("_batcher", "alone", "done", "method", "params", "sent", "span", "timeout", "until")

    def __init__(
        self, batcher: Batcher, method: str, params: bytes, timeout: float, until: float, done: Done, span: str
    ) -> None:
        self._batcher = batcher
        self.method = method
        self.params = params
        self.timeout = timeout
        self.until = until
        self.sent = False
        self.span = span
        """What the node is told of the call's trace; a batch has no header for it."""
        self.done: Done | None = done
        """None once it has its reply, or nobody wants one."""
        self.alone: UnderWay | None = None
        """The request that carries this call and no other; None as long as it waits or travels in company."""

    def __repr__(self) -> str:
        return f"<offered {self.method}{' sent' * self.sent}>"

    def settle(self, reply: Answer | Failure) -> None:
        """This is its reply; the first one counts."""
        done, self.done = self.done, None
        if done is not None:
            done(reply)

    def cancel(self) -> None:
        """Nobody waits for it any more: it is not sent, if it was not yet, and cut off if it travels alone."""
        self._batcher.leave(self)


class Batcher:
    """One node's client, with waiting calls gathered."""

    def __init__(
        self, client: Sender, rules: RuleTable, most_slots: int, clock: Callable[[], float], state: Gathering
    ) -> None:
        self.client = client
        self._rules = rules
        self._together: dict[str, bool] = {}
        """Whether calls of a method may travel together, by the names that the chain's table has."""
        self._most_slots = most_slots
        self._clock = clock
        self._waiting: deque[Offered] = deque()
        self._deadlines: Deadlines[Offered] = Deadlines(_expire)
        self._slots: dict[Offered, float] = {}
        """Since when each request under way has its slot, the oldest first; one that takes very long has none."""
        self._patience: asyncio.TimerHandle | None = None
        """While calls wait: when to look whether a slot has been held too long."""
        self._turn_since: float | None = None
        """Since when calls are collected that go at the end of this turn of the loop."""
        self.state = state
        self._batches = 0
        """Under way."""

    def __repr__(self) -> str:
        return f"<batcher {len(self._slots)} slots taken, {len(self._waiting)} waiting>"

    def call(self, method: str, params: bytes, *, timeout: float, done: Done, span: str = "") -> UnderWay:
        """One call, alone or in company; `done` is told its reply within `timeout` seconds.

        A request has one header for the trace it belongs to, so a call of which the node is told one goes alone.
        """
        together = self._together.get(method)
        if together is None:
            rule = self._rules.get(method)
            together = may_travel_together(rule)
            if rule.known:  # other names are unbounded
                self._together[method] = together
        if not together:
            return self.client.call(method, params, timeout=timeout, done=done, span=span)
        now = self._clock()
        offered = Offered(self, method, params, timeout, now + timeout, done, span)
        busy = self.state.called(now)
        free = self._is_free(now)
        if span or (free and not busy) or not self.state.allowed(now):
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
        """Nobody waits for a call any more."""
        offered.done = None
        self._deadlines.drop(offered)
        if offered.alone is not None:
            offered.alone.cancel()
            self._landed(offered)

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
        """One HTTP request."""
        first, now = items[0], self._clock()
        self._slots[first] = now
        for item in items:
            item.sent = True
        if len(items) == 1:
            first.alone = self.client.call(
                first.method,
                first.params,
                timeout=first.until - now,
                done=partial(self._answered_alone, first),
                span=first.span,
            )
            return
        self._batches += 1
        self.client.batch(
            [(item.method, item.params) for item in items],
            timeout=max([item.until for item in items]) - now,
            done=partial(self._answered_together, items, now),
        )

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

    def _answered_alone(self, item: Offered, reply: Answer | Failure) -> None:
        if isinstance(reply, Answer):
            self.state.single_took(reply.elapsed)
        self._deadlines.drop(item)
        self._landed(item)
        item.settle(reply)

    def _landed(self, first: Offered) -> None:
        """A request is over: its slot is the next one's, which is on its way before the reply is looked at."""
        first.alone = None
        self._slots.pop(first, None)
        if self._waiting:
            self._go_on()

    def _answered_together(self, items: list[Offered], started: float, replies: list[Answer | Failure]) -> None:
        now = self._clock()
        self._batches -= 1
        apart = [
            item
            for item, reply in zip(items, replies, strict=True)
            if isinstance(reply, Failure) and reply.kind in _BATCH_FAULTS
        ]
        if apart:
            self.state.refused(now)
            # Taken apart: in front of the queue, each alone now that the node gets no batches.
            self._waiting.extendleft(item for item in reversed(apart) if item.done is not None)
        elif all(isinstance(reply, Answer) for reply in replies):
            self.state.batch_took(len(items), now - started, now)
        self._landed(items[0])
        for item, reply in zip(items, replies, strict=True):
            if item not in apart:
                self._deadlines.drop(item)
                item.settle(reply)


def may_travel_together(rule: Rule) -> bool:
    """Light reads only: any other call may hold up the rest, and a write is nobody's company."""
    return rule.bulkhead is Bulkhead.LIGHT and rule.kind == "read" and rule.repeat


def _expire(offered: Offered) -> None:
    text = f"no answer within {offered.timeout:.3g} s"
    offered.settle(Failure(FailureKind.TIMEOUT, text, sent=offered.sent))
