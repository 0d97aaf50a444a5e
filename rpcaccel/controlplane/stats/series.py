"""The documents of the past: columns for the charts of a range, sums of all ranges, and lines of the busiest nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from rpcaccel.controlplane.stats.history import SPACING, Bucket, History, NodeKey, Range, merged
from rpcaccel.controlplane.stats.summaries import At, Readings, figures, ratio

MOST_NODES = 8
"""Nodes that have lines of their own; more could not be told apart in a chart."""

SMOOTH = 10
"""Seconds over which the lines of nodes are means: a node of small weight gets few calls in a single one."""

RANGES = f"range is one of {', '.join(SPACING)}"
"""The detail of the problem for any other range."""


class Columns(TypedDict):
    """The columns of a chart, a list for each figure, oldest first."""

    at: list[At]
    calls_per_second: list[float]
    hit_ratio: list[float | None]
    hit_p50: list[float | None]
    hit_p99: list[float | None]
    miss_p50: list[float | None]
    miss_p99: list[float | None]
    errors_per_second: Annotated[list[float], Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors_per_second: Annotated[list[float], Meta(description="Errors by the clients' own doing.")]
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


class MethodPast(Columns):
    """A method's last five minutes."""

    network: str
    method: str


def past(history: History, wanted: str) -> Past | None:
    """Everything about the last five minutes, hour or day; None when `wanted` is none of these."""
    over = next((name for name in SPACING if name == wanted), None)
    if over is None:
        return None
    buckets = history.buckets(over)
    return {
        "range": over,
        "spacing": SPACING[over][0] or 1.0,
        "columns": columns(buckets),
        "sums": {name: _sums(history.buckets(name)) for name in SPACING},
        "nodes": _nodes(buckets, SMOOTH if over == "5m" else 1),
    }


def columns(buckets: Sequence[Bucket]) -> Columns:
    """One list a figure; None where nothing was measured."""
    return {
        "at": [one.at for one in buckets],
        "calls_per_second": [one.calls / one.seconds for one in buckets],
        "hit_ratio": [ratio(one.hits, one.calls - one.refused) for one in buckets],
        "hit_p50": [one.hit.quantile(0.5) for one in buckets],
        "hit_p99": [one.hit.quantile(0.99) for one in buckets],
        "miss_p50": [one.miss.quantile(0.5) for one in buckets],
        "miss_p99": [one.miss.quantile(0.99) for one in buckets],
        "errors_per_second": [one.errors / one.seconds for one in buckets],
        "client_errors_per_second": [one.client_errors / one.seconds for one in buckets],
        "node_calls_per_second": [sum(node.calls for node in one.nodes.values()) / one.seconds for one in buckets],
        "spared_per_second": [one.spared_calls / one.seconds for one in buckets],
    }


def method_past(history: History, network: str, method: str) -> MethodPast:
    """A method's last five minutes; None where it was not called."""
    return {"network": network, "method": method, **columns(history.method(network, method))}


def _sums(buckets: Sequence[Bucket]) -> Sums | None:
    if not buckets:
        return None
    whole = merged(buckets)
    return {
        **figures(whole),
        "node_calls": sum(node.calls for node in whole.nodes.values()),
        "spared_calls": whole.spared_calls,
        "spared_seconds": whole.spared_seconds,
    }


def _nodes(buckets: Sequence[Bucket], smooth: int) -> list[NodePast]:
    """The busiest nodes: attempts a second, and the mean of the answers in seconds, each over `smooth` buckets."""
    calls: Counter[NodeKey] = Counter()
    for bucket in buckets:
        calls.update({key: node.calls for key, node in bucket.nodes.items()})
    whiles = [buckets[max(0, end - smooth) : end] for end in range(1, len(buckets) + 1)]
    return [_line(key, whiles) for key in sorted(key for key, _ in calls.most_common(MOST_NODES))]


def _line(key: NodeKey, whiles: Iterable[Sequence[Bucket]]) -> NodePast:
    """The line of one node, with a point for each while."""
    rates: list[float] = []
    latencies: list[float | None] = []
    for buckets in whiles:
        done = [bucket.nodes[key] for bucket in buckets if key in bucket.nodes]
        rates.append(sum(node.calls for node in done) / sum(bucket.seconds for bucket in buckets))
        latencies.append(ratio(sum(node.seconds for node in done), sum(node.answers for node in done)))
    return {"network": key[0], "id": key[1], "calls_per_second": rates, "latency": latencies}
