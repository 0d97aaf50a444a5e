"""What each node did in the last hour and the last day: sums by node and method, with its lag, bounded in bytes.

A slice of the hour is the difference of two snapshots a minute apart; ten of them make a slice of the day. Slices are
kept as bytes, and the sums over each range are kept up to date, so that a report costs no look at all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field
from msgspec.structs import replace

from rpcaccel.controlplane.stats.buckets import Count, NodeKey, NotNegative, Positive
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import NodeCell, TallySnapshot
from rpcaccel.core.stats.histogram import BUCKETS, Histogram
from rpcaccel.core.stats.tally import delta

Over = Literal["hour", "day"]
SLICES: dict[Over, tuple[float, int]] = {"hour": (60.0, 60), "day": (600.0, 144)}
"""Seconds that a slice covers, and how many are kept."""
LOOK_EVERY = 5.0
"""Seconds between two looks at how far nodes are behind."""
MOST_NODES = 1000
"""Nodes in one slice; those with the most calls are kept."""
MOST_PAIRS = 2000
"""Methods of nodes in one slice, some 60 bytes each: 25 MB for both ranges at the most. Those with the most calls are
kept."""
LAGS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 1000, 10_000)
"""Upper bounds of the buckets of lags, in blocks (inclusive)."""
_AGREEMENT = ("compared", "minority", "undecided", "false_hashes")
_NUMBERS = ("calls", *_AGREEMENT, "looks", "behind")


def _no_lags() -> list[int]:
    return [0] * (len(LAGS) + 1)


class NodeSum(Struct, eq=False):
    """The counts of one node over a while."""

    calls: int = 0
    """Attempts sent to it."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed attempts by kind."""
    latency: Histogram = field(default_factory=Histogram)
    """Latency of answered attempts."""
    by_method: dict[str, Histogram] = field(default_factory=dict)
    """Latency of good answers by method."""
    compared: int = 0
    minority: int = 0
    undecided: int = 0
    false_hashes: int = 0
    looks: int = 0
    """Looks at how far it was behind."""
    behind: int = 0
    """Looks at which it was behind for longer than a new block needs to reach it."""
    lags: list[int] = field(default_factory=_no_lags)
    """Looks by the blocks that it lacked (LAGS)."""

    def add(self, other: NodeSum) -> None:
        """Add the counts of another while."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, count in other.failures.items():
            self.failures[kind] = self.failures.get(kind, 0) + count
        self.latency.add(other.latency)
        for method, histogram in other.by_method.items():
            self.by_method.setdefault(method, Histogram()).add(histogram)
        self.lags = [mine + theirs for mine, theirs in zip(self.lags, other.lags, strict=True)]

    def remove(self, other: NodeSum) -> None:
        """Take out the counts of a while that were added."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) - getattr(other, name))
        for kind, count in other.failures.items():
            self.failures[kind] -= count
        self.failures = {kind: count for kind, count in self.failures.items() if count}
        self.latency = self.latency.since(other.latency)
        for method, histogram in other.by_method.items():
            self.by_method[method] = self.by_method[method].since(histogram)
        self.by_method = {method: one for method, one in self.by_method.items() if any(one.counts)}
        self.lags = [mine - theirs for mine, theirs in zip(self.lags, other.lags, strict=True)]

    @property
    def nothing(self) -> bool:
        """Is every count zero?"""
        numbers = any(getattr(self, name) for name in _NUMBERS)
        return not (
            numbers or any(self.failures.values()) or self.by_method or any(self.latency.counts) or any(self.lags)
        )

    def copied(self) -> NodeSum:
        """A copy that adding to this one does not change. Counts of histograms are replaced and never written to, so
        they are shared."""
        return replace(
            self,
            failures=dict(self.failures),
            latency=copy(self.latency),
            by_method={method: copy(one) for method, one in self.by_method.items()},
            lags=self.lags[:],
        )

    def lag(self, q: float) -> int | None:
        """The quantile `q` (0..1) of the blocks that it lacked; None before the first look."""
        rank, below = q * sum(self.lags), 0
        for bucket, count in enumerate(self.lags):
            below += count
            if count and below >= rank:
                return LAGS[min(bucket, len(LAGS) - 1)]
        return None


