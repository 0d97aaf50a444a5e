"""The documents of the past: columns for the charts of a range, sums of all ranges, and lines of the busiest nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from rpcaccel.controlplane.stats.buckets import Bucket, NodeKey, NodeSums, ratio
from rpcaccel.controlplane.stats.history import CLIENT_SPACING, SPACING, ClientRange, History, Range, Second
from rpcaccel.controlplane.stats.summaries import At, Readings, extended, figures
from rpcaccel.core.stats.counters import OTHER
from rpcaccel.core.stats.histogram import BOUNDS, Histogram

HEAT_BOUNDS: tuple[float, ...] = (
    20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.5,
    60.0,
)  # fmt: skip
"""Upper bounds, in seconds, of the rows of a heat map; what took longer is in the last row. Each is one of BOUNDS."""
_ROWS = [min(bisect_left(HEAT_BOUNDS, bound), len(HEAT_BOUNDS) - 1) for bound in (*BOUNDS, BOUNDS[-1])]
"""The row of each bucket of a histogram."""

MAX_NODE_LINES = 8
"""Nodes that have lines of their own; more could not be told apart in a chart."""

MAX_CODE_LINES = 7
"""Error codes that have a column of their own; further ones are summed up as OTHER."""

SMOOTH = 10
"""Seconds over which the lines of nodes are means: a node of small weight gets few calls in a single one."""

RANGES = f"range is one of {', '.join(SPACING)}"
"""The detail of the problem for any other range."""

CLIENT_RANGES = f"range is one of {', '.join(CLIENT_SPACING)}"

A_MILLION = 1e6

Rates = list[float | None]
"""A second, for each point in time; null where the program did not run."""


class Columns(Struct, frozen=True, kw_only=True):
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
    notifications_per_second: Annotated[Rates, Meta(description="Sent to subscribers.")]


class Outcomes(Struct, frozen=True):
    """Calls a second by how they ended; together they are all calls."""

    hits: Annotated[Rates, Meta(description="Answered by the proxy itself.")]
    nodes: Annotated[Rates, Meta(description="Answered with a result of a node.")]
    client_errors: Annotated[Rates, Meta(description="Errors by the clients' own doing.")]
    errors: Annotated[Rates, Meta(description="Calls that the proxy or its nodes failed at.")]
    refused: Annotated[Rates, Meta(description="Calls that the proxy did not accept.")]


class Heat(Struct, frozen=True, kw_only=True):
    """Counts of answers by time and latency: a list for each point in time, with a number for each bound."""

    bounds: Annotated[list[float], Meta(description="Upper bounds in seconds; longer answers are in the last row.")]
    hits: list[list[int]]
    misses: list[list[int]]


class Sums(Readings, frozen=True, kw_only=True):
    """A range as a whole."""

    node_calls: int
    spared_calls: Annotated[int, Meta(description="Node calls that the cache saved.")]
    spared_seconds: Annotated[float, Meta(description="That callers would have waited longer.")]
    node_credits: Annotated[
        float | None, Meta(description="Units that node calls cost at nodes with costs; null where no node has any.")
    ]
    spared_credits: Annotated[
        float | None, Meta(description="Units that the saved calls would have cost there, by the weights of the nodes.")
    ]
    node_cost: Annotated[float | None, Meta(description="Of the node calls, by the prices; null without any price.")]
    spared_cost: Annotated[float | None, Meta(description="Saved by the cache, by the prices.")]


class NodePast(Struct, frozen=True, kw_only=True):
    """A busy node over the range, in step with the columns."""

    network: str
    id: str
    calls_per_second: Rates
    latency: Annotated[list[float | None], Meta(description="Mean seconds of its answers.")]


class PastSeries(Struct, frozen=True, kw_only=True):
    """The columns of a while, for all charts."""

    spacing: Annotated[float, Meta(description="Seconds between two points.")]
    columns: Columns
    seconds: Annotated[list[float], Meta(description="The length of the while that each point tells of.")]
    outcomes: Outcomes
    codes: Annotated[
        dict[str, Rates], Meta(description="Calls a second that the proxy or its nodes failed at, by JSON-RPC code.")
    ]
    latency: Heat


class Past(PastSeries, frozen=True, kw_only=True):
    """The last five minutes, hour, day or week, or a part of them, of one network or of all."""

    range: Annotated[Range, Meta(description="The range whose points these are: the finest that reaches as far back.")]
    network: Annotated[str, Meta(description="Empty: all together.")]
    sums: Annotated[dict[str, Sums | None], Meta(description="Of all ranges, whatever part of them is shown.")]
    nodes: list[NodePast]
    currency: str


class MethodPast(Columns, frozen=True, kw_only=True):
    """A method's last five minutes."""

    network: str
    method: str


