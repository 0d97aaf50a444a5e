"""The report of a swarm of clients: what its users saw, and beside it what the proxy counted in the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from rpcaccel.bench.report.proxy_figures import ProxyFigures
from rpcaccel.bench.report.report import Bars, Judgement, Report, Table, count, machine, milliseconds, percent
from rpcaccel.core.stats.histogram import Histogram, together

BUSY = 0.9
"""Share of a core from which a process is taken for one that has no time left."""
BINS = 24
"""Bars of a chart over time, at the most."""
Row = tuple[str, ...]
_CALL = ("calls", "failed", "mean", "p50", "p99", "hits")


class SeenCalls(Struct, frozen=True):
    """What users saw of the calls of one name. Times are seconds, None when there was none."""

    name: str
    calls: int
    failures: int
    mean: float | None = None
    p50: float | None = None
    p99: float | None = None
    hits: float | None = None
    """Share of answers that the proxy gave by itself, 0..1; None where nothing told it."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a row of a table."""
        times = map(milliseconds, (self.mean, self.p50, self.p99))
        return self.name, count(self.calls), count(self.failures), *times, percent(self.hits)


class SwarmRun(Struct, frozen=True, kw_only=True):
    """What a swarm did and saw."""

    swarm: str
    """Names of the swarms."""
    host: str
    """What was called, without secrets."""
    began: float
    """Seconds since 1970."""
    seconds: float
    users: int
    """The most at once."""
    workers: int
    """Worker processes; 0 where the swarm was one process."""
    gates: dict[str, str]
    """The gates, as they are written."""
    calls: list[SeenCalls]
    total: SeenCalls
    sent: SeenCalls
    """Those among the calls that went to the host over HTTP; a batch is one."""
    answers: int
    """Answers of which the proxy said where they come from; each of a batch is one."""
    failures: list[tuple[str, str, int]] = []
    """Name, kind and number."""
    pace: dict[int, int] = {}
    """Calls by the second since 1970 in which they ended."""
    busiest: float | None = None
    """The share of a core (0..1) that the busiest process of the swarm used, over the whole run."""
    warned: bool = False
    """Whether a process of the swarm used more than BUSY for some seconds."""
    generator: str = ""
    """Name and version of the program that ran the swarm."""


class ProxySide(Struct, frozen=True):
    """The proxy's own figures, or why there are none."""

    admin: str = ""
    """Where they were read, without secrets."""
    figures: ProxyFigures | None = None
    why_not: str = ""
    pace: dict[str, list[tuple[float, float, float | None]]] = {}
    """By kind of answer: the end of each point (seconds since 1970), its length in seconds, and answers a second."""


def report(run: SwarmRun, proxy: ProxySide, faults: Sequence[str]) -> Report:
    """The report. `faults` are what misses the gates, in sentences."""
    until = run.began + run.seconds
    facts = {
        "swarm": run.swarm,
        "host": run.host,
        "time": f"{_clock(run.began, '%Y-%m-%d %H:%M:%S')} to {_clock(until, '%H:%M:%S')} UTC, {run.seconds:.0f} s",
        "users": f"{run.users}, {f'in {run.workers} worker processes' if run.workers else 'in one process'}",
        "gates": ", ".join(f"{name} {value}" for name, value in run.gates.items()),
        **{name: value for name, value in machine().items() if name != "date"},
        "generator": run.generator
        + ("" if run.busiest is None else f", {_share(run.busiest)} of a core by the busiest process"),
    }
    if proxy.figures is not None:
        facts["proxy"] = f"rpcaccel {proxy.figures.version}, read at {proxy.admin}"
    tables = [_side_by_side(run, proxy.figures)] if proxy.figures is not None else []
    tables.append(_seen(run))
    if run.failures:
        rows: list[Row] = [(name, kind, count(number)) for name, kind, number in run.failures]
        tables.append(Table("Failures", ("call", "kind", "number"), rows))
    tables += list(_proxy_tables(proxy.figures)) if proxy.figures is not None else []
    return Report(
        f"Swarm {run.swarm}",
        facts,
        tables,
        list(_plots(run, proxy)),
        list(differences(run, proxy)),
        {"swarm": _plain(run), "proxy": None if proxy.figures is None else _counted(proxy.figures)},
        Judgement(not faults, list(faults)),
    )


