"""What happened lately, kept without Prometheus and bounded: five minutes by the second, up to a week in the table of
the history, and whole windows of a minute.

A second is the difference of two snapshots, kept in memory as bytes, which cost the garbage collector nothing. Of each
slot of the table, the event loop keeps the snapshots before and after. Their difference is worked out, and added to the
table, by whoever asks that, or now and then: the event loop never waits for the table. Each method has buckets of its
own over the last five minutes. A window is the difference between the newest snapshot and one of a minute or of five
minutes ago.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from rpcaccel.config.model import NetworkSettings
from rpcaccel.controlplane.stats.buckets import (
    CREDITS,
    MISSES,
    Bucket,
    NodeKey,
    NodeSpending,
    NodeSums,
    bucket_of,
    numbers_of,
    numbers_of_node,
    summed,
)
from rpcaccel.controlplane.stats.history_table import ROLLUPS, WHOLE_KIND, HistoryTable, Key, Span
from rpcaccel.controlplane.stats.node_history import NodeHistory, looks, node_rows
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.controlplane.stats.spared_costs import SparedCosts
from rpcaccel.core.stats.counters import HITS, AnswerSource, Cell, ClientCell, NodeCell, TallySnapshot
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.stats.tally import delta

Range = Literal["5m", "1h", "24h", "7d"]
SPACING: dict[Range, float] = {"5m": 1.0, "1h": 15.0, "24h": 300.0, "7d": 1800.0}
"""Seconds between two points."""
ClientRange = Literal["1h", "24h"]
CLIENT_SPACING: dict[ClientRange, float] = {"1h": 60.0, "24h": 900.0}
LIVE_SECONDS = 300
"""Seconds that are kept one by one."""
ROUNDING_SECONDS = 1.0
"""Seconds that two sums of lengths may differ by."""
SNAPSHOT_SECONDS, SPARSE_SNAPSHOT_SECONDS = 60.0, 300.0
"""How far snapshots reach back at least: those kept every `History.spacing` seconds, and those kept every
SPARSE_SPACING_SECONDS."""
SPARSE_SPACING_SECONDS = 30.0
METHOD_BUCKETS = 60
"""Buckets kept of single methods, each of `History.spacing` seconds."""
LAG_LOOK_SECONDS = 5.0
"""Seconds between two looks at how far nodes are behind."""
MAX_PENDING_SLOTS = 20
"""Slots that wait to be added to the table. Where there are more, they are added, or the oldest two become one while
another thread works on the table."""
_SLOT_SECONDS = min(one.every for rollups in ROLLUPS.values() for one in rollups.values())

MethodKey = tuple[str, str]
"""Network and method."""
Spared = tuple[int, float, float, float]
"""Node calls and seconds, and what `SparedCosts.together` says of those calls."""


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


def spared(cells: Iterable[Cell], means: dict[MethodKey, float]) -> tuple[int, float]:
    """Node calls and seconds that the cache saved: a hit counts as the mean miss of its own method at that time.

    `means` remembers those means, in seconds: a method that is always hit now was once missed.
    """
    calls, seconds = 0, 0.0
    for key, mine in by_method(cells).items():
        hits = sum(cell.hits for cell in mine)
        misses = sum(cell.latency[source].count for cell in mine for source in MISSES)
        if misses:
            means[key] = sum(cell.latency[source].seconds for cell in mine for source in MISSES) / misses
        calls += hits + sum(cell.latency[AnswerSource.FLIGHT].count for cell in mine)
        if hits and key in means:
            took = sum(cell.latency[source].seconds for cell in mine for source in HITS)
            seconds += max(0.0, hits * means[key] - took)
    return calls, seconds


class Second(Struct, frozen=True, gc=False):
    """What was counted between two snapshots, usually a second."""

    at: float
    """The end, in seconds since 1970."""
    seconds: float
    networks: dict[str, bytes]
    """The encoded bucket of each network that counted anything, and of all together under the empty name."""
    figures: tuple[float | None, ...]
    """Those of all networks together."""

    def network(self, name: str) -> Bucket:
        """The bucket of a network, or of all together."""
        content = self.networks.get(name)
        return Bucket(at=self.at, seconds=self.seconds) if content is None else _decode(content)


class _Slot(Struct):
    """What is to be added to the table: the counters before and after a while, and what they do not tell."""

    began: float
    """In monotonic seconds."""
    before: TallySnapshot
    ended: float
    after: TallySnapshot
    at: float
    """The end, in seconds since 1970."""
    spared: dict[str, Spared] = {}
    looks: Counter[Key] = field(default_factory=Counter)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bucket).decode


class History:
    """The seconds, the table, and the snapshots needed to look back five minutes."""

    __slots__ = ("_live", "_lock", "_looked", "_means", "_methods", "_open", "_pending", "_snapshots",
                 "_sparse", "_spending", "_windows", "costs", "nodes", "spacing", "table", "until")  # fmt: skip

    def __init__(self, spacing: float = 5.0) -> None:
        """`spacing`: seconds between the snapshots of the last minute."""
        self.spacing = spacing
        self.table = HistoryTable()
        self.nodes = NodeHistory(self.table, self.flush)
        self.costs = SparedCosts()
        """What spared calls would have cost, by the settings in force."""
        self._means: dict[MethodKey, float] = {}
        self._spending: dict[str, tuple[float, dict[str, NodeSpending]]] = {}
        self._live: deque[Second] = deque(maxlen=LIVE_SECONDS)
        self._lock = threading.Lock()
        """Held for a moment by whoever changes the open slot."""
        self._open: _Slot | None = None
        self._pending: deque[_Slot] = deque()
        self.until = 0.0
        """When the last snapshot was taken, in seconds since 1970: ranges end then."""
        self._looked = float("-inf")
        self._methods: deque[tuple[float, dict[MethodKey, Bucket]]] = deque(maxlen=METHOD_BUCKETS)
        self._snapshots: deque[tuple[float, TallySnapshot]] = deque()
        """Of the last minute, each with its time in monotonic seconds."""
        self._sparse: deque[tuple[float, TallySnapshot]] = deque()
        """Older ones, of the last five minutes."""
        self._windows: dict[float, Window | None] = {}

    def __repr__(self) -> str:
        return f"<History {len(self._live)} live, {self.table!r}>"

    def cost(self, networks: Mapping[str, NetworkSettings]) -> None:
        """Reckon what spared calls would have cost by these networks from now on."""
        if networks is not self.costs.networks:
            self.costs = SparedCosts(networks)

    def add(self, snapshot: TallySnapshot, now: float, at: float, views: Sequence[NodeView] = ()) -> None:
        """Take a snapshot in: `now` in monotonic seconds, `at` since 1970. It must not be written to afterwards.
        `views`: the nodes, at whose lag is looked now and then."""
        with self._lock:
            self._add(snapshot, now, at, views)
        self._windows.clear()
        if len(self._pending) > MAX_PENDING_SLOTS:
            with suppress(sqlite3.Error):  # costs the slot that could not be added; the keeper of the file tells of it
                self._flush_or_join()
        if not self._snapshots or now - self._snapshots[-1][0] >= self.spacing:
            if self._snapshots:
                since, before = self._snapshots[-1]
                called = [cell for cell in delta(snapshot, before).cells if cell.calls]
                methods = {key: bucket_of(cells, now - since, at) for key, cells in by_method(called).items()}
                self._methods.append((at, methods))
            self._snapshots.append((now, snapshot))
            self._thin_out()

    def _thin_out(self) -> None:
        """Drop snapshots that no window needs, and of those older than a minute all but a few."""
        kept, sparse = self._snapshots, self._sparse
        while len(kept) > SNAPSHOT_SECONDS / self.spacing + 1:
            oldest = kept.popleft()
            if not sparse or oldest[0] - sparse[-1][0] >= SPARSE_SPACING_SECONDS:
                sparse.append(oldest)
        while len(sparse) > SPARSE_SNAPSHOT_SECONDS / SPARSE_SPACING_SECONDS:
            sparse.popleft()

    def _flush_or_join(self) -> None:
        """Add what waits to the table, or have less of it wait while another thread works on the table."""
        if self.table.lock.acquire(blocking=False):
            try:
                self.flush()
            finally:
                self.table.lock.release()
        else:
            with self._lock:
                if len(self._pending) > MAX_PENDING_SLOTS:  # the other thread may have taken all of them just now
                    self._pending.appendleft(_joined(self._pending.popleft(), self._pending.popleft()))

    def _add(self, snapshot: TallySnapshot, now: float, at: float, views: Sequence[NodeView]) -> None:
        slot = self._open
        if slot is None:
            slot = self._open = _Slot(now, snapshot, now, snapshot, at)
        if now - self._looked >= LAG_LOOK_SECONDS:
            self._looked = now
            slot.looks.update(looks(views))
        if now > slot.ended:
            passed, seconds = delta(snapshot, slot.after), now - slot.ended
            saved = self._spared_by_network(passed.cells)
            slot.spared = _spared_together(slot.spared, saved)
            self._add_second(_by_network(passed, seconds, at, saved), seconds, at)
            crossed = at // _SLOT_SECONDS != slot.at // _SLOT_SECONDS
            slot.ended, slot.after, slot.at = now, snapshot, at
            if crossed:
                self._close()
        self.until = at

    def _spared_by_network(self, cells: Iterable[Cell]) -> dict[str, Spared]:
        return {
            name: (*spared(mine, self._means), *self.costs.together(mine))
            for name, mine in _cells_by_network(cells).items()
        }

    def _add_second(self, networks: Mapping[str, Bucket], seconds: float, at: float) -> None:
        while self._live and self._live[-1].at >= at:
            self._live.pop()  # the clock was put back: what seems to come later would make the chart run backwards
        contents = {name: _encode(bucket) for name, bucket in networks.items()}
        self._live.append(Second(at, seconds, contents, networks[""].figures))

    def _close(self) -> None:
        """Let what the open slot has be added to the table."""
        slot = self._open
        if slot is not None and slot.ended > slot.began:
            self._pending.append(slot)
            self._open = _Slot(slot.ended, slot.after, slot.ended, slot.after, slot.at)

    def flush(self) -> float:
        """Add to the table what it lacks, and say when that ended (seconds since 1970). For any thread but that of the
        event loop."""
        with self.table.lock:
            with self._lock:
                self._close()
                slots, self._pending = self._pending, deque()
            try:
                while slots:
                    self._take_in_slot(slots.popleft())
            finally:
                with self._lock:
                    self._pending.extendleft(reversed(slots))  # an error costs no other slot
            return self.until

    def _take_in_slot(self, slot: _Slot) -> None:
        passed, seconds, at = delta(slot.after, slot.before), slot.ended - slot.began, slot.at
        self.take_in("network", at, seconds, _by_network(passed, seconds, at, slot.spared))
        self.take_in("client", at, seconds, dict(_by_client(passed.clients, seconds, at)))
        counted: dict[Key, Sequence[float]] = {key: (count,) for key, count in slot.looks.items()}
        for cell in passed.nodes:
            counted.update(node_rows(cell))
        self.table.add("node", at, seconds, counted)

    def take_in(self, group: str, at: float, seconds: float, buckets: Mapping[str, Bucket], only: str = "") -> None:
        """Add the buckets of networks or clients, over `seconds` that ended `at` (seconds since 1970), to the table, or
        `only` to one of its ranges."""
        self.table.add(group, at, seconds, dict(_counted(group, buckets)), only)

    def points(self) -> list[Second]:
        """The last five minutes, second by second. May be called by any thread, as all that reads."""
        return list(self._live)

    def buckets(self, over: str = "5m", part: str = "", group: str = "network") -> list[Bucket]:
        """The buckets of a network or client, or of all together, oldest first; the last one may be shorter than the
        rest."""
        if over == "5m":
            return [one.network(part) for one in self.points()]
        span = self._span(over, group)
        return self.table.buckets(span, part) if span else []

    def total(self, over: str, part: str = "", group: str = "network") -> Bucket | None:
        """The sum of these buckets; None without any."""
        if over != "5m":
            span = self._span(over, group)
            return self.table.total(span, part) if span else None
        buckets = self.buckets(over, part)
        return summed(buckets, sum(one.seconds for one in buckets), buckets[-1].at) if buckets else None

    def spending(self, over: Range) -> Mapping[str, NodeSpending]:
        """The node calls of each network that were made, and those that were spared; as they were up to a twentieth of
        the range's slot ago."""
        known = self._spending.get(over)
        if known is None or not 0 <= self.until - known[0] < SPACING[over] / 20:
            known = self._spending[over] = self.until, self._spent(over)
        return known[1]

    def _spent(self, over: Range) -> dict[str, NodeSpending]:
        if over != "5m":
            span = self._span(over, "network")
            return self.table.spending(span) if span else {}
        names = {name for one in self.points() for name in one.networks if name}
        totals = {name: self.total(over, name) for name in names}
        return {
            name: NodeSpending(one.node_calls, one.spared_calls, *(getattr(one, credit) for credit in CREDITS))
            for name, one in totals.items()
            if one is not None
        }

    def covering(self, over: Range, since: float | None = None) -> Range:
        """The finest range that reaches as far back as `over` does or, with `since` (seconds since 1970), as that time
        does, where anything is as old."""
        ranges = list(SPACING)
        last = over if since is None else ranges[-1]
        wanted = max(self._began(last) or 0.0, since or 0.0) + ROUNDING_SECONDS
        for name in ranges[: ranges.index(last)]:
            began = self._began(name)
            if began is not None and began <= wanted:
                return name
        return last

    def _began(self, over: Range) -> float | None:
        if over == "5m":
            live = self.points()
            return live[0].at - live[0].seconds if live else None
        span = self._span(over, "network")
        return span.began if span else None

    def _span(self, over: str, group: str) -> Span | None:
        return self.table.span(group, over, self.flush())

    def save(self, path: Path) -> None:
        """Save for the next start, into an empty file, everything but the seconds. Raises OSError."""
        self.flush()
        self.table.save(path)

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

    def _look_back(self, seconds: float) -> Window | None:
        if self._open is None:
            return None
        now, newest = self._open.ended, self._open.after
        kept = [*self._sparse, *self._snapshots]
        start = next((one for one in reversed(kept) if now - one[0] >= seconds), kept[0])
        if start[0] == now:
            return None
        return Window(now - start[0], delta(newest, start[1]))


