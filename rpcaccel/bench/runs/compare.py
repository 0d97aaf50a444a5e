"""`rpcaccel bench compare`: two endpoints, or settings, in interleaved runs: do they differ beyond the noise?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import inf
from statistics import fmean, stdev
from typing import NamedTuple

from msgspec import Struct, field, to_builtins

from rpcaccel.bench.load.client import ConnectionPool, LoadTarget
from rpcaccel.bench.load.generator import LoadGenerator, closed, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import CallChoice, World
from rpcaccel.bench.report.report import Report, Table, bars, failures, machine, remarks
from rpcaccel.bench.report.statistics import Ratio, Summary, ratio
from rpcaccel.bench.runs import process_usage


class RunningSide(Struct, frozen=True):
    """One side while it runs."""

    target: LoadTarget
    pids: tuple[int, ...] = ()
    """Ids of the processes whose CPU and memory count; empty when they are not known."""


Side = Callable[[], AbstractContextManager[RunningSide]]
"""Makes a context in which a side runs; a side that runs already is not started."""


class CompareOptions(CallChoice, frozen=True):
    """The options of `bench compare`."""

    a: str
    """The name of the first side in the report."""
    b: str
    """The name of the second side in the report."""
    runs: int = 5
    duration: float = 5.0
    warmup: float = 1.0
    connections: int = 32
    rate: float = 0.0
    """Calls a second, in an open loop; 0: a closed loop, as fast as it goes."""
    timeout: float = 10.0

    @property
    def sides(self) -> tuple[str, str]:
        """Both sides, by name."""
        return self.a, self.b


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
        """Seconds of CPU for each good answer."""
        rate = self.summary.rate
        return None if self.cores is None or not rate else self.cores / rate


class Measure(NamedTuple):
    """A figure that is compared; multiplied by `scale`, it has the unit in the name."""

    name: str
    of: Callable[[Run], float | None]
    scale: float = 1
    more_is_better: bool = False


MEASURES = (
    Measure("good calls (/s)", lambda run: run.summary.rate, more_is_better=True),
    Measure("latency, mean (ms)", lambda run: run.summary.mean, 1000),
    Measure("latency, p50 (ms)", lambda run: run.summary.p50, 1000),
    Measure("latency, p99 (ms)", lambda run: run.summary.p99, 1000),
    Measure("CPU (cores)", lambda run: run.cores),
    Measure("CPU a call (µs)", lambda run: run.cpu_a_call, 1e6),
    Measure("resident memory (MB)", lambda run: run.resident, 1e-6),
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
        sides = {name: self.of(name) for name in self.asked.sides}
        return [name for name, runs in sides.items() if runs and all(run.summary.dead for run in runs)]

    def values(self, side: str, measure: Measure) -> list[float]:
        """The values of a measure for one side, run by run."""
        return [value * measure.scale for run in self.of(side) if (value := measure.of(run)) is not None]

    def ratio(self, measure: Measure) -> Ratio | None:
        """B over A, of the pairs of runs in which both have the measure."""
        sides = (map(measure.of, self.of(side)) for side in self.asked.sides)
        both = [(a, b) for a, b in zip(*sides, strict=False) if a is not None and b is not None]
        return ratio([a for a, _ in both], [b for _, b in both])


async def compare(asked: CompareOptions, sides: tuple[Side, Side], watch: Watch) -> CompareResults:
    """Measure: A B, B A, A B … so that a machine that grows slower favours none. Raises NoEndpointError, OSError."""
    found = CompareResults(asked)
    named = list(zip(asked.sides, sides, strict=True))
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
    async with ConnectionPool(target, 1) as pool:
        return await asked.world(pool)


async def _run(asked: CompareOptions, name: str, running: RunningSide, world: World, number: int, watch: Watch) -> Run:
    calls = asked.calls(world, number)  # the same for both sides, in the same order
    async with ConnectionPool(running.target, asked.connections) as pool:
        if asked.warmup:
            warming = closed(calls, at_once=asked.connections, seconds=asked.warmup)
            await LoadGenerator(pool, timeout=asked.timeout).run(warming, Watch(stop=watch.stop))
        before = process_usage.use(running.pids)
        run = LoadGenerator(pool, timeout=asked.timeout)
        if asked.rate:
            await run.run(constant(calls, rate=asked.rate, seconds=asked.duration), watch)
        else:
            await run.run(closed(calls, at_once=asked.connections, seconds=asked.duration), watch)
        spent = process_usage.spent(before, process_usage.use(running.pids))
        cores, resident = (None, None) if spent is None else (spent.cores, spent.resident)
        return Run(name, run.summary(), cores, resident, run.held.yes or not asked.rate)


def reported(found: CompareResults, *, stopped: bool = False) -> Report:
    """The report."""
    asked = found.asked
    loop = f"open loop, {asked.rate:g} calls/s" if asked.rate else f"closed loop, {asked.connections} connections"
    facts = machine() | {
        "A": asked.a,
        "B": asked.b,
        "load": f"{loop}; {asked.runs} interleaved runs of {asked.duration:g} s each, {asked.warmup:g} s of warming up",
        "calls": asked.named,
    }
    rows = [_row(found, measure) for measure in MEASURES if any(found.values(side, measure) for side in asked.sides)]
    columns = ("", "A mean ± spread", "B mean ± spread", "B / A", "95 % interval", "larger than the noise?")
    note = "Spread: standard deviation between runs. Interval: of the ratio, from the pairs of runs (Student's t)."
    rates: dict[str, list[float | None]] = {side: [*found.values(side, _GOOD)] for side in asked.sides}
    pairs = min((len(values) for values in rates.values()), default=0)
    plot = bars("Good calls a second, run by run", [str(number + 1) for number in range(pairs)], rates)
    data = {"runs": to_builtins(found.runs)}
    return Report("A against B", facts, [Table("A and B", columns, rows, note)], [plot], _remarks(found, stopped), data)


def _remarks(found: CompareResults, stopped: bool) -> list[str]:
    said = remarks(found.dead, stopped=stopped)
    for side in found.asked.sides:
        bad = [run for run in found.of(side) if run.summary.failures]
        if bad:
            first = failures(bad[0].summary)
            said.append(f"{side}: failures in {len(bad)} of its runs, {first} in the first of them")
        if not all(run.held for run in found.of(side)):
            why = f"the generator did not hold the rate; the latencies say more about it than about {side}"
            said.append(f"{side}: {why}")
        if found.runs and not found.values(side, _CORES):
            said.append(f"{side}: its process is not on this machine, or cannot be seen: no CPU and memory")
    return said


def _row(found: CompareResults, measure: Measure) -> tuple[str, ...]:
    spreads = (_spread(found.values(side, measure)) for side in found.asked.sides)
    return (measure.name, *spreads, *_ratio(found.ratio(measure), measure))


def _spread(values: Sequence[float]) -> str:
    """Mean and standard deviation (of the sample, n - 1)."""
    if not values:
        return "–"
    return f"{fmean(values):,.4g}" + (f" ± {stdev(values):,.2g}" if len(values) > 1 else "")


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
