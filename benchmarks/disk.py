"""The disk tier as users run it: what a hit costs, what is noticed of it in memory, a cold disk, size, a restart.

    python -m benchmarks.disk [--short] [--out docs/benchmarks.md]

The blocks are written through the proxy and asked for in a random order, none again before all others were, so that a
small memory tier has none of them. Loads are compared in turns, over one proxy with the tier and one without. Where
others use the machine, more runs are made, and the quietest of them count.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

import uvloop
from msgspec import Struct

from benchmarks import blocks, disk_inside, evidence, quiet, uncached
from benchmarks.peers import LOADING, Bench, Running, as_generator, bench, get, on_core
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, Schedule, closed, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, machine, milliseconds, percent, remarks
from rpcaccel.bench.report.statistics import Summary, percentile
from rpcaccel.bench.runs import process_usage
from tests.support.services import Process, wait_until

SECTION = "disk tier"
MEMORY = "8MB"
"""A memory tier for the hot blocks and for hardly more."""
HOT_BLOCKS = range(100, 200)
"""Blocks that are hits in memory."""
STORED_FROM, WRITTEN_FROM = 1_000, 400_000
"""The first block of those that are on the disk, and of those that are written while others are read."""
HITS, READS, WRITES = 2_000, 500, 2_000
"""Calls a second in the open loops: hits in memory, hits on the disk, misses."""
CONNECTIONS = 32
WANTED_COST, WANTED_P99, WANTED_BESIDE, WANTED_BYTES, WANTED_RATIO = 60e-6, 1e-3, 1.5, 400_000_000, 0.02


class Size(Struct, frozen=True):
    """How much is measured."""

    stored: int = 200_000
    """Blocks on the disk."""
    seconds: float = 4.0
    runs: int = 5
    patience: float = 100.0
    """Seconds that the runs of a group wait in all, at the most, until others leave the machine alone."""
    filled: int = 1_000_000
    """Blocks whose bytes on the disk are measured."""
    before: int = 200_000
    """Requests of the explorer before the restart."""
    window: int = 20_000
    """Requests of which a hit ratio is taken."""


USUAL = Size()
QUIET, MORE = 0.1, 2
"""Processors that others may keep busy during a run; how many times the runs wanted are made at the most for that."""
ENOUGH = 0.99
"""Share of the calls of a load that must be answered from where it is named for."""
Rows = list[tuple[str, ...]]
T = TypeVar("T")


def measure(watch: Watch, size: Size = USUAL) -> Report:
    """The table of what is wanted and of what was measured."""
    rows, remarked = list[tuple[str, ...]](), list[str]()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab:
        watch.part("fill", 0, 10)
        through = Through(lab, Path(folder) / "tier", size, watch)
        watch.part("cost of a hit", 1, 10)
        rows += through.costs()
        watch.part("latencies", 2, 10)
        rows += through.latencies()
        remarked += through.remarks
        probed, disturbed = probe(Path(folder) / "tier"), through.disturbed
    for place, made in ((8, _bytes), (9, _restart)):
        if not watch.stopped:
            watch.part(made.__name__.strip("_"), place, 10)
            with tempfile.TemporaryDirectory() as folder:
                rows += made(Path(folder), size)
    facts = machine() | {
        "blocks": f"{size.stored:,} on the disk, of 1.6 kB, through the proxy with a memory tier of {MEMORY}",
        "runs": f"{size.runs} interleaved runs of {size.seconds:g} s, medians; the generator on one core, the proxy on "
        "the other, with one worker",
        "disk": f"4 kB that are not in the page cache take {probed}",
        "others": f"the quietest of up to {size.runs * MORE} runs count; processors that others kept busy meanwhile: "
        f"{', '.join(f'{name} {share:.2f}' for name, share in disturbed.items())}; load average {load:.1f} at first",
    }
    table = Table("Disk tier", ("", "wanted", "measured", "reached"), rows)
    return Report("Disk tier", facts, [table], remarks=[*remarks((), stopped=watch.stopped), *dict.fromkeys(remarked)])


# -- through the program -----------------------------------------------------------------------------------------------


class Load(Struct, frozen=True):
    """What is asked in one run beside the hits in memory."""

    name: str
    reads: int = 0
    """Hits on the disk a second."""
    writes: int = 0
    """Misses a second."""
    tier: bool = True
    """Is the proxy asked that has the tier?"""
    cold: bool = False


ALONE = Load("hits in memory alone")
WARM = Load("beside hits on the disk", reads=READS)
WRITTEN = Load("beside misses that are written", writes=WRITES)
PASSED = Load("beside misses, without the tier", writes=WRITES, tier=False)
COLD = Load("beside hits on a cold disk", reads=READS, cold=True)
LOADS = (ALONE, WARM, COLD, PASSED, WRITTEN)
"""In turns forwards and backwards, so that the tier has nothing to write any more when hits on it are measured."""


class Run(Struct, Generic[T]):
    """One run."""

    result: T
    doubts: list[str]
    """Sentences about what went otherwise than it should."""
    disturbed: float = 0.0
    """The processors that others kept busy."""


class Runs(Generic[T]):
    """The runs of several cases, made in turns. The quietest ones count."""

    def __init__(self, cases: Iterable[Any], wanted: int, patience: float) -> None:
        """`wanted` runs of each case count; `patience`: seconds that all of them wait at the most for others to be
        quiet."""
        self.made: dict[Any, list[Run[T]]] = {case: [] for case in cases}
        self._wanted = wanted
        self._patience = patience

    def make(self, one: Callable[[Any], Run[T]], watch: Watch) -> None:
        """Make the runs, and more of them until enough are quiet, within bounds."""
        for number in range(self._wanted * MORE):
            for case in [*self.made][:: 1 if number % 2 == 0 else -1]:
                if not watch.stopped:
                    self._patience -= quiet.settle(QUIET, self._patience)
                    before = quiet.look()
                    run = one(case)
                    run.disturbed = quiet.others(before, quiet.look())
                    self.made[case].append(run)
            if all(sum(map(_is_quiet, runs)) >= self._wanted for runs in self.made.values()):
                return

    def that_count(self, case: object) -> list[Run[T]]:
        """The quietest runs of a case; those with doubts only where there are no others."""
        return sorted(self.made[case], key=lambda run: (bool(run.doubts), run.disturbed))[: self._wanted]

    def of(self, case: object) -> list[T]:
        """The results of the runs of a case that count."""
        return [run.result for run in self.that_count(case)]

    def disturbed(self) -> float:
        """The processors that others kept busy during the runs that count, in the median."""
        return median(run.disturbed for case in self.made for run in self.that_count(case))

    def doubts(self) -> list[str]:
        """The doubts about the runs that count."""
        return [doubt for case in self.made for run in self.that_count(case) for doubt in run.doubts]


def _is_quiet(run: Run[Any]) -> bool:
    return run.disturbed <= QUIET and not run.doubts


class Through:
    """A proxy with the tier and one without, over one node, and what was measured of them."""

    def __init__(self, lab: Bench, folder: Path, size: Size, watch: Watch) -> None:
        """Start the programs and write the blocks through the one that has the tier."""
        self.remarks: list[str] = []
        self.disturbed: dict[str, float] = {}
        """The processors that others kept busy during the runs that count, by what was measured."""
        self._folder, self._size, self._watch = folder, size, watch
        node = f"{lab.responder('--blocks')},id=static"
        self._tier = lab.rpcaccel(node, "--memory", MEMORY, "--disk", str(folder), "--disk-size", "10GB")
        self._plain = lab.rpcaccel(node, "--memory", MEMORY)
        numbers = list(range(STORED_FROM, STORED_FROM + size.stored))
        random.Random("numbers").shuffle(numbers)
        self._stored = cycle(numbers)
        self._new = count(WRITTEN_FROM)
        every = closed(map(call, numbers), at_once=64, total=size.stored)
        wait_until("the file of the disk tier is open", lambda: tier_figure(self._tier, "up") == 1)
        with as_generator():
            self._run(self._tier, {"fill": every})
        wait_until("the blocks are on the disk, or lost", lambda: held(self._tier) + lost(self._tier) >= size.stored)
        if some := lost(self._tier):
            self.remarks.append(f"{some:,} of {size.stored:,} blocks could not be written to the disk")

    def _run(self, ours: Running, loads: Mapping[str, Schedule]) -> Run[dict[str, Summary]]:
        """Put several loads on a proxy at the same time. Raises RuntimeError when calls failed."""
        found, doubts = uvloop.run(_at_once(ours.url, loads, self._watch))
        if failed := sum(one.failures for one in found.values()):
            raise RuntimeError(f"{failed} calls failed")
        return Run(found, doubts)

    def _note(self, name: str, runs: Runs[Any]) -> None:
        self.remarks += runs.doubts()
        self.disturbed[name] = runs.disturbed()

    def costs(self) -> Rows:
        """Rows of the processor time of a hit."""
        cases = [(where, connections) for connections in (1, CONNECTIONS) for where in ("disk", "memory", "miss")]
        runs = Runs[float](cases, self._size.runs, self._size.patience)
        runs.make(lambda case: self._cost(*case), self._watch)
        if self._watch.stopped:
            return []
        self._note("processor time", runs)
        return [self._cost_row(runs, connections) for connections in (1, CONNECTIONS)]

    def _cost_row(self, runs: Runs[float], connections: int) -> tuple[str, ...]:
        disk, memory, miss = (median(runs.of((where, connections))) for where in ("disk", "memory", "miss"))
        return _row(
            f"processor time of a hit on the disk, {connections} connection{'s' if connections > 1 else ''}",
            f"{WANTED_COST * 1e6:.0f} µs at the most",
            f"{disk * 1e6:.0f} µs (a hit in memory {memory * 1e6:.0f} µs, a miss {miss * 1e6:.0f} µs)",
            reached=disk <= WANTED_COST,
        )

    def _cost(self, where: str, connections: int) -> Run[float]:
        numbers = {"disk": self._stored, "memory": cycle(HOT_BLOCKS), "miss": self._new}[where]
        asked = closed(map(call, numbers), at_once=connections, seconds=self._size.seconds / 2)
        pids = process_usage.with_children([self._tier.program.pid])
        before = _cpu(pids)
        with as_generator():
            run = self._run(self._tier, {where: asked})
        return Run((_cpu(pids) - before) / max(1, run.result[where].calls), run.doubts)

    def latencies(self) -> Rows:
        """Rows of what calls take, with hits in memory beside what else is asked."""
        runs = Runs[dict[str, Summary]](LOADS, self._size.runs, self._size.patience)
        runs.make(self._under, self._watch)
        if self._watch.stopped:
            return []
        self._note("latencies", runs)
        rows: Rows = []
        for load, beside in ((WARM, ALONE), (COLD, ALONE), (WRITTEN, PASSED)):
            if load.reads:
                p50, p99 = (_middle(runs.of(load), "disk", which) for which in ("p50", "p99"))
                name = f"{load.reads} hits/s on the disk{', cold' if load.cold else ''}, p50 / p99"
                wanted = f"p99 {milliseconds(WANTED_P99)} ms at the most"
                rows.append(
                    _row(name, wanted, f"{milliseconds(p50)} / {milliseconds(p99)} ms", reached=p99 <= WANTED_P99)
                )
            rows.append(_beside(load, beside, runs))
        return rows

    def _under(self, load: Load) -> Run[dict[str, Summary]]:
        ours = self._tier if load.tier else self._plain
        seconds = self._size.seconds
        loads = {"memory": constant(map(call, cycle(HOT_BLOCKS)), rate=HITS, seconds=seconds)}
        if load.reads:
            loads["disk"] = constant(map(call, self._stored), rate=load.reads, seconds=seconds)
        if load.writes:
            loads["miss"] = constant(map(call, self._new), rate=load.writes, seconds=seconds)
        uncached.load(self._folder)
        with as_generator():
            if not load.cold:
                return self._run(ours, loads)
            dropping = [*on_core(LOADING), sys.executable, "-m", "benchmarks.uncached", str(self._folder)]
            with Process(dropping, apart=True) as process:
                process.wait_for("dropped")
                return self._run(ours, loads)


def call(number: int) -> LoadCall:
    """The call for a block."""
    return LoadCall(blocks.METHOD, blocks.params(number))


def held(ours: Running) -> int:
    """The entries on the disk, by the proxy's own count."""
    return tier_figure(ours, "entries")


