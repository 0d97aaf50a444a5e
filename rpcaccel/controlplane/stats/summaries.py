"""Summaries of counters for display: rates, ratios and percentiles over a window. A figure without data is None, never
0.

The Structs are the documents themselves: the JSON is encoded from them, and OpenAPI is derived from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from rpcaccel.controlplane.stats.buckets import Bucket, bucket_of, ratio
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.core.heads.examination import Examination, ExaminationFindings
from rpcaccel.core.stats.counters import AnswerSource, Cell, NetworkCell
from rpcaccel.core.stats.histogram import Histogram

At = Annotated[float, Meta(description="Seconds since 1970.")]
Seconds = Annotated[float, Meta(description="Seconds.")]
PerSecond = Annotated[float, Meta(description="A second.")]
Share = Annotated[float, Meta(description="0 to 1.")]
Looked = Annotated[float | None, Meta(description="Seconds that these figures look back; null before there are any.")]
Counts = Annotated[dict[str, int], Meta(description="How often, by reason.")]
Iso = Annotated[str, Meta(description="ISO 8601, in UTC.")]

D = TypeVar("D", bound=Struct)


class Quantiles(Struct, frozen=True, kw_only=True):
    """Percentiles of the times of `count` answers."""

    count: int
    p50: Seconds | None
    p90: Seconds | None
    p99: Seconds | None


class Readings(Struct, frozen=True, kw_only=True):
    """The readings of a window: rates, hit ratio, latencies and errors of its calls."""

    window: Seconds
    calls: int
    calls_per_second: PerSecond | None
    hits: int
    hit_ratio: Share | None
    hit: Quantiles | None
    miss: Quantiles | None
    errors: Annotated[int, Meta(description="Calls that the proxy or its nodes failed at.")]
    error_ratio: Annotated[float | None, Meta(description="Those, of the calls that the proxy accepted, 0 to 1.")]
    client_errors: Annotated[int, Meta(description="Errors by the clients' own doing.")]
    refused_calls: Annotated[int, Meta(description="Calls that the proxy did not accept.")]
    refused: Annotated[int, Meta(description="Those, and what was refused before it was a call of any method.")]


class MethodFigures(Struct, frozen=True, kw_only=True):
    """Calls of a method, or of a cache class, in the last minute."""

    calls: int
    calls_per_second: PerSecond | None
    hits: int
    hit_ratio: Share | None
    sources: Annotated[dict[str, int], Meta(description="Calls, by where the answer came from.")]
    seconds: Annotated[dict[str, float], Meta(description="Spent on them, by where the answer came from.")]
    steps: Annotated[dict[str, float], Meta(description="Seconds, by stage of the call.")]
    hit: Quantiles | None
    miss: Quantiles | None
    errors: Annotated[int, Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors: Annotated[int, Meta(description="Errors by the clients' own doing.")]
    refused: int
    bytes_per_second: PerSecond | None
    misses: Counts
    skips: Annotated[dict[str, int], Meta(description="Answers that were not kept, by reason.")]


class SubscriptionFigures(Struct, frozen=True, kw_only=True):
    """The subscriptions of clients to one network: as they are, the last minute, and totals since the start."""

    network: str
    kinds: Annotated[dict[str, int], Meta(description="Subscriptions now, by kind.")]
    topics: Annotated[int, Meta(description="Different ones among them, each of which is followed once a worker.")]
    notifications_per_second: PerSecond | None
    notifications: Annotated[dict[str, int], Meta(description="Sent since the start, by kind.")]
    lateness: Annotated[
        Quantiles | None,
        Meta(description="Time from a block becoming the served head to its notifications in the last minute."),
    ]
    filled: Annotated[int, Meta(description="Blocks fetched since the start because no node had told of them.")]
    abandoned: Annotated[int, Meta(description="Blocks taken back by reorganisations since the start.")]
    resumed: Annotated[int, Meta(description="Subscriptions since the start that began at an older block.")]
    replayed: Annotated[int, Meta(description="Blocks sent again to those.")]
    cut: Annotated[dict[str, int], Meta(description="Connections closed by the proxy since the start, by reason.")]


def readings(window: Window | None) -> Readings | None:
    """The four readings of the first view, over `window`."""
    if window is None:
        return None
    whole = bucket_of(window.passed.cells, window.seconds)
    return figures(replace(whole, turned_away=sum(window.passed.refusals.values())))


def readings_by_network(window: Window | None) -> dict[str, Readings]:
    """The readings of each network that was called over `window`."""
    found: dict[str, list[Cell]] = {}
    for cell in window.passed.cells if window else ():
        found.setdefault(cell.network, []).append(cell)
    return {name: figures(bucket_of(cells, window.seconds)) for name, cells in found.items()} if window else {}


def figures(whole: Bucket) -> Readings:
    """The readings of the time that a bucket covers."""
    accepted = whole.calls - whole.refused
    return Readings(
        window=whole.seconds,
        calls=whole.calls,
        calls_per_second=whole.calls / whole.seconds,
        hits=whole.hits,
        hit_ratio=whole.hit_ratio,
        hit=quantiles(whole.hit),
        miss=quantiles(whole.miss),
        errors=whole.errors,
        error_ratio=ratio(whole.errors, accepted),
        client_errors=whole.client_errors,
        refused_calls=whole.refused,
        refused=whole.refused + whole.turned_away,
    )


def method_figures(cells: list[Cell], window: Window | None) -> MethodFigures:
    """Rate, hit ratio, percentiles and reasons of some cells, counted over `window`."""
    whole = bucket_of(cells, window.seconds if window else 1.0)
    sources = {source.label: sum(cell.latency[source].count for cell in cells) for source in AnswerSource}
    return MethodFigures(
        calls=whole.calls,
        calls_per_second=rate(whole.calls, window),
        hits=whole.hits,
        hit_ratio=whole.hit_ratio,
        sources={label: count for label, count in sources.items() if count},
        seconds={source.label: seconds for source in AnswerSource if (seconds := _seconds(cells, source))},
        steps={str(step): spent / 1e6 for step, spent in sum_by_reason(cell.spent for cell in cells).items()},
        hit=quantiles(whole.hit),
        miss=quantiles(whole.miss),
        errors=whole.errors,
        client_errors=whole.client_errors,
        refused=whole.refused,
        bytes_per_second=rate(sum(cell.size for cell in cells), window),
        misses=sum_by_reason(cell.misses for cell in cells),
        skips=sum_by_reason(cell.skips for cell in cells),
    )


def subscription_figures(
    now: NetworkCell, recent: NetworkCell | None, window: Window | None, minute: NetworkCell | None
) -> SubscriptionFigures:
    """The subscriptions to a network as they are `now`; the rate of what was sent in the `recent` past, counted over
    `window`, and the lateness of the last `minute`."""
    return extended(
        SubscriptionFigures,
        now,
        kinds={kind: count for kind, count in now.subscriptions.items() if count},
        notifications_per_second=rate(sum(recent.delivered.values()) if recent else 0, window),
        notifications=dict(now.delivered),
        lateness=quantiles(minute.lateness) if minute else None,
    )


def _seconds(cells: Iterable[Cell], source: AnswerSource) -> float:
    return sum(cell.latency[source].seconds for cell in cells)


def sum_by_reason(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of several tables of counts, the largest first."""
    total: dict[str, int] = {}
    for counts in counted:
        for reason, count in counts.items():
            total[reason] = total.get(reason, 0) + count
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def quantiles(histogram: Histogram) -> Quantiles | None:
    """Count, p50, p90 and p99 in seconds; None when nothing was observed."""
    if not histogram.count:
        return None
    return Quantiles(
        count=histogram.count,
        p50=histogram.quantile(0.5),
        p90=histogram.quantile(0.9),
        p99=histogram.quantile(0.99),
    )


def rate(count: int, window: Window | None) -> float | None:
    """Per second."""
    return count / window.seconds if window else None


def iso(unix: float) -> str:
    """A time, in seconds since 1970, as ISO 8601 in UTC."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")


def extended(kind: type[D], base: Struct, **more: Any) -> D:
    """The document of this kind with the members that it shares with `base`, but for those that `more` gives: these are
    added or replaced."""
    shared = {name: getattr(base, name) for name in kind.__struct_fields__ if name in base.__struct_fields__}
    return kind(**{**shared, **more})


class ExaminationNow(ExaminationFindings, frozen=True, kw_only=True):
    """What calls in the shadow, which no client waits for, showed of a node; null is what was not found out."""

    at: Annotated[str, Meta(description="ISO 8601: when the examination ended.")]
    says: Annotated[list[str], Meta(description="All of it in sentences.")]


def examination_document(found: Examination | None) -> ExaminationNow | None:
    """The document of an examination; None before there is one."""
    return None if found is None else extended(ExaminationNow, found, at=iso(found.at), says=list(found.sentences()))
