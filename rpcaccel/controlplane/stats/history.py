"""What happened lately, kept without Prometheus and bounded: a day in time buckets of one kind, and whole windows of a
minute.

A bucket of a second is the difference of two snapshots; buckets of the longer ranges are sums of those, so that each
range tells the same of the same time. Each method has buckets of its own over the last five minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.stats.counters import HITS, AnswerSource, Cell, TallySnapshot
from rpcaccel.core.stats.histogram import Histogram, together
from rpcaccel.core.stats.tally import delta

MISSES = (AnswerSource.FLIGHT, AnswerSource.NODE, AnswerSource.PARTIAL)
"""Answers that had to wait for a node."""

Range = Literal["5m", "1h", "24h"]
SPACING: dict[Range, tuple[float, int]] = {"5m": (0.0, 300), "1h": (15.0, 240), "24h": (300.0, 288)}
"""Seconds that a bucket covers at least (0: one for each snapshot), and how many buckets are kept."""
METHOD_BUCKETS = 60
"""Buckets kept of single methods, each of `History.spacing` seconds."""

NodeKey = tuple[str, str]
"""Network and node id."""
MethodKey = tuple[str, str]
"""Network and method."""


class NodeSums(Struct, frozen=True):
    """The counts of one node in a time bucket."""

    calls: int = 0
    """Attempts sent to the node."""
    failures: int = 0
    answers: int = 0
    seconds: float = 0.0
    """Time of those answers together."""


class Bucket(Struct, frozen=True, kw_only=True):
    """A time bucket: the counts of everything, or of one method, over a while."""

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
    hit: Histogram
    miss: Histogram
    nodes: dict[NodeKey, NodeSums] = {}


_COUNTED = (
    "calls", "hits", "errors", "client_errors", "refused", "turned_away", "spared_calls", "spared_seconds", "seconds"
)  # fmt: skip


class Window(Struct, frozen=True):
    """Everything that was counted over a while."""

    seconds: float
    passed: TallySnapshot


def by_method(cells: Iterable[Cell]) -> dict[MethodKey, list[Cell]]:
    """The cells of each method of each network: one for every cache class that the method was called under."""
    found: dict[MethodKey, list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.network, cell.method), []).append(cell)
    return found


def spared(passed: TallySnapshot, means: dict[MethodKey, float]) -> tuple[int, float]:
    """Node calls and seconds that the cache saved: a hit counts as the mean miss of its own method at that time.

    `means` remembers those means, in seconds: a method that is always hit now was once missed.
    """
    calls, seconds = 0, 0.0
    for key, cells in by_method(passed.cells).items():
        hits = sum(cell.hits for cell in cells)
        misses = sum(cell.latency[source].count for cell in cells for source in MISSES)
        if misses:
            means[key] = sum(cell.latency[source].seconds for cell in cells for source in MISSES) / misses
        calls += hits + sum(cell.latency[AnswerSource.FLIGHT].count for cell in cells)
        if hits and key in means:
            took = sum(cell.latency[source].seconds for cell in cells for source in HITS)
            seconds += max(0.0, hits * means[key] - took)
    return calls, seconds


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
    nodes: dict[NodeKey, NodeSums] = {}
    for bucket in buckets:
        for key, one in bucket.nodes.items():
            sums = nodes.get(key, _IDLE)
            nodes[key] = NodeSums(
                sums.calls + one.calls, sums.failures + one.failures,
                sums.answers + one.answers, sums.seconds + one.seconds,
            )  # fmt: skip
    return Bucket(
        at=buckets[-1].at,
        hit=together(bucket.hit for bucket in buckets),
        miss=together(bucket.miss for bucket in buckets),
        nodes=nodes,
        **{name: sum(getattr(bucket, name) for bucket in buckets) for name in _COUNTED},
    )


_IDLE = NodeSums()


class Ring:
    """The newest `keep` buckets, each of `every` seconds or a little more, and the one that is not full yet."""

    __slots__ = ("_every", "_full", "_open")

    def __init__(self, every: float, keep: int) -> None:
        self._every = every
        self._full: deque[Bucket] = deque(maxlen=keep)
        self._open: Bucket | None = None

    def __repr__(self) -> str:
        return f"<Ring {len(self._full)} buckets of {self._every:g} s>"

    def add(self, bucket: Bucket) -> None:
        """Add a bucket to the one that is not full yet."""
        self._open = bucket if self._open is None else merged([self._open, bucket])
        if self._open.seconds >= self._every:
            self._full.append(self._open)
            self._open = None

    def buckets(self) -> list[Bucket]:
        """Oldest first; the last one may be shorter than the rest."""
        return [*self._full, *([self._open] if self._open is not None else [])]


class History:
    """Rings of buckets, and the snapshots needed to look back a minute."""

    __slots__ = ("_last", "_means", "_methods", "_rings", "_snapshots", "_windows", "spacing")

    def __init__(self, spacing: float = 5.0, span: float = 60.0) -> None:
        """`spacing`: seconds between the snapshots kept; `span`: seconds that a window may reach back."""
        self.spacing = spacing
        self._means: dict[MethodKey, float] = {}
        self._rings: dict[Range, Ring] = {name: Ring(every, keep) for name, (every, keep) in SPACING.items()}
        self._methods: deque[tuple[float, dict[MethodKey, Bucket]]] = deque(maxlen=METHOD_BUCKETS)
        self._snapshots: deque[tuple[float, TallySnapshot]] = deque(maxlen=int(span / spacing) + 1)
        self._last: tuple[float, TallySnapshot] | None = None
        self._windows: dict[float, Window | None] = {}

    def __repr__(self) -> str:
        return f"<History {', '.join(f'{name} {len(ring.buckets())}' for name, ring in self._rings.items())}>"

    def add(self, snapshot: TallySnapshot, now: float, at: float) -> None:
        """Take a snapshot in: `now` in monotonic seconds, `at` since 1970."""
        if self._last is not None and now > self._last[0]:
            bucket = self._bucket(delta(snapshot, self._last[1]), now - self._last[0], at)
            for ring in self._rings.values():
                ring.add(bucket)
        if self._last is None or now > self._last[0]:
            self._last = (now, snapshot)
        self._windows.clear()
        if not self._snapshots or now - self._snapshots[-1][0] >= self.spacing:
            if self._snapshots:
                since, before = self._snapshots[-1]
                called = [cell for cell in delta(snapshot, before).cells if cell.calls]
                methods = {key: bucket_of(cells, now - since, at) for key, cells in by_method(called).items()}
                self._methods.append((at, methods))
            self._snapshots.append((now, snapshot))

    def buckets(self, over: Range = "5m") -> list[Bucket]:
        """Oldest first; the last one may be shorter than the rest."""
        return self._rings[over].buckets()

    def method(self, network: str, method: str) -> list[Bucket]:
        """A method's last five minutes, oldest first; an empty bucket where it was not called."""
        key = network, method
        return [found.get(key) or bucket_of((), self.spacing, at) for at, found in self._methods]

    def window(self, seconds: float) -> Window | None:
        """The last `seconds`, or a little more, or as much as there is; None before two snapshots were seen."""
        # Asked several times between two snapshots, by each page that is open.
        if seconds not in self._windows:
            self._windows[seconds] = self._look_back(seconds)
        return self._windows[seconds]

    def _bucket(self, passed: TallySnapshot, seconds: float, at: float) -> Bucket:
        """The bucket of all that was counted between two snapshots."""
        nodes = {
            (node.network, node.node): NodeSums(
                node.calls, sum(node.failures.values()), node.latency.count, node.latency.seconds
            )
            for node in passed.nodes
            if node.calls
        }
        calls, saved = spared(passed, self._means)
        refused = sum(passed.refusals.values())
        whole = bucket_of(passed.cells, seconds, at)
        return replace(whole, turned_away=refused, spared_calls=calls, spared_seconds=saved, nodes=nodes)

    def _look_back(self, seconds: float) -> Window | None:
        if self._last is None:
            return None
        now, newest = self._last
        start = next((kept for kept in reversed(self._snapshots) if now - kept[0] >= seconds), self._snapshots[0])
        if start[0] == now:
            return None
        return Window(now - start[0], delta(newest, start[1]))