def lost(ours: Running) -> int:
    """The entries that were not written to the disk, by the proxy's own count."""
    return sum(tier_figure(ours, "failures_total", f'reason="{reason}",') for reason in ("dropped", "error"))


def tier_figure(ours: Running, name: str, label: str = "") -> int:
    """A metric of the disk tier; `label`: what stands before the label of the tier. 0 where there is none."""
    line = rf'^rpcaccel_tier_{name}\{{{label}tier="disk"\}} (\S+)'
    found = re.search(line.encode(), get(f"{ours.admin}/metrics"), re.MULTILINE)
    return int(float(found[1])) if found else 0


async def _at_once(url: str, loads: Mapping[str, Schedule], watch: Watch) -> tuple[dict[str, Summary], list[str]]:
    """The figures of each load, and sentences about answers that came from elsewhere than their load is named for."""
    async with AsyncExitStack() as stack:
        runs: dict[str, LoadGenerator] = {}
        for name, plan in loads.items():
            connections = plan.at_once or CONNECTIONS * 2
            pool = await stack.enter_async_context(ConnectionPool(parse(url), connections))
            runs[name] = LoadGenerator(pool, timeout=10.0)
            for number in [*HOT_BLOCKS] * 2 if name == "memory" else ():
                await pool.post(call(number).body(number), 10.0)
        await asyncio.gather(*(run.run(loads[name], watch) for name, run in runs.items()))
    found = {name: run.summary() for name, run in runs.items()}
    return found, [] if watch.stopped else [*_doubts(runs, found)]


