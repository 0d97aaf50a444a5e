"""The tally: all counters of a worker, and sums and differences of snapshots.

Labels come from the settings and the chains' rules, never from what a client sends: a method without a rule is counted
as OTHER, and the number of reasons is bounded. A worker owns one `Tally`. Its `snapshot()` is a value that travels to
the supervisor, which merges the snapshots of all workers (`merge`) and takes differences over time (`delta`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import TypeVar

from msgspec import Struct

from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import (
    OTHER,
    Cell,
    ClientCell,
    NetworkCell,
    NodeCell,
    Step,
    TallySnapshot,
    Tier,
    bump,
)
from rpcaccel.core.stats.histogram import Histogram


class Tally:
    """All counters of one worker."""

    __slots__ = ("_cells", "_clients", "_copied", "_known", "_networks", "_nodes", "_tiers", "batches", "bytes_in",
                 "connections", "in_flight", "limits_alone", "refusals", "requests", "steps", "websockets")  # fmt: skip

    def __init__(self, methods: Iterable[str] = ()) -> None:
        """`methods`: the methods that have a rule in any of the served chains."""
        self._known = frozenset(methods)
        self._cells: dict[tuple[str, str, str], Cell] = {}
        self._nodes: dict[tuple[str, str], NodeCell] = {}
        self._networks: dict[str, NetworkCell] = {}
        self._tiers: dict[str, Tier] = {}
        self._clients: dict[str, ClientCell] = {}
        self.steps: dict[str, Histogram] = {str(step): Histogram() for step in Step}
        self.refusals: dict[str, int] = {}
        self.requests = 0
        self.batches = 0
        self.bytes_in = 0
        self.in_flight = 0
        self.connections = 0
        self.websockets = 0
        self.limits_alone = 0
        self._copied = TallySnapshot()

    def __repr__(self) -> str:
        return f"<Tally {len(self._cells)} cells, {len(self._nodes)} nodes, {self.requests} requests>"

    def know(self, methods: Iterable[str]) -> None:
        """Add methods that have a rule, after new settings were adopted."""
        self._known |= frozenset(methods)

    def cell(self, network: str, method: str, cache: CacheClass) -> Cell:
        """The cell of a method; that of OTHER when the method has no rule."""
        return self._cells.get((network, method, cache)) or self._open(network, method, cache)

    def _open(self, network: str, method: str, cache: CacheClass) -> Cell:
        key = (network, method if method in self._known else OTHER, cache)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell(network, key[1], cache)
        return cell

    def node(self, network: str, node: str) -> NodeCell:
        """The cell of a node, by its id in the settings."""
        key = (network, node)
        cell = self._nodes.get(key)
        if cell is None:
            cell = self._nodes[key] = NodeCell(network, node)
        return cell

    def find_node(self, network: str, node: str) -> NodeCell:
        """The cell of a node; a new one, which is not counted before it is added, if there is none."""
        return self._nodes.get((network, node)) or NodeCell(network, node)

    def add_node(self, cell: NodeCell) -> None:
        """Count the cell of a node from now on; nothing when it is counted already."""
        self._nodes.setdefault((cell.network, cell.node), cell)

    def network(self, name: str) -> NetworkCell:
        cell = self._networks.get(name)
        if cell is None:
            cell = self._networks[name] = NetworkCell(name)
        return cell

    def tier(self, name: str, *, shared: bool = False) -> Tier:
        """The figures of a cache tier, which its owner sets."""
        tier = self._tiers.get(name)
        if tier is None:
            tier = self._tiers[name] = Tier(name, shared)
        return tier

    def client(self, name: str) -> ClientCell:
        """The cell of a client, by its name in the settings."""
        cell = self._clients.get(name)
        if cell is None:
            cell = self._clients[name] = ClientCell(name)
        return cell

    def step(self, step: Step, seconds: float) -> None:
        """Count the seconds of one step of one call."""
        self.steps[step].observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a request that was refused before any call was read (not JSON, too large, too many)."""
        bump(self.refusals, reason)

    def snapshot(self) -> TallySnapshot:
        """A copy of all counters. It shares unchanged cells with the copy before, so neither may be written to.

        Most methods are not called within a second, and need not be copied each second.
        """
        last = self._copied
        self._copied = TallySnapshot(
            cells=_copies(self._cells.values(), last.cells),
            nodes=_copies(self._nodes.values(), last.nodes),
            networks=_copies(self._networks.values(), last.networks),
            tiers=_copies(self._tiers.values(), last.tiers),
            clients=_copies(self._clients.values(), last.clients),
            steps={step: histogram.copy() for step, histogram in self.steps.items()},
            refusals=dict(self.refusals),
            requests=self.requests,
            batches=self.batches,
            bytes_in=self.bytes_in,
            in_flight=self.in_flight,
            connections=self.connections,
            websockets=self.websockets,
            limits_alone=self.limits_alone,
        )
        return self._copied


