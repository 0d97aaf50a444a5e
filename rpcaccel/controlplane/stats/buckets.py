"""Time buckets: what was counted over a while, by network or by client, and how they are written as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import add, sub
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field
from msgspec.structs import replace

from rpcaccel.core.stats.counters import HITS, AnswerSource, Cell
from rpcaccel.core.stats.histogram import BUCKETS, Histogram, together

MISSES = (AnswerSource.FLIGHT, AnswerSource.NODE, AnswerSource.PARTIAL)
"""Answers that had to wait for a node."""

MOST = 1 << 48
"""The largest number that a saved bucket may hold."""
Count = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[float, Meta(gt=0, le=MOST)]
NotNegative = Annotated[float, Meta(ge=0, le=MOST)]

NodeKey = tuple[str, str]
"""Network and node id."""


class NodeSums(Struct, frozen=True, array_like=True, gc=False):
    """The counts of one node in a time bucket."""

    calls: Count = 0
    """Attempts sent to the node."""
    failures: Count = 0
    answers: Count = 0
    seconds: NotNegative = 0.0
    """Time of those answers together."""


class Bucket(Struct, frozen=True, kw_only=True, array_like=True):
    """A time bucket: the counts of everything, of one network, one method or one client, over a while."""

    at: NotNegative
    """The end of the while, in seconds since 1970."""
    seconds: Positive
    """The length of the while."""
    calls: Count = 0
    hits: Count = 0
    errors: Count = 0
    """Calls that the proxy or its nodes failed at."""
    client_errors: Count = 0
    """Calls that got an error by the client's own doing."""
    refused: Count = 0
    """Calls that the proxy did not accept."""
    turned_away: Count = 0
    """Requests refused before they were a call of any method."""
    spared_calls: Count = 0
    """Calls that no node had to be asked for, or only once for several of them."""
    spared_seconds: NotNegative = 0.0
    """Time that callers would have waited longer without the cache."""
    hit: Histogram = field(default_factory=Histogram)
    miss: Histogram = field(default_factory=Histogram)
    nodes: dict[NodeKey, NodeSums] = {}
    codes: dict[str, Count] = {}
    """The errors of the proxy and its nodes by JSON-RPC code."""
    limited: dict[str, Count] = {}
    """What was refused to a client, by reason."""
    notifications: Count = 0
    """Notifications sent to subscribers."""

    @property
    def hit_ratio(self) -> float | None:
        """The share of hits in the calls that were hits or misses, 0 to 1; None without such calls."""
        return ratio(self.hits, self.hits + self.miss.count)


class RangeTotal(Bucket, frozen=True, kw_only=True, array_like=True):
    """The sum of the buckets of a range. Nodes and codes are not told apart in it."""

    node_calls: int = 0


_COUNTED = (
    "calls", "hits", "errors", "client_errors", "refused", "turned_away", "spared_calls", "spared_seconds",
    "notifications",
)  # fmt: skip


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
    """0..1; None of nothing."""
    return part / whole if whole > 0 else None


def merged(buckets: Sequence[Bucket]) -> Bucket:
    """The sum of buckets that follow one another; there is at least one."""
    return summed(buckets, sum(bucket.seconds for bucket in buckets), buckets[-1].at)


def summed(buckets: Sequence[Bucket], seconds: float, at: float) -> Bucket:
    """The sum of buckets, as one of `seconds` that ended `at`."""
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
        **{name: sum(getattr(bucket, name) for bucket in buckets) for name in _COUNTED},
    )


