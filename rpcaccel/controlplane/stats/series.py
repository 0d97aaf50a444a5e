"""The documents of what is past: columns for the charts of a range, and its sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from rpcaccel.controlplane.stats.history import SPACING, History, NodeKey, NodePoint, Point, Range
from rpcaccel.controlplane.stats.summaries import At, Readings, quantiles, ratio
from rpcaccel.core.stats.histogram import together

MOST_NODES = 8
"""Nodes that have lines of their own; more cannot be told apart."""

SMOOTH = 10
"""Seconds over which the lines of nodes are means: a node of small weight gets few calls in a single one."""

_IDLE = NodePoint(calls=0, failures=0, answers=0, seconds=0.0)

RANGES = f"range is one of {', '.join(SPACING)}"
"""What to say to another range."""


class Columns(TypedDict):
    """Points of a chart, a list for each figure, oldest first."""

    at: list[At]
    calls_per_second: list[float]
    hit_ratio: list[float | None]
    hit_p50: list[float | None]
    hit_p99: list[float | None]
    miss_p50: list[float | None]
    miss_p99: list[float | None]
    errors_per_second: list[float]
    node_calls_per_second: list[float]
    spared_per_second: Annotated[list[float], Meta(description="Node calls that the cache saved.")]


class Sums(Readings):
    """A range as a whole."""

    node_calls: int
    spared_calls: Annotated[int, Meta(description="Node calls that the cache saved.")]
    spared_seconds: Annotated[float, Meta(description="That callers would have waited longer.")]


class NodePast(TypedDict):
    """A busy node over the range, in step with the columns."""

    network: str
    id: str
    calls_per_second: list[float]
    latency: Annotated[list[float | None], Meta(description="Mean seconds of its answers.")]


class Past(TypedDict):
    """The last five minutes, hour or day."""

    range: Range
    spacing: Annotated[float, Meta(description="Seconds between two points.")]
    columns: Columns
    sums: Annotated[dict[str, Sums | None], Meta(description="Of all three ranges.")]
    nodes: list[NodePast]


class MethodPast(TypedDict):
    """A method's last five minutes; empty lists where it was not called."""

    network: str
    method: str
    at: list[At]
    calls_per_second: list[float]
    hit_ratio: list[float | None]
    hit_p50: list[float | None]
    hit_p99: list[float | None]
    miss_p50: list[float | None]
    miss_p99: list[float | None]


def past(history: History, wanted: str) -> Past | None:
    """Everything about the last five minutes, hour or day; None when `wanted` is none of these."""
    over = next((name for name in SPACING if name == wanted), None)
    if over is None:
        return None
    points = history.points(over)
    return {
        "range": over,
        "spacing": SPACING[over][0] or 1.0,
        "columns": columns(points),
        "sums": {name: _sums(points if name == over else history.points(name)) for name in SPACING},
        "nodes": _nodes(points, SMOOTH if over == "5m" else 1),
    }


def columns(points: Sequence[Point]) -> Columns:
    """One list a figure; None where nothing was measured."""
    return {
        "at": [point.at for point in points],
        "calls_per_second": [point.calls / point.seconds for point in points],
        "hit_ratio": [ratio(point.hits, point.calls - point.refused) for point in points],
        "hit_p50": [point.hit_p50 for point in points],
        "hit_p99": [point.hit_p99 for point in points],
        "miss_p50": [point.miss_p50 for point in points],
        "miss_p99": [point.miss_p99 for point in points],
        "errors_per_second": [point.errors / point.seconds for point in points],
        "node_calls_per_second": [sum(node.calls for node in point.nodes.values()) / point.seconds for point in points],
        "spared_per_second": [point.spared_calls / point.seconds for point in points],
    }


def method_past(history: History, network: str, method: str) -> MethodPast:
    """A method's last five minutes; None where it was not called."""
    points = history.method(network, method)
    return {
        "network": network,
        "method": method,
        "at": [at for at, _ in points],
        "calls_per_second": [found.calls / found.seconds if found else 0.0 for _, found in points],
        "hit_ratio": [ratio(found.hits, found.calls) if found else None for _, found in points],
        "hit_p50": [found.hit_p50 if found else None for _, found in points],
        "hit_p99": [found.hit_p99 if found else None for _, found in points],
        "miss_p50": [found.miss_p50 if found else None for _, found in points],
        "miss_p99": [found.miss_p99 if found else None for _, found in points],
    }


def _sums(points: Sequence[Point]) -> Sums | None:
    if not points:
        return None
    calls, refused = sum(point.calls for point in points), sum(point.refused for point in points)
    hits, errors = sum(point.hits for point in points), sum(point.errors for point in points)
    seconds = sum(point.seconds for point in points)
    return {
        "window": seconds,
        "calls": calls,
        "calls_per_second": calls / seconds,
        "hits": hits,
        "hit_ratio": ratio(hits, calls - refused),
        "hit": quantiles(together(point.hit for point in points)),
        "miss": quantiles(together(point.miss for point in points)),
        "errors": errors,
        "error_ratio": ratio(errors, calls - refused),
        "refused_calls": refused,
        "refused": refused + sum(point.turned_away for point in points),
        "node_calls": sum(node.calls for point in points for node in point.nodes.values()),
        "spared_calls": sum(point.spared_calls for point in points),
        "spared_seconds": sum(point.spared_seconds for point in points),
    }


def _nodes(points: Sequence[Point], smooth: int) -> list[NodePast]:
    """The busiest nodes: attempts a second, and the mean of the answers in seconds, each over `smooth` points."""
    return [
        {
            "network": key[0],
            "id": key[1],
            "calls_per_second": _calls(points, key, smooth),
            "latency": _latency(points, key, smooth),
        }
        for key in _busiest(points)
    ]


def _busiest(points: Iterable[Point]) -> list[NodeKey]:
    calls: Counter[NodeKey] = Counter()
    for point in points:
        for key, node in point.nodes.items():
            calls[key] += node.calls
    return sorted(key for key, _ in calls.most_common(MOST_NODES))


def _calls(points: Sequence[Point], key: NodeKey, smooth: int) -> list[float]:
    return [
        _ratio(over) or 0.0 for over in _lately([(_node(point, key).calls, point.seconds) for point in points], smooth)
    ]


def _latency(points: Sequence[Point], key: NodeKey, smooth: int) -> list[float | None]:
    found = [_node(point, key) for point in points]
    return [_ratio(over) for over in _lately([(node.seconds, node.answers) for node in found], smooth)]


def _node(point: Point, key: NodeKey) -> NodePoint:
    return point.nodes.get(key, _IDLE)


def _ratio(sums: tuple[float, float]) -> float | None:
    return sums[0] / sums[1] if sums[1] > 0 else None


def _lately(pairs: Sequence[tuple[float, float]], smooth: int) -> Iterator[tuple[float, float]]:
    """The sums of both figures over the last `smooth` pairs, at each of them."""
    for end in range(1, len(pairs) + 1):
        recent = pairs[max(0, end - smooth) : end]
        yield sum(one for one, _ in recent), sum(other for _, other in recent)
