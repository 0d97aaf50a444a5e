"""Time buckets: what was counted over a while of everything, of a network, a method or a client; and their numbers, as
they are kept in the history's table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from rpcaccel.core.stats.counters import HITS, AnswerSource, Cell
from rpcaccel.core.stats.histogram import BUCKETS, Histogram, together

MISSES = (AnswerSource.FLIGHT, AnswerSource.NODE, AnswerSource.PARTIAL)
"""Answers that had to wait for a node."""

NodeKey = tuple[str, str]
"""Network and node id."""


class NodeSums(Struct, frozen=True, array_like=True, gc=False):
    """The counts of one node in a time bucket."""

    calls: int = 0
    """Attempts sent to the node."""
    failures: int = 0
    answers: int = 0
    seconds: float = 0.0
    """Time of those answers together."""


class Bucket(Struct, frozen=True, kw_only=True, array_like=True):
    """A time bucket: the counts of everything, of one network, one method or one client, over a while."""

    at: float
    """The end of the while, in seconds since 1970."""
    seconds: float
    """The length of the while."""
    calls: int = 0
    hits: int = 0
    errors: int = 0
    """Calls that the proxy or its nodes failed at."""
    client_errors: int = 0
    """Calls that got an error by the client's own doing."""
    refused: int = 0
    """Calls that the proxy did not accept."""
    turned_away: int = 0
    """Requests refused before they were a call of any method."""
    spared_calls: int = 0
    """Calls that no node had to be asked for, or only once for several of them."""
    spared_seconds: float = 0.0
    """Time that callers would have waited longer without the cache."""
    hit: Histogram = field(default_factory=Histogram)
    miss: Histogram = field(default_factory=Histogram)
    nodes: dict[NodeKey, NodeSums] = {}
    codes: dict[str, int] = {}
    """The errors of the proxy and its nodes by JSON-RPC code."""
    limited: dict[str, int] = {}
    """What was refused to a client, by reason."""
    notifications: int = 0
    """Notifications sent to subscribers."""
    credits: float = 0.0
    """Units that node calls cost at nodes with costs."""
    credited: int = 0
    """Node calls that `credits` counts."""
    spared_credits: float = 0.0
    """Units that the spared calls would have cost at nodes with costs."""
    spared_credited: float = 0.0
    """Spared calls that `spared_credits` counts: those that would have gone to such nodes."""

    @property
    def hit_ratio(self) -> float | None:
        """The share of hits in the calls that were hits or misses, 0 to 1; None without such calls."""
        return ratio(self.hits, self.hits + self.miss.count)

    @property
    def node_calls(self) -> int:
        """Attempts sent to nodes."""
        return sum(node.calls for node in self.nodes.values())

    @property
    def figures(self) -> tuple[float | None, ...]:
        """The figures of `series.Columns` beside the time, in its order; None for what was not measured."""
        return (
            ratio(self.calls, self.seconds),
            self.hit_ratio,
            self.hit.quantile(0.5),
            self.hit.quantile(0.99),
            self.miss.quantile(0.5),
            self.miss.quantile(0.99),
            ratio(self.errors, self.seconds),
            ratio(self.client_errors, self.seconds),
            ratio(self.node_calls, self.seconds),
            ratio(self.spared_calls, self.seconds),
            ratio(self.notifications, self.seconds),
        )


COUNTERS = (
    "calls", "hits", "errors", "client_errors", "refused", "turned_away", "spared_calls", "notifications",
    "spared_seconds",
)  # fmt: skip
"""The fields of a bucket that are plain numbers."""
CREDITS = ("credits", "credited", "spared_credits", "spared_credited")
"""Further ones, which are 0 in most buckets."""


class NodeSpending(NamedTuple):
    """The calls to the nodes of a network that were made, and those that were spared, with what they cost."""

    calls: int = 0
    spared: int = 0
    credits: float = 0.0
    credited: int = 0
    spared_credits: float = 0.0
    spared_credited: float = 0.0

    @property
    def units(self) -> float:
        """What was made, in units: a call to a node without costs is one."""
        return self.calls - self.credited + self.credits

    @property
    def spared_units(self) -> float:
        """What was spared, likewise."""
        return self.spared - self.spared_credited + self.spared_credits


def bucket_of(cells: Sequence[Cell], seconds: float, at: float = 0.0) -> Bucket:
    """The bucket of these cells, counted over `seconds` that ended `at`."""
    return Bucket(
        at=at,
        seconds=seconds,
        calls=sum(cell.calls for cell in cells),
        hits=sum(cell.hits for cell in cells),
        errors=sum(cell.errors for cell in cells),
        client_errors=sum(cell.client_errors for cell in cells),
        refused=sum(cell.refused for cell in cells),
        hit=together(cell.latency[source] for cell in cells for source in HITS),
        miss=together(cell.latency[source] for cell in cells for source in MISSES),
    )


def ratio(part: float, whole: float) -> float | None:
    """part / whole; None when whole is 0."""
    return part / whole if whole > 0 else None


def summed(buckets: Sequence[Bucket], seconds: float, at: float) -> Bucket:
    """The sum of buckets, as one of `seconds` that ended `at` (seconds since 1970)."""
    nodes: dict[NodeKey, NodeSums] = {}
    for bucket in buckets:
        for key, one in bucket.nodes.items():
            sums = nodes.get(key)
            nodes[key] = one if sums is None else NodeSums(
                sums.calls + one.calls, sums.failures + one.failures,
                sums.answers + one.answers, sums.seconds + one.seconds,
            )  # fmt: skip
    return Bucket(
        at=at,
        seconds=seconds,
        hit=together(bucket.hit for bucket in buckets),
        miss=together(bucket.miss for bucket in buckets),
        nodes=nodes,
        codes=_counts(bucket.codes for bucket in buckets),
        limited=_counts(bucket.limited for bucket in buckets),
        **{name: sum(getattr(bucket, name) for bucket in buckets) for name in (*COUNTERS, *CREDITS)},
    )


def _counts(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in several:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return total


def numbers_of(bucket: Bucket) -> tuple[float, ...]:
    """All numbers of a bucket but those by node and name: COUNTERS, the seconds of both histograms, and their
    counts."""
    counters = [getattr(bucket, name) for name in COUNTERS]
    return (*counters, bucket.hit.seconds, bucket.miss.seconds, *bucket.hit.counts, *bucket.miss.counts)


def numbers_of_node(calls: int, failures: int, latency: Histogram, answers: int = 0) -> tuple[float, ...]:
    """The same of a node: its failures stand where a bucket has its errors, its answers where that has its hits, and
    the latency of those where that of misses is. `answers`: how many there are, where the latency has but their sum."""
    counters = {"calls": calls, "hits": answers or latency.count, "errors": failures}
    counts = (*Histogram().counts, *latency.counts)
    return (*(counters.get(name, 0) for name in COUNTERS), 0.0, latency.seconds, *counts)


def bucket_from(at: float, seconds: float, numbers: Sequence[Any]) -> Bucket:
    """The bucket that has these numbers; None counts as 0."""
    counters: dict[str, Any] = {name: number or 0 for name, number in zip(COUNTERS, numbers, strict=False)}
    hit_seconds, miss_seconds, *counts = (number or 0 for number in numbers[len(COUNTERS) :])
    hit, miss = Histogram(counts[:BUCKETS], hit_seconds), Histogram(counts[BUCKETS:], miss_seconds)
    return Bucket(at=at, seconds=seconds, hit=hit, miss=miss, **counters)
