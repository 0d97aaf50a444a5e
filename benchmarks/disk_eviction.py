"""Eviction of the disk tier: hits of both tiers, and what is written again, simulated without a disk.

    python -m benchmarks.disk_eviction [--short] [--out docs/benchmarks.md]

The memory tier in front is the real one. It does the same whatever the disk tier evicts, because what the disk has and
what a node sends are both kept in memory; so each trace passes it once, and the ways of eviction get its misses.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Protocol

from msgspec import Struct

from benchmarks import evidence
from benchmarks.traces import TRACES, Request
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report, Table, machine, percent, remarks
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.plan.rules import CacheClass

SECTION = "disk eviction"
COMPRESSED = 5
"""The ratio at which the values of JSON are compressed on disk."""
OVERHEAD = 128
"""Bytes of an entry on disk beside its key and value: the key again in the index, header, lengths."""
NOT_FINAL = b":eth_call@"
"""Answers about the newest block are not final and stay in memory only."""
REFRESH_EVERY, REFRESHED = 10_000, 2_000
"""After so many requests, at most so many keys that were hit in memory since are refreshed on disk."""


class Way(Protocol):
    """A way of eviction: entries in `max_bytes` of disk."""

    written: int
    """Bytes of entries that were written because they were not there."""
    rewritten: int
    """Bytes of entries that were written again to keep them."""

    def get(self, key: bytes) -> bool:
        """Look an entry up."""

    def put(self, key: bytes, weight: int) -> None:
        """Write an entry that is not there."""

    def refresh(self, key: bytes, weight: int) -> None:
        """Learn that an entry was hit in memory."""

    def __contains__(self, key: bytes) -> bool:
        """Is there an entry? Asking changes nothing."""


class Fifo:
    """The oldest entry goes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._queue: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """The weight of each entry, and the number of its writing, oldest first."""
        self._number = 0
        self._full = False
        self.written = self.rewritten = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._queue

    def get(self, key: bytes) -> bool:
        return key in self

    def put(self, key: bytes, weight: int) -> None:
        self.written += weight
        self._bytes += weight
        self._append(key, weight)
        while self._bytes > self._max_bytes:
            self._evict()

    def refresh(self, key: bytes, weight: int) -> None: ...

    def _append(self, key: bytes, weight: int) -> None:
        self._number += 1
        self._queue[key] = weight, self._number

    def _evict(self) -> None:
        self._full = True
        _, (weight, _) = self._queue.popitem(last=False)
        self._bytes -= weight

    def _again(self, key: bytes) -> None:
        """Write an entry that is there once more, at the young end."""
        weight, _ = self._queue.pop(key)
        self.rewritten += weight
        self._append(key, weight)

    def _old(self, key: bytes) -> bool:
        """Does an entry stand in the older half of the queue? Judged by the numbers at its ends.

        None is old before the first one was evicted: moving entries of a tier that is not full would gain nothing.
        """
        if not self._full:
            return False
        oldest = next(iter(self._queue.values()))[1]
        return self._queue[key][1] < (oldest + self._number) / 2


