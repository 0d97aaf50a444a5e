"""Gathers attempts that wait for one node into batches (core.dispatch.batching decides when).

A batcher stands before the client of each node. Only reads that a rule describes as light are gathered, and only they
take slots: no read waits here for a heavy call, a write or an unknown method. Each attempt keeps its own deadline and
its own failure, and what a batch did not answer is asked again alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from rpcaccel.core.dispatch.batching import MAX_BATCH_BYTES, Gathering
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.attempt import Attempt
from rpcaccel.dataplane.upstream.pool import Deadlines, OnReply, UnderWay

SETTLED_AT_ONCE = 8
"""Replies of one batch that are settled within one turn of the loop: each takes some fifty microseconds."""
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
_LIGHT = Bulkhead.LIGHT  # looked up once (core.plan.planner)


class Sender(Protocol):
    """The client of one node, as far as gathering needs it."""

    def post(
        self,
        calls: Sequence[Attempt],
        timeout: float,
        told: OnReply,
        span: str = "",
    ) -> UnderWay:
        """Send calls as one request (dataplane.upstream.node_client)."""
        ...


class Batcher:
    """Sends the attempts at one node, alone or several together."""

    def __init__(
        self, client: Sender, most_slots: int, clock: Callable[[], float], state: Gathering, *, gathers: bool = True
    ) -> None:
        """`gathers`: may attempts travel together at all?"""
        self.client = client
        self.gathers = gathers
        self._most_slots = most_slots
        self._clock = clock
        self._waiting: deque[Attempt] = deque()
        """The attempts that wait for a slot; those that are over meanwhile are passed over."""
        self._deadlines: Deadlines[Attempt] = Deadlines(_expire)
        """The deadlines of attempts that wait or travel together."""
        self._slots: dict[Attempt, float] = {}
        """The first attempt of each request that has a slot, and since when, the oldest first. A request that takes
        very long has none."""
        self._patience: asyncio.TimerHandle | None = None
        """While attempts wait: when to look whether a slot has been held too long."""
        self._turn_since: float | None = None
        """Since when attempts are collected that go at the end of this turn of the loop."""
        self.state = state
        self._batches = 0
        """Batches under way."""

    def __repr__(self) -> str:
        return f"<batcher {len(self._slots)} slots taken, {len(self._waiting)} waiting>"

    def call(self, attempt: Attempt) -> None:
        """Send an attempt, alone or with others; `Attempt.settle` gets the reply within the attempt's timeout.

        Only light reads that may be repeated travel together: any other call may hold up the rest. A request has one
        header for the trace that it belongs to, so an attempt with a span goes alone.
        """
        rule, timeout = attempt.plan.rule, attempt.asked.timeout
        told: OnReply = Attempt.settle
        if self.gathers and rule.bulkhead is _LIGHT and rule.kind == "read" and rule.repeat:
            now, state = self._clock(), self.state
            busy = state.called(now)
            free = len(self._slots) < min(self._most_slots, state.slots) or self._is_free(now)
            if (busy or not free) and not attempt.span and now >= state.rest_until:
                self._waiting.append(attempt)
                self._deadlines.add(attempt, timeout)
                if free and self._turn_since is None:
                    self._turn_since = now
                    asyncio.get_running_loop().call_soon(self._end_of_turn)
                elif not free and self._patience is None:
                    self._wait_for_a_slot()
                return
            self._slots[attempt] = now
            told = self._answered
        attempt.request = self.client.post((attempt,), timeout, told, attempt.span)

    def leave(self, attempt: Attempt) -> None:
        """Forget an attempt that was given up: its request is broken off if it carries no other."""
        self._deadlines.pop(attempt, None)
        request = attempt.request
        if request is not None and len(request.calls) == 1:
            request.cancel()
            self._slots.pop(attempt, None)
            self._go_on()

    def _is_free(self, now: float) -> bool:
        """Is there a slot, those taken from requests that take very long among them?"""
        slots, most = self._slots, min(self._most_slots, self.state.slots)
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

    def _end_of_turn(self) -> None:
        if self._turn_since is not None:
            self.state.turn_took(self._clock() - self._turn_since)
        self._turn_since = None
        self._go_on()

    def _go_on(self) -> None:
        """Send what waits, as far as slots are free."""
        while self._waiting and self._is_free(now := self._clock()):
            items = self._take(now)
            if not items:
                return
            first, alone = items[0], len(items) == 1
            self._slots[first] = now
            self._batches += not alone
            timeout = max([item.began + item.asked.timeout for item in items]) - now
            request = self.client.post(items, timeout, self._answered, first.span if alone else "")
            for item in items:
                item.request = request
        if self._waiting and self._patience is None:
            self._wait_for_a_slot()

    def _take(self, now: float) -> list[Attempt]:
        """The next attempts to travel together. They belong to one pool: what their reply costs and teaches is booked
        at once."""
        may = now >= self.state.rest_until and (self.state.proved or not self._batches)
        limit = self.state.together() if may else 1
        items: list[Attempt] = []
        size = 0
        while self._waiting and len(items) < limit and size < MAX_BATCH_BYTES:
            waiting = self._waiting[0]
            if items and waiting.pool is not items[0].pool:
                break
            self._waiting.popleft()
            if waiting.ended is None:
                items.append(waiting)
                size += len(waiting.params)
        return items

    def _answered(self, items: Sequence[Attempt], replies: Sequence[Answer | Failure]) -> None:
        """Take the replies to one request. Its slot goes to the next one, which is on its way before the replies are
        looked at."""
        first = replies[0]
        self._slots.pop(items[0], None)
        if len(items) > 1:
            items, replies = self._batch_answered(items, replies)
        elif isinstance(first, Answer):
            self.state.single_took(first.elapsed)
        for item in items:
            self._deadlines.pop(item, None)
        if self._waiting:
            self._go_on()
        if len(items) > SETTLED_AT_ONCE:
            self._settle(items, replies)
        elif items:
            Attempt.settle(items, replies)

    def _settle(self, items: Sequence[Attempt], replies: Sequence[Answer | Failure]) -> None:
        """Settle some of many attempts now, and the others in the turns that follow: an answer is written to its client
        within the turn that settles it."""
        if len(items) > SETTLED_AT_ONCE:
            rest = items[SETTLED_AT_ONCE:], replies[SETTLED_AT_ONCE:]
            asyncio.get_running_loop().call_soon(self._settle, *rest)
        Attempt.settle(items[:SETTLED_AT_ONCE], replies[:SETTLED_AT_ONCE])

    def _batch_answered(
        self, items: Sequence[Attempt], replies: Sequence[Answer | Failure]
    ) -> tuple[list[Attempt], list[Answer | Failure]]:
        """The items of a batch that were answered, with their replies. The others, apart from those that are over,
        go in front of the queue: each alone, now that the node gets no batches."""
        self._batches -= 1
        answered: list[Attempt] = []
        told: list[Answer | Failure] = []
        apart: list[Attempt] = []
        well, elapsed, now = True, 0.0, self._clock()
        for item, reply in zip(items, replies, strict=True):
            if isinstance(reply, Failure):
                well = False
                if reply.kind in _BATCH_FAULTS:
                    apart.append(item)
                    continue
            else:
                elapsed = reply.elapsed
            answered.append(item)
            told.append(reply)
        if apart:
            self.state.refused(now)
            self._waiting.extendleft(item for item in reversed(apart) if item.ended is None)
        elif well:
            self.state.batch_took(len(items), elapsed, now)
        return answered, told


def _expire(attempt: Attempt) -> None:
    text = f"no answer within {attempt.asked.timeout:.3g} s"
    failure = Failure(FailureKind.TIMEOUT, text, sent=attempt.request is not None)
    Attempt.settle((attempt,), (failure,))
