"""The documents of the past: columns for the charts of a range, sums of all ranges, and lines of the busiest nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, TypedDict

from msgspec import Meta, Struct

from rpcaccel.controlplane.stats.buckets import Bucket, NodeKey
from rpcaccel.controlplane.stats.history import CLIENT_SPACING, SPACING, ClientRange, History, Range
from rpcaccel.controlplane.stats.summaries import At, Readings, figures, ratio
from rpcaccel.core.stats.counters import OTHER
from rpcaccel.core.stats.histogram import BOUNDS, Histogram

MOST_NODES = 8
"""Nodes that have lines of their own; more could not be told apart in a chart."""

MOST_CODES = 7
"""Error codes that have a column of their own; further ones are summed up as OTHER."""

SMOOTH = 10
"""Seconds over which the lines of nodes are means: a node of small weight gets few calls in a single one."""

HEAT_BOUNDS: tuple[float, ...] = (
    20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
    60.0,
)  # fmt: skip
"""Upper bounds, in seconds, of the rows of a heat map; what took longer is in the last row. Each is one of BOUNDS."""
_ROWS = [min(bisect_left(HEAT_BOUNDS, bound), len(HEAT_BOUNDS) - 1) for bound in (*BOUNDS, BOUNDS[-1])]
"""The row of each bucket of a histogram."""

RANGES = f"range is one of {', '.join(SPACING)}"
"""The detail of the problem for any other range."""

CLIENT_RANGES = f"range is one of {', '.join(CLIENT_SPACING)}"

A_MILLION = 1e6

Rates = list[float | None]
"""A second, for each point in time; null where the program did not run."""


class Columns(TypedDict):
    """The columns of a chart, a list for each figure, oldest first."""

    at: list[At]
    calls_per_second: Rates
    hit_ratio: list[float | None]
    hit_p50: list[float | None]
    hit_p99: list[float | None]
    miss_p50: list[float | None]
    miss_p99: list[float | None]
    errors_per_second: Annotated[Rates, Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors_per_second: Annotated[Rates, Meta(description="Errors by the clients' own doing.")]
    node_calls_per_second: Rates
    spared_per_second: Annotated[Rates, Meta(description="Node calls that the cache saved.")]


class Outcomes(TypedDict):
    """Calls a second by how they ended; together they are all calls."""

    hits: Annotated[Rates, Meta(description="Answered by the proxy itself.")]
    nodes: Annotated[Rates, Meta(description="Answered with a result of a node.")]
    client_errors: Annotated[Rates, Meta(description="Errors by the clients' own doing.")]
    errors: Annotated[Rates, Meta(description="Calls that the proxy or its nodes failed at.")]
    refused: Annotated[Rates, Meta(description="Calls that the proxy did not accept.")]


class Heat(TypedDict):
    """Counts of answers by time and latency: a list for each point in time, with a number for each bound."""

    bounds: Annotated[list[float], Meta(description="Upper bounds in seconds; longer answers are in the last row.")]
    hits: list[list[int]]
    misses: list[list[int]]


class Sums(Readings):
    """A range as a whole."""

    node_calls: int
    spared_calls: Annotated[int, Meta(description="Node calls that the cache saved.")]
    spared_seconds: Annotated[float, Meta(description="That callers would have waited longer.")]
    node_cost: Annotated[float | None, Meta(description="Of the node calls, by the prices; null without any price.")]
    spared_cost: Annotated[float | None, Meta(description="Saved by the cache, by the prices.")]


class NodePast(TypedDict):
    """A busy node over the range, in step with the columns."""

    network: str
    id: str
    calls_per_second: Rates
    latency: Annotated[list[float | None], Meta(description="Mean seconds of its answers.")]


class PastSeries(TypedDict):
    """The columns of a while, for all charts."""

    spacing: Annotated[float, Meta(description="Seconds between two points.")]
    columns: Columns
    seconds: Annotated[list[float], Meta(description="The length of the while that each point tells of.")]
    outcomes: Outcomes
    codes: Annotated[
        dict[str, Rates], Meta(description="Calls a second that the proxy or its nodes failed at, by JSON-RPC code.")
    ]
    latency: Heat


class Past(PastSeries):
    """The last five minutes, hour, day or week, or a part of them, of one network or of all."""

    range: Annotated[Range, Meta(description="The range whose points these are: the finest that reaches as far back.")]
    network: Annotated[str, Meta(description="Empty: all together.")]
    sums: Annotated[dict[str, Sums | None], Meta(description="Of all ranges, whatever part of them is shown.")]
    nodes: list[NodePast]
    currency: str


class MethodPast(Columns):
    """A method's last five minutes."""

    network: str
    method: str


