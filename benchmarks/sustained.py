"""The load that the issue asks for: 2,000 calls a second for a minute, a spike to 4,000, and back, over slow nodes.

    python -m benchmarks.sustained [--short] [--out docs/benchmarks.md]

What DApps call (rpcaccel.bench.load.workload) in an open loop at constant rates, over three simulated nodes that take
100 to 300 ms and have a block every two seconds. Proxy on one core, generator and nodes on the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import uvloop

from benchmarks import evidence
from benchmarks.peers import Running, as_generator, bench
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, RateHeld, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import Visitors, asking, learn
from rpcaccel.bench.report.report import Report, Table, count, failures, machine, milliseconds, percent
from rpcaccel.bench.report.statistics import Summary
from rpcaccel.bench.runs import process_usage

SECTION = "sustained load"
NODES = 3
CONNECTIONS = 4096
WANTED = 0.2
"""Seconds that calls may take on average."""
LATE = 0.05
"""Seconds that one call in a hundred may leave late: the generator shares its core with nodes that take 0.1 to 0.3 s.
What it is late counts in the latency."""


class Stage(NamedTuple):
    """A rate in calls a second, and the seconds for which it is held."""

    name: str
    rate: float
    seconds: float


STAGES = (
    Stage("beginning, cold", 1000, 10),
    Stage("held", 2000, 60),
    Stage("spike", 4000, 20),
    Stage("back", 2000, 10),
)


class Found(NamedTuple):
    """The figures of one stage."""

    stage: Stage
    summary: Summary
    held: RateHeld
    cores: float | None
    resident: int | None


def measure(watch: Watch, stages: Sequence[Stage] = STAGES, number: int = NODES) -> Report:
    """Every stage, one after the other, on the same connections, over so many nodes."""
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab:
        nodes = [lab.simnode({"latency": "uniform:100ms-300ms", "limiters": False}) for _ in range(number)]
        ours = lab.rpcaccel(*nodes)
        with as_generator():
            found = uvloop.run(_all(ours, stages, watch))
        errors = ours.errors
    facts = machine() | {
        "load": f"what DApps call, open loop, {CONNECTIONS} connections at most; latency from when a call was due",
        "nodes": f"{number} simulated, 100 to 300 ms, a block every 2 s",
    }
    columns = ("stage", "wanted", "calls", "mean", "p50", "p99", "p99.9", "max", "failures", "hits", "CPU", "memory")
    note = (
        "Milliseconds. CPU and memory: the proxy's; generator: its share of a core; kept: mean under 200 ms, no error."
    )
    rows = [_row(one) for one in found]
    table = Table("Sustained load", (*columns, "generator", "kept"), rows, note)
    remarks = ["interrupted: what was measured until then"] if watch.stopped else []
    remarks += [f"{one.stage.name}: not reported. {one.held.reason(CONNECTIONS)}" for one in found if not one.held.yes]
    if errors:
        remarks.append(f"{errors} calls ended in an error, by the proxy's own count")
    return Report("Sustained load", facts, [table], remarks=remarks)


async def _all(ours: Running, stages: Sequence[Stage], watch: Watch) -> list[Found]:
    pool = ConnectionPool(parse(ours.url), CONNECTIONS)
    calls = iter(Visitors(await learn(asking(pool)), Random(1)))
    pids, found = process_usage.with_children([ours.program.pid]), []
    await pool.warm(256)
    for place, stage in enumerate(stages):
        watch.part(f"{stage.name}: {stage.rate:g}/s for {stage.seconds:g} s", place, len(stages))
        # The generator does not spin, since it shares a core with the nodes.
        steady = LoadGenerator(pool, timeout=10.0, spin=False, late_most=LATE)
        before = process_usage.use(pids)
        await steady.run(constant(calls, rate=stage.rate, seconds=stage.seconds), watch)
        spent = process_usage.spent(before, process_usage.use(pids))
        cores, resident = (None, None) if spent is None else (spent.cores, spent.resident)
        found.append(Found(stage, steady.summary(), steady.held, cores, resident))
        if watch.stopped:
            break
    await pool.close()
    return found


def _row(found: Found) -> tuple[str, ...]:
    summary, (name, rate, seconds) = found.summary, found.stage
    row = (name, f"{rate:,.0f}/s, {seconds:g} s")
    cores = "–" if found.cores is None else f"{found.cores * 100:.0f} %"
    memory = "–" if found.resident is None else f"{found.resident / 1e6:.0f} MB"
    used = (cores, memory, f"{found.held.busy * 100:.0f} %")
    if not found.held.yes:
        return *row, *["–"] * 8, *used, "–"
    times = (summary.mean, summary.p50, summary.p99, summary.p999, summary.max)
    kept = summary.mean is not None and summary.mean < WANTED and not summary.failures
    figures = (count(summary.calls), *map(milliseconds, times), failures(summary), percent(summary.hit_ratio))
    return *row, *figures, *used, "yes" if kept else "no"


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, [Stage("held", 100, 1), Stage("spike", 200, 0.5)])


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