def _joined(one: _Slot, other: _Slot) -> _Slot:
    """Two slots, of which the second began when the first ended, as one."""
    spared = _spared_together(one.spared, other.spared)
    return _Slot(one.began, one.before, other.ended, other.after, other.at, spared, one.looks + other.looks)


def _spared_together(one: Mapping[str, Spared], other: Mapping[str, Spared]) -> dict[str, Spared]:
    """What two whiles spared each network, added up."""
    found = dict(one)
    for name, more in other.items():
        so_far = found.get(name, _NOTHING_SPARED)
        found[name] = so_far[0] + more[0], so_far[1] + more[1], so_far[2] + more[2], so_far[3] + more[3]
    return found


_NOTHING_SPARED: Spared = (0, 0.0, 0.0, 0.0)


def _cells_by_network(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.network, []).append(cell)
    return found


def _by_network(passed: TallySnapshot, seconds: float, at: float, saved: Mapping[str, Spared]) -> dict[str, Bucket]:
    """All that was counted between two snapshots, by network, and together under the empty name. `saved`: what the
    cache spared each network."""
    cells, nodes = _cells_by_network(passed.cells), _node_sums(passed.nodes)
    costs = [(cell.network, cell.credits, cell.credited) for cell in passed.nodes if cell.credited]
    codes = {cell.network: cell.failed for cell in passed.networks if cell.failed}
    sent = {cell.network: sum(cell.delivered.values()) for cell in passed.networks if cell.delivered}
    parts = {}
    for name in sorted({*cells, *codes, *sent, *(network for network, _ in nodes)}):
        calls, time, units, share = saved.get(name, _NOTHING_SPARED)
        parts[name] = replace(
            bucket_of(cells.get(name, []), seconds, at),
            spared_calls=calls,
            spared_seconds=time,
            nodes={key: sums for key, sums in nodes.items() if key[0] == name},
            codes=codes.get(name, {}),
            notifications=sent.get(name, 0),
            credits=sum(credit for network, credit, _ in costs if network == name),
            credited=sum(count for network, _, count in costs if network == name),
            spared_credits=units,
            spared_credited=share,
        )
    refused = sum(passed.refusals.values())
    whole = next(iter(parts.values())) if len(parts) == 1 else summed(list(parts.values()), seconds, at)
    return {"": replace(whole, turned_away=refused), **parts}