class ClientPast(PastSeries):
    """A client over the last hour or day."""

    range: ClientRange
    whole: Annotated[Readings | None, Meta(description="Of the whole range.")]
    limited: Annotated[dict[str, Rates], Meta(description="Refused a second, by reason.")]


class PastQuestion(Struct, frozen=True):
    """What part of the past is asked for."""

    over: str = "5m"
    network: str = ""
    since: float | None = None
    """From when on, in seconds since 1970; None: the whole range."""
    until: float | None = None


def past(
    history: History, asked: PastQuestion, prices: Mapping[str, float] | None = None, currency: str = ""
) -> Past | None:
    """Everything about a range; None when there is no such range.

    Args:
        prices: by network, what a million calls to its nodes cost.
    """
    over = next((name for name in SPACING if name == asked.over), None)
    if over is None:
        return None
    over = history.covering(over, asked.since)
    buckets = _within(history.buckets(over, asked.network), asked)
    return {
        "range": over,
        "network": asked.network,
        **_series(buckets, SPACING[over][0] or 1.0),
        "sums": {name: _sums(history, name, asked.network, prices or {}) for name in SPACING},
        "nodes": _nodes(buckets, SMOOTH if over == "5m" else 1),
        "currency": currency,
    }


def _series(buckets: Sequence[Bucket], spacing: float) -> PastSeries:
    """The columns of all charts; a gap, where nothing was measured, has one empty point."""
    points = _gapped(buckets)
    return {
        "spacing": spacing,
        "columns": columns(buckets),
        "seconds": [0.0 if isinstance(one, float) else one.seconds for one in points],
        "outcomes": _outcomes(points),
        "codes": _by_name(points, "codes"),
        "latency": {
            "bounds": list(HEAT_BOUNDS),
            "hits": [[] if isinstance(one, float) else _rows(one.hit) for one in points],
            "misses": [[] if isinstance(one, float) else _rows(one.miss) for one in points],
        },
    }


def _within(buckets: list[Bucket], asked: PastQuestion) -> list[Bucket]:
    since = asked.since if asked.since is not None else float("-inf")
    until = asked.until if asked.until is not None else float("inf")
    return [one for one in buckets if one.at > since and one.at - one.seconds < until]


_Point = Bucket | float
"""A bucket, or the time of a gap."""


def _gapped(buckets: Sequence[Bucket]) -> list[_Point]:
    """The buckets, and a time between two of them where the program did not run."""
    points: list[_Point] = []
    for number, bucket in enumerate(buckets):
        if number:
            before = buckets[number - 1]
            began = bucket.at - bucket.seconds
            if began - before.at > max(5.0, 0.5 * bucket.seconds):
                points.append((before.at + began) / 2)
        points.append(bucket)
    return points


def columns(buckets: Sequence[Bucket]) -> Columns:
    """One list a figure; None where nothing was measured."""
    points = _gapped(buckets)

    def each(figure: Callable[[Bucket], float | None]) -> list[float | None]:
        return [None if isinstance(one, float) else figure(one) for one in points]

    return {
        "at": [one if isinstance(one, float) else one.at for one in points],
        "calls_per_second": each(lambda one: one.calls / one.seconds),
        "hit_ratio": each(lambda one: ratio(one.hits, one.calls - one.refused)),
        "hit_p50": each(lambda one: one.hit.quantile(0.5)),
        "hit_p99": each(lambda one: one.hit.quantile(0.99)),
        "miss_p50": each(lambda one: one.miss.quantile(0.5)),
        "miss_p99": each(lambda one: one.miss.quantile(0.99)),
        "errors_per_second": each(lambda one: one.errors / one.seconds),
        "client_errors_per_second": each(lambda one: one.client_errors / one.seconds),
        "node_calls_per_second": each(lambda one: _node_calls(one) / one.seconds),
        "spared_per_second": each(lambda one: one.spared_calls / one.seconds),
    }


def _outcomes(points: Iterable[_Point]) -> Outcomes:
    """How calls ended. An error that the proxy itself answered is counted as an error and as no hit."""
    found: Outcomes = {"hits": [], "nodes": [], "client_errors": [], "errors": [], "refused": []}
    for one in points:
        if isinstance(one, float):
            hits, nodes, client_errors, errors, refused = (None,) * 5
        else:
            left = one.calls - one.hits - one.refused - one.errors - one.client_errors
            # of a client, what was refused may be a request and no call
            hits, nodes = max(0, one.hits + min(0, left)) / one.seconds, max(0, left) / one.seconds
            client_errors, errors, refused = (
                count / one.seconds for count in (one.client_errors, one.errors, one.refused)
            )
        found["hits"].append(hits)
        found["nodes"].append(nodes)
        found["client_errors"].append(client_errors)
        found["errors"].append(errors)
        found["refused"].append(refused)
    return found


