"""A clock for tests, which is moved by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class ManualClock:
    """A clock that stands still until `advance` moves it; timers fire in order on the way."""

    __slots__ = ("_count", "_now", "_timers")

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def __repr__(self) -> str:
        return f"<ManualClock {self._now:g} s, {len(self._timers)} timers>"

    def now(self) -> float:
        """The seconds to which the clock was moved."""
        return self._now

    @property
    def waiting(self) -> int:
        """The number of timers that have not fired yet."""
        return len(self._timers)

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        """Run `callback` when the clock is moved to or past `when`."""
        heapq.heappush(self._timers, (when, next(self._count), callback))

    def advance(self, seconds: float) -> None:
        """Move on by `seconds` (>= 0), running each timer that falls due at its own time."""
        if seconds < 0:
            raise ValueError("a clock does not go back")
        target = self._now + seconds
        while self._timers and self._timers[0][0] <= target:
            when, _, callback = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            callback()
        self._now = target

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved on by `seconds`."""
        if seconds <= 0:
            return
        done = asyncio.get_running_loop().create_future()
        self.call_at(self._now + seconds, lambda: None if done.done() else done.set_result(None))
        await done
