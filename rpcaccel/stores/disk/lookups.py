"""Lookups that go to the thread of the disk tier together, within their deadline.

The keys that are asked for in one turn of the event loop make one job of the thread, or several where they are many:
one read is under way at a time, and a turn with few keys goes before one with many. A lookup is a miss when nothing of
its turn was answered for as long as a lookup may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from rpcaccel.core.cache.entry import Entry

MAX_KEYS = 64
"""Keys of one job."""
STALL_SECONDS = 0.005
GRACE_SECONDS = 0.002
"""A timer that fires later than STALL_SECONDS shows that this process was busy, and not the disk. The turn then waits
once for GRACE_SECONDS more, because the result may have arrived in the meantime."""
MAX_SLOW_JOBS = 8
"""A disk is too slow when so many more jobs took longer than a lookup may than did not."""

OnEntry = Callable[[Entry | None], None]
OnRead = Callable[[Mapping[bytes, Entry], bool], bool]
"""Takes the entries of a job, and whether all of its keys were looked up; returns whether anybody waited for them."""
Read = Callable[[Sequence[bytes], OnRead], None]
"""Starts a job that reads some keys and calls back."""


class LookupTurn:
    """The lookups of one turn of the loop that are not answered yet."""

    __slots__ = ("due", "patient", "progress", "timer", "waiting")
    timer: asyncio.TimerHandle

    def __init__(self, due: float) -> None:
        self.waiting: dict[bytes, list[OnEntry]] = {}
        self.due = due
        self.patient = True
        self.progress = False
        """Was a part of the turn answered since `due` was set?"""


class Lookups:
    """The lookups that wait or are under way. Times are in seconds."""

    def __init__(self, read: Read, timeout: float, on_too_slow: Callable[[], None]) -> None:
        """`on_too_slow` is called when reads were late too often."""
        self._read = read
        self._timeout = timeout
        self._on_too_slow = on_too_slow
        self._turns: list[LookupTurn] = []
        self._open: LookupTurn | None = None
        """The one of the turns that takes further keys."""
        self._busy_since: float | None = None
        """When the job under way began."""
        self._job = 0
        """The number of the job under way; what an earlier one finds is awaited by nobody."""
        self._slow_jobs = 0
        """How many more jobs took too long than did not, lately."""
        self.late = 0
        self.jobs = 0

    @property
    def stuck(self) -> bool:
        """Has the job under way taken longer than a lookup may? Then no further lookup waits for it."""
        since = self._busy_since
        return since is not None and asyncio.get_running_loop().time() - since > self._timeout

    def ask(self, key: bytes, on_lookup: OnEntry) -> None:
        """Look up a key; `on_lookup` is called later."""
        if self._open is None:
            loop = asyncio.get_running_loop()
            turn = self._open = LookupTurn(loop.time() + self._timeout)
            turn.timer = loop.call_at(turn.due, self._expire, turn)
            self._turns.append(turn)
            loop.call_soon(self._gathered, turn)
        self._open.waiting.setdefault(key, []).append(on_lookup)

    def _gathered(self, turn: LookupTurn) -> None:
        """The turn of the loop is over: begin a job, if none is under way. Otherwise the turn goes on taking keys."""
        if turn is self._open and self._busy_since is None:
            self._send()

    def _send(self) -> None:
        """Begin a job about the turn with the fewest keys."""
        turn = min(self._turns, key=lambda one: len(one.waiting), default=None)
        if turn is None:
            return
        if turn is self._open:
            self._open = None
        self._job += 1
        self.jobs += 1
        job, keys = self._job, list(islice(turn.waiting, MAX_KEYS))
        began = self._busy_since = asyncio.get_running_loop().time()

        def on_read(entries: Mapping[bytes, Entry], complete: bool) -> bool:
            if job != self._job:
                return False
            self._busy_since = None
            self._judge(asyncio.get_running_loop().time() - began)
            awaited = turn in self._turns
            if awaited:
                self._settle(turn, [key for key in keys if complete or key in entries], entries)
            if self._busy_since is None:
                self._send()
            return awaited

        self._read(keys, on_read)

    def _judge(self, taken: float) -> None:
        """Judge whether the disk is too slow, after a job that took so many seconds."""
        self._slow_jobs = max(0, self._slow_jobs + (1 if taken > self._timeout else -1))
        if self._slow_jobs >= MAX_SLOW_JOBS:
            self._slow_jobs = 0
            self._on_too_slow()

    def _expire(self, turn: LookupTurn) -> None:
        now = asyncio.get_running_loop().time()
        if turn.patient and now - turn.due > STALL_SECONDS:
            turn.patient, turn.due = False, now + GRACE_SECONDS
        elif turn.progress:
            turn.progress, turn.due = False, now + self._timeout
        else:
            self.late += sum(map(len, turn.waiting.values()))
            self._settle(turn, list(turn.waiting), {})
            return
        turn.timer = asyncio.get_running_loop().call_at(turn.due, self._expire, turn)

    def _settle(self, turn: LookupTurn, keys: Sequence[bytes], entries: Mapping[bytes, Entry]) -> None:
        """Give those who wait for these keys what was found."""
        turn.progress = True
        settled = [(entries.get(key), turn.waiting.pop(key)) for key in keys]
        if not turn.waiting:
            self._turns.remove(turn)
            if turn is self._open:
                self._open = None
            turn.timer.cancel()
        for entry, callbacks in settled:
            for on_lookup in callbacks:
                try:
                    on_lookup(entry)
                except Exception as error:  # the others wait for their answers
                    about = {"message": "a lookup on the disk could not be concluded", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(about)

    def give_up(self) -> None:
        """Answer every lookup with None. A job that is under way is waited for by nobody any more."""
        self._job += 1
        self._busy_since = None
        for turn in list(self._turns):
            self._settle(turn, list(turn.waiting), {})
