"""Closed loop: so many connections, each sending its next call when it has an answer. For throughput, not latency."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from rpcaccel.bench.load.client import ConnectionPool, Outcome
from rpcaccel.bench.load.http_reader import LoadReply
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.verdict import verdict
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Series


class Loop:
    """One run of a closed loop. `elapsed` and `series` tell what it found."""

    def __init__(self, pool: ConnectionPool, calls: Iterator[LoadCall], *, connections: int, timeout: float) -> None:
        self.series = Series()
        self.elapsed = 0.0
        self._pool = pool
        self._calls = calls
        self._connections = connections
        self._timeout = timeout
        self._clock = time.perf_counter  # uvloop's own clock counts whole milliseconds
        self._left = 0
        self._until = 0.0
        self._number = 0
        self._open = 0
        self._over = False
        self._idle = asyncio.Event()
        self._watch = Watch()

    async def run(self, watch: Watch, *, total: int = 0, seconds: float = 0.0) -> Series:
        """Make `total` calls, or as many as there is time for in `seconds`; then wait for the last answers."""
        await self._pool.warm(self._connections)
        began = self._clock()
        self._watch = watch
        self._left = total or 1 << 62
        self._until = began + (seconds or 1e9)
        for _ in range(min(self._connections, self._left)):
            self._next()
        while not (await self._ended(0.2) or watch.stopped):
            done = self.series.calls / total if total else (self._clock() - began) / seconds
            watch.at(done)
        self.elapsed = self._clock() - began
        self._over = True
        return self.series

    async def _ended(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _next(self) -> None:
        call = None
        if self._left > 0 and self._clock() < self._until and not self._watch.stopped:
            call = next(self._calls, None)
        if call is None:
            if not self._open:
                self._idle.set()
            return
        self._left -= 1
        self._number += 1
        self._open += 1
        number, sent = self._number, self._clock()

        def done(outcome: Outcome) -> None:
            if self._over:
                return
            source = outcome.cache if isinstance(outcome, LoadReply) else ""
            self.series.add(self._clock() - sent, verdict(outcome, b"%d" % number), source)
            self._open -= 1
            self._next()

        self._pool.send(call.body(number), self._timeout, done)
