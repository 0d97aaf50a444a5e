"""`rpcaccel replay`: recorded calls are made again, at their own pace or another; the answers of two endpoints are
compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any

from msgspec import Struct, field, to_builtins

from rpcaccel.bench.load.client import ConnectionPool, LoadReply, LoadTarget, Outcome
from rpcaccel.bench.load.generator import Due, LoadGenerator, timed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall, asking, learn
from rpcaccel.bench.report import report as words
from rpcaccel.bench.report.report import FIGURES, Report, Table, count, failures, figures, milliseconds, percent
from rpcaccel.bench.report.statistics import Series, Summary
from rpcaccel.bench.runs.recording import Chosen, follow

_NEEDED = 10
"""Calls of a method from which on it has a row of its own in the plot."""
EXAMPLES = 3
"""Differences kept of each method."""
_SHOWN = 80
_NOTHING = object()


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

        def compare(sent: LoadCall, outcomes: Sequence[Outcome]) -> None:
            if len(outcomes) > 1:
                differences.add(sent.method, sent.params, outcomes[0], outcomes[1])

        watch.part(f"{len(calls)} calls to {' and '.join(target.shown for target in asked.targets)}", 0, 1)
        run = LoadGenerator(*pools, timeout=asked.timeout, on_outcomes=compare, spin=asked.spin)
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
    plots: list[Table] = []
    if held.yes:
        tables = [_latencies(asked, names, totals), _methods(names, run.series, run.elapsed)]
        plots = [_plot(names, run.series)]
    else:
        said.append(f"latencies are not reported: the pace was not held. {held.reason(asked.connections)}")
        said += [f"{name}: failed: {failures(one)}" for name, one in zip(names, totals, strict=True) if one.failures]
    if len(asked.targets) > 1:
        tables += _differences(differences)
        said.append(_conclusion(differences))
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


def _plot(names: Sequence[str], series: Sequence[dict[str, Series]]) -> Table:
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


def _conclusion(found: AnswerDiffs) -> str:
    alike = sum(one.alike for one in found.methods.values())
    different = sum(one.different for one in found.methods.values())
    if not different:
        return f"all {alike:,} answers that were compared are alike"
    allowed = different - found.forbidden
    more = f", {allowed:,} of them where that is allowed" if allowed else ""
    return f"{different:,} of {alike + different:,} answers differ{more}"


# -- the comparison: by what the JSON means, not by how it is written; ids are left aside ------------------------------


class Example(Struct, frozen=True):
    """A call that was answered in two ways."""

    method: str
    params: str
    where: str
    """The place of the first difference: result.transactions[3].hash."""
    a: str
    b: str


class Compared(Struct):
    """The comparison of the answers of one method."""

    alike: int = 0
    different: int = 0
    unanswered: int = 0
    """Calls that one side, or both, did not answer at all."""
    examples: list[Example] = field(default_factory=list)


class AnswerDiffs(Struct):
    """The differences between the answers of two targets so far."""

    allowed: tuple[str, ...] = ()
    """Methods, or patterns of them (fnmatch), whose answers may differ."""
    methods: dict[str, Compared] = field(default_factory=dict)

    def add(self, method: str, params: bytes, a: Outcome, b: Outcome) -> None:
        """Compare the outcomes of a call at both targets."""
        found = self.methods.setdefault(method, Compared())
        if not isinstance(a, LoadReply) or not isinstance(b, LoadReply):
            found.unanswered += 1
        elif (where := difference(a.body, b.body)) is None:
            found.alike += 1
        else:
            found.different += 1
            if len(found.examples) < EXAMPLES:
                found.examples.append(Example(method, _text_of(params), *where))

    @property
    def forbidden(self) -> int:
        """Differences in methods whose answers may not differ."""
        return sum(found.different for method, found in self.methods.items() if not self.allows(method))

    def allows(self, method: str) -> bool:
        """Whether the answers of this method may differ."""
        return any(fnmatchcase(method, pattern) for pattern in self.allowed)

    def examples(self) -> Iterator[Example]:
        """All examples, those of methods that may not differ first."""
        for _, found in sorted(self.methods.items(), key=lambda item: (self.allows(item[0]), -item[1].different)):
            yield from found.examples


def difference(a: bytes, b: bytes) -> tuple[str, str, str] | None:
    """The place of the first difference between two reply bodies, and the two texts there; None when they mean the
    same."""
    if a == b:
        return None
    try:
        found = _first("", _answer(a), _answer(b))
    except (ValueError, RecursionError):
        return "body", _text_of(a), _text_of(b)
    return None if found is None else (found[0].lstrip(".") or "reply", _text(found[1]), _text(found[2]))


def _answer(body: bytes) -> Any:
    """Result and error of a reply; numbers as what they are, however they are written. Raises ValueError."""
    reply = json.loads(body, parse_float=Decimal)
    if not isinstance(reply, dict):
        return reply
    return {name: value for name, value in reply.items() if name in ("result", "error")}


def _first(path: str, a: Any, b: Any) -> tuple[str, Any, Any] | None:
    if isinstance(a, dict) and isinstance(b, dict):
        parts = ((f".{name}", a.get(name, _NOTHING), b.get(name, _NOTHING)) for name in {**a, **b})
    elif isinstance(a, list) and isinstance(b, list):
        pairs = enumerate(zip_longest(a, b, fillvalue=_NOTHING))
        parts = ((f"[{place}]", one, other) for place, (one, other) in pairs)
    else:
        alike = isinstance(a, bool) == isinstance(b, bool) and a == b  # in Python, True == 1
        return None if alike else (path, a, b)
    found = (_first(path + step, one, other) for step, one, other in parts)
    return next((difference for difference in found if difference is not None), None)


def _text(value: Any) -> str:
    return "nothing there" if value is _NOTHING else _short(json.dumps(value, default=str))


def _text_of(body: bytes) -> str:
    return _short(body.decode("utf-8", "replace"))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
