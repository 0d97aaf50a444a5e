"""What is remembered of a while: one point of a chart, small enough to keep a day of them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rpcaccel.core.histogram import Histogram, together
from rpcaccel.core.tally import HITS, Cell, Source, TallySnapshot

MISSES = (Source.FLIGHT, Source.NODE, Source.PARTIAL)
"""Answers that had to wait for a node."""

NodeKey = tuple[str, str]
"""Network and node id."""


class Saved(Struct, frozen=True):
    """What the cache saved up to a moment, or over a while."""

    calls: int = 0
    """Calls that no node had to be asked for, or only once for several of them."""
    seconds: float = 0.0
    """That callers would have waited longer."""

    def and_then(self, more: Saved) -> Saved:
        """Both together."""
        return Saved(self.calls + more.calls, self.seconds + more.seconds)

    def since(self, before: Saved) -> Saved:
        """What came after `before`."""
        return Saved(self.calls - before.calls, self.seconds - before.seconds)


class NodePoint(Struct, frozen=True):
    """One node over a while."""

    calls: int
    """Attempts sent to it."""
    failures: int
    answers: int
    seconds: float
    """Spent on those answers, together."""


class Point(Struct, frozen=True):
    """Everything over a while."""

    at: float
    """Its end, in seconds since 1970."""
    seconds: float
    """How long it covers."""
    calls: int
    hits: int
    errors: int
    refused: int
    """Calls that the proxy did not accept."""
    turned_away: int
    """Refused before it was a call of any method."""
    hit: Histogram
    miss: Histogram
    hit_p50: float | None
    hit_p99: float | None
    miss_p50: float | None
    miss_p99: float | None
    spared_calls: int
    """Calls that no node had to be asked for, or only once for several of them."""
    spared_seconds: float
    """What those who waited would have waited longer without the cache."""
    nodes: dict[NodeKey, NodePoint]


class MethodPoint(Struct, frozen=True):
    """One method over a while."""

    seconds: float
    """How long it covers."""
    calls: int
    hits: int
    errors: int
    hit_p50: float | None
    hit_p99: float | None
    miss_p50: float | None
    miss_p99: float | None


def latency(snapshot: TallySnapshot, sources: tuple[Source, ...]) -> Histogram:
    """All answers from `sources`, whatever the method."""
    return together(cell.latency[source] for cell in snapshot.cells for source in sources)


def by_method(cells: Iterable[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """The cells of each method of each network: one for every cache class it was called under."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.network, cell.method), []).append(cell)
    return found


def spared(passed: TallySnapshot, means: dict[tuple[str, str], float]) -> Saved:
    """What the cache saved: a hit counts as the mean miss of its own method at that time.

    `means` remembers those means, in seconds: a method that is always hit now was once missed.
    """
    calls, seconds = 0, 0.0
    for key, cells in by_method(passed.cells).items():
        hits = sum(cell.hits for cell in cells)
        misses = sum(cell.latency[source].count for cell in cells for source in MISSES)
        if misses:
            means[key] = sum(cell.latency[source].seconds for cell in cells for source in MISSES) / misses
        calls += hits + sum(cell.latency[Source.FLIGHT].count for cell in cells)
        if hits and key in means:
            took = sum(cell.latency[source].seconds for cell in cells for source in HITS)
            seconds += max(0.0, hits * means[key] - took)
    return Saved(calls, seconds)


def point(passed: TallySnapshot, saved: Saved, seconds: float, at: float) -> Point:
    """What was counted and saved over `seconds`, ending `at`."""
    hit, miss = latency(passed, HITS), latency(passed, MISSES)
    return Point(
        at=at,
        seconds=seconds,
        calls=sum(cell.calls for cell in passed.cells),
        hits=sum(cell.hits for cell in passed.cells),
        errors=sum(cell.errors for cell in passed.cells),
        refused=sum(cell.refused for cell in passed.cells),
        turned_away=sum(passed.refusals.values()),
        hit=hit,
        miss=miss,
        hit_p50=hit.quantile(0.5),
        hit_p99=hit.quantile(0.99),
        miss_p50=miss.quantile(0.5),
        miss_p99=miss.quantile(0.99),
        spared_calls=saved.calls,
        spared_seconds=saved.seconds,
        nodes={
            (node.network, node.node): NodePoint(
                node.calls, sum(node.failures.values()), node.latency.count, node.latency.seconds
            )
            for node in passed.nodes
            if node.calls
        },
    )


def method_points(
    passed: TallySnapshot, _saved: Saved, seconds: float, at: float
) -> tuple[float, dict[tuple[str, str], MethodPoint]]:
    """When it was, and every method that was called meanwhile."""
    return at, {
        key: _method_point(cells, seconds)
        for key, cells in by_method(passed.cells).items()
        if any(cell.calls for cell in cells)
    }


def _method_point(cells: list[Cell], seconds: float) -> MethodPoint:
    hit = together(cell.latency[source] for cell in cells for source in HITS)
    miss = together(cell.latency[source] for cell in cells for source in MISSES)
    return MethodPoint(
        seconds=seconds,
        calls=sum(cell.calls for cell in cells),
        hits=hit.count,
        errors=sum(cell.errors for cell in cells),
        hit_p50=hit.quantile(0.5),
        hit_p99=hit.quantile(0.99),
        miss_p50=miss.quantile(0.5),
        miss_p99=miss.quantile(0.99),
    )
