"""Eviction policies of the memory tier at equal bytes: hit ratio, resident memory, speed.

    python -m benchmarks.policies [--size 32MB] [--requests 300000] [--only s3fifo,sieve] [--out docs/benchmarks.md]

theine, cachebox and cachetools are measured where they are installed, and named as missing where not. Every pair of
policy and trace runs in a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from rich.console import Console

from benchmarks import pages, yardsticks
from benchmarks.traces import TRACES, Request
from rpcaccel.bench.report.report import Report, Table, count, machine, percent
from rpcaccel.config.value_types import parse_size
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import ENTRY_BYTES, MemoryTier
from rpcaccel.core.plan.rules import CacheClass

SECTION = "eviction policies"
MAX_ENTRY = 8 << 20
TRIALS, CLOSE = 5, 0.02
"""The number of trials by which a cache that counts entries is brought near the bound in bytes, and how near
(share)."""


class Cache(Protocol):
    """A cache that is compared."""

    def get(self, key: bytes) -> Entry | None: ...

    def put(self, key: bytes, entry: Entry) -> None: ...

    def __len__(self) -> int: ...


class Tier:
    """rpcaccel's own tier."""

    def __init__(self, max_bytes: int) -> None:
        self._tier = MemoryTier(max_bytes, MAX_ENTRY)

    def get(self, key: bytes) -> Entry | None:
        return self._tier.get(key, 0.0)

    def put(self, key: bytes, entry: Entry) -> None:
        self._tier.put(key, entry, 0.0)

    def __len__(self) -> int:
        return len(self._tier)


class Theine:
    """W-TinyLFU; it counts entries, not bytes."""

    def __init__(self, max_entries: int) -> None:
        self._cache: Any = import_module("theine").Cache(max_entries, nolock=True)

    def get(self, key: bytes) -> Entry | None:
        found: Entry | None = self._cache.get(key)[0]
        return found

    def put(self, key: bytes, entry: Entry) -> None:
        self._cache.set(key, entry)

    def __len__(self) -> int:
        return len(self._cache)