def _by_name(points: Sequence[_Point], counts: str) -> dict[str, Rates]:
    """A second, by the names of some counts: the most frequent ones, and the rest together."""
    total: Counter[str] = Counter()
    for one in points:
        if not isinstance(one, float):
            total.update(getattr(one, counts))
    most = [name for name, _ in total.most_common(MOST_CODES) if name != OTHER]
    found: dict[str, Rates] = {name: [] for name in most}
    rest: Rates = []
    for one in points:
        counted: Mapping[str, int] = {} if isinstance(one, float) else getattr(one, counts)
        seconds = None if isinstance(one, float) else one.seconds
        for name in most:
            found[name].append(seconds and counted.get(name, 0) / seconds)
        rest.append(seconds and sum(count for name, count in counted.items() if name not in found) / seconds)
    return {**found, OTHER: rest} if any(rest) else found


def _rows(histogram: Histogram) -> list[int]:
    """The counts of a histogram by the rows of a heat map; none when it is empty."""
    rows = [0] * len(HEAT_BOUNDS)
    for row, count in zip(_ROWS, histogram.counts, strict=True):
        rows[row] += count
    return rows if any(rows) else []


def method_past(history: History, network: str, method: str) -> MethodPast:
    """A method's last five minutes; None where it was not called."""
    return {"network": network, "method": method, **columns(history.method(network, method))}


def client_past(history: History, client: str, wanted: str) -> ClientPast | None:
    """A client's last hour or day; None when there is no such range."""
    over = next((name for name in CLIENT_SPACING if name == wanted), None)
    if over is None:
        return None
    buckets = history.client(client, over)
    whole = history.client_total(client, over)
    return {
        "range": over,
        **_series(buckets, CLIENT_SPACING[over][0]),
        "whole": None if whole is None else figures(whole),
        "limited": _by_name(_gapped(buckets), "limited"),
    }


def _sums(history: History, over: Range, network: str, prices: Mapping[str, float]) -> Sums | None:
    whole = history.total(over, network)
    if whole is None:
        return None
    paid = {name: price / A_MILLION for name, price in prices.items() if price and network in ("", name)}
    parts = [(found, price) for name, price in paid.items() if (found := history.total(over, name)) is not None]
    return {
        **figures(whole),
        "node_calls": _node_calls(whole),
        "spared_calls": whole.spared_calls,
        "spared_seconds": whole.spared_seconds,
        "node_cost": sum(_node_calls(part) * price for part, price in parts) if paid else None,
        "spared_cost": sum(part.spared_calls * price for part, price in parts) if paid else None,
    }


def _node_calls(bucket: Bucket) -> int:
    return sum(node.calls for node in bucket.nodes.values())


def _nodes(buckets: Sequence[Bucket], smooth: int) -> list[NodePast]:
    """The busiest nodes: attempts a second, and the mean of the answers in seconds, each over `smooth` buckets."""
    calls: Counter[NodeKey] = Counter()
    for bucket in buckets:
        calls.update({key: node.calls for key, node in bucket.nodes.items()})
    points = _gapped(buckets)
    whiles = [_before(points, end, smooth) for end in range(1, len(points) + 1)]
    return [_line(key, whiles) for key in sorted(key for key, _ in calls.most_common(MOST_NODES))]


def _before(points: Sequence[_Point], end: int, smooth: int) -> list[Bucket]:
    """The last `smooth` buckets before a point; none for a gap."""
    if isinstance(points[end - 1], float):
        return []
    return [one for one in points[max(0, end - smooth) : end] if not isinstance(one, float)]


def _line(key: NodeKey, whiles: Iterable[Sequence[Bucket]]) -> NodePast:
    """The line of one node, with a point for each while."""
    rates: Rates = []
    latencies: list[float | None] = []
    for buckets in whiles:
        done = [bucket.nodes[key] for bucket in buckets if key in bucket.nodes]
        rates.append(ratio(sum(node.calls for node in done), sum(bucket.seconds for bucket in buckets)))
        latencies.append(ratio(sum(node.seconds for node in done), sum(node.answers for node in done)))
    return {"network": key[0], "id": key[1], "calls_per_second": rates, "latency": latencies}
