"""The documents of the past: columns for the charts of a range, sums of all ranges, and lines of the busiest nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from rpcaccel.controlplane.stats.buckets import NodeKey, NodeSums, ratio
from rpcaccel.controlplane.stats.history import CLIENT_SPACING, SPACING, ClientRange, History, Range
from rpcaccel.controlplane.stats.points import HEAT_BOUNDS, ChartPoint, point_of
from rpcaccel.controlplane.stats.summaries import At, Readings, extended, figures
from rpcaccel.core.stats.counters import OTHER

MOST_NODES = 8
"""Nodes that have lines of their own; more could not be told apart in a chart."""

MOST_CODES = 7
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
        prices: by network, what a million calls to its nodes cost.
    """
    over = next((name for name in SPACING if name == asked.over), None)
    if over is None:
        return None
    over = history.covering(over, asked.since)
    shown = _within(history.points(over, asked.network), asked)
    return extended(
        Past,
        _series(shown, SPACING[over][0] or 1.0),
        range=over,
        network=asked.network,
        sums={name: _sums(history, name, asked.network, prices or {}) for name in SPACING},
        nodes=_nodes(shown, SMOOTH if over == "5m" else 1),
        currency=currency,
    )


def _series(shown: Sequence[ChartPoint], spacing: float) -> PastSeries:
    """The columns of all charts; a gap, where nothing was measured, has one empty point."""
    points = _gapped(shown)
    return PastSeries(
        spacing=spacing,
        columns=columns(shown),
        seconds=[0.0 if isinstance(one, float) else one.seconds for one in points],
        outcomes=_outcomes(points),
        codes=_by_name(points, "codes"),
        latency=Heat(
            bounds=list(HEAT_BOUNDS),
            hits=[[] if isinstance(one, float) else one.hit_rows for one in points],
            misses=[[] if isinstance(one, float) else one.miss_rows for one in points],
        ),
    )


def _within(shown: Sequence[ChartPoint], asked: PastQuestion) -> list[ChartPoint]:
    since = asked.since if asked.since is not None else float("-inf")
    until = asked.until if asked.until is not None else float("inf")
    return [one for one in shown if one.at > since and one.at - one.seconds < until]


_Point = ChartPoint | float
"""A point, or the time of a gap."""


def _gapped(shown: Sequence[ChartPoint]) -> list[_Point]:
    """The points, and a time between two of them where the program did not run."""
    points: list[_Point] = []
    for number, point in enumerate(shown):
        if number:
            before = shown[number - 1]
            began = point.at - point.seconds
            if began - before.at > max(5.0, 0.5 * point.seconds):
                points.append((before.at + began) / 2)
        points.append(point)
    return points


def columns(shown: Sequence[ChartPoint]) -> Columns:
    """One list a figure; None where nothing was measured."""
    points = _gapped(shown)
    names = [name for name in Columns.__struct_fields__ if name != "at"]
    rows = [(None,) * len(names) if isinstance(one, float) else one.figures for one in points]
    figures_of: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(names)
    at = [one if isinstance(one, float) else one.at for one in points]
    return Columns(at=at, **dict(zip(names, figures_of, strict=True)))


def _outcomes(points: Iterable[_Point]) -> Outcomes:
    """How calls ended."""
    rows = [(None,) * 5 if isinstance(one, float) else one.outcomes for one in points]
    columns_of: list[Rates] = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
    return Outcomes(*columns_of)


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


def method_past(history: History, network: str, method: str) -> MethodPast:
    """A method's last five minutes; None where it was not called."""
    known = columns([point_of(one) for one in history.method(network, method)])
    return extended(MethodPast, known, network=network, method=method)


def client_past(history: History, client: str, wanted: str) -> ClientPast | None:
    """A client's last hour or day; None when there is no such range."""
    over = next((name for name in CLIENT_SPACING if name == wanted), None)
    if over is None:
        return None
    shown = history.client_points(client, over)
    whole = history.client_total(client, over)
    return extended(
        ClientPast,
        _series(shown, CLIENT_SPACING[over][0]),
        range=over,
        whole=None if whole is None else figures(whole),
        limited=_by_name(_gapped(shown), "limited"),
    )


def _sums(history: History, over: Range, network: str, prices: Mapping[str, float]) -> Sums | None:
    whole = history.total(over, network)
    if whole is None:
        return None
    paid = {name: price / A_MILLION for name, price in prices.items() if price and network in ("", name)}
    parts = [(found, price) for name, price in paid.items() if (found := history.total(over, name)) is not None]
    return extended(
        Sums,
        figures(whole),
        node_calls=whole.node_calls,
        spared_calls=whole.spared_calls,
        spared_seconds=whole.spared_seconds,
        node_cost=sum(part.node_calls * price for part, price in parts) if paid else None,
        spared_cost=sum(part.spared_calls * price for part, price in parts) if paid else None,
    )


def _nodes(shown: Sequence[ChartPoint], smooth: int) -> list[NodePast]:
    """The busiest nodes: attempts a second, and the mean of the answers in seconds, each over `smooth` points."""
    calls: Counter[NodeKey] = Counter()
    for one in shown:
        for key, node in one.nodes.items():
            calls[key] += node.calls
    points = _gapped(shown)
    seconds = _sliding([0.0 if isinstance(one, float) else one.seconds for one in points], smooth)
    return [_line(key, points, seconds, smooth) for key in sorted(key for key, _ in calls.most_common(MOST_NODES))]


def _sliding(numbers: Sequence[float], smooth: int) -> list[float]:
    """For each number, the sum of it and of those before it, of `smooth` at the most."""
    return [sum(numbers[max(0, end - smooth) : end]) for end in range(1, len(numbers) + 1)]


def _line(key: NodeKey, points: Sequence[_Point], seconds: Sequence[float], smooth: int) -> NodePast:
    """The line of one node; None in a gap."""
    idle = NodeSums()
    done = [idle if isinstance(one, float) else one.nodes.get(key, idle) for one in points]
    calls = _sliding([node.calls for node in done], smooth)
    took = _sliding([node.seconds for node in done], smooth)
    answers = _sliding([node.answers for node in done], smooth)
    gaps = [isinstance(one, float) for one in points]
    return NodePast(
        network=key[0],
        id=key[1],
        calls_per_second=[
            None if gap else ratio(count, over) for gap, count, over in zip(gaps, calls, seconds, strict=True)
        ],
        latency=[None if gap else ratio(time, count) for gap, time, count in zip(gaps, took, answers, strict=True)],
    )