_GAUGES = frozenset(
    {
        *("in_flight", "in_room", "connections", "connections_open", "connections_idle", "websockets"),
        *("entries", "bytes", "limit", "subscriptions", "topics"),
    }
)
_MOMENTS = frozenset({"seen_at"})
"""Fields that are times: a merge takes the latest."""
_HISTOGRAMS = frozenset({"by_method"})
"""Fields that are tables of histograms; all other tables hold numbers."""
_Counted = TypeVar("_Counted", bound=Struct)
_Number = Callable[[str, float, float], float]


def merge(snapshots: Iterable[TallySnapshot]) -> TallySnapshot:
    """The sum of several workers' snapshots; it shares nothing with them."""
    parts = list(snapshots)
    total = TallySnapshot(
        cells=_fold((cell for part in parts for cell in part.cells), _cell_key),
        nodes=_fold((node for part in parts for node in part.nodes), _node_key),
        networks=_fold((cell for part in parts for cell in part.networks), _network_key),
        tiers=_fold((tier for part in parts for tier in part.tiers), _tier_key),
        clients=_fold((client for part in parts for client in part.clients), _client_key),
        steps={str(step): Histogram() for step in Step},
    )
    for part in parts:
        for step, histogram in part.steps.items():
            total.steps.setdefault(step, Histogram()).add(histogram)
        total.refusals = _reasons("", total.refusals, part.refusals, _sum)
        _numbers(total, part, _sum)
    return total


def ended(snapshot: TallySnapshot) -> TallySnapshot:
    """The snapshot of a worker that has ended: its counters stay, its gauges are 0."""
    past = merge([snapshot])
    for item in (past, *past.nodes, *past.networks, *past.tiers, *past.clients):
        for name in _GAUGES.intersection(item.__struct_fields__):
            setattr(item, name, type(getattr(item, name))())
    for tier in past.tiers:
        tier.up, tier.fault = True, ""
    return past


def delta(now: TallySnapshot, before: TallySnapshot) -> TallySnapshot:
    """What was counted between two snapshots, for the methods that were called; gauges are those of `now`.

    A counter that is smaller than before was reset, so all of its value is new.
    """
    passed = TallySnapshot(
        cells=_passed(now.cells, before.cells, _cell_key, still=False),
        nodes=_passed(now.nodes, before.nodes, _node_key),
        networks=_passed(now.networks, before.networks, _network_key),
        tiers=_passed(now.tiers, before.tiers, _tier_key),
        clients=_passed(now.clients, before.clients, _client_key, still=False),
        steps={step: took.since(before.steps.get(step, Histogram())) for step, took in now.steps.items()},
        refusals=_reasons("", now.refusals, before.refusals, _since),
    )
    _numbers(passed, now, _sum)
    _numbers(passed, before, _since)
    return passed


def _cell_key(cell: Cell) -> tuple[str, ...]:
    return cell.network, cell.method, cell.cache


def _node_key(node: NodeCell) -> tuple[str, ...]:
    return node.network, node.node


def _network_key(cell: NetworkCell) -> tuple[str, ...]:
    return (cell.network,)


def _tier_key(tier: Tier) -> tuple[str, ...]:
    return (tier.name,)


def _client_key(client: ClientCell) -> tuple[str, ...]:
    return (client.client,)


def _sum(name: str, mine: float, theirs: float) -> float:
    return max(mine, theirs) if name in _MOMENTS else mine + theirs


def _since(name: str, mine: float, theirs: float) -> float:
    return mine if name in _GAUGES or name in _MOMENTS or theirs > mine else mine - theirs


def _larger_gauge(name: str, mine: float, theirs: float) -> float:
    return max(mine, theirs) if name in _GAUGES else mine + theirs