def differences(run: SwarmRun, proxy: ProxySide) -> Iterator[str]:
    """What a reader has to know before the figures are believed, in sentences."""
    if run.busiest is not None and run.busiest > BUSY:
        yield (
            f"The generator is the bottleneck: a process of the swarm used {_share(run.busiest)} of a core. The "
            "swarm's times say more of the generator than of the proxy. Give it more processes or machines."
        )
    elif run.warned:
        yield (
            f"A process of the swarm used more than {_share(BUSY)} of a core for some seconds: times of those seconds "
            "say more of the generator than of the proxy."
        )
    figures = proxy.figures
    if figures is None:
        yield proxy.why_not
        return
    answered = run.sent.calls - run.sent.failures
    if figures.restarted:
        yield "The proxy was started again during the run: its figures count from its start."
    elif figures.requests < answered * 0.99 - 2:
        yield (
            f"The proxy counted {figures.requests:,} requests, fewer than the {answered:,} that the swarm has answers "
            f"to: other proxies answer at the host as well, or {proxy.admin} is the admin side of another one."
        )
    elif figures.requests > run.sent.calls * 1.05 + 50:
        yield (
            f"The proxy counted {figures.requests:,} requests, more than the {run.sent.calls:,} of the swarm: its "
            "figures hold the calls of other clients, too."
        )
    yield from _slower(run, figures)
    yield from _worn(figures)


def _slower(run: SwarmRun, figures: ProxyFigures) -> Iterator[str]:
    seen, own = run.sent.mean, figures.mean
    if seen is None or own is None or seen - own < max(0.005, own):
        return
    yield (
        f"A call took {milliseconds(seen)} ms for the swarm and {milliseconds(own)} ms in the proxy (means): "
        f"{milliseconds(seen - own)} ms passed between them: in the network, in the queue of a busy proxy, or while a "
        "process waited for a core."
    )


def _worn(figures: ProxyFigures) -> Iterator[str]:
    for process in figures.processes:
        if figures.seconds > 0 and process.cpu / figures.seconds > BUSY:
            share = _share(process.cpu / figures.seconds)
            yield f"Worker {process.name} of the proxy used {share} of a core: start the proxy with more --workers."
    if figures.replaced:
        yield f"{figures.replaced} workers of the proxy died or hung during the run and were replaced."


# -- tables ------------------------------------------------------------------------------------------------------------


def _seen(run: SwarmRun) -> Table:
    rows = [one.cells for one in (*run.calls, run.total)]
    note = (
        "Times in milliseconds, from sending a request until its whole answer was there. A batch is one call. "
        "Percentiles are rounded to two digits."
    )
    return Table("What the swarm saw", ("call", *_CALL), rows, note)


def _side_by_side(run: SwarmRun, own: ProxyFigures) -> Table:
    failed = own.outcomes.get("error", 0) + own.outcomes.get("client_error", 0) + own.outcomes.get("refused", 0)
    both = together((own.hit, own.miss))
    rows: list[Row] = [
        ("requests", count(run.sent.calls), count(own.requests)),
        ("requests a second", _rate(run.sent.calls, run.seconds), _rate(own.requests, own.seconds)),
        ("answers, each of a batch", count(run.answers) if run.answers else "–", count(own.calls)),
        ("failed", count(run.sent.failures), count(failed)),
        ("hit ratio", percent(run.sent.hits), percent(own.hit_ratio)),
        ("mean, ms", milliseconds(run.sent.mean), milliseconds(own.mean)),
        ("p50, ms", milliseconds(run.sent.p50), milliseconds(both.quantile(0.5))),
        ("p99, ms", milliseconds(run.sent.p99), milliseconds(both.quantile(0.99))),
    ]
    note = (
        "Of the same time, and of what went to the host alone. The swarm times requests, and the proxy each call from "
        "its arrival until its answer is handed on. The proxy also counts what was under way when the users were "
        "stopped, and whatever other clients call. Errors that a swarm expects, such as a refused transaction, "
        "have failed for the proxy alone."
    )
    return Table("Swarm and proxy side by side", ("figure", "swarm", "proxy"), rows, note)