class ClientPast(PastSeries, frozen=True, kw_only=True):
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
        prices: by network, what a million units cost: calls to its nodes, or the units of nodes with costs.
    """
    over = next((name for name in SPACING if name == asked.over), None)
    if over is None:
        return None
    over = history.covering(over, asked.since)
    shown = _within(history.buckets(over, asked.network), asked)
    return extended(
        Past,
        _series(shown, SPACING[over]),
        range=over,
        network=asked.network,
        sums={name: _sums(history, name, asked.network, prices or {}) for name in SPACING},
        nodes=_nodes(shown, SMOOTH if over == "5m" else 1),
        currency=currency,
    )


def _series(shown: Sequence[Bucket], spacing: float) -> PastSeries:
    """The columns of all charts; a gap, where nothing was measured, has one empty point."""
    points = _gapped(shown)
    return PastSeries(
        spacing=spacing,
        columns=columns(shown),
        seconds=[one.seconds for one in points],
        outcomes=_outcomes(points),
        codes=_by_name(points, "codes"),
        latency=Heat(
            bounds=list(HEAT_BOUNDS),
            hits=[_heat(one.hit) for one in points],
            misses=[_heat(one.miss) for one in points],
        ),
    )


def _within(shown: Sequence[Bucket], asked: PastQuestion) -> list[Bucket]:
    since = asked.since if asked.since is not None else float("-inf")
    until = asked.until if asked.until is not None else float("inf")
    return [one for one in shown if one.at > since and one.at - one.seconds < until]


_Timed = TypeVar("_Timed", bound=Bucket | Second)


def _gapped(shown: Sequence[_Timed]) -> list[_Timed | Bucket]:
    """The points, and an empty one of no length between two of them where the program did not run."""
    points: list[_Timed | Bucket] = []
    for number, point in enumerate(shown):
        if number:
            before = shown[number - 1]
            began = point.at - point.seconds
            if began - before.at > max(5.0, 0.5 * point.seconds):
                points.append(Bucket(at=(before.at + began) / 2, seconds=0.0))
        points.append(point)
    return points


def columns(shown: Sequence[Bucket] | Sequence[Second]) -> Columns:
    """One list a figure; None where nothing was measured."""
    points = _gapped(shown)
    names = [name for name in Columns.__struct_fields__ if name != "at"]
    rows = (one.figures for one in points)
    figures_of: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(names)
    return Columns(at=[one.at for one in points], **dict(zip(names, figures_of, strict=True)))


def _outcomes(points: Iterable[Bucket]) -> Outcomes:
    """How calls ended."""
    columns_of: list[Rates] = [list(column) for column in zip(*map(_outcomes_of, points), strict=True)] or [[]] * 5
    return Outcomes(*columns_of)


def _outcomes_of(bucket: Bucket) -> Rates:
    """How calls ended, without those that only a subscription answers. An error that the proxy itself answered is
    counted as an error and as no hit."""
    left = bucket.miss.count - bucket.errors - bucket.client_errors
    hits, nodes = max(0, bucket.hits + min(0, left)), max(0, left)
    counts = (hits, nodes, bucket.client_errors, bucket.errors, bucket.refused)
    return [ratio(count, bucket.seconds) for count in counts]


def _heat(histogram: Histogram) -> list[int]:
    """The counts of a histogram by the rows of a heat map; none when it is empty."""
    rows = [0] * len(HEAT_BOUNDS)
    for row, count in zip(_ROWS, histogram.counts, strict=True):
        rows[row] += count
    return rows if any(rows) else []


def _by_name(points: Sequence[Bucket], counts: str) -> dict[str, Rates]:
    """A second, by the names of some counts: the most frequent ones, and the rest together."""
    counted: list[Mapping[str, int]] = [getattr(one, counts) for one in points]
    total: Counter[str] = Counter()
    for one in counted:
        total.update(one)
    most = [name for name, _ in total.most_common(MAX_CODE_LINES) if name != OTHER]
    seconds = [one.seconds for one in points]
    found = {name: list(map(ratio, (one.get(name, 0) for one in counted), seconds)) for name in most}
    rest = list(map(ratio, (sum(one.values()) - sum(one.get(name, 0) for name in most) for one in counted), seconds))
    return {**found, OTHER: rest} if any(rest) else found


def method_past(history: History, network: str, method: str) -> MethodPast:
    """A method's last five minutes; None where it was not called."""
    known = columns(history.method(network, method))
    return extended(MethodPast, known, network=network, method=method)