def _fold(items: Iterable[_Counted], key: Callable[[_Counted], tuple[str, ...]]) -> list[_Counted]:
    total: dict[tuple[str, ...], _Counted] = {}
    for item in items:
        found = total.get(key(item))
        if found is None:
            total[key(item)] = _copy(item)
        else:
            _combine(found, item, _larger_gauge if getattr(item, "shared", False) else _sum)
    return list(total.values())


def _passed(
    now: list[_Counted], before: list[_Counted], key: Callable[[_Counted], tuple[str, ...]], *, still: bool = True
) -> list[_Counted]:
    """The difference of each item; with `still`, also of items that counted nothing."""
    changed = now if still else [item for item, old in zip_longest(now, before[: len(now)]) if item is not old]
    then = {key(item): item for item in before} if changed else {}
    pairs = ((item, then.get(key(item))) for item in changed)
    return [_copy(item) if old is None else _difference(item, old) for item, old in pairs if still or item != old]


def _difference(item: _Counted, old: _Counted) -> _Counted:
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    for name, value in fields.items():
        kind, before = type(value), getattr(old, name)
        if kind is int or kind is float:
            fields[name] = _since(name, value, before)
        elif kind is Histogram:
            fields[name] = value.since(before)
        elif kind is list:
            fields[name] = [now.since(then) for now, then in zip(value, before, strict=True)]
        elif name in _HISTOGRAMS:
            fields[name] = _passed_by_name(value, before)
        elif kind is dict:
            fields[name] = _reasons(name, value, before, _since)
    return type(item)(**fields)


def _copies(live: Iterable[_Counted], last: list[_Counted]) -> list[_Counted]:
    """Copies of live items; for an item that has not counted since, its last copy."""
    return [was if was == item else _copy(item, was) for item, was in zip_longest(live, last)]


def _copy(item: _Counted, last: Struct | None = None) -> _Counted:
    """A copy that shares equal parts with `last`, an earlier copy."""
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    for name, value in fields.items():
        if isinstance(value, Histogram):
            fields[name] = value.copy()
        elif isinstance(value, list):
            were = value if last is None else getattr(last, name)
            fields[name] = [_copied(histogram, was) for histogram, was in zip(value, were, strict=True)]
        elif name in _HISTOGRAMS:
            had = {} if last is None else getattr(last, name)
            fields[name] = {key: _copied(one, had.get(key, one)) for key, one in value.items()}
        elif isinstance(value, dict):
            fields[name] = dict(value)
    return type(item)(**fields)


def _passed_by_name(now: dict[str, Histogram], before: dict[str, Histogram]) -> dict[str, Histogram]:
    """The difference of each histogram that has counted anything since."""
    passed = {name: one.since(before[name]) if name in before else one.copy() for name, one in now.items()}
    return {name: one for name, one in passed.items() if any(one.counts)}


def _copied(histogram: Histogram, was: Histogram) -> Histogram:
    return was if was is not histogram and was == histogram else histogram.copy()


def _combine(mine: Struct, other: Struct, number: _Number) -> None:
    """Combine every counter of two cells, whatever fields the struct has."""
    for name in mine.__struct_fields__:
        value, theirs = getattr(mine, name), getattr(other, name)
        if name in _HISTOGRAMS:
            for key, histogram in theirs.items():
                if key in value:
                    value[key].add(histogram)
                else:
                    value[key] = histogram.copy()
        elif isinstance(value, dict):
            setattr(mine, name, _reasons(name, value, theirs, number))
        elif isinstance(value, Histogram):
            value.add(theirs)
        elif isinstance(value, list):
            for histogram, other_histogram in zip(value, theirs, strict=True):
                histogram.add(other_histogram)
        elif name == "up":
            setattr(mine, name, value and theirs)
        elif name == "fault":
            setattr(mine, name, value or theirs)
    _numbers(mine, other, number)


def _numbers(mine: Struct, other: Struct, number: _Number) -> None:
    for name in mine.__struct_fields__:
        value = getattr(mine, name)
        if type(value) is int or type(value) is float:
            setattr(mine, name, number(name, value, getattr(other, name)))


def _reasons(name: str, mine: dict[str, int], theirs: dict[str, int], number: _Number) -> dict[str, int]:
    counts = {reason: int(number(name, mine.get(reason, 0), theirs.get(reason, 0))) for reason in {**mine, **theirs}}
    return {reason: count for reason, count in counts.items() if count}