class NodePace(Struct, frozen=True, array_like=True):
    """How many calls a node had in a slice."""

    calls: Count
    answers: Count
    refused: Count
    """Attempts that the node refused because of their rate."""


class PastSlice(Struct, frozen=True):
    """How many calls each node had in one slice of `seconds`."""

    seconds: float
    paces: Mapping[NodeKey, NodePace]


class PastTotal(Struct, frozen=True):
    """The sums of all nodes over a range, of which there are `seconds` so far."""

    seconds: float
    nodes: Mapping[NodeKey, NodeSum]


_Sparse = tuple[NotNegative, dict[Annotated[int, Meta(ge=0, lt=BUCKETS)], Count]]
"""The seconds of a histogram, and its counts by bucket."""


class _KeptNode(Struct, frozen=True, array_like=True):
    """A node in an encoded slice."""

    numbers: tuple[Count, Count, Count, Count, Count, Count, Count]
    failures: dict[str, Count]
    latency: _Sparse
    by_method: dict[str, _Sparse]
    lags: Annotated[list[Count], Meta(min_length=len(LAGS) + 1, max_length=len(LAGS) + 1)]


class _KeptSlice(Struct, frozen=True, array_like=True):
    """An encoded slice. What is read for a report stands apart from what is read when the slice goes."""

    at: NotNegative
    seconds: Positive
    paces: dict[NodeKey, NodePace]
    nodes: Raw


_encode = msgspec.msgpack.Encoder().encode
_slice = msgspec.msgpack.Decoder(_KeptSlice).decode
_nodes = msgspec.msgpack.Decoder(dict[NodeKey, _KeptNode]).decode


class _Range:
    """The newest slices of one range, and their sum."""

    def __init__(self, every: float, keep: int) -> None:
        self.every = every
        self._keep = keep
        self._slices: deque[bytes] = deque()
        self.total: dict[NodeKey, NodeSum] = {}
        self.seconds = 0.0

    def push(self, content: bytes) -> None:
        """Add an encoded slice, and let go of what is older than the range."""
        one = _slice(content)
        _add(self.total, _read(one))
        self.seconds += one.seconds
        self._slices.append(content)
        while len(self._slices) > self._keep or _slice(self._slices[0]).at <= one.at - self._keep * self.every:
            self._pop()

    def _pop(self) -> None:
        oldest = _slice(self._slices.popleft())
        self.seconds -= oldest.seconds
        for key, one in _read(oldest).items():
            self.total[key].remove(one)
            if self.total[key].nothing:
                del self.total[key]

    def kept(self) -> list[bytes]:
        """The slices, oldest first."""
        return list(self._slices)


class PastNodes(Struct, frozen=True, eq=False):
    """What is known of every node at one moment. It shares nothing with the history, and can be read in a thread."""

    totals: Mapping[Over, PastTotal]
    """The sums of the full slices of each range."""
    rest: PastTotal
    """The day's slice that is not full yet."""
    kept: Mapping[Over, Sequence[bytes]]
    began: float
    """When the open minute began, in seconds since 1970."""
    seconds: float
    """The length of the open minute so far."""
    before: Sequence[NodeCell]
    cells: Sequence[NodeCell]
    """The counters at the beginning of the open minute, and now."""
    lags: Mapping[NodeKey, NodeSum]
    """The looks of the open minute."""

    def total(self, over: Over) -> PastTotal:
        """The sums of every node over a range, up to the last snapshot."""
        found = {key: one.copied() for key, one in self.totals[over].nodes.items()}
        seconds = self.totals[over].seconds + self.seconds
        if over == "day":
            _add(found, self.rest.nodes)
            seconds += self.rest.seconds
        _add(found, _minute(self.cells, self.before, self.lags))
        return PastTotal(seconds, found)

    def since(self, at: float) -> PastTotal:
        """The sums of every node over the last hour's minutes that began at `at` (seconds since 1970) or later."""
        found: dict[NodeKey, NodeSum] = {}
        seconds = 0.0
        for one in self._slices("hour", at):
            _add(found, _read(one))
            seconds += one.seconds
        if self.began >= at:
            _add(found, _minute(self.cells, self.before, self.lags))
            seconds += self.seconds
        return PastTotal(seconds, found)

    def slices(self, over: Over, at: float = float("-inf")) -> list[PastSlice]:
        """How many calls each node had in each full slice of a range that began at `at` or later, oldest first."""
        return [PastSlice(one.seconds, one.paces) for one in self._slices(over, at)]

    def _slices(self, over: Over, at: float) -> Iterator[_KeptSlice]:
        return (one for one in map(_slice, self.kept[over]) if one.at - one.seconds >= at)


