"""`rpcaccel bench compare`: two endpoints, or settings, in interleaved runs: is a difference larger than the noise?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from math import inf
from random import Random

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
    """Of the processes whose CPU and memory count; empty: nothing is known of them."""


Side = Callable[[], AbstractContextManager[RunningSide]]
"""Makes a side run for as long as the context lasts, if it does not run anyway."""


class CompareOptions(Struct, frozen=True):
    """What is measured."""

    a: str
    b: str
    """How the two are called in the report."""
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
    """Did the generator hold the rate?"""

    @property
    def cpu_a_call(self) -> float | None:
        """Microseconds of CPU for each good answer."""
        rate = self.summary.rate
        return None if self.cores is None or not rate else self.cores / rate * 1e6


class Measure(Struct, frozen=True):
    """One thing that is compared."""

    name: str
    unit: str
    of: Callable[[Run], float | None]
    more_is_better: bool = False


MEASURES = (
    Measure("good calls", "/s", lambda run: run.summary.rate, more_is_better=True),
    Measure("latency, mean", "ms", lambda run: _ms(run.summary.mean)),
    Measure("latency, p50", "ms", lambda run: _ms(run.summary.p50)),
    Measure("latency, p99", "ms", lambda run: _ms(run.summary.p99)),
    Measure("CPU", "cores", lambda run: run.cores),
    Measure("CPU a call", "µs", lambda run: run.cpu_a_call),
    Measure("resident memory", "MB", lambda run: None if run.resident is None else run.resident / 1e6),
)


class CompareResults(Struct):
    """Runs made so far."""

    asked: CompareOptions
    runs: list[Run] = field(default_factory=list)

    @property
    def dead(self) -> list[str]:
        """Sides that answered no call well in any run."""
        sides = {name: [run for run in self.runs if run.side == name] for name in (self.asked.a, self.asked.b)}
        return [name for name, runs in sides.items() if runs and all(run.summary.dead for run in runs)]

    def values(self, side: str, measure: Measure) -> list[float]:
        """What was measured of one side, run by run."""
        return [value for run in self.runs if run.side == side and (value := measure.of(run)) is not None]

    def pairs(self, measure: Measure) -> tuple[list[float], list[float]]:
        """The same of both sides, of the pairs of runs in which both have it."""
        a: list[float] = []
        b: list[float] = []
        for pair in zip(self.runs[::2], self.runs[1::2], strict=False):
            one, other = (measure.of(run) for run in (pair if pair[0].side == self.asked.a else pair[::-1]))
            if one is not None and other is not None:
                a.append(one)
                b.append(other)
        return a, b


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
    """Both sides of a pair get the same calls in the same order."""
    if asked.call is None:
        yield from mixed(world, Random(asked.seed + number), asked.methods)
    while asked.call is not None:
        yield asked.call


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
    rows = [row for measure in MEASURES if (row := _row(found, measure)) is not None]
    columns = ("", "A mean ± spread", "B mean ± spread", "B / A", "95 % interval", "larger than the noise?")
    note = "Spread: standard deviation between runs. Interval: of the ratio, from the pairs of runs (Student's t)."
    rates: dict[str, list[float | None]] = {side: [*found.values(side, MEASURES[0])] for side in (asked.a, asked.b)}
    pairs = min((len(values) for values in rates.values()), default=0)
    plot = Bars("Good calls a second, run by run", "/s", tuple(str(number + 1) for number in range(pairs)), rates)
    data = {"runs": to_builtins(found.runs)}
    return Report("A against B", facts, [Table("A and B", columns, rows, note)], [plot], _remarks(found, stopped), data)


def _remarks(found: CompareResults, stopped: bool) -> list[str]:
    remarks = ["interrupted: the whole pairs of runs made until then"] if stopped else []
    remarks += [f"every call to {side} failed" for side in found.dead]
    for side in (found.asked.a, found.asked.b):
        bad = [run for run in found.runs if run.side == side and run.summary.failures]
        if bad:
            remarks.append(
                f"{side}: failures in {len(bad)} of its runs, {failures(bad[0].summary)} in the first of them"
            )
        if any(not run.held for run in found.runs if run.side == side):
            remarks.append(
                f"{side}: the generator did not hold the rate; the latencies say more about it than about {side}"
            )
        if found.runs and not found.values(side, MEASURES[4]):
            remarks.append(f"{side}: its process is not on this machine, or cannot be seen: no CPU and memory")
    return remarks


def _row(found: CompareResults, measure: Measure) -> tuple[str, ...] | None:
    a, b = (found.values(side, measure) for side in (found.asked.a, found.asked.b))
    if not a and not b:
        return None
    both = ratio(*found.pairs(measure))
    return (f"{measure.name} ({measure.unit})", _spread(a), _spread(b), *_ratio(both, measure))


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
