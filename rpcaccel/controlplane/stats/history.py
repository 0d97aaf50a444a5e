"""What happened lately, kept without Prometheus and bounded: five minutes by the second, an hour by the quarter minute,
a day by five minutes; each method's last five minutes; and whole windows of up to a minute.

Everything comes from the difference of two snapshots, so a percentile of a while forgets what is past. Only what the
cache saved is summed up second by second: from the means of unlike whiles, each range would tell another story.

What is remembered of a while: one point of a chart, small enough to keep a day of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from rpcaccel.core.stats.counters import HITS, AnswerSource, Cell, TallySnapshot
from rpcaccel.core.stats.histogram import Histogram, together
from rpcaccel.core.stats.tally import delta

MISSES = (AnswerSource.FLIGHT, AnswerSource.NODE, AnswerSource.PARTIAL)
"""Answers that had to wait for a node."""

NodeKey = tuple[str, str]
"""Network and node id."""


class Savings(Struct, frozen=True):
    """What the cache saved up to a moment, or over a while."""

    calls: int = 0
    """Calls that no node had to be asked for, or only once for several of them."""
    seconds: float = 0.0
    """That callers would have waited longer."""

    def and_then(self, more: Savings) -> Savings:
        """Both together."""
        return Savings(self.calls + more.calls, self.seconds + more.seconds)

    def since(self, before: Savings) -> Savings:
        """What came after `before`."""
        return Savings(self.calls - before.calls, self.seconds - before.seconds)


class NodePoint(Struct, frozen=True):
    """One node over a while."""

    calls: int
    """Attempts sent to it."""
    failures: int
    answers: int
    seconds: float
    """Spent on those answers, together."""


class Point(Struct, frozen=True):
    """Everything over a while."""

    at: float
    """Its end, in seconds since 1970."""
    seconds: float
    """How long it covers."""
    calls: int
    hits: int
    errors: int
    refused: int
    """Calls that the proxy did not accept."""
    turned_away: int
    """Refused before it was a call of any method."""
    hit: Histogram
    miss: Histogram
    hit_p50: float | None
    hit_p99: float | None
    miss_p50: float | None
    miss_p99: float | None
    spared_calls: int
    """Calls that no node had to be asked for, or only once for several of them."""
    spared_seconds: float
    """What those who waited would have waited longer without the cache."""
    nodes: dict[NodeKey, NodePoint]


class MethodPoint(Struct, frozen=True):
    """One method over a while."""

    seconds: float
    """How long it covers."""
    calls: int
    hits: int
    errors: int
    hit_p50: float | None
    hit_p99: float | None
    miss_p50: float | None
    miss_p99: float | None


def latency(snapshot: TallySnapshot, sources: tuple[AnswerSource, ...]) -> Histogram:
    """All answers from `sources`, whatever the method."""
    return together(cell.latency[source] for cell in snapshot.cells for source in sources)


def by_method(cells: Iterable[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """The cells of each method of each network: one for every cache class it was called under."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.network, cell.method), []).append(cell)
    return found


