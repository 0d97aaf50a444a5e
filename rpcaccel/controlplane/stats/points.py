"""The points of charts: what a time bucket shows in each of them."""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct

from rpcaccel.controlplane.stats.buckets import Bucket, NodeKey, NodeSums
from rpcaccel.core.stats.histogram import BOUNDS, Histogram

HEAT_BOUNDS: tuple[float, ...] = (
    20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
    60.0,
)  # fmt: skip
"""Upper bounds, in seconds, of the rows of a heat map; what took longer is in the last row. Each is one of BOUNDS."""
_ROWS = [min(bisect_left(HEAT_BOUNDS, bound), len(HEAT_BOUNDS) - 1) for bound in (*BOUNDS, BOUNDS[-1])]
"""The row of each bucket of a histogram."""


class ChartPoint(Struct, frozen=True):
    """What a bucket shows in the charts."""

    at: float
    """The end of the while, in seconds since 1970."""
    seconds: float
    """The length of the while."""
    figures: tuple[float | None, ...]
    """The figures of `Columns` beside the time, in its order."""
    outcomes: tuple[float, ...]
    """The figures of `Outcomes`, in its order."""
    hit_rows: list[int]
    miss_rows: list[int]
    """Counts of answers by the rows of a heat map; none without answers."""
    nodes: dict[NodeKey, NodeSums]
    codes: dict[str, int]
    limited: dict[str, int]


def point_of(bucket: Bucket) -> ChartPoint:
    """The point of a bucket."""
    seconds = bucket.seconds
    figures = (
        bucket.calls / seconds,
        bucket.hit_ratio,
        bucket.hit.quantile(0.5),
        bucket.hit.quantile(0.99),
        bucket.miss.quantile(0.5),
        bucket.miss.quantile(0.99),
        bucket.errors / seconds,
        bucket.client_errors / seconds,
        sum(node.calls for node in bucket.nodes.values()) / seconds,
        bucket.spared_calls / seconds,
        bucket.notifications / seconds,
    )
    return ChartPoint(
        bucket.at, seconds, figures, _outcomes_of(bucket), _rows(bucket.hit), _rows(bucket.miss),
        bucket.nodes, bucket.codes, bucket.limited,
    )  # fmt: skip


def _outcomes_of(bucket: Bucket) -> tuple[float, ...]:
    """How calls ended, without those that only a subscription answers. An error that the proxy itself answered is
    counted as an error and as no hit."""
    left = bucket.miss.count - bucket.errors - bucket.client_errors
    hits, nodes = max(0, bucket.hits + min(0, left)), max(0, left)
    return tuple(count / bucket.seconds for count in (hits, nodes, bucket.client_errors, bucket.errors, bucket.refused))


def _rows(histogram: Histogram) -> list[int]:
    """The counts of a histogram by the rows of a heat map; none when it is empty."""
    rows = [0] * len(HEAT_BOUNDS)
    for row, count in zip(_ROWS, histogram.counts, strict=True):
        rows[row] += count
    return rows if any(rows) else []
