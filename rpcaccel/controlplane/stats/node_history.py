"""What each node did in the last hour and the last day: sums by node and method, with its lag."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from rpcaccel.controlplane.stats.buckets import NodeKey, NodeSums, numbers_of_node
from rpcaccel.controlplane.stats.history_table import HistoryTable, Key, Span
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.stats.histogram import Histogram

Over = Literal["hour", "day"]
LAGS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 1000, 10_000)
"""Upper bounds of the buckets of lags, in blocks (inclusive)."""
_LAG_NAMES = [*map(str, LAGS), "more"]
_CREDITS = ("credits", "credited")
_AGREEMENT = ("compared", "minority", "undecided", "false_hashes", "disproved")


class NodeSum(Struct, eq=False):
    """The counts of one node over a while."""

    calls: int = 0
    """Attempts sent to it."""
    credits: float = 0.0
    """Units that attempts cost, by the costs of the node."""
    credited: int = 0
    """Attempts that `credits` counts."""
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
    disproved: int = 0
    behind: int = 0
    """Looks at which it was behind for longer than a new block needs to reach it."""
    lags: list[int] = field(default_factory=lambda: [0] * len(_LAG_NAMES))
    """Looks by the blocks that it lacked (LAGS)."""

    @property
    def units(self) -> float:
        """What the attempts cost: one unit each while the node had no costs."""
        return self.calls - self.credited + self.credits

    @property
    def looks(self) -> int:
        return sum(self.lags)

    def lag(self, q: float) -> int | None:
        """The quantile `q` (0..1) of the blocks that it lacked; None before the first look."""
        rank, below = q * self.looks, 0
        for bucket, count in enumerate(self.lags):
            below += count
            if count and below >= rank:
                return LAGS[min(bucket, len(LAGS) - 1)]
        return None

    def take(self, kind: str, name: str, count: int, latency: Histogram) -> None:
        """Take what a row of the table tells of the node."""
        if kind == "node":
            self.calls, self.latency = count, latency
        elif kind == "failure":
            self.failures[name] = count
        elif kind == "credits" and name in _CREDITS:
            setattr(self, name, count)
        elif kind == "method":
            self.by_method[name] = latency
        elif kind == "lag" and name in _LAG_NAMES:
            self.lags[_LAG_NAMES.index(name)] = count
        elif kind == "agreement" and name in (*_AGREEMENT, "behind"):
            setattr(self, name, count)


class PastSlice(Struct, frozen=True):
    """How many calls each node had in one slice of `seconds`."""

    seconds: float
    paces: Mapping[NodeKey, NodeSums]


class PastTotal(Struct, frozen=True):
    """The sums of all nodes over a range, of which there are `seconds` so far."""

    seconds: float
    nodes: Mapping[NodeKey, NodeSum]


class NodeHistory:
    """The hour and the day of every node, as the table has them. It is for threads, as all that reads the table."""

    def __init__(self, table: HistoryTable, flush: Callable[[], float]) -> None:
        """`flush` adds to the table what it lacks, and says when that ended, in seconds since 1970."""
        self._table = table
        self._flush = flush

    def __repr__(self) -> str:
        return f"<NodeHistory in {self._table!r}>"

    def total(self, over: Over) -> PastTotal:
        """The sums of every node over a range."""
        nodes: dict[NodeKey, NodeSum] = {}
        span = self._span(over)
        for (kind, network, node, name), count, latency in self._table.node_parts(span) if span else ():
            nodes.setdefault((network, node), NodeSum()).take(kind, name, count, latency)
        return PastTotal(span.seconds if span else 0.0, nodes)

    def slices(self, over: Over) -> list[PastSlice]:
        """How many calls each node had in each slice of a range, oldest first; the last one may be shorter."""
        span = self._span(over)
        return [PastSlice(one.seconds, one.nodes) for one in (self._table.buckets(span, "") if span else ())]

    def _span(self, over: Over) -> Span | None:
        return self._table.span("node", over, self._flush())


def looks(views: Iterable[NodeView]) -> Iterator[Key]:
    """The rows that count one look at how far each node is behind."""
    for view in views:
        if view.lag is not None:
            yield "lag", view.network, view.id, _LAG_NAMES[bisect_left(LAGS, view.lag)]
            if view.state == "behind":
                yield "agreement", view.network, view.id, "behind"


def node_rows(cell: NodeCell) -> Iterator[tuple[Key, Sequence[float]]]:
    """The rows of what a node did; none of a node that did nothing."""
    node, latency = (cell.network, cell.node), cell.latency
    failures = sum(cell.failures.values())
    if cell.calls or failures or latency.count:
        yield ("node", *node, ""), numbers_of_node(cell.calls, failures, latency)
    for name in _CREDITS if cell.credited else ():
        yield ("credits", *node, name), (getattr(cell, name),)
    for kind, count in cell.failures.items():
        yield ("failure", *node, kind), (count,)
    for method, took in cell.by_method.items():
        yield ("method", *node, method), numbers_of_node(took.count, 0, took)
    for name in _AGREEMENT:
        if count := getattr(cell, name):
            yield ("agreement", *node, name), (count,)