def _counts(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in several:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return total


class TimeSlice(Struct, frozen=True):
    """One while: the bucket of everything, and those of its parts (networks, or clients) that counted anything."""

    whole: Bucket
    parts: dict[str, Bucket]

    def of(self, name: str) -> Bucket:
        """The bucket of a part, or of everything for the empty name."""
        return self.parts.get(name) or Bucket(at=self.whole.at, seconds=self.whole.seconds) if name else self.whole


def joined(slices: Sequence[TimeSlice], most: int) -> TimeSlice:
    """The sum of slices that follow one another; of more than `most` parts those with the most calls are kept."""
    whole = merged([one.whole for one in slices])
    names = {name for one in slices for name in one.parts}
    parts = {
        name: summed([one.parts[name] for one in slices if name in one.parts], whole.seconds, whole.at)
        for name in names
    }
    return bounded(TimeSlice(whole, parts), most)


def bounded(one: TimeSlice, most: int) -> TimeSlice:
    """The slice with at most `most` parts, those with the most calls."""
    if len(one.parts) <= most:
        return one
    busiest = sorted(one.parts.items(), key=lambda item: -item[1].calls)[:most]
    return replace(one, parts=dict(busiest))


class _Encoded(Struct, array_like=True):
    """A slice on its way from and to bytes; a part that equals the whole is null, so that a single network is not kept
    twice."""

    whole: Raw
    parts: dict[str, Raw]


_encode = msgspec.msgpack.Encoder().encode
_slice = msgspec.msgpack.Decoder(_Encoded).decode
_bucket = msgspec.msgpack.Decoder[Bucket | None](Bucket | None).decode
_SAME = Raw(_encode(None))


def encoded(one: TimeSlice) -> bytes:
    """The slice as bytes."""
    parts = {name: _SAME if part == one.whole else Raw(_encode(part)) for name, part in one.parts.items()}
    return _encode(_Encoded(Raw(_encode(one.whole)), parts))


def decoded(kept: bytes, name: str) -> Bucket:
    """The bucket of a part of an encoded slice, or of everything for the empty name."""
    outer = _slice(kept)
    whole = _whole(outer)
    if not name:
        return whole
    if name not in outer.parts:
        return Bucket(at=whole.at, seconds=whole.seconds)
    part: Bucket | None = _bucket(outer.parts[name])
    return part or whole


def unpacked(kept: bytes) -> TimeSlice:
    """All buckets of an encoded slice."""
    outer = _slice(kept)
    whole = _whole(outer)
    return TimeSlice(whole, {name: _bucket(part) or whole for name, part in outer.parts.items()})


def sound(kept: bytes) -> TimeSlice:
    """An encoded slice that came from outside. Raises ValueError for bytes that no slice has."""
    found = unpacked(kept)
    whole = found.whole
    for bucket in (whole, *found.parts.values()):
        for histogram in (bucket.hit, bucket.miss):
            if len(histogram.counts) != BUCKETS or not all(0 <= count <= MOST for count in histogram.counts):
                raise ValueError("not the counts of a histogram")
            if not 0 <= histogram.seconds <= MOST:
                raise ValueError("not the seconds of a histogram")
        if (bucket.at, bucket.seconds) != (whole.at, whole.seconds):
            raise ValueError("parts of another time")
    return found


def _whole(outer: _Encoded) -> Bucket:
    whole: Bucket | None = _bucket(outer.whole)
    if whole is None:
        raise ValueError("a slice without its sum")
    return whole


class RunningTotals:
    """The sums of slices by part, which a slice can be taken out of again."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def __repr__(self) -> str:
        return f"<RunningTotals of {len(self._sums)} parts>"

    def add(self, one: TimeSlice) -> None:
        """Add a slice."""
        for name, bucket in (("", one.whole), *one.parts.items()):
            numbers = _numbers(bucket)
            sums = self._sums.get(name)
            self._sums[name] = numbers if sums is None else list(map(add, sums, numbers))

    def remove(self, one: TimeSlice) -> None:
        """Take out a slice that was added."""
        for name, bucket in (("", one.whole), *one.parts.items()):
            left = list(map(sub, self._sums[name], _numbers(bucket)))
            if left[0]:
                self._sums[name] = left
            else:
                del self._sums[name]

    def total(self, name: str, unfinished: Sequence[TimeSlice] = ()) -> RangeTotal | None:
        """The sum of a part, or of everything for the empty name, and of unfinished slices; None without any slice."""
        whole = self._sums.get("", _NOTHING)
        seconds = whole[1] + sum(one.whole.seconds for one in unfinished)
        if seconds <= 0:
            return None
        sums = self._sums.get(name, _NOTHING)
        for one in unfinished:
            sums = list(map(add, sums, _numbers(one.of(name))))
        counts = [int(count) for count in sums]
        hit, miss = counts[-2 * BUCKETS : -BUCKETS], counts[-BUCKETS:]
        return RangeTotal(
            at=0.0,
            seconds=seconds,
            hit=Histogram(hit, sums[2] if any(hit) else 0.0),
            miss=Histogram(miss, sums[3] if any(miss) else 0.0),
            spared_seconds=max(0.0, sums[4]),
            node_calls=counts[5],
            calls=counts[6],
            hits=counts[7],
            errors=counts[8],
            client_errors=counts[9],
            refused=counts[10],
            turned_away=counts[11],
            spared_calls=counts[12],
        )


_NOTHING: list[float] = [0] * (13 + 2 * BUCKETS)


def _numbers(bucket: Bucket) -> list[float]:
    """All that is summed up of a bucket. The first one counts the buckets themselves."""
    node_calls = sum([node.calls for node in bucket.nodes.values()])
    return [
        1, bucket.seconds, bucket.hit.seconds, bucket.miss.seconds, bucket.spared_seconds, node_calls,
        bucket.calls, bucket.hits, bucket.errors, bucket.client_errors, bucket.refused, bucket.turned_away,
        bucket.spared_calls, *bucket.hit.counts, *bucket.miss.counts,
    ]  # fmt: skip
