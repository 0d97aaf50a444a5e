"""A report on a measurement, before it has a form: facts, tables, plots and remarks."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rpcaccel import __version__
from rpcaccel.bench.report.statistics import Summary

FIGURES = ("calls", "good/s", "mean", "p50", "p90", "p99", "p99.9", "max", "failures", "hits")
"""The columns that `figures` fills; times are milliseconds."""


class Table(Struct, frozen=True):
    """Rows of texts; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


class Report(Struct, frozen=True):
    """One measurement."""

    title: str
    facts: dict[str, str]
    tables: list[Table] = field(default_factory=list)
    plots: list[Table] = field(default_factory=list)
    """Tables of bars; a page of the docs leaves them out."""
    remarks: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    """The figures themselves, for programs. Seconds and bytes."""


def machine() -> dict[str, str]:
    """Date, machine and versions of a measurement, without which its figures say nothing."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {cores} of {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": f"rpcaccel {__version__}, Python {platform.python_version()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def bars(title: str, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> Table:
    """A table with a figure and a bar for each group and series, all on one scale; None leaves one out."""
    top = max((value for line in series.values() for value in line if value is not None), default=0.0) or 1.0
    width = max(8, 40 // max(1, len(series)))
    rows = [
        (group, *(cell for line in series.values() for cell in _bar(line[place], top, width)))
        for place, group in enumerate(groups)
    ]
    return Table(title, ("", *(heading for name in series for heading in (name, ""))), rows)


def _bar(value: float | None, top: float, width: int) -> tuple[str, str]:
    """A count as it is, anything else in three digits; and its bar."""
    if value is None:
        return "–", ""
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}", "█" * round(width * value / top)


def means(methods: Sequence[str], columns: Mapping[str, Mapping[str, Summary | None]]) -> Table:
    """Mean latency by method, with a bar for each column."""
    lines: dict[str, list[float | None]] = {}
    for name, by_method in columns.items():
        found = (by_method.get(method) for method in methods)
        lines[name] = [None if one is None or one.mean is None else one.mean * 1000 for one in found]
    return bars("Mean latency, ms", [method.partition("_")[2] or method for method in methods], lines)


def figures(found: Summary) -> tuple[str, ...]:
    """The cells of FIGURES."""
    times = (found.mean, found.p50, found.p90, found.p99, found.p999, found.max)
    return count(found.calls), count(found.rate), *map(milliseconds, times), failures(found), percent(found.hit_ratio)


def remarks(dead: Iterable[str], *, stopped: bool) -> list[str]:
    """The first remarks of a report: that the measurement was `stopped`, and the endpoints of which every call
    failed."""
    said = ["interrupted: what was measured until then"] if stopped else []
    return said + [f"every call to {name} failed" for name in dead]


def milliseconds(seconds: float | None) -> str:
    """Milliseconds with as many digits as mean something; a dash for what is not known."""
    if seconds is None:
        return "–"
    value = seconds * 1000
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def count(value: float | None) -> str:
    """A number of things, thousands apart."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """0..1 as a percentage."""
    if share is None:
        return "–"
    return f"{share * 100:.0f} %" if share in (0.0, 1.0) else f"{share * 100:.1f} %"


def failures(summary: Summary) -> str:
    """The number of failed calls, and the kinds of failure."""
    if not summary.failures:
        return "0"
    return f"{summary.failures} ({', '.join(f'{kind}: {number}' for kind, number in summary.errors.items())})"
