"""How long other calls wait while an event loop looks entries up on the disk, by itself or through a reader thread.

Another process sends a pulse a millisecond over a socket, as calls come in: how late the loop takes a pulse is how long
any call would have waited. With the pulses come the lookups. A timer of the loop would not do, since uvloop's count
whole milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import uvloop
from msgspec import Struct

from benchmarks.engines import Engine, name_of, opened
from rpcaccel.bench.report.statistics import percentile

PULSE = 0.001
"""Seconds between two pulses."""
WARM_A_PULSE, PULSES_A_COLD = 2, 2
"""2,000 lookups a second of entries that are in the page cache, 500 of entries that are not."""
WARM = 2_000
"""The number of different entries that are looked up warm."""
WAYS = ("no lookups", "inline", "thread")
_SENT = struct.Struct("d")


class Stalls(Struct, frozen=True):
    """Seconds of one run, each list in order of size."""

    late: list[float]
    """From the sending of a pulse until the loop took it."""
    warm: list[float]
    """From the sending of a pulse until a warm entry was there."""
    cold: list[float]
    busy: float
    """Processor time of the process, as a share of a core."""


def stalls(engine: str, folder: Path, way: str, entries: int, seconds: float, seed: int) -> Stalls:
    """One run in this process; the files must have been dropped from the page cache before."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            ours.close()
            _send_pulses(theirs, seconds)
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        rng = random.Random(seed)
        database = opened(engine, folder)
        warm = [name_of(rng.randrange(entries)) for _ in range(WARM)]
        for name in warm:
            database.get(name)
        session = _Session(database, way, warm, entries, rng)
        began, used = time.monotonic(), time.process_time()
        uvloop.run(session.run(ours))
        busy = (time.process_time() - used) / (time.monotonic() - began)
        database.close()
    os.wait()
    return Stalls(sorted(session.late), sorted(session.waited["warm"]), sorted(session.waited["cold"]), busy)


def _send_pulses(to: socket.socket, seconds: float) -> None:
    to.recv(1)
    began = time.monotonic()
    for number in range(1, round(seconds / PULSE) + 1):
        time.sleep(max(0.0, began + number * PULSE - time.monotonic()))  # until the next pulse
        to.send(_SENT.pack(time.monotonic()))


class _Session:
    """A loop that takes pulses and makes lookups."""

    def __init__(self, database: Engine, way: str, warm: list[bytes], entries: int, rng: random.Random) -> None:
        self._database = database
        self._way = way
        self._warm = warm
        self._entries = entries
        self._rng = rng
        self._queue: SimpleQueue[tuple[float, str, bytes] | None] = SimpleQueue()
        self.late: list[float] = []
        self.waited: dict[str, list[float]] = {"warm": [], "cold": []}

    async def run(self, pulses: socket.socket) -> None:
        """Until the sender of pulses closes its socket."""
        self._loop = asyncio.get_running_loop()
        self._pulses = pulses
        self._over = self._loop.create_future()
        reader = threading.Thread(target=self._read)
        reader.start()
        self._loop.add_reader(pulses, self._on_pulse)
        pulses.send(b"g")
        await self._over
        self._queue.put(None)
        await asyncio.to_thread(reader.join)

    def _on_pulse(self) -> None:
        # One pulse in each turn: those behind it wait for its lookups, as calls would.
        data = self._pulses.recv(_SENT.size)
        if not data:
            self._loop.remove_reader(self._pulses)
            self._over.set_result(None)
            return
        (sent,) = _SENT.unpack(data)
        self.late.append(time.monotonic() - sent)
        if self._way == "no lookups":
            return
        for kind, name in self._wanted():
            if self._way == "inline":
                self._given([(sent, kind, self._database.get(name))])
            else:
                self._queue.put((sent, kind, name))

    def _wanted(self) -> list[tuple[str, bytes]]:
        wanted = [("warm", self._rng.choice(self._warm)) for _ in range(WARM_A_PULSE)]
        if len(self.late) % PULSES_A_COLD == 0:
            wanted.append(("cold", name_of(self._rng.randrange(self._entries))))
        return wanted

    def _given(self, answers: list[tuple[float, str, bytes | None]]) -> None:
        now = time.monotonic()
        for sent, kind, value in answers:
            if value is None:
                raise RuntimeError("an entry is gone")
            self.waited[kind].append(now - sent)

    def _read(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    self._queue.put(None)
                    break
                batch.append(more)
            answers = [(sent, kind, self._database.get(name)) for sent, kind, name in batch]
            self._loop.call_soon_threadsafe(self._given, answers)


FIGURES = (("late", 0.5), ("late", 0.99), ("late", 1.0), ("warm", 0.5), ("warm", 0.99), ("cold", 0.5), ("cold", 0.99))
"""Lists of a run, and the shares of which the percentiles are told."""


def figures(runs: list[Stalls]) -> tuple[list[float | None], float]:
    """Medians over the runs: the percentiles of FIGURES, None of what was not looked up; and how busy a core was."""
    times = [_median([percentile(getattr(run, kind), share) for run in runs]) for kind, share in FIGURES]
    return times, _median([run.busy for run in runs]) or 0.0


def _median(values: list[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return percentile(known, 0.5)
