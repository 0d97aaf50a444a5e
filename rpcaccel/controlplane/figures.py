"""Figures for the eye from counters: rates, ratios and percentiles of a while. No data is None, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rpcaccel.controlplane.history import Window
from rpcaccel.controlplane.points import MISSES, latency
from rpcaccel.core.histogram import Histogram, together
from rpcaccel.core.tally import HITS, Cell, NodeCell, Source

Document = dict[str, Any]
"""A JSON object."""


def readings(window: Window | None) -> Document | None:
    """The four readings of the first view, over `window`."""
    if window is None:
        return None
    cells = window.passed.cells
    calls, refused = sum(cell.calls for cell in cells), sum(cell.refused for cell in cells)
    hits, errors = sum(cell.hits for cell in cells), sum(cell.errors for cell in cells)
    return {
        "window": window.seconds,
        "calls": calls,
        "calls_per_second": rate(calls, window),
        "hits": hits,
        "hit_ratio": ratio(hits, calls - refused),
        "hit": quantiles(latency(window.passed, HITS)),
        "miss": quantiles(latency(window.passed, MISSES)),
        "errors": errors,
        "error_ratio": ratio(errors, calls - refused),
        "refused_calls": refused,
        "refused": refused + sum(window.passed.refusals.values()),
    }


def method_figures(cells: list[Cell], window: Window | None) -> Document:
    """Rate, hit ratio, percentiles and reasons of some cells, counted over `window`."""
    calls, refused = sum(cell.calls for cell in cells), sum(cell.refused for cell in cells)
    hits = sum(cell.hits for cell in cells)
    sources = {source.label: sum(cell.latency[source].count for cell in cells) for source in Source}
    return {
        "calls": calls,
        "calls_per_second": rate(calls, window),
        "hits": hits,
        "hit_ratio": ratio(hits, calls - refused),
        "sources": {label: count for label, count in sources.items() if count},
        "seconds": {source.label: seconds for source in Source if (seconds := _seconds(cells, source))},
        "steps": {str(step): spent / 1e6 for step, spent in _reasons(cell.spent for cell in cells).items()},
        "hit": quantiles(together(cell.latency[source] for cell in cells for source in HITS)),
        "miss": quantiles(together(cell.latency[source] for cell in cells for source in MISSES)),
        "errors": sum(cell.errors for cell in cells),
        "refused": refused,
        "bytes_per_second": rate(sum(cell.size for cell in cells), window),
        "misses": _reasons(cell.misses for cell in cells),
        "skips": _reasons(cell.skips for cell in cells),
    }


def node_figures(now: NodeCell | None, minute: NodeCell | None) -> Document:
    """Gauges and totals of a node as they are `now`, percentiles and failures of the last `minute`."""
    answers = minute.latency if minute else Histogram()
    return {
        "in_flight": now.in_flight if now else 0,
        "connections_open": now.connections_open if now else None,
        "connections_idle": now.connections_idle if now else None,
        "reuse_ratio": ratio(now.reused, now.reused + now.connects) if now else None,
        "calls_total": now.calls if now else 0,
        "latency": quantiles(answers),
        "failures": dict(minute.failures) if minute else {},
        "failures_total": sum(now.failures.values()) if now else 0,
        "retries": minute.retries if minute else 0,
    }


def _seconds(cells: Iterable[Cell], source: Source) -> float:
    return sum(cell.latency[source].seconds for cell in cells)


def _reasons(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in counted:
        for reason, count in counts.items():
            total[reason] = total.get(reason, 0) + count
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def quantiles(histogram: Histogram) -> Document | None:
    """Count, p50, p90 and p99 in seconds; None when nothing was observed."""
    if not histogram.count:
        return None
    return {
        "count": histogram.count,
        "p50": histogram.quantile(0.5),
        "p90": histogram.quantile(0.9),
        "p99": histogram.quantile(0.99),
    }


def rate(count: int, window: Window | None) -> float | None:
    """Per second."""
    return count / window.seconds if window else None


def ratio(part: float, whole: float) -> float | None:
    """0..1; None of nothing."""
    return part / whole if whole > 0 else None
