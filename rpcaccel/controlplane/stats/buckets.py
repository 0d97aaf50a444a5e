"""Time buckets: what was counted over a while, by network or by client, and the rings that hold the newest of them.

A ring keeps full buckets as encoded bytes: a bucket of one network takes some 200 bytes and is a part of one object
that the garbage collector never looks at. Each ring is filled by the full buckets of the finer one before it, so that
every range tells the same of the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Generic, TypeVar

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

SLACK = 1.0
"""Seconds that two sums of lengths may differ by."""

MOST_TOTALS = 1000
"""Sums of ranges that are remembered."""

NodeKey = tuple[str, str]
"""Network and node id."""


class NodeSums(Struct, frozen=True, array_like=True):
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


_Range = TypeVar("_Range", bound=str)

_COUNTED = (
    "calls", "hits", "errors", "client_errors", "refused", "turned_away", "spared_calls", "spared_seconds",
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


def sound(kept: bytes) -> Bucket:
    """The bucket of everything of an encoded slice that came from outside. Raises ValueError for bytes that no slice
    has."""
    outer = _slice(kept)
    whole = _whole(outer)
    for bucket in (whole, *(_bucket(part) for part in outer.parts.values())):
        for histogram in () if bucket is None else (bucket.hit, bucket.miss):
            if len(histogram.counts) != BUCKETS or not all(0 <= count <= MOST for count in histogram.counts):
                raise ValueError("not the counts of a histogram")
            if not 0 <= histogram.seconds <= MOST:
                raise ValueError("not the seconds of a histogram")
        if bucket is not None and (bucket.at, bucket.seconds) != (whole.at, whole.seconds):
            raise ValueError("parts of another time")
    return whole


def _whole(outer: _Encoded) -> Bucket:
    whole: Bucket | None = _bucket(outer.whole)
    if whole is None:
        raise ValueError("a slice without its sum")
    return whole


class Ring:
    """The newest slices of `every` seconds or a little more each, as many as cover `span`, and the one that is not full
    yet."""

    __slots__ = ("_every", "_full", "_most", "added", "open", "span")

    def __init__(self, every: float, keep: int, most: int) -> None:
        """`most`: parts of a slice at the most."""
        self._every = every
        self.span = every * keep
        """Seconds that the ring covers; 0 when it takes slices of any length."""
        self._most = most
        # Restarts leave slices that are shorter than the rest: there is room for some of them.
        self._full: deque[bytes] = deque(maxlen=keep + keep // 4 if every else keep)
        self.open: TimeSlice | None = None
        """What the slice that is not full yet has so far."""
        self.added = 0
        """Full slices that were ever added."""

    def __repr__(self) -> str:
        return f"<Ring {len(self._full)} slices of {self._every:g} s>"

    def add(self, one: TimeSlice) -> TimeSlice | None:
        """Add a slice to the one that is not full yet, and return that when it is full now."""
        self.open = bounded(one, self._most) if self.open is None else joined([self.open, one], self._most)
        if self.open.whole.seconds < self._every:
            return None
        full, self.open = self.open, None
        self.push(encoded(full), full.whole.at)
        return full

    def push(self, kept: bytes, at: float) -> None:
        """Add a full slice that ended `at`."""
        self._full.append(kept)
        self.added += 1
        while self.span and decoded(self._full[0], "").at <= at - self.span:
            self._full.popleft()

    def buckets(self, name: str) -> list[Bucket]:
        """The full ones of one part, oldest first."""
        return [decoded(kept, name) for kept in self._full]

    def newest(self) -> Bucket | None:
        """The newest full one of everything."""
        return decoded(self._full[-1], "") if self._full else None

    @property
    def since(self) -> float | None:
        """The time from which on there are full slices, in seconds since 1970; None without any."""
        if not self._full:
            return None
        oldest = decoded(self._full[0], "")
        return oldest.at - oldest.seconds

    def kept(self) -> list[bytes]:
        """The full slices, oldest first."""
        return list(self._full)


class Rings(Generic[_Range]):
    """Rings from the finest to the coarsest, each filled by the one before it."""

    __slots__ = ("_most", "_rings", "_totals")

    def __init__(self, spacing: Mapping[_Range, tuple[float, int]], most: int = 1000) -> None:
        """`spacing`: by range, the seconds that a bucket covers at least (0: one for each slice added), and how many
        buckets are kept; `most`: parts of a slice at the most."""
        self._most = most
        self._rings = {name: Ring(every, keep, most) for name, (every, keep) in spacing.items()}
        self._totals: dict[tuple[_Range, str], tuple[int, Bucket | None]] = {}

    def __repr__(self) -> str:
        return f"<Rings {', '.join(f'{name} {len(self.buckets(name))}' for name in self._rings)}>"

    def add(self, one: TimeSlice) -> None:
        """Add a slice to the finest ring, and what gets full by it to the coarser ones."""
        passed: TimeSlice | None = one
        for ring in self._rings.values():
            if passed is None:
                return
            passed = ring.add(passed)

    def buckets(self, over: _Range, name: str = "") -> list[Bucket]:
        """The buckets of a part, or of everything, oldest first; the last one may be shorter than the rest."""
        unfinished = [one.of(name) for one in self._open(over)]
        return [*self._rings[over].buckets(name), *([merged(unfinished)] if unfinished else [])]

    def total(self, over: _Range, name: str = "") -> Bucket | None:
        """The sum of these buckets; None without any. Full ones are summed up once."""
        ring = self._rings[over]
        if len(self._totals) > MOST_TOTALS:
            self._totals.clear()
        added, total = self._totals.get((over, name), (-1, None))
        if added != ring.added:
            full = ring.buckets(name)
            total = merged(full) if full else None
            self._totals[over, name] = (ring.added, total)
        found = [*([total] if total is not None else []), *(one.of(name) for one in self._open(over))]
        return merged(found) if found else None

    def newest(self) -> Bucket | None:
        """The newest bucket of everything in the finest ring."""
        return next(iter(self._rings.values())).newest()

    def covering(self, over: _Range, since: float | None = None) -> _Range:
        """The finest range that reaches as far back as `over` does or, with `since`, as that time does, where anything
        is as old."""
        ranges = list(self._rings)
        last = over if since is None else ranges[-1]
        begun = self._since(last)
        wanted = max(begun if begun is not None else 0.0, since or 0.0) + SLACK
        for name in ranges[: ranges.index(last)]:
            reached = self._rings[name].since
            if reached is not None and reached <= wanted:
                return name
        return last

    def _since(self, over: _Range) -> float | None:
        unfinished = [one.whole.at - one.whole.seconds for one in self._open(over)]
        return self._rings[over].since or min(unfinished, default=None)

    def _open(self, over: _Range) -> list[TimeSlice]:
        """What the newest slice of a ring has so far, oldest first: its own part, and what the finer rings have not
        passed on yet."""
        found: list[TimeSlice] = []
        for name, ring in self._rings.items():
            if ring.open is not None:
                found.insert(0, ring.open)
            if name == over:
                break
        return found

    def kept(self) -> dict[str, list[bytes]]:
        """The slices of every ring of a fixed spacing, oldest first, the unfinished one included."""
        found: dict[str, list[bytes]] = {}
        for name, ring in self._rings.items():
            if not ring.span:
                continue
            unfinished = self._open(name)
            found[name] = [*ring.kept(), *([encoded(joined(unfinished, self._most))] if unfinished else [])]
        return found

    def restore(self, saved: Mapping[str, Sequence[bytes]], now: float) -> None:
        """Take up saved slices as full ones, where they run forward and are of the time that the ring covers until
        `now`, in seconds since 1970. Raises ValueError, and takes up nothing, when any of them is damaged."""
        ended = {name: [(one, sound(one).at) for one in saved.get(name, ())] for name in self._rings}
        for name, found in ended.items():
            ring = self._rings[name]
            latest = now - ring.span
            for one, at in found:
                if latest < at <= now:
                    ring.push(one, at)
                    latest = at
