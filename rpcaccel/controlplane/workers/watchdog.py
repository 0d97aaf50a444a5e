"""Finds workers that hang: they neither end nor answer, and nobody else would notice.

A worker reports once a second. One that says nothing for `worker_timeout` is told to end, which one that only was slow
then does, and is killed when it does not; it is replaced like one that died.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from rpcaccel.controlplane.workers.workers import RunningWorker

LOOK_EVERY = 0.5
"""Seconds between two looks."""
ASLEEP = 2.0
"""Seconds between two looks after which it was this process that slept: silence is counted from its waking."""
GRACE = 1.0
"""Seconds that a silent worker gets to end by itself."""

log = structlog.get_logger("rpcaccel.workers")


class Watchdog:
    """Watches the workers that serve. `within`: seconds of silence that are too many; 0: none are."""

    def __init__(
        self,
        serving: Callable[[], Sequence[RunningWorker]],
        within: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._serving = serving
        self._within = within
        self._clock = clock
        self._sleep = sleep
        self._looked_at = self._since = clock()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Watchdog {self._within():g} s>"

    def start(self) -> None:
        """Watch from now on."""
        self._looked_at = self._since = self._clock()
        self._task = asyncio.create_task(self._run(), name="watchdog")

    async def stop(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def silent(self) -> list[RunningWorker]:
        """The workers that have said nothing for too long."""
        now, within = self._clock(), self._within()
        if now - self._looked_at > ASLEEP:  # what they said meanwhile waits to be read
            self._since = now
        self._looked_at = now
        return [one for one in self._serving() if within and now - max(one.link.heard_at, self._since) > within]

    async def _run(self) -> None:
        while True:
            await self._sleep(LOOK_EVERY)
            if silent := self.silent():
                await self._end(silent)

    async def _end(self, silent: Sequence[RunningWorker]) -> None:
        """All of them at once: while one has its grace, calls wait at the others as well."""
        why = f"did not answer for {self._within():g} s"
        for one in silent:
            one.hung = True
            log.error("a worker does not answer and is ended", worker=one.link.name, pid=one.link.pid, how=why)
            one.link.ask_to_end(why)
        await self._sleep(GRACE)
        for one in silent:
            one.link.kill()