class NodeHistory:
    """The hour and the day of every node."""

    __slots__ = ("_lags", "_latest", "_looked", "_open", "_open_seconds", "_ranges", "_started")

    def __init__(self) -> None:
        self._ranges = {over: _Range(*spacing) for over, spacing in SLICES.items()}
        self._started: tuple[float, Sequence[NodeCell]] | None = None
        """When the open minute began, and the counters then."""
        self._latest: tuple[float, float, Sequence[NodeCell]] = (0.0, 0.0, ())
        """Monotonic and Unix time of the last snapshot, and its counters."""
        self._lags: dict[NodeKey, NodeSum] = {}
        """The looks of the open minute."""
        self._looked = float("-inf")
        self._open: dict[NodeKey, NodeSum] = {}
        """The sums of the day's slice that is not full yet."""
        self._open_seconds = 0.0

    def __repr__(self) -> str:
        return f"<NodeHistory {', '.join(f'{over} {len(one.kept())}' for over, one in self._ranges.items())}>"

    def add(self, cells: Sequence[NodeCell], views: Sequence[NodeView], now: float, at: float) -> None:
        """Take in the counters of all nodes, and look now and then how far they are behind.

        `now` in monotonic seconds, `at` since 1970. The counters must not be written to afterwards.
        """
        if now - self._looked >= LOOK_EVERY:
            self._looked = now
            for view in views[:MOST_NODES]:
                if view.lag is not None:
                    one = self._lags.setdefault((view.network, view.id), NodeSum())
                    one.looks += 1
                    one.behind += view.state == "behind"
                    one.lags[bisect_left(LAGS, view.lag)] += 1
        self._latest = (now, at, cells)
        if self._started is None:
            self._started = (now, cells)
        elif now - self._started[0] >= self._ranges["hour"].every:
            self._close_minute()

    def _close_minute(self) -> None:
        now, at, cells = self._latest
        began, before = self._started or (now, cells)
        content = _encoded(_minute(cells, before, self._lags), now - began, at)
        self._ranges["hour"].push(content)
        _add(self._open, _read(_slice(content)))
        self._open_seconds += now - began
        if self._open_seconds >= self._ranges["day"].every:
            self._ranges["day"].push(_encoded(self._open, self._open_seconds, at))
            self._open, self._open_seconds = {}, 0.0
        self._started, self._lags = (now, cells), {}

    def past(self) -> PastNodes:
        """What is known now. It takes few steps: the sums are made where they are asked for."""
        now, at, cells = self._latest
        began, before = self._started or (now, cells)
        return PastNodes(
            totals={over: PastTotal(one.seconds, _copied(one.total)) for over, one in self._ranges.items()},
            rest=PastTotal(self._open_seconds, _copied(self._open)),
            kept={over: one.kept() for over, one in self._ranges.items()},
            began=at - (now - began),
            seconds=now - began,
            before=before,
            cells=cells,
            lags=_copied(self._lags),
        )

    def kept(self) -> dict[str, list[bytes]]:
        """The slices of both ranges, oldest first, those of the day with the one that is not full yet."""
        found: dict[str, list[bytes]] = {over: one.kept() for over, one in self._ranges.items()}
        if self._open_seconds:
            found["day"].append(_encoded(self._open, self._open_seconds, self._latest[1]))
        return found

    def restore(self, saved: Mapping[str, Sequence[bytes]], now: float) -> int:
        """Take up saved slices that run forward and lie in their range until `now`, in seconds since 1970. Returns how
        many lie after that and are left out. Raises ValueError when any of them is damaged."""
        future = 0
        for over, ring in self._ranges.items():
            every, keep = SLICES[over]
            latest = now - every * keep
            for content in saved.get(over, ()):
                one = _slice(content)
                _nodes(one.nodes)
                future += one.at > now
                if latest < one.at <= now:
                    ring.push(content)
                    latest = one.at
        return future