class SecondChance(Fifo):
    """An entry that was used is written again when it comes to the old end."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._used: set[bytes] = set()

    def get(self, key: bytes) -> bool:
        if key not in self:
            return False
        self._used.add(key)
        return True

    def _evict(self) -> None:
        key = next(iter(self._queue))
        if key in self._used:
            self._used.discard(key)
            self._again(key)
        else:
            super()._evict()


class MoveWhenOld(Fifo):
    """An entry that is hit in the older half of the queue is written again at once."""

    def get(self, key: bytes) -> bool:
        if key not in self:
            return False
        if self._old(key):
            self._again(key)
        return True


class MoveAndRefresh(MoveWhenOld):
    """As MoveWhenOld, and so is an entry that is hit in memory; one that is gone is written again."""

    def refresh(self, key: bytes, weight: int) -> None:
        if not self.get(key):
            self.put(key, weight)
            self.written -= weight
            self.rewritten += weight


class Lru(Fifo):
    """An entry that is hit is always written again."""

    def get(self, key: bytes) -> bool:
        if key not in self:
            return False
        self._again(key)
        return True


class Ideal:
    """Knows all lookups, and evicts what is wanted last (Belady). With entries of several sizes that is near the best.

    What is not wanted again is not written.
    """

    def __init__(self, max_bytes: int, lookups: Iterable[bytes]) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._weights: dict[bytes, int] = {}
        self._heap: list[tuple[float, bytes]] = []
        self._due: dict[bytes, list[int]] = defaultdict(list)
        for place, key in enumerate(lookups):
            self._due[key].append(-place)
        for places in self._due.values():
            places.reverse()
        self.written = self.rewritten = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._weights

    def get(self, key: bytes) -> bool:
        self._due[key].pop()
        if key not in self:
            return False
        self._remember(key)
        return True

    def put(self, key: bytes, weight: int) -> None:
        if not self._due[key]:
            return
        self.written += weight
        self._bytes += weight
        self._weights[key] = weight
        self._remember(key)
        while self._bytes > self._max_bytes:
            next_use, victim = heappop(self._heap)
            if victim in self._weights and next_use == self._next(victim):
                self._bytes -= self._weights.pop(victim)

    def refresh(self, key: bytes, weight: int) -> None: ...

    def _next(self, key: bytes) -> float:
        return self._due[key][-1] if self._due[key] else -inf

    def _remember(self, key: bytes) -> None:
        heappush(self._heap, (self._next(key), key))


WAYS: dict[str, Callable[[int], Way]] = {
    "FIFO": Fifo,
    "FIFO, second chance": SecondChance,
    "move when old": MoveWhenOld,
    "move when old, refresh": MoveAndRefresh,
    "LRU": Lru,
}
"""The ways by name; the ideal is made for each trace."""
IDEAL = "ideal"


class Passed(Struct):
    """What a trace looks like behind the memory tier."""

    requests: int = 0
    memory_hits: int = 0
    lookups: list[Request] = []
    """The lookups that reach the disk: keys and bytes on disk."""
    hot: dict[int, list[Request]] = {}
    """By the number of lookups before, what was hit in memory since the last refresh."""

    @property
    def hot_at_end(self) -> list[bytes]:
        """What was hit in memory last, and is refreshed no more."""
        return [key for key, _ in self.hot.get(len(self.lookups), [])]


def through_memory(requests: Iterable[Request], max_bytes: int) -> Passed:
    """Pass requests through a memory tier; each miss is kept there in the end."""
    tier, passed = MemoryTier(max_bytes, max_bytes), Passed()
    used: dict[bytes, int] = {}
    for key, length in requests:
        passed.requests += 1
        weight = len(key) + length // COMPRESSED + OVERHEAD
        final = NOT_FINAL not in key
        if tier.get(key, 0.0) is not None:
            passed.memory_hits += 1
            if final and len(used) < REFRESHED:
                used[key] = weight
        else:
            tier.put(key, _entry(length), 0.0)
            if final:
                passed.lookups.append((key, weight))
        if passed.requests % REFRESH_EVERY == 0:
            passed.hot[len(passed.lookups)] = list(used.items())
            used = {}
    return passed


def _entry(length: int) -> Entry:
    return Entry(result=b"x" * length, cache=CacheClass.FOREVER, network="s0", method="m", stored_at=0.0, expires=inf)


def replay(way: Way, passed: Passed) -> int:
    """The number of lookups that an empty disk tier answers."""
    hits = 0
    for place, (key, weight) in enumerate(passed.lookups):
        for hot, heavy in passed.hot.get(place, ()):
            way.refresh(hot, heavy)
        if way.get(key):
            hits += 1
        else:
            way.put(key, weight)
    return hits


def measure(
    watch: Watch, requests: int = 2_000_000, memory: int = 8_000_000, multiples: tuple[int, ...] = (2, 8, 32)
) -> Report:
    """Every way over every trace, with disks of several multiples of the memory's size."""
    cells: dict[str, list[str]] = defaultdict(list)
    for place, (trace, made) in enumerate(TRACES.items()):
        watch.part(trace, place, len(TRACES))
        passed = through_memory(islice(made(), requests), memory)
        cells["no disk tier"] += [percent(passed.memory_hits / passed.requests), "–", "–"]
        keys = [key for key, _ in passed.lookups]
        for multiple in multiples:
            for name in (*WAYS, IDEAL):
                if watch.stopped:
                    break
                way = Ideal(memory * multiple, keys) if name == IDEAL else WAYS[name](memory * multiple)
                cells[f"{multiple} x, {name}"] += _cells(way, passed)
    rows = [(name, *found) for name, found in cells.items() if len(found) == len(TRACES) * 3]
    facts = machine() | {
        "memory": f"{memory / 1e6:.0f} MB",
        "requests": f"{requests:,} a trace",
        "disk": f"values compressed to a fifth, {OVERHEAD} bytes more an entry; calls at the head are not kept on disk",
        "refresh": f"every {REFRESH_EVERY:,} requests, {REFRESHED:,} keys at most",
    }
    columns = ("disk, way", *(name for trace in TRACES for name in (f"hits: {trace}", "again", "hot")))
    note = (
        "Hits: of both tiers together. Again: bytes that were written again to keep an entry, for each byte that was "
        "written for the first time. Hot: the share of what memory answered last that is on disk as well, for a "
        "restart. Disk: multiples of the bytes of the memory tier."
    )
    table = Table("Ways of eviction", columns, rows, note)
    return Report("Eviction of the disk tier", facts, [table], remarks=remarks((), stopped=watch.stopped))


def _cells(way: Way, passed: Passed) -> list[str]:
    hits, hot = passed.memory_hits + replay(way, passed), passed.hot_at_end
    again = f"{way.rewritten / way.written:.2f}" if way.written and not isinstance(way, Ideal) else "–"
    on_disk = None if isinstance(way, Ideal) or not hot else sum(key in way for key in hot) / len(hot)
    return [percent(hits / passed.requests), again, percent(on_disk)]


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the simulation works."""
    return measure(watch, 10_000, 500_000, (2, 8))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
