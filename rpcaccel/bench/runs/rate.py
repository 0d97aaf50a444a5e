"""`rpcaccel bench rate`: latency at a constant rate, in an open loop."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from msgspec import to_builtins

from rpcaccel.bench.load.client import ConnectionPool, LoadTarget
from rpcaccel.bench.load.generator import LoadGenerator, RateHeld, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import CallChoice
from rpcaccel.bench.report.report import FIGURES, Report, Table, bars, figures, machine, remarks
from rpcaccel.bench.report.statistics import Series, Summary, percentile

_BOUNDS = [step * 10.0**power for power in range(-5, 3) for step in (1, 2, 3, 5)]
"""Seconds at which the bars of the histogram end."""
_TAIL = ((0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %"))
_NOTE = "Milliseconds from the moment a call was due. Calls that timed out count with the time they were waited for."


class RateOptions(CallChoice, frozen=True):
    """The options of `bench rate`."""

    target: LoadTarget
    rate: float
    duration: float
    connections: int = 512
    timeout: float = 10.0
    spin: bool = True


async def rate(asked: RateOptions, watch: Watch) -> tuple[Report, bool]:
    """The report, and whether all is well: the generator held the rate, without which the report has no latencies, and
    not every call failed.

    Raises NoEndpointError.
    """
    async with ConnectionPool(asked.target, asked.connections) as pool:
        calls = asked.calls(await watch.unless_stopped(asked.world(pool)))
        watch.part(f"{asked.rate:g} calls/s at {asked.target.shown}", 0, 1)
        run = LoadGenerator(pool, timeout=asked.timeout, spin=asked.spin)
        series = await run.run(constant(calls, rate=asked.rate, seconds=asked.duration), watch)
        found, held = run.summary(), run.held
        return reported(asked, series, found, held, stopped=watch.stopped), held.yes and not found.dead


def reported(asked: RateOptions, series: Series, found: Summary, held: RateHeld, *, stopped: bool = False) -> Report:
    """The report on a run."""
    facts = machine() | {
        "target": asked.target.shown,
        "load": f"{asked.rate:g} calls/s for {asked.duration:g} s, open loop, at most {asked.connections} connections",
        "calls": asked.named,
        "generator": held.effort,
    }
    title = f"{asked.rate:g} calls a second"
    said = remarks([asked.target.shown] if found.dead else [], stopped=stopped)
    data = {"held": to_builtins(held) | {"yes": held.yes}, "summary": to_builtins(found)}
    if not held.yes:
        reason = f"not reported: the generator did not hold the rate. {held.reason(asked.connections)}"
        return Report(title, facts, remarks=[*said, reason], data={"held": data["held"]})
    ordered = sorted(series.seconds)
    table = Table("Latency", FIGURES, [figures(found)], _NOTE)
    return Report(title, facts, [table], [_histogram(ordered), _tail(ordered)], said, data)


def _histogram(ordered: Sequence[float]) -> Table:
    """Calls by latency, in steps of 1, 2, 3, 5 of each power of ten."""
    counts = Counter(min(bisect_left(_BOUNDS, seconds), len(_BOUNDS) - 1) for seconds in ordered)
    used = range(min(counts), max(counts) + 1) if counts else range(0)
    groups = [f"≤ {_BOUNDS[place] * 1000:g} ms" for place in used]
    return bars("Calls by latency", groups, {"calls": [float(counts[place]) for place in used]})


def _tail(ordered: Sequence[float]) -> Table:
    """Latency by percentile, as far as there are calls beyond it."""
    shown = [(share, label) for share, label in _TAIL if (1 - share) * len(ordered) >= 1]
    values = [(percentile(ordered, share) or 0.0) * 1000 for share, _ in shown]
    return bars("Latency by percentile", [label for _, label in shown], {"ms": values})
