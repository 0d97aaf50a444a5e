"""Rings of time buckets: the newest slices of each range, bounded.

A ring keeps full slices as encoded bytes: a bucket of one network takes some 200 bytes and is a part of one object
that the garbage collector never looks at. Each ring is filled by the full slices of the finer one before it, so that
every range tells the same of the same time. What the charts ask for each second is not worked out again: the sums of a
ring are kept up to date slice by slice, and the points of a full slice are kept while they are asked for.

The clock may be set while the program runs. A ring holds a number of slices whatever their times are, and shows those
that lie before the newest one and in the range: what a clock that was wrong for a while seems to have made too old, or
not yet due, is shown again when the clock is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from rpcaccel.controlplane.stats.buckets import (
    Bucket,
    RangeTotal,
    RunningTotals,
    TimeSlice,
    bounded,
    decoded,
    encoded,
    joined,
    merged,
    sound,
    unpacked,
)
from rpcaccel.controlplane.stats.points import ChartPoint, point_of

SLACK = 1.0
"""Seconds that two sums of lengths may differ by."""

MOST_READ = 3
"""Ranges of a network or of a client whose points are kept for the next question."""

_Range = TypeVar("_Range", bound=str)


class Sealed(Struct, frozen=True, gc=False):
    """A full slice as bytes, with the time that it ended and its length."""

    at: float
    seconds: float
    content: bytes


class Ring:
    """The newest slices of `every` seconds or a little more each, as many as cover `span`, and the one that is not full
    yet."""

    __slots__ = ("_every", "_full", "_keep", "_most", "_shown", "open", "span", "totals")

    def __init__(self, every: float, keep: int, most: int) -> None:
        """`most`: parts of a slice at the most."""
        self._every = every
        self.span = every * keep
        """Seconds that the ring covers; 0 when it takes slices of any length."""
        self._most = most
        # Restarts leave slices that are shorter than the rest: there is room for some of them.
        self._keep = keep + keep // 4 if every else keep
        self._full: deque[Sealed] = deque()
        self._shown: deque[Sealed] = deque()
        """Those of the full ones that lie in the range and run forward."""
        self.totals = RunningTotals()
        """The sums of those."""
        self.open: TimeSlice | None = None
        """What the slice that is not full yet has so far."""

    def __repr__(self) -> str:
        return f"<Ring {len(self._full)} slices of {self._every:g} s>"

    def add(self, one: TimeSlice) -> TimeSlice | None:
        """Add a slice to the one that is not full yet, and return that when it is full now."""
        self.open = bounded(one, self._most) if self.open is None else joined([self.open, one], self._most)
        if self.open.whole.seconds < self._every:
            return None
        full, self.open = self.open, None
        self.push(encoded(full), full)
        return full

    def push(self, content: bytes, full: TimeSlice) -> None:
        """Add a full slice, which is later than all that are shown."""
        sealed = Sealed(full.whole.at, full.whole.seconds, content)
        self._full.append(sealed)
        self._shown.append(sealed)
        self.totals.add(full)
        if len(self._full) > self._keep and self._full.popleft() is self._shown[0]:
            self._hide_oldest()
        while self.span and self._shown[0].at <= sealed.at - self.span:
            self._hide_oldest()

    def _hide_oldest(self) -> None:
        self.totals.remove(unpacked(self._shown.popleft().content))

    def show(self, until: float) -> None:
        """Choose anew what is shown, after the clock was set: what lies in the range before `until` and runs
        forward."""
        shown: deque[Sealed] = deque()
        later = until
        for one in reversed(self._full):
            if one.at < later and not (self.span and one.at <= until - self.span):
                shown.appendleft(one)
                later = one.at
        if list(shown) == list(self._shown):
            return
        self._shown, self.totals = shown, RunningTotals()
        for one in shown:
            self.totals.add(unpacked(one.content))

    @property
    def shown(self) -> Sequence[Sealed]:
        """The full slices that lie in the range, oldest first."""
        return self._shown

    @property
    def since(self) -> float | None:
        """The time from which on there are full slices, in seconds since 1970; None without any."""
        return self._shown[0].at - self._shown[0].seconds if self._shown else None

    def kept(self) -> list[bytes]:
        """The full slices, oldest first."""
        return [one.content for one in self._full]


class Rings(Generic[_Range]):
    """Rings from the finest to the coarsest, each filled by the one before it."""

    __slots__ = ("_at", "_most", "_read", "_rings")

    def __init__(self, spacing: Mapping[_Range, tuple[float, int]], most: int = 1000) -> None:
        """`spacing`: by range, the seconds that a bucket covers at least (0: one for each slice added), and how many
        buckets are kept; `most`: parts of a slice at the most."""
        self._most = most
        self._rings = {name: Ring(every, keep, most) for name, (every, keep) in spacing.items()}
        self._read: dict[tuple[_Range, str], dict[Sealed, ChartPoint]] = {}
        self._at: float | None = None

    def __repr__(self) -> str:
        return f"<Rings {', '.join(f'{name} {len(ring.shown)}' for name, ring in self._rings.items())}>"

    def add(self, one: TimeSlice) -> None:
        """Add a slice to the finest ring, and what gets full by it to the coarser ones."""
        at, before = one.whole.at, self._at
        if before is not None and not before < at <= before + one.whole.seconds + SLACK:
            for ring in self._rings.values():
                ring.show(at)
        self._at = at
        passed: TimeSlice | None = one
        for ring in self._rings.values():
            if passed is None:
                return
            passed = ring.add(passed)

    def buckets(self, over: _Range, name: str = "") -> list[Bucket]:
        """The buckets of a part, or of everything, oldest first; the last one may be shorter than the rest."""
        unfinished = [one.of(name) for one in self._open(over)]
        full = [decoded(one.content, name) for one in self._rings[over].shown]
        return [*full, *([merged(unfinished)] if unfinished else [])]

    def points(self, over: _Range, name: str = "") -> list[ChartPoint]:
        """These buckets, as they are shown in charts. Those of full slices are kept for the next question."""
        known = self._read.pop((over, name), {})
        points = {one: known.get(one) or point_of(decoded(one.content, name)) for one in self._rings[over].shown}
        self._read[over, name] = points
        while len(self._read) > MOST_READ:
            del self._read[next(iter(self._read))]
        unfinished = [one.of(name) for one in self._open(over)]
        return [*points.values(), *([point_of(merged(unfinished))] if unfinished else [])]

    def total(self, over: _Range, name: str = "") -> RangeTotal | None:
        """The sum of these buckets; None without any."""
        return self._rings[over].totals.total(name, self._open(over))

    def newest(self) -> Bucket | None:
        """The newest bucket of everything in the finest ring."""
        shown = next(iter(self._rings.values())).shown
        return decoded(shown[-1].content, "") if shown else None

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

    def restore(self, saved: Mapping[str, Sequence[bytes]], now: float) -> int:
        """Take up saved slices as full ones, where they run forward and are of the time that the ring covers until
        `now`, in seconds since 1970. Returns how many lie after that and are left out. Raises ValueError, and takes
        up nothing, when any of them is damaged."""
        ended = {name: [(one, sound(one)) for one in saved.get(name, ())] for name in self._rings}
        future = 0
        for name, found in ended.items():
            ring = self._rings[name]
            latest = now - ring.span
            for content, one in found:
                at = one.whole.at
                future += at > now
                if latest < at <= now:
                    ring.push(content, one)
                    latest = at
        return future