def _minute(
    cells: Sequence[NodeCell], before: Sequence[NodeCell], lags: Mapping[NodeKey, NodeSum]
) -> dict[NodeKey, NodeSum]:
    """What nodes did between two snapshots, with the looks in that time."""
    passed = delta(TallySnapshot(nodes=list(cells)), TallySnapshot(nodes=list(before)))
    found = {(cell.network, cell.node): _sum_of(cell) for cell in passed.nodes}
    _add(found, lags)
    return {key: one for key, one in found.items() if not one.nothing}


def _copied(nodes: Mapping[NodeKey, NodeSum]) -> dict[NodeKey, NodeSum]:
    return {key: one.copied() for key, one in nodes.items()}


def _sum_of(cell: NodeCell) -> NodeSum:
    """The counts of a node that are kept."""
    return NodeSum(
        calls=cell.calls,
        failures=cell.failures,
        latency=cell.latency,
        by_method=cell.by_method,
        **{name: getattr(cell, name) for name in _AGREEMENT},
    )


def _add(total: dict[NodeKey, NodeSum], more: Mapping[NodeKey, NodeSum]) -> None:
    for key, one in more.items():
        total.setdefault(key, NodeSum()).add(one)


def _encoded(nodes: Mapping[NodeKey, NodeSum], seconds: float, at: float) -> bytes:
    """A slice as bytes, with no more nodes and methods than are kept."""
    busiest = dict(sorted(nodes.items(), key=lambda item: -item[1].calls)[:MOST_NODES])
    pairs = [
        (-histogram.count, key, method) for key, one in busiest.items() for method, histogram in one.by_method.items()
    ]
    chosen = {(key, method) for _, key, method in sorted(pairs)[:MOST_PAIRS]}
    kept = {
        key: _KeptNode(
            numbers=(one.calls, one.compared, one.minority, one.undecided, one.false_hashes, one.looks, one.behind),
            failures=one.failures,
            latency=_thinned(one.latency),
            by_method={name: _thinned(took) for name, took in one.by_method.items() if (key, name) in chosen},
            lags=one.lags,
        )
        for key, one in busiest.items()
    }
    refused = FailureKind.RATE_LIMITED.value
    paces = {key: NodePace(one.calls, one.latency.count, one.failures.get(refused, 0)) for key, one in busiest.items()}
    return _encode(_KeptSlice(at, seconds, paces, Raw(_encode(kept))))


def _read(one: _KeptSlice) -> dict[NodeKey, NodeSum]:
    """The nodes of a slice."""
    return {
        key: NodeSum(
            **dict(zip(_NUMBERS, node.numbers, strict=True)),
            failures=node.failures,
            latency=_whole(node.latency),
            by_method={method: _whole(took) for method, took in node.by_method.items()},
            lags=node.lags,
        )
        for key, node in _nodes(one.nodes).items()
    }


def _thinned(histogram: Histogram) -> _Sparse:
    return histogram.seconds, {bucket: count for bucket, count in enumerate(histogram.counts) if count}


def _whole(sparse: _Sparse) -> Histogram:
    counts = [0] * BUCKETS
    for bucket, count in sparse[1].items():
        counts[bucket] = count
    return Histogram(counts, sparse[0])