class Mapping:
    """A cache that is a mapping: cachetools and cachebox."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._get = cache.get

    def get(self, key: bytes) -> Entry | None:
        found: Entry | None = self._get(key)
        return found

    def put(self, key: bytes, entry: Entry) -> None:
        self._cache[key] = entry

    def __len__(self) -> int:
        return len(self._cache)


def _cachetools(max_bytes: int, _entries: int) -> Cache:
    # It weighs the value alone; the keys of the traces have 40 to 110 bytes.
    return Mapping(
        import_module("cachetools").LRUCache(max_bytes, getsizeof=lambda entry: yardsticks.weigh(b"k" * 75, entry))
    )


def _cachebox(kind: str) -> Callable[[int, int], Cache]:
    return lambda max_bytes, _entries: Mapping(
        getattr(import_module("cachebox"), kind)(max_bytes, getsizeof=yardsticks.weigh)
    )


class Candidate(Struct, frozen=True):
    """A policy that is compared, and how its cache is made."""

    make: Callable[[int, int], Cache]
    """Makes a cache of so many bytes or, if it cannot count bytes, of so many entries."""
    package: str = ""
    """The package that must be installed; empty: none."""
    counts_entries: bool = False


CANDIDATES: dict[str, Candidate] = {
    "lru": Candidate(lambda max_bytes, _entries: yardsticks.Lru(max_bytes)),
    "sieve": Candidate(lambda max_bytes, _entries: yardsticks.Sieve(max_bytes)),
    "s3fifo": Candidate(lambda max_bytes, _entries: Tier(max_bytes)),
    "theine (W-TinyLFU)": Candidate(lambda _bytes, entries: Theine(entries), "theine", counts_entries=True),
    "cachebox LRU": Candidate(_cachebox("LRUCache"), "cachebox"),
    "cachebox LFU": Candidate(_cachebox("LFUCache"), "cachebox"),
    "cachetools LRU": Candidate(_cachetools, "cachetools"),
}
"""The policies by name."""


class Found(Struct, frozen=True):
    """The figures of one run."""

    requests: int
    hits: int
    seconds: float
    """Seconds of processor time."""
    entries: int
    held: int
    """Bytes of the entries that the cache holds at the end, counted alike for all caches."""
    grown: int
    """Bytes that the process grew by."""

    @property
    def ratio(self) -> float:
        return self.hits / self.requests


def _entry(length: int) -> Entry:
    return Entry(result=b"x" * length, cache=CacheClass.FOREVER, network="s0", method="m", stored_at=0.0, expires=inf)


def replay(cache: Cache, requests: Iterable[Request]) -> tuple[int, float]:
    """Ask for everything in turn, keep what was missed: hits, and seconds of processor time."""
    hits = 0
    begun = time.process_time()
    for name, length in requests:
        key = bytes(memoryview(name))  # every call brings a key of its own
        if cache.get(key) is not None:
            hits += 1
        else:
            cache.put(key, _entry(length))
    return hits, time.process_time() - begun


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
    except OSError:
        return 0


def one(name: str, trace: str, requests: int, max_bytes: int, entries: int = 0) -> Found:
    """One policy over one trace, in this process; `entries` bounds those that cannot count bytes."""
    asked = list(islice(TRACES[trace](), requests))
    gc.collect()
    before = _resident()
    cache = CANDIDATES[name].make(max_bytes, entries or max_bytes // ENTRY_BYTES)
    hits, seconds = replay(cache, asked)
    grown, count_at_end = max(0, _resident() - before), len(cache)
    kept = ((key, cache.get(key)) for key in dict(asked))
    held = sum(yardsticks.weigh(key, entry) for key, entry in kept if entry is not None)
    return Found(len(asked), hits, seconds, count_at_end, held, grown)


def _child(name: str, trace: str, requests: int, max_bytes: int, entries: int) -> Found:
    command = [sys.executable, "-m", "benchmarks.policies", "--one", name, trace, str(entries)]
    bounds = ["--requests", str(requests), "--size", str(max_bytes)]
    run = subprocess.run([*command, *bounds], capture_output=True, text=True, check=True)
    return msgspec.json.decode(run.stdout, type=Found)


def apart(name: str, trace: str, requests: int, max_bytes: int) -> Found:
    """A policy over a trace in a process of its own, so that memory that one run leaves is not counted for the next.

    One that cannot count bytes is run again with more or fewer entries until what it holds is what the others hold.
    """
    entries = max_bytes // 5_000 if CANDIDATES[name].counts_entries else 0
    found = _child(name, trace, requests, max_bytes, entries)
    for _ in range(TRIALS):
        if not entries or abs(found.held / max_bytes - 1) < CLOSE:
            break
        entries = int(found.entries * max_bytes / found.held)
        found = _child(name, trace, requests, max_bytes, entries)
    return found


def missing(names: Iterable[str]) -> Iterator[str]:
    """The candidates whose package is not installed."""
    return (name for name in names if (needs := CANDIDATES[name].package) and find_spec(needs) is None)


def measure(
    names: list[str],
    requests: int,
    max_bytes: int,
    run: Callable[[str, str, int, int], Found] = apart,
    say: Callable[[str], None] = lambda _text: None,
) -> Report:
    """Every policy over every trace."""
    without = set(missing(names))
    rows: list[tuple[str, ...]] = []
    data: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        if name in without:
            continue
        found = {}
        for trace in TRACES:
            say(f"{name}: {trace}")
            found[trace] = run(name, trace, requests, max_bytes)
        rows.append(_row(name, found, max_bytes))
        data[name] = {trace: {"ratio": each.ratio, "entries": each.entries} for trace, each in found.items()}
    packages = sorted({CANDIDATES[name].package for name in names if name not in without} - {""})
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in packages)
    facts = machine() | {"bound": f"{max_bytes / 1e6:.0f} MB", "requests": f"{requests:,} a trace"}
    facts |= {"compared with": versions} if versions else {}
    hits, memory = (
        [f"hits: {trace}" for trace in TRACES],
        ("held", "resident", "an entry", "beyond its answer", "operations/s"),
    )
    table = Table("Policies", ("policy", *hits, *memory), rows)
    remarks = [
        f"{name} was not measured: {CANDIDATES[name].package} is not installed" for name in names if name in without
    ]
    return Report("Eviction policies of the memory tier", facts, [table], remarks=remarks, data=data)


def _row(name: str, found: dict[str, Found], max_bytes: int) -> tuple[str, ...]:
    each = list(found.values())
    grown, entries = sum(run.grown for run in each), sum(run.entries for run in each)
    answers = sum(run.held - run.entries * ENTRY_BYTES for run in each)
    rate = sum(run.requests for run in each) / sum(run.seconds for run in each)
    return (
        name,
        *(percent(run.ratio) for run in each),
        f"{max(run.held for run in each) / max_bytes:.2f}",
        f"{max(run.grown for run in each) / max_bytes:.2f}",
        f"{grown / max(1, entries) / 1000:.2f} kB",
        f"{(grown - answers) / max(1, entries):,.0f} B",
        count(rate),
    )


def main() -> None:
    """Measure, show, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="32MB", help="bound of each cache")
    parser.add_argument("--requests", type=int, default=300_000, help="of each trace")
    parser.add_argument("--only", default=",".join(CANDIDATES), help="policies, separated by commas")
    parser.add_argument("--out", type=Path, help="a file to write: .md, .json")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, trace, entries = given.one
        found = one(name, trace, given.requests, parse_size(given.size), int(entries))
        print(msgspec.json.encode(found).decode())
        return
    console = Console(stderr=True)
    report = measure(given.only.split(","), given.requests, parse_size(given.size), say=console.print)
    pages.tell(report, given.out, SECTION)


if __name__ == "__main__":
    main()
