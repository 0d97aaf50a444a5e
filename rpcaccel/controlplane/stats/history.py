"""What happened lately, kept without Prometheus and bounded: a week in time buckets by network, a day by client, and
whole windows of a minute.

A bucket of a second is the difference of two snapshots; buckets of the longer ranges are sums of those. Each method has
buckets of its own over the last five minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.controlplane.stats.buckets import (
    MISSES,
    Bucket,
    NodeKey,
    NodeSums,
    RangeTotal,
    TimeSlice,
    bucket_of,
    summed,
)
from rpcaccel.controlplane.stats.node_history import NodeHistory
from rpcaccel.controlplane.stats.points import ChartPoint
from rpcaccel.controlplane.stats.rings import Rings
from rpcaccel.core.stats.counters import HITS, AnswerSource, Cell, ClientCell, NodeCell, TallySnapshot
from rpcaccel.core.stats.tally import delta

Range = Literal["5m", "1h", "24h", "7d"]
SPACING: dict[Range, tuple[float, int]] = {
    "5m": (0.0, 300), "1h": (15.0, 240), "24h": (300.0, 288), "7d": (1800.0, 336),
}  # fmt: skip
"""Seconds that a bucket covers at least (0: one for each snapshot), and how many buckets are kept."""
ClientRange = Literal["1h", "24h"]
CLIENT_SPACING: dict[ClientRange, tuple[float, int]] = {"1h": (60.0, 60), "24h": (900.0, 96)}
"""The same for buckets of clients."""
MOST_CLIENTS = 200
"""Clients with a bucket in one while; those with the most calls are kept."""
METHOD_BUCKETS = 60
"""Buckets kept of single methods, each of `History.spacing` seconds."""

MethodKey = tuple[str, str]
"""Network and method."""


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


class History:
    """Rings of buckets, and the snapshots needed to look back a minute."""

    __slots__ = ("_clients", "_last", "_means", "_methods", "_networks", "_snapshots", "_windows", "nodes",
                 "spacing")  # fmt: skip

    def __init__(self, spacing: float = 5.0, span: float = 60.0) -> None:
        """`spacing`: seconds between the snapshots kept; `span`: seconds that a window may reach back."""
        self.spacing = spacing
        self.nodes = NodeHistory()
        """The hour and the day of each node, which is told of snapshots by itself."""
        self._means: dict[MethodKey, float] = {}
        self._networks: Rings[Range] = Rings(SPACING)
        self._clients: Rings[ClientRange] = Rings(CLIENT_SPACING, MOST_CLIENTS)
        self._methods: deque[tuple[float, dict[MethodKey, Bucket]]] = deque(maxlen=METHOD_BUCKETS)
        self._snapshots: deque[tuple[float, TallySnapshot]] = deque(maxlen=int(span / spacing) + 1)
        self._last: tuple[float, TallySnapshot] | None = None
        self._windows: dict[float, Window | None] = {}

    def __repr__(self) -> str:
        return f"<History {', '.join(f'{name} {len(self.buckets(name))}' for name in SPACING)}>"

    def add(self, snapshot: TallySnapshot, now: float, at: float) -> None:
        """Take a snapshot in: `now` in monotonic seconds, `at` since 1970."""
        if self._last is not None and now > self._last[0]:
            passed, seconds = delta(snapshot, self._last[1]), now - self._last[0]
            self._networks.add(self._slice(passed, seconds, at))
            self._clients.add(_by_client(passed.clients, seconds, at))
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

    def buckets(self, over: Range = "5m", network: str = "") -> list[Bucket]:
        """The buckets of a network, or of all together, oldest first; the last one may be shorter than the rest."""
        return self._networks.buckets(over, network)

    def points(self, over: Range = "5m", network: str = "") -> list[ChartPoint]:
        """These buckets, as they are shown in charts."""
        return self._networks.points(over, network)

    def total(self, over: Range, network: str = "") -> RangeTotal | None:
        """The sum of these buckets; None without any."""
        return self._networks.total(over, network)

    def covering(self, over: Range, since: float | None = None) -> Range:
        """The finest range that reaches as far back as `over` does or, with `since` (seconds since 1970), as that time
        does, where anything is as old."""
        return self._networks.covering(over, since)

    def newest(self) -> Bucket | None:
        """The newest bucket of all networks together."""
        return self._networks.newest()

    def client(self, name: str, over: ClientRange = "1h") -> list[Bucket]:
        """The buckets of a client, oldest first; the last one may be shorter than the rest."""
        return self._clients.buckets(over, name)

    def client_points(self, name: str, over: ClientRange = "1h") -> list[ChartPoint]:
        """These buckets, as they are shown in charts."""
        return self._clients.points(over, name)

    def client_total(self, name: str, over: ClientRange = "1h") -> RangeTotal | None:
        """The sum of these buckets; None without any."""
        return self._clients.total(over, name)

    def kept(self) -> dict[str, dict[str, list[bytes]]]:
        """What is to be saved for the next start, by kind and range: everything but the seconds."""
        return {"networks": self._networks.kept(), "clients": self._clients.kept(), "nodes": self.nodes.kept()}

    def restore(self, saved: Mapping[str, Mapping[str, Sequence[bytes]]], now: float) -> bool:
        """Take up what an earlier run saved; `now` in seconds since 1970. Returns whether anything was left out because
        it is from the future. Raises ValueError when it is damaged."""
        networks: Rings[Range] = Rings(SPACING)
        clients: Rings[ClientRange] = Rings(CLIENT_SPACING, MOST_CLIENTS)
        future = networks.restore(saved.get("networks", {}), now) + clients.restore(saved.get("clients", {}), now)
        nodes = NodeHistory()
        future += nodes.restore(saved.get("nodes", {}), now)
        self._networks, self._clients, self.nodes = networks, clients, nodes
        return future > 0

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

    def _slice(self, passed: TallySnapshot, seconds: float, at: float) -> TimeSlice:
        """All that was counted between two snapshots, by network."""
        cells: dict[str, list[Cell]] = {}
        for cell in passed.cells:
            cells.setdefault(cell.network, []).append(cell)
        nodes = _node_sums(passed.nodes)
        codes = {cell.network: cell.failed for cell in passed.networks if cell.failed}
        sent = {cell.network: sum(cell.delivered.values()) for cell in passed.networks if cell.delivered}
        parts = {}
        for name in sorted({*cells, *codes, *sent, *(network for network, _ in nodes)}):
            mine = cells.get(name, [])
            calls, saved = spared(mine, self._means)
            parts[name] = replace(
                bucket_of(mine, seconds, at),
                spared_calls=calls,
                spared_seconds=saved,
                nodes={key: sums for key, sums in nodes.items() if key[0] == name},
                codes=codes.get(name, {}),
                notifications=sent.get(name, 0),
            )
        refused = sum(passed.refusals.values())
        whole = next(iter(parts.values())) if len(parts) == 1 else summed(list(parts.values()), seconds, at)
        return TimeSlice(replace(whole, turned_away=refused) if refused else whole, parts)

    def _look_back(self, seconds: float) -> Window | None:
        if self._last is None:
            return None
        now, newest = self._last
        start = next((kept for kept in reversed(self._snapshots) if now - kept[0] >= seconds), self._snapshots[0])
        if start[0] == now:
            return None
        return Window(now - start[0], delta(newest, start[1]))


def _node_sums(nodes: Iterable[NodeCell]) -> dict[NodeKey, NodeSums]:
    """The counts of the nodes that were asked."""
    return {
        (node.network, node.node): NodeSums(
            node.calls, sum(node.failures.values()), node.latency.count, node.latency.seconds
        )
        for node in nodes
        if node.calls
    }


def _by_client(cells: Iterable[ClientCell], seconds: float, at: float) -> TimeSlice:
    """What was counted of each client between two snapshots."""
    parts = {
        cell.client: Bucket(
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
        )
        for cell in cells
        if cell.calls or cell.limited
    }
    return TimeSlice(Bucket(at=at, seconds=seconds), parts)