def client_past(history: History, client: str, wanted: str) -> ClientPast | None:
    """A client's last hour or day; None when there is no such range. For a thread: it may take some time."""
    over = next((name for name in CLIENT_SPACING if name == wanted), None)
    if over is None:
        return None
    shown = history.buckets(over, client, "client")
    whole = history.total(over, client, "client")
    return extended(
        ClientPast,
        _series(shown, CLIENT_SPACING[over]),
        range=over,
        whole=None if whole is None else figures(whole),
        limited=_by_name(_gapped(shown), "limited"),
    )


def _sums(history: History, over: Range, network: str, prices: Mapping[str, float]) -> Sums | None:
    whole = history.total(over, network)
    if whole is None:
        return None
    paid = {name: price / A_MILLION for name, price in prices.items() if price and network in ("", name)}
    billed = [name for name in history.costs.billed if network in ("", name)]
    spent = history.spending(over) if paid or billed else {}
    parts = [(spent[name], price) for name, price in paid.items() if name in spent]
    units = [spent[name] for name in billed if name in spent]
    return extended(
        Sums,
        figures(whole),
        node_calls=whole.node_calls,
        spared_calls=whole.spared_calls,
        spared_seconds=whole.spared_seconds,
        node_credits=sum(one.credits for one in units) if billed else None,
        spared_credits=sum(one.spared_credits for one in units) if billed else None,
        node_cost=sum(one.units * price for one, price in parts) if paid else None,
        spared_cost=sum(one.spared_units * price for one, price in parts) if paid else None,
    )


def _nodes(shown: Sequence[Bucket], smooth: int) -> list[NodePast]:
    """The busiest nodes: attempts a second, and the mean of the answers in seconds, each over `smooth` points."""
    calls: Counter[NodeKey] = Counter()
    for one in shown:
        for key, node in one.nodes.items():
            calls[key] += node.calls
    points = _gapped(shown)
    seconds = _sliding([one.seconds for one in points], smooth)
    return [_line(key, points, seconds, smooth) for key in sorted(key for key, _ in calls.most_common(MAX_NODE_LINES))]


def _sliding(numbers: Sequence[float], smooth: int) -> list[float]:
    """For each number, the sum of it and of those before it, of `smooth` at the most."""
    return [sum(numbers[max(0, end - smooth) : end]) for end in range(1, len(numbers) + 1)]


def _line(key: NodeKey, points: Sequence[Bucket], seconds: Sequence[float], smooth: int) -> NodePast:
    """The line of one node; None in a gap."""
    idle = NodeSums()
    done = [one.nodes.get(key, idle) for one in points]
    calls = _sliding([node.calls for node in done], smooth)
    took = _sliding([node.seconds for node in done], smooth)
    answers = _sliding([node.answers for node in done], smooth)
    there = [one.seconds > 0 for one in points]
    return NodePast(
        network=key[0],
        id=key[1],
        calls_per_second=[
            ratio(count, over) if ran else None for ran, count, over in zip(there, calls, seconds, strict=True)
        ],
        latency=[ratio(time, count) if ran else None for ran, time, count in zip(there, took, answers, strict=True)],
    )
