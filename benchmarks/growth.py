"""What grows with what: nodes 1 to 50, methods 1 to 300, kept answers 1,000 to 1,000,000, workers 1 and 2.

    python -m benchmarks.growth [--short] [--out docs/benchmarks.md]

Processor time that the proxy's own processes take for a call, which a busy machine spoils less than a rate; and memory.
"""

from __future__ import annotations

import gc
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path
from random import Random

import uvloop
from msgspec import Struct

from benchmarks import evidence
from benchmarks.peers import Bench, Running, as_generator, bench, get
from rpcaccel import chains
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, closed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, machine, remarks
from rpcaccel.bench.runs import process_usage
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.plan.rules import CacheClass

SECTION = "growth"
CONNECTIONS = 32
KEPT = LoadCall("eth_getBlockByNumber", b'["0x10",false]')
RESULT = 400
"""Bytes of a kept answer: a million of them are to fit into a usual machine."""
_numbers = count(4 * 10**9)


class Size(Struct, frozen=True):
    """The sizes that are measured."""

    nodes: tuple[int, ...] = (1, 3, 10, 50)
    methods: tuple[int, ...] = (1, 30, 300)
    entries: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    workers: tuple[int, ...] = (1, 2)
    seconds: float = 1.0
    runs: int = 3
    lookups: int = 200_000
    """The number of lookups of kept answers."""


USUAL = Size()


def measure(watch: Watch, size: Size = USUAL) -> Report:
    """One table of what the proxy serves, and one of the memory tier by itself."""
    parts = (("nodes", _nodes), ("methods", _methods), ("workers", _workers))
    rows: list[tuple[str, ...]] = []
    for place, (name, made) in enumerate(parts):
        watch.part(name, place, len(parts) + 1)
        rows += made(size, watch)
    watch.part("kept answers", len(parts), len(parts) + 1)
    columns = ("", "a miss", "a hit", "a call of each method in turn", "memory of all processes", "/metrics")
    tables = [Table("The proxy", columns, rows), _entries(size, watch)]
    facts = machine() | {
        "load": f"closed loop, {CONNECTIONS} connections, {size.runs} runs of {size.seconds:g} s, the least of them; "
        "a static node",
        "figures": "processor time of the proxy's processes, probing included; memory at the end",
    }
    return Report("Growth", facts, tables, remarks=remarks((), stopped=watch.stopped))


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def _nodes(size: Size, watch: Watch) -> Iterator[tuple[str, ...]]:
    for number in size.nodes:
        with _lab() as lab:
            ours = lab.rpcaccel(*lab.responders(number), "--memory", "64MB")
            yield from _miss_and_hit(f"nodes: {number}", ours, size, watch)


def _workers(size: Size, watch: Watch) -> Iterator[tuple[str, ...]]:
    for number in size.workers:
        with _lab() as lab:
            # Workers are not pinned; the generator shares the cores with them.
            ours = lab.rpcaccel(lab.responder(), "--workers", str(number), "--memory", "64MB", core=None)
            yield from _miss_and_hit(f"workers: {number}", ours, size, watch)


def _miss_and_hit(name: str, ours: Running, size: Size, watch: Watch) -> Iterator[tuple[str, ...]]:
    miss, hit = _cost(ours, _new(), size, watch), _cost(ours, cycle([KEPT]), size, watch)
    if not watch.stopped:
        yield name, _micro(miss), _micro(hit), "–", _resident(ours), "–"


def _methods(size: Size, watch: Watch) -> Iterator[tuple[str, ...]]:
    for number in size.methods:
        with _lab() as lab:
            ours = lab.rpcaccel(lab.responder())
            cost = _cost(ours, cycle(known(number)), size, watch)
            if watch.stopped:
                return
            began = time.perf_counter()
            exposed = get(f"{ours.admin}/metrics")
            took = f"{len(exposed) / 1000:,.0f} kB, {(time.perf_counter() - began) * 1000:.0f} ms"
            yield f"methods called: {number}", "–", "–", _micro(cost), _resident(ours), took


class _lab:
    """Programs in a folder of their own, for one row."""

    def __enter__(self) -> Bench:
        self._folder = tempfile.TemporaryDirectory()
        self._bench = bench(Path(self._folder.name))
        return self._bench.__enter__()

    def __exit__(self, *error: object) -> None:
        self._bench.__exit__(None, None, None)
        self._folder.cleanup()


