"""`rpcaccel replay`: recorded calls are made again, at their own pace or another; two endpoints are compared."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from msgspec import Struct, to_builtins

from rpcaccel.bench.load.client import ConnectionPool, LoadTarget, Outcome
from rpcaccel.bench.load.generator import Due, LoadGenerator, timed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall, asking, learn
from rpcaccel.bench.report import report as words
from rpcaccel.bench.report.report import FIGURES, Bars, Report, Table, count, failures, figures, milliseconds, percent
from rpcaccel.bench.report.statistics import Series, Summary
from rpcaccel.bench.runs.answer_diff import AnswerDiffs
from rpcaccel.bench.runs.recording import Chosen, follow

_NEEDED = 10
"""Calls of a method from which on it has a row of its own in the plot."""


class ReplayOptions(Struct, frozen=True):
    """The options of `replay`."""

    chosen: Chosen
    targets: tuple[LoadTarget, ...]
    """One target, or two whose answers are compared."""
    rate: float = 0.0
    """Calls a second; 0: as they were recorded."""
    speed: float = 1.0
    """Times the recorded pace."""
    duration: float = 0.0
    """Seconds; 0: to the end."""
    follow_head: bool = False
    allowed: tuple[str, ...] = ()
    connections: int = 256
    timeout: float = 10.0
    spin: bool = True


async def replay(asked: ReplayOptions, watch: Watch) -> tuple[Report, bool]:
    """The report, and whether all is well: no difference that is not allowed, and no target where every call failed.

    Raises NoEndpointError.
    """
    async with AsyncExitStack() as opened:
        pools = [await opened.enter_async_context(ConnectionPool(one, asked.connections)) for one in asked.targets]
        learning = learn(asking(pools[0]), asked.targets[0].shown) if asked.follow_head else None
        head = (await watch.unless_stopped(learning)).head if learning is not None else -1
        calls = schedule(asked, head)
        differences = AnswerDiffs(asked.allowed)

        def told(sent: LoadCall, outcomes: Sequence[Outcome]) -> None:
            if len(outcomes) > 1:
                differences.add(sent.method, sent.params, outcomes[0], outcomes[1])

        watch.part(f"{len(calls)} calls to {' and '.join(target.shown for target in asked.targets)}", 0, 1)
        run = LoadGenerator(*pools, timeout=asked.timeout, told=told, spin=asked.spin)
        await run.run(timed(calls), watch)
        dead = any(run.total(place).summary(1.0).dead for place in range(len(pools)))
        return reported(asked, run, differences, stopped=watch.stopped), not differences.forbidden and not dead


def schedule(asked: ReplayOptions, head: int = -1) -> list[Due]:
    """The calls with the times at which they are due. `head`: the head that calls near the recorded one are moved to;
    -1: no call is moved."""
    lines = asked.chosen.lines
    if head >= 0:
        lines = [follow(line, head) for line in lines]
    began = lines[0].at if lines else 0.0
    due = (
        Due(number / asked.rate if asked.rate else (line.at - began) / asked.speed, line.call)
        for number, line in enumerate(lines)
    )
    return [one for one in due if not asked.duration or one.at < asked.duration]


def reported(asked: ReplayOptions, run: LoadGenerator, differences: AnswerDiffs, *, stopped: bool = False) -> Report:
    """The report on a replay."""
    held = run.held
    names = [target.shown for target in asked.targets]
    if len(set(names)) < len(names):
        names = [f"{name} ({place})" for place, name in zip("AB", names, strict=True)]
    pace = f"{asked.rate:g} calls/s" if asked.rate else "as recorded" if asked.speed == 1 else f"{asked.speed:g}x"
    facts = words.machine() | {
        "recording": f"{len(asked.chosen.lines):,} calls to be replayed, sample of {percent(asked.chosen.head.sample)}",
        "pace": f"{pace}, open loop, at most {asked.connections} connections; latency from the moment a call was due",
        "generator": held.effort,
    }
    totals = [run.total(place).summary(run.elapsed) for place in range(len(names))]
    said = words.remarks((name for name, total in zip(names, totals, strict=True) if total.dead), stopped=stopped)
    said += [f"not replayed: {number:,} {why}" for why, number in asked.chosen.left_out.items()]
    tables: list[Table] = []
    plots: list[Bars] = []
    if held.yes:
        tables = [_latencies(asked, names, totals), _methods(names, run.series, run.elapsed)]
        plots = [_plot(names, run.series)]
    else:
        said.append(f"latencies are not reported: the pace was not held. {held.reason(asked.connections)}")
        said += [f"{name}: failed: {failures(one)}" for name, one in zip(names, totals, strict=True) if one.failures]
    if len(asked.targets) > 1:
        tables += _differences(differences)
        said.append(_said(differences))
    data = {
        "held": to_builtins(held) | {"yes": held.yes},
        "targets": {name: to_builtins(total) for name, total in zip(names, totals, strict=True)},
        "differences": to_builtins(differences.methods),
    }
    return Report("Replay", facts, tables, plots, said, data)


def _latencies(asked: ReplayOptions, names: Sequence[str], totals: Sequence[Summary]) -> Table:
    rows = [(name, *figures(total)) for name, total in zip(names, totals, strict=True)]
    before = Series()
    for line in asked.chosen.lines:
        if line.ms is not None:
            before.add(line.ms / 1000, "", line.source)
    if before.calls:
        calls, _, *times, _, hits = figures(before.summary(1.0))
        rows.append(("when recorded", calls, "–", *times, "–", hits))
    note = "Milliseconds. Those of the recording were measured inside the proxy, without the way to it."
    return Table("Latency", ("target", *FIGURES), rows, note)


def _methods(names: Sequence[str], series: Sequence[dict[str, Series]], elapsed: float) -> Table:
    rows = []
    for method in sorted({method for one in series for method in one}):
        found = [one.get(method, Series()).summary(elapsed) for one in series]
        times = (f"{milliseconds(one.p50)} / {milliseconds(one.p99)}" for one in found)
        rows.append((method, count(found[0].calls), *times, *(failures(one) for one in found)))
    columns = ("method", "calls", *(f"{name}, p50 / p99" for name in names), *(f"{name}, failures" for name in names))
    return Table("By method", columns, rows, "Milliseconds.")


def _plot(names: Sequence[str], series: Sequence[dict[str, Series]]) -> Bars:
    methods = sorted(method for method, one in series[0].items() if one.calls >= _NEEDED)
    columns = ({method: one.summary(1.0) for method, one in by_method.items()} for by_method in series)
    return words.means(methods, dict(zip(names, columns, strict=True)))


def _differences(found: AnswerDiffs) -> list[Table]:
    rows: list[tuple[str, ...]] = [
        (method, str(one.alike), str(one.different), str(one.unanswered), "yes" if found.allows(method) else "no")
        for method, one in sorted(found.methods.items(), key=lambda item: (-item[1].different, item[0]))
    ]
    tables = [Table("Answers compared", ("method", "alike", "different", "not answered", "may differ"), rows)]
    examples: list[tuple[str, ...]] = [(one.method, one.params, one.where, one.a, one.b) for one in found.examples()]
    if examples:
        tables.append(Table("Examples", ("method", "params", "first difference", "A", "B"), examples))
    return tables


def _said(found: AnswerDiffs) -> str:
    alike = sum(one.alike for one in found.methods.values())
    different = sum(one.different for one in found.methods.values())
    if not different:
        return f"all {alike:,} answers that were compared are alike"
    allowed = different - found.forbidden
    more = f", {allowed:,} of them where that is allowed" if allowed else ""
    return f"{different:,} of {alike + different:,} answers differ{more}"