def _doubts(runs: Mapping[str, LoadGenerator], found: Mapping[str, Summary]) -> Iterator[str]:
    for name, one in found.items():
        from_there = one.sources.get(name, 0)
        if name != "fill" and from_there < ENOUGH * one.calls:
            share = percent(1 - from_there / max(1, one.calls))
            yield f"in a run, {share} of the calls for a {name} were answered from elsewhere"
        if not runs[name].held.yes:
            yield f"in a run, the rate of the calls for a {name} was not held by the generator"


def _cpu(pids: Sequence[int]) -> float:
    used = process_usage.use(pids)
    return used.cpu if used is not None else 0.0


def _middle(runs: Sequence[Mapping[str, Summary]], name: str, which: str) -> float:
    return median(float(getattr(run[name], which) or 0.0) for run in runs)


def _beside(load: Load, beside: Load, runs: Runs[dict[str, Summary]]) -> tuple[str, ...]:
    """The row of the hits in memory under a load, against those under another one."""
    with_it, without = (_middle(runs.of(one), "memory", "p99") for one in (load, beside))
    ratio = with_it / without
    what = f"p99 of {HITS:,} hits/s in memory {load.name}; {beside.name}"
    measured = f"{ratio:.2f} times: {milliseconds(with_it)}; {milliseconds(without)} ms"
    return _row(what, f"{WANTED_BESIDE:g} times at the most", measured, reached=ratio <= WANTED_BESIDE)