def _node_sums(nodes: Iterable[NodeCell]) -> dict[NodeKey, NodeSums]:
    """The counts of the nodes that were asked."""
    return {
        (node.network, node.node): NodeSums(
            node.calls, sum(node.failures.values()), node.latency.count, node.latency.seconds
        )
        for node in nodes
        if node.calls
    }


def _by_client(cells: Iterable[ClientCell], seconds: float, at: float) -> Iterator[tuple[str, Bucket]]:
    """What was counted of each client between two snapshots."""
    for cell in cells:
        if cell.calls or cell.limited:
            yield (
                cell.client,
                Bucket(
                    at=at,
                    seconds=seconds,
                    calls=cell.calls,
                    hits=cell.hit.count,
                    errors=cell.errors,
                    client_errors=cell.client_errors,
                    refused=sum(cell.limited.values()),
                    hit=cell.hit,
                    miss=cell.miss,
                    limited=cell.limited,
                ),
            )


def _counted(group: str, buckets: Mapping[str, Bucket]) -> Iterator[tuple[Key, Sequence[float]]]:
    """The rows of some buckets. Nodes, codes and reasons are told by those of the parts."""
    for part, bucket in buckets.items():
        yield (group if part else WHOLE_KIND, part, "", ""), numbers_of(bucket)
        if part:
            for (_, node), sums in bucket.nodes.items():
                took = Histogram(seconds=sums.seconds)
                yield ("node", part, node, ""), numbers_of_node(sums.calls, sums.failures, took, sums.answers)
            for name, count in {**bucket.codes, **bucket.limited}.items():
                yield ("name", part, "", name), (count,)
            for name in CREDITS:
                if count := getattr(bucket, name):
                    yield ("credits", part, "", name), (count,)
