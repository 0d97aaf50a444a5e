"""`rpcaccel bench compare`: two endpoints, or settings, in interleaved runs: do they differ beyond the noise?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import repeat
from math import inf
from random import Random
from typing import NamedTuple

from msgspec import Struct, field, to_builtins

from rpcaccel.bench.load.client import ConnectionPool, LoadTarget
from rpcaccel.bench.load.generator import Generator, closed, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall, World, asking, learn, mixed
from rpcaccel.bench.report.report import Bars, Report, Table, failures, machine
from rpcaccel.bench.report.statistics import Ratio, Summary, ratio, spread
from rpcaccel.bench.runs import process_usage


class RunningSide(Struct, frozen=True):
    """One side while it runs."""

    target: LoadTarget
    pids: tuple[int, ...] = ()
    """Ids of the processes whose CPU and memory count; empty when they are not known."""


Side = Callable[[], AbstractContextManager[RunningSide]]
"""Makes a side run for as long as the context lasts, if it does not run anyway."""


class CompareOptions(Struct, frozen=True):
    """What is measured."""

    a: str
    """What the first side is called in the report."""
    b: str
    """What the second side is called in the report."""
    runs: int = 5
    duration: float = 5.0
    warmup: float = 1.0
    connections: int = 32
    rate: float = 0.0
    """Calls a second, in an open loop; 0: a closed loop, as fast as it goes."""
    timeout: float = 10.0
    methods: tuple[str, ...] = ()
    call: LoadCall | None = None
    seed: int = 1


class Run(Struct, frozen=True):
    """One run of one side."""

    side: str
    summary: Summary
    cores: float | None = None
    resident: int | None = None
    """Bytes."""
    held: bool = True
    """Whether the generator held the rate."""

    @property
    def cpu_a_call(self) -> float | None:
        """Microseconds of CPU for each good answer."""
        rate = self.summary.rate
        return None if self.cores is None or not rate else self.cores / rate * 1e6


class Measure(NamedTuple):
    """One thing that is compared."""

    name: str
    of: Callable[[Run], float | None]
    more_is_better: bool = False


MEASURES = (
    Measure("good calls (/s)", lambda run: run.summary.rate, more_is_better=True),
    Measure("latency, mean (ms)", lambda run: _ms(run.summary.mean)),
    Measure("latency, p50 (ms)", lambda run: _ms(run.summary.p50)),
    Measure("latency, p99 (ms)", lambda run: _ms(run.summary.p99)),
    Measure("CPU (cores)", lambda run: run.cores),
    Measure("CPU a call (µs)", lambda run: run.cpu_a_call),
    Measure("resident memory (MB)", lambda run: None if run.resident is None else run.resident / 1e6),
)
_GOOD, _CORES = MEASURES[0], MEASURES[4]


class CompareResults(Struct):
    """Runs made so far."""

    asked: CompareOptions
    runs: list[Run] = field(default_factory=list)

    def of(self, side: str) -> list[Run]:
        """The runs of one side."""
        return [run for run in self.runs if run.side == side]

    @property
    def dead(self) -> list[str]:
        """Sides that answered no call well in any run."""
        sides = {name: self.of(name) for name in (self.asked.a, self.asked.b)}
        return [name for name, runs in sides.items() if runs and all(run.summary.dead for run in runs)]

    def values(self, side: str, measure: Measure) -> list[float]:
        """What was measured of one side, run by run."""
        return [value for run in self.of(side) if (value := measure.of(run)) is not None]

    def ratio(self, measure: Measure) -> Ratio | None:
        """B over A, of the pairs of runs in which both have the measure."""
        pairs = [
            (measure.of(a), measure.of(b)) for a, b in zip(self.of(self.asked.a), self.of(self.asked.b), strict=False)
        ]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        return ratio([a for a, _ in both], [b for _, b in both])


async def compare(asked: CompareOptions, sides: tuple[Side, Side], watch: Watch) -> CompareResults:
    """Measure: A B, B A, A B … so that a machine that grows slower favours none. Raises NoEndpointError, OSError."""
    found = CompareResults(asked)
    named = list(zip((asked.a, asked.b), sides, strict=True))
    world: World | None = None
    for number in range(asked.runs):
        pair: list[Run] = []
        for place, (name, side) in enumerate(named if number % 2 == 0 else named[::-1]):
            watch.part(f"run {number + 1} of {asked.runs}: {name}", number * 2 + place, asked.runs * 2)
            with side() as running:
                if world is None:
                    world = await watch.unless_stopped(_world(asked, running.target))
                pair.append(await _run(asked, name, running, world, number, watch))
            if watch.stopped:
                return found  # half a pair compares nothing
        found.runs += pair
    return found


async def _world(asked: CompareOptions, target: LoadTarget) -> World:
    pool = ConnectionPool(target, 1)
    try:
        return World("", 0, "", ()) if asked.call else await learn(asking(pool), pool.target.shown)
    finally:
        await pool.close()


async def _run(asked: CompareOptions, name: str, running: RunningSide, world: World, number: int, watch: Watch) -> Run:
    pool = ConnectionPool(running.target, asked.connections)
    try:
        calls = _calls(asked, world, number)
        if asked.warmup:
            warming = closed(calls, at_once=asked.connections, seconds=asked.warmup)
            await Generator(pool, timeout=asked.timeout).run(warming, Watch(stop=watch.stop))
        before = process_usage.use(running.pids)
        run = Generator(pool, timeout=asked.timeout)
        if asked.rate:
            await run.run(constant(calls, rate=asked.rate, seconds=asked.duration), watch)
        else:
            await run.run(closed(calls, at_once=asked.connections, seconds=asked.duration), watch)
        spent = process_usage.spent(before, process_usage.use(running.pids))
        held = run.held.yes or not asked.rate
        if spent is None:
            return Run(name, run.summary(), held=held)
        return Run(name, run.summary(), spent.cores, spent.resident, held)
    finally:
        await pool.close()


def _calls(asked: CompareOptions, world: World, number: int) -> Iterator[LoadCall]:
    """The calls of a pair of runs: the same for both sides, in the same order."""
    return repeat(asked.call) if asked.call else mixed(world, Random(asked.seed + number), asked.methods)


def reported(found: CompareResults, *, stopped: bool = False) -> Report:
    """The report."""
    asked = found.asked
    loop = f"open loop, {asked.rate:g} calls/s" if asked.rate else f"closed loop, {asked.connections} connections"
    calls = asked.call.method if asked.call else ", ".join(asked.methods) or "the ten methods of the table in turn"
    facts = machine() | {
        "A": asked.a,
        "B": asked.b,
        "load": f"{loop}; {asked.runs} interleaved runs of {asked.duration:g} s each, {asked.warmup:g} s of warming up",
        "calls": calls,
    }
    rows = [_row(found, measure) for measure in MEASURES if any(found.values(side, measure) for side in _sides(asked))]
    columns = ("", "A mean ± spread", "B mean ± spread", "B / A", "95 % interval", "larger than the noise?")
    note = "Spread: standard deviation between runs. Interval: of the ratio, from the pairs of runs (Student's t)."
    rates: dict[str, list[float | None]] = {side: [*found.values(side, _GOOD)] for side in _sides(asked)}
    pairs = min((len(values) for values in rates.values()), default=0)
    plot = Bars("Good calls a second, run by run", "/s", tuple(str(number + 1) for number in range(pairs)), rates)
    data = {"runs": to_builtins(found.runs)}
    return Report("A against B", facts, [Table("A and B", columns, rows, note)], [plot], _remarks(found, stopped), data)


def _sides(asked: CompareOptions) -> tuple[str, str]:
    return asked.a, asked.b


def _remarks(found: CompareResults, stopped: bool) -> list[str]:
    remarks = ["interrupted: the whole pairs of runs made until then"] if stopped else []
    remarks += [f"every call to {side} failed" for side in found.dead]
    for side in _sides(found.asked):
        bad = [run for run in found.of(side) if run.summary.failures]
        if bad:
            first = failures(bad[0].summary)
            remarks.append(f"{side}: failures in {len(bad)} of its runs, {first} in the first of them")
        if not all(run.held for run in found.of(side)):
            said = f"the generator did not hold the rate; the latencies say more about it than about {side}"
            remarks.append(f"{side}: {said}")
        if found.runs and not found.values(side, _CORES):
            remarks.append(f"{side}: its process is not on this machine, or cannot be seen: no CPU and memory")
    return remarks


def _row(found: CompareResults, measure: Measure) -> tuple[str, ...]:
    spreads = (_spread(found.values(side, measure)) for side in _sides(found.asked))
    return (measure.name, *spreads, *_ratio(found.ratio(measure), measure))


def _spread(values: Sequence[float]) -> str:
    found = spread(values)
    if found is None:
        return "–"
    return f"{found.mean:,.4g}" + (f" ± {found.deviation:,.2g}" if found.runs > 1 else "")


def _ratio(found: Ratio | None, measure: Measure) -> tuple[str, str, str]:
    if found is None:
        return "–", "–", "–"
    if found.high == inf:
        return f"{found.ratio:.2f}", "–", "one run tells nothing of the noise"
    if not found.certain:
        word = "no"
    else:
        word = "yes: B is better" if (found.ratio > 1) == measure.more_is_better else "yes: A is better"
    return f"{found.ratio:.2f}", f"{found.low:.2f} to {found.high:.2f}", word


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
