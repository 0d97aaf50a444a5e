"""Lookups that go to the reading thread together, within their deadline.

The keys that are asked for in one turn of the event loop make one job of the thread; while a job is under way, further
keys wait for it and then make the next job. A lookup is a miss when its deadline has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context

from rpcaccel.core.cache.entry import Entry

STALL = 0.005
GRACE = 0.002
"""A timer that fires later than STALL seconds shows that this process was busy, and not the disk. It then waits once
for GRACE seconds more, because the result may have arrived in the meantime."""
SLOW_TURNS, SLOW_WITHIN = 8, 10.0
"""A disk is too slow when this many jobs within so many seconds were late, and more than were in time."""

Told = Callable[[Entry | None], None]
Answered = Callable[[Sequence[Entry | None]], bool]
"""Takes the entries of some keys, in their order; returns whether anybody still waited for them."""
Read = Callable[[Sequence[bytes], Answered], None]
"""Starts a job that reads some keys and calls back with their entries."""


class LookupTurn:
    """The lookups of one job."""

    __slots__ = ("due", "patient", "sent", "timer", "waiting")

    def __init__(self, due: float) -> None:
        self.waiting: dict[bytes, list[tuple[Context, Told]]] = {}
        self.due = due
        self.sent = False
        self.patient = True
        self.timer: asyncio.TimerHandle | None = None


class Turns:
    """The lookups that are waiting or under way. Times are in seconds."""

    def __init__(self, read: Read, timeout: float, too_slow: Callable[[], None]) -> None:
        """`too_slow` is called when reads were late too often."""
        self._read = read
        self._timeout = timeout
        self._too_slow = too_slow
        self._next: LookupTurn | None = None
        self._sent: LookupTurn | None = None
        self._sent_at = 0.0
        self._slow: list[float] = []
        """When jobs were late."""
        self._quick = 0
        """Jobs in time since the first of those."""
        self.late = 0
        self.jobs = 0

    @property
    def stuck(self) -> bool:
        """Has the job under way taken longer than a lookup may? Then no further lookup waits for it."""
        return self._sent is not None and asyncio.get_running_loop().time() - self._sent_at > self._timeout

    def ask(self, key: bytes, told: Told) -> None:
        """Look up a key; `told` is called later, in the context of the caller."""
        turn = self._next or self._begin()
        turn.waiting.setdefault(key, []).append((copy_context(), told))

    def _begin(self) -> LookupTurn:
        loop = asyncio.get_running_loop()
        turn = self._next = LookupTurn(loop.time() + self._timeout)
        turn.timer = loop.call_later(self._timeout, self._expire, turn)
        loop.call_soon(self._send, turn)
        return turn

    def _send(self, turn: LookupTurn) -> None:
        if turn is not self._next or self._sent is not None:
            return
        self._next, self._sent = None, turn
        self._sent_at = asyncio.get_running_loop().time()
        self.jobs += 1
        keys = list(turn.waiting)

        def answered(entries: Sequence[Entry | None]) -> bool:
            awaited = turn.timer is not None
            if self._sent is turn:
                self._sent = None
            if awaited:
                self._quick += 1
                self._settle(turn, dict(zip(keys, entries, strict=False)))
            if self._next is not None:
                self._send(self._next)
            return awaited

        self._read(keys, answered)

    def _expire(self, turn: LookupTurn) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if turn.patient and now - turn.due > STALL:
            turn.patient = False
            turn.timer = loop.call_later(GRACE, self._expire, turn)
            return
        if turn is self._next:
            self._next = None
        self.late += sum(map(len, turn.waiting.values()))
        self._settle(turn, {})
        self._slow = [when for when in self._slow if now - when < SLOW_WITHIN]
        if not self._slow:
            self._quick = 0
        self._slow.append(now)
        if len(self._slow) >= SLOW_TURNS and len(self._slow) > self._quick:
            self._slow.clear()
            self._too_slow()

    def _settle(self, turn: LookupTurn, entries: dict[bytes, Entry | None]) -> None:
        if turn.timer is not None:
            turn.timer.cancel()
            turn.timer = None
        waiting, turn.waiting = turn.waiting, {}
        for key, askers in waiting.items():
            entry = entries.get(key)
            for context, told in askers:
                try:
                    context.run(told, entry)
                except Exception as error:  # the others wait for their answers
                    about = {"message": "a lookup on the disk could not be concluded", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(about)

    def give_up(self) -> None:
        """Answer every lookup with None. A job that is under way is waited for by nobody any more."""
        turns, self._next, self._sent = [self._next, self._sent], None, None
        for turn in turns:
            if turn is not None:
                self._settle(turn, {})