def spared(passed: TallySnapshot, means: dict[tuple[str, str], float]) -> Savings:
    """What the cache saved: a hit counts as the mean miss of its own method at that time.

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
    return Savings(calls, seconds)


def point(passed: TallySnapshot, saved: Savings, seconds: float, at: float) -> Point:
    """What was counted and saved over `seconds`, ending `at`."""
    hit, miss = latency(passed, HITS), latency(passed, MISSES)
    return Point(
        at=at,
        seconds=seconds,
        calls=sum(cell.calls for cell in passed.cells),
        hits=sum(cell.hits for cell in passed.cells),
        errors=sum(cell.errors for cell in passed.cells),
        refused=sum(cell.refused for cell in passed.cells),
        turned_away=sum(passed.refusals.values()),
        hit=hit,
        miss=miss,
        hit_p50=hit.quantile(0.5),
        hit_p99=hit.quantile(0.99),
        miss_p50=miss.quantile(0.5),
        miss_p99=miss.quantile(0.99),
        spared_calls=saved.calls,
        spared_seconds=saved.seconds,
        nodes={
            (node.network, node.node): NodePoint(
                node.calls, sum(node.failures.values()), node.latency.count, node.latency.seconds
            )
            for node in passed.nodes
            if node.calls
        },
    )


def method_points(
    passed: TallySnapshot, _saved: Savings, seconds: float, at: float
) -> tuple[float, dict[tuple[str, str], MethodPoint]]:
    """When it was, and every method that was called meanwhile."""
    return at, {
        key: _method_point(cells, seconds)
        for key, cells in by_method(passed.cells).items()
        if any(cell.calls for cell in cells)
    }


def _method_point(cells: list[Cell], seconds: float) -> MethodPoint:
    hit = together(cell.latency[source] for cell in cells for source in HITS)
    miss = together(cell.latency[source] for cell in cells for source in MISSES)
    return MethodPoint(
        seconds=seconds,
        calls=sum(cell.calls for cell in cells),
        hits=hit.count,
        errors=sum(cell.errors for cell in cells),
        hit_p50=hit.quantile(0.5),
        hit_p99=hit.quantile(0.99),
        miss_p50=miss.quantile(0.5),
        miss_p99=miss.quantile(0.99),
    )


Range = Literal["5m", "1h", "24h"]

SPACING: dict[Range, tuple[float, int]] = {"5m": (0.0, 300), "1h": (15.0, 240), "24h": (300.0, 288)}
"""Seconds that a point covers at least (0: one for each snapshot), and how many points are kept."""

METHOD_SPACING = 5.0, 60
"""The same for the points of a single method."""

_Made = TypeVar("_Made")


class Window(Struct, frozen=True):
    """What was counted over a while."""

    seconds: float
    passed: TallySnapshot


class Ring(Generic[_Made]):
    """The newest `keep` points, each made of what was counted over `every` seconds or a little more."""

    __slots__ = ("_every", "_from", "_make", "points")

    def __init__(self, make: Callable[[TallySnapshot, Savings, float, float], _Made], every: float, keep: int) -> None:
        """`make(passed, saved, seconds, at)`: a point of what was counted and saved over `seconds`, ending `at` seconds
        since 1970."""
        self._make, self._every = make, every
        self._from: tuple[float, TallySnapshot, Savings] | None = None
        self.points: deque[_Made] = deque(maxlen=keep)

    def __repr__(self) -> str:
        return f"<Ring {len(self.points)} points of {self._every:g} s>"

    def add(self, snapshot: TallySnapshot, saved: Savings, now: float, at: float) -> _Made | None:
        """Take a snapshot in, and what was saved up to it; the point that this closes, when its time is over."""
        made = self._since(snapshot, saved, now, at, self._every)
        if made is not None:
            self.points.append(made)
        if made is not None or self._from is None:
            self._from = (now, snapshot, saved)
        return made

    def with_open(self, snapshot: TallySnapshot, saved: Savings, now: float, at: float) -> Iterator[_Made]:
        """The points, oldest first, and at the end what was counted since the last of them."""
        yield from self.points
        made = self._since(snapshot, saved, now, at, 0.0)
        if made is not None:
            yield made

    def _since(self, snapshot: TallySnapshot, saved: Savings, now: float, at: float, least: float) -> _Made | None:
        if self._from is None:
            return None
        since, before, saved_before = self._from
        if now <= since or now - since < least:
            return None
        return self._make(delta(snapshot, before), saved.since(saved_before), now - since, at)


class History:
    """Rings of points, and the snapshots needed to look back a minute."""

    __slots__ = ("_last", "_means", "_methods", "_rings", "_saved", "_seconds", "_snapshots", "_spacing", "_windows")

    def __init__(self, spacing: float = 5.0, span: float = 60.0) -> None:
        """`spacing`: seconds between the snapshots kept; `span`: how far back a window may reach."""
        self._spacing = spacing
        self._saved = Savings()
        self._means: dict[tuple[str, str], float] = {}
        self._seconds = Ring(self._second, *SPACING["5m"])
        self._rings: dict[Range, Ring[Point]] = {
            "5m": self._seconds,
            "1h": Ring(point, *SPACING["1h"]),
            "24h": Ring(point, *SPACING["24h"]),
        }
        self._methods = Ring(method_points, *METHOD_SPACING)
        self._snapshots: deque[tuple[float, TallySnapshot]] = deque(maxlen=int(span / spacing) + 1)
        self._last: tuple[float, TallySnapshot, float] | None = None
        self._windows: dict[float, Window | None] = {}

    def __repr__(self) -> str:
        return f"<History {', '.join(f'{name} {len(ring.points)}' for name, ring in self._rings.items())}>"

    def add(self, snapshot: TallySnapshot, now: float, at: float) -> None:
        """Take a snapshot in: `now` in monotonic seconds, `at` since 1970."""
        second = self._seconds.add(snapshot, self._saved, now, at)
        if second is not None:
            self._saved = self._saved.and_then(Savings(second.spared_calls, second.spared_seconds))
        for ring in (self._rings["1h"], self._rings["24h"], self._methods):
            ring.add(snapshot, self._saved, now, at)
        self._last = (now, snapshot, at)
        self._windows.clear()
        if not self._snapshots or now - self._snapshots[-1][0] >= self._spacing:
            self._snapshots.append((now, snapshot))

    def points(self, over: Range = "5m") -> list[Point]:
        """Oldest first; the last one may be shorter than the rest."""
        ring = self._rings[over]
        return (
            list(ring.points)
            if self._last is None
            else list(ring.with_open(self._last[1], self._saved, self._last[0], self._last[2]))
        )

    def method(self, network: str, method: str) -> list[tuple[float, MethodPoint | None]]:
        """A method's last five minutes, oldest first: the time of each point, and what was counted, if anything."""
        return [(at, found.get((network, method))) for at, found in self._methods.points]

    def window(self, seconds: float) -> Window | None:
        """The last `seconds`, or a little more, or as much as there is; None before two snapshots were seen."""
        # Asked several times between two snapshots, by each page that is open.
        if seconds not in self._windows:
            self._windows[seconds] = self._look_back(seconds)
        return self._windows[seconds]

    def _second(self, passed: TallySnapshot, _saved: Savings, seconds: float, at: float) -> Point:
        """The finest point there is: what it saved is worked out, and that of all others is the sum of such."""
        return point(passed, spared(passed, self._means), seconds, at)

    def _look_back(self, seconds: float) -> Window | None:
        if self._last is None:
            return None
        now, newest, _ = self._last
        start = next((kept for kept in reversed(self._snapshots) if now - kept[0] >= seconds), self._snapshots[0])
        if start[0] == now:
            return None
        return Window(now - start[0], delta(newest, start[1]))