def _row(what: str, wanted: str, measured: str, reached: bool | None) -> tuple[str, ...]:
    return what, wanted, measured, {True: "yes", False: "no", None: "–"}[reached]


def probe(folder: Path, reads: int = 500) -> str:
    """What a read of 4 kB from the disk takes, past the page cache: p50 / p99."""
    uncached.drop(folder)
    took = []
    descriptor = os.open(max(folder.glob("*.sqlite3"), key=lambda file: file.stat().st_size), os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        pages = os.fstat(descriptor).st_size // 4096
        rng = random.Random("probe")
        for page in rng.sample(range(pages), min(reads, pages)):
            began = time.perf_counter()
            os.pread(descriptor, 4096, page * 4096)
            took.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
    took.sort()
    return " / ".join(milliseconds(percentile(took, share)) for share in (0.5, 0.99)) + " ms (p50 / p99)"


# -- in process --------------------------------------------------------------------------------------------------------


def _bytes(folder: Path, size: Size) -> Rows:
    found = asyncio.run(disk_inside.fill(folder, size.filled))
    wanted = WANTED_BYTES * size.filled // 1_000_000
    return [
        _row(
            f"bytes on the disk of {found.number:,} blocks",
            f"{wanted / 1e6:,.0f} MB at the most",
            f"{found.on_disk / 1e6:,.0f} MB of {found.answers / 1e6:,.0f} MB, a ratio of {found.ratio:.1f}",
            reached=found.on_disk <= wanted,
        ),
        _row(
            "writes a second, in process and in a random order; processor time",
            "–",
            f"{found.number / found.seconds:,.0f}/s; {found.cpu / found.number * 1e6:.0f} µs each",
            reached=None,
        ),
    ]


def _restart(folder: Path, size: Size) -> Rows:
    found = asyncio.run(disk_inside.restart(folder, size.before, size.window))
    what = f"hit ratio of the explorer, last {size.window:,} requests before a restart; first {size.window:,} after it"
    lost = f" ({found.lost:,} lookups late or writes dropped)" if found.lost else ""
    return [
        _row(
            what,
            f"within {WANTED_RATIO * 100:.0f} points",
            f"{percent(found.before)}; {percent(found.after)}{lost}",
            reached=abs(found.after - found.before) <= WANTED_RATIO,
        ),
        _row(
            "the same without the tier", "–", f"{percent(found.before_without)}; {percent(found.after_without)}", None
        ),
    ]


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, Size(stored=6_000, seconds=0.4, runs=1, patience=0.0, filled=2_000, before=2_000, window=500))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