def _proxy_tables(own: ProxyFigures) -> Iterator[Table]:
    ways = (("hits", own.hit), ("misses", own.miss))
    rows: list[Row] = [(name, count(found.count), *_times(found)) for name, found in ways]
    yield Table("The proxy: answers", ("from", "calls", "mean", "p50", "p99"), rows, "Times in milliseconds.")
    ends = {
        "answered": own.outcomes.get("ok", 0),
        "failed by fault of the proxy or its nodes": own.outcomes.get("error", 0),
        "failed by fault of the client": own.outcomes.get("client_error", 0),
        "not accepted": own.outcomes.get("refused", 0),
        "requests refused before they were a call": own.turned_away,
    }
    rows = [(name, count(number)) for name, number in ends.items()]
    yield Table("The proxy: how calls ended", ("end", "calls"), rows)
    if own.nodes:
        yield _nodes(own)
    if own.tiers:
        rows = [
            (one.name, count(one.entries), _megabytes(one.size), _megabytes(one.limit) if one.limit else "–",
             count(one.hits), count(one.misses), count(one.evicted))
            for one in own.tiers
        ]  # fmt: skip
        columns = ("tier", "entries", "MB", "of MB", "hits", "misses", "evicted")
        yield Table("The proxy: cache", columns, rows, "Entries and size at the end; the rest was counted in the run.")
    if own.processes:
        rows = [
            (one.name, _share(one.cpu / own.seconds) if own.seconds > 0 else "–", _megabytes(one.resident))
            for one in own.processes
        ]
        yield Table("The proxy: workers", ("worker", "of a core", "MB"), rows)


def _nodes(own: ProxyFigures) -> Table:
    whole = sum(node.calls for node in own.nodes)
    rows: list[Row] = [
        (
            node.name,
            count(node.calls),
            percent(node.calls / whole if whole else None),
            *_times(node.latency),
            ", ".join(f"{kind}: {number}" for kind, number in node.failures.items()) or "0",
        )
        for node in own.nodes
    ]
    columns = ("node", "calls", "share", "mean", "p50", "p99", "without an answer")
    return Table("The proxy: nodes", columns, rows, "Calls sent to each node, repeated ones included; milliseconds.")


def _times(found: Histogram) -> tuple[str, str, str]:
    return milliseconds(found.mean), milliseconds(found.quantile(0.5)), milliseconds(found.quantile(0.99))


# -- charts ------------------------------------------------------------------------------------------------------------


def _plots(run: SwarmRun, proxy: ProxySide) -> Iterator[Bars]:
    edges = _edges(run.began, run.seconds)
    width = edges[1] - edges[0]
    labels = tuple(_since(edge - run.began) for edge in edges[:-1])
    sent = [0.0] * (len(edges) - 1)
    for second, calls in run.pace.items():
        sent[_bin(second + 0.5, edges)] += calls / width
    yield Bars("Calls of the swarm over time", "/s", labels, {"calls": list(sent)})
    drawn = {kind: _binned(points, edges) for kind, points in proxy.pace.items()}
    shown = {kind: bars for kind, bars in drawn.items() if any(bars)}
    if shown:
        yield Bars("Answers of the proxy over time", "/s", labels, shown)


def _edges(began: float, seconds: float) -> list[float]:
    """The ends of the bars: whole seconds wide, as no figure is told in finer ones."""
    width = max(1, -(-int(seconds + 0.999) // BINS))
    bars = max(1, -(-int(seconds + 0.999) // width))
    return [began + width * number for number in range(bars + 1)]


def _bin(at: float, edges: Sequence[float]) -> int:
    return min(max(0, int((at - edges[0]) / (edges[1] - edges[0]))), len(edges) - 2)


def _binned(points: Sequence[tuple[float, float, float | None]], edges: Sequence[float]) -> list[float | None]:
    """The mean of the points in each bar, weighed by their length; None where there is none."""
    sums: list[float] = [0.0] * (len(edges) - 1)
    lengths: list[float] = [0.0] * (len(edges) - 1)
    for end, seconds, value in points:
        middle = end - seconds / 2
        if value is not None and edges[0] <= middle <= edges[-1]:
            place = _bin(middle, edges)
            sums[place] += value * seconds
            lengths[place] += seconds
    return [total / length if length else None for total, length in zip(sums, lengths, strict=True)]


# -- words -------------------------------------------------------------------------------------------------------------


def _clock(at: float, form: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)


def _since(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _rate(number: int, seconds: float) -> str:
    return count(number / seconds) if seconds > 0 else "–"


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f}"


def _plain(found: Struct) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
    return document


def _counted(own: ProxyFigures) -> dict[str, Any]:
    return _plain(own) | {"calls": own.calls, "hit_ratio": own.hit_ratio, "mean": own.mean}
