"""Lookups that go to the reading thread together, within their deadline.

The keys that are asked for in one turn of the event loop make one job of the thread, or several where they are many:
the thread has one job at a time, and a turn with few keys goes before one with many. A lookup is a miss when nothing of
its turn was answered for as long as a lookup may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from rpcaccel.core.cache.entry import Entry

MOST = 64
"""Keys of one job at the most."""
STALL = 0.005
GRACE = 0.002
"""A timer that fires later than STALL seconds shows that this process was busy, and not the disk. It then waits once
for GRACE seconds more, because the result may have arrived in the meantime."""
SLOW_JOBS, SLOW_WITHIN = 8, 10.0
"""A disk is too slow when this many jobs within so many seconds took longer than a lookup may, and more of them than
did not."""
HUNG = 2.0
"""Seconds after which a job that has not ended shows that the disk is too slow, whatever came before."""

Told = Callable[[Entry | None], None]
Answered = Callable[[Mapping[bytes, Entry], bool], bool]
"""Takes the entries of a job, and whether all of its keys were looked up; returns whether anybody waited for them."""
Read = Callable[[Sequence[bytes], Answered], None]
"""Starts a job that reads some keys and calls back."""


class LookupTurn:
    """The lookups of one turn of the loop that wait, and those of them that are under way."""

    __slots__ = ("due", "patient", "progress", "timer", "waiting")

    def __init__(self, due: float) -> None:
        self.waiting: dict[bytes, list[Told]] = {}
        self.due = due
        self.patient = True
        self.progress = False
        """Was a part of the turn answered since `due` was set?"""
        self.timer: asyncio.TimerHandle | None = None


class Turns:
    """The lookups that wait or are under way. Times are in seconds."""

    def __init__(self, read: Read, timeout: float, too_slow: Callable[[], None], *, hung: float = HUNG) -> None:
        """`too_slow` is called when reads were late too often, or one has not ended for `hung` seconds."""
        self._read = read
        self._timeout = timeout
        self._too_slow = too_slow
        self._hung = hung
        self._open: LookupTurn | None = None
        """The turn that takes the keys of the turn of the loop that is going on."""
        self._queue: list[LookupTurn] = []
        self._busy_since: float | None = None
        """When the job under way began."""
        self._job = 0
        """The number of the job under way; what an earlier one finds is awaited by nobody."""
        self._slow: list[float] = []
        """When jobs took too long."""
        self._quick = 0
        """Jobs that did not, since the first of those."""
        self.late = 0
        self.jobs = 0

    @property
    def stuck(self) -> bool:
        """Has the job under way taken longer than a lookup may? Then no further lookup waits for it."""
        if self._busy_since is None:
            return False
        taken = asyncio.get_running_loop().time() - self._busy_since
        if taken > self._hung:
            self._too_slow()
        return taken > self._timeout

    def ask(self, key: bytes, told: Told) -> None:
        """Look up a key; `told` is called later."""
        turn = self._open
        if turn is None:
            loop = asyncio.get_running_loop()
            turn = self._open = LookupTurn(loop.time() + self._timeout)
            turn.timer = loop.call_later(self._timeout, self._expire, turn)
            self._queue.append(turn)
            loop.call_soon(self._gathered, turn)
        turn.waiting.setdefault(key, []).append(told)

    def _gathered(self, turn: LookupTurn) -> None:
        """The turn of the loop is over: begin a job, if none is under way. Otherwise the turn goes on taking keys."""
        if turn is self._open and self._busy_since is None:
            self._send()

    def _send(self) -> None:
        """Begin a job about the turn with the fewest keys."""
        turn = min(self._queue, key=lambda one: len(one.waiting), default=None)
        if turn is None:
            return
        if turn is self._open:
            self._open = None
        self._job += 1
        job, keys = self._job, list(islice(turn.waiting, MOST))
        began = self._busy_since = asyncio.get_running_loop().time()
        self.jobs += 1

        def answered(entries: Mapping[bytes, Entry], complete: bool) -> bool:
            if job != self._job:
                return False
            self._busy_since = None
            self._judge(began)
            awaited = turn in self._queue
            if awaited:
                self._settle(turn, [key for key in keys if complete or key in entries], entries)
            if self._busy_since is None:
                self._send()
            return awaited

        self._read(keys, answered)

    def _judge(self, began: float) -> None:
        """Judge whether the disk is too slow, after a job that began at this time."""
        now = asyncio.get_running_loop().time()
        self._slow = [when for when in self._slow if now - when < SLOW_WITHIN]
        if now - began <= self._timeout:
            self._quick = self._quick + 1 if self._slow else 0
            return
        self._slow.append(now)
        if len(self._slow) >= SLOW_JOBS and len(self._slow) > self._quick:
            self._slow.clear()
            self._too_slow()

    def _expire(self, turn: LookupTurn) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        wait = 0.0
        if turn.patient and now - turn.due > STALL:
            turn.patient, wait = False, GRACE
        elif turn.progress:
            turn.progress, wait = False, self._timeout
            turn.due = now + wait
        if wait:
            turn.timer = loop.call_later(wait, self._expire, turn)
            return
        self.late += sum(map(len, turn.waiting.values()))
        self._settle(turn, list(turn.waiting), {})

    def _settle(self, turn: LookupTurn, keys: Sequence[bytes], entries: Mapping[bytes, Entry]) -> None:
        """Tell those who wait for these keys what was found."""
        turn.progress = True
        settled = [(entries.get(key), turn.waiting.pop(key)) for key in keys]
        if not turn.waiting:
            self._queue.remove(turn)
            if turn is self._open:
                self._open = None
            if turn.timer is not None:
                turn.timer.cancel()
        for entry, askers in settled:
            for told in askers:
                try:
                    told(entry)
                except Exception as error:  # the others wait for their answers
                    about = {"message": "a lookup on the disk could not be concluded", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(about)

    def give_up(self) -> None:
        """Answer every lookup with None. A job that is under way is waited for by nobody any more."""
        self._job += 1
        self._busy_since = None
        for turn in list(self._queue):
            self._settle(turn, list(turn.waiting), {})