def known(number: int) -> list[LoadCall]:
    """A call of each of `number` methods that have a rule; methods without a rule share one row of counters.

    A subscribe is not among them, because it is an error over HTTP.
    """
    rules = sorted(chains.load("harmony").rules, key=lambda rule: (rule.kind != "read", rule.method))
    names = [rule.method for rule in rules if not rule.deny and rule.kind != "subscribe"]
    return [LoadCall(name) for name, _ in zip(names, range(number), strict=False)]


def _new() -> Iterator[LoadCall]:
    return (LoadCall("eth_getBlockByHash", b'["0x%064x",false]' % number) for number in _numbers)


def _cost(ours: Running, calls: Iterator[LoadCall], size: Size, watch: Watch) -> float:
    """Seconds of processor time for a call, the least of several runs. Raises RuntimeError when calls failed."""
    pids, found = process_usage.with_children([ours.program.pid]), []
    with as_generator():
        for _ in range(size.runs):
            if watch.stopped:
                return 0.0
            before = _cpu(pids)
            good, bad = uvloop.run(_load(ours.url, calls, size.seconds, watch))
            if bad > good / 100:
                raise RuntimeError(f"{bad} of {good + bad} calls failed")
            found.append((_cpu(pids) - before) / max(1, good))
    return min(found)


def _cpu(pids: Sequence[int]) -> float:
    used = process_usage.use(pids)
    return used.cpu if used is not None else 0.0


async def _load(url: str, calls: Iterator[LoadCall], seconds: float, watch: Watch) -> tuple[int, int]:
    async with ConnectionPool(parse(url), CONNECTIONS) as pool:
        series = await LoadGenerator(pool, timeout=10.0).run(closed(calls, at_once=CONNECTIONS, seconds=seconds), watch)
    failed = sum(series.errors.values())
    return series.calls - failed, failed


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"


def _resident(ours: Running) -> str:
    used = process_usage.use(process_usage.with_children([ours.program.pid]))
    return f"{used.resident / 1e6:.0f} MB" if used is not None else "–"


# -- the memory tier by itself -----------------------------------------------------------------------------------------


def _entries(size: Size, watch: Watch) -> Table:
    rows = []
    for number in size.entries:
        if watch.stopped:
            break
        with multiprocessing.get_context("spawn").Pool(1) as apart:  # so that memory is this tier's alone
            get_cost, put_cost, grown = apart.apply(kept, (number, size.lookups))
        rows.append((f"{number:,}", f"{get_cost * 1e6:.2f} µs", f"{put_cost * 1e6:.2f} µs", f"{grown / 1e6:,.0f} MB"))
    note = f"In process: a lookup, putting one in, and what the process grew by; answers of {RESULT} bytes."
    return Table("Kept answers", ("entries", "a lookup", "putting", "memory"), rows, note)


def kept(number: int, lookups: int) -> tuple[float, float, int]:
    """The seconds of a lookup and of a put in a tier with `number` entries, and the bytes that the process grew by."""
    gc.disable()
    before = _own()
    tier = MemoryTier(1 << 40, 1 << 20)
    began = time.process_time()
    for place in range(number):
        tier.put(b"key:%039d" % place, _entry(place), 0.0)
    put = (time.process_time() - began) / number
    grown = _own() - before
    rng = Random(1)
    asked = [b"key:%039d" % rng.randrange(number) for _ in range(lookups)]
    began = time.process_time()
    found = sum(tier.get(key, 1.0) is not None for key in asked)
    took = time.process_time() - began
    if found != lookups:
        raise RuntimeError(f"{lookups - found} of {lookups} entries are gone")
    return took / lookups, put, grown


def _entry(place: int) -> Entry:
    return Entry(
        result=b"%0*d" % (RESULT, place),
        cache=CacheClass.FOREVER,
        block=place,
        network="harmony-s0",
        method="eth_getBlockByHash",
        stored_at=0.0,
        expires=1e9,
    )


def _own() -> int:
    used = process_usage.use([multiprocessing.current_process().pid or 0])
    return used.resident if used is not None else 0


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, Size((1, 3), (1, 300), (1_000,), (1, 2), 0.2, 1, 10_000))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
