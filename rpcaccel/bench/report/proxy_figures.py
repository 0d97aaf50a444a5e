"""The figures of a proxy over the time of a measurement: the difference of two readings of its metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families

from rpcaccel.core.stats.counters import HITS, AnswerSource
from rpcaccel.core.stats.histogram import BUCKETS, Histogram, together

MISSES = (AnswerSource.FLIGHT, AnswerSource.NODE, AnswerSource.PARTIAL)
"""Sources of answers that had to wait for a node."""
_PREFIX = "rpcaccel_"
_Labels = tuple[tuple[str, str], ...]


class ProxyReading(Struct, frozen=True):
    """All samples of one reading of `/metrics`, by name without `rpcaccel_` and by labels."""

    at: float
    """Seconds since 1970."""
    samples: dict[str, dict[_Labels, float]]

    def sum(self, name: str) -> float:
        """The sum of a metric over all of its labels; 0 where there is no sample."""
        return sum(self.samples.get(name, {}).values())


class NodeWork(Struct, frozen=True):
    """What one node did for the proxy."""

    name: str
    """NETWORK/ID where there are several networks, else the id."""
    calls: int
    """Attempts sent to the node, repeated ones included."""
    latency: Histogram
    failures: dict[str, int] = {}
    """Failed attempts by kind."""


class TierUse(Struct, frozen=True):
    """What one tier of the cache holds at the end, and what it did."""

    name: str
    entries: int
    size: int
    """Bytes."""
    limit: int
    """Bytes; 0 for no limit of the proxy's own."""
    hits: int
    misses: int
    evicted: int


class ProcessUse(Struct, frozen=True):
    """What one worker process of the proxy took."""

    name: str
    cpu: float
    """Seconds of CPU time."""
    resident: int
    """Bytes at the end."""


class ProxyFigures(Struct, frozen=True, kw_only=True):
    """What a proxy counted between two readings."""

    version: str
    seconds: float
    requests: int
    """HTTP requests that carried JSON-RPC; a batch is one."""
    outcomes: dict[str, int] = {}
    """Calls by how they ended: ok, error (the proxy or its nodes failed), client_error, refused."""
    turned_away: int = 0
    """Requests refused before they were a call of any method."""
    hit: Histogram = field(default_factory=Histogram)
    miss: Histogram = field(default_factory=Histogram)
    nodes: list[NodeWork] = []
    tiers: list[TierUse] = []
    processes: list[ProcessUse] = []
    replaced: int = 0
    """Workers of the proxy that died or hung meanwhile and were replaced."""
    restarted: bool = False
    """Whether the counters began anew meanwhile: the figures are then those since the start of the proxy."""

    @property
    def calls(self) -> int:
        """JSON-RPC calls; each of a batch is one."""
        return sum(self.outcomes.values())

    @property
    def hit_ratio(self) -> float | None:
        """Share of answers that needed no node, 0..1; None without any answer."""
        answers = self.hit.count + self.miss.count
        return self.hit.count / answers if answers else None

    @property
    def mean(self) -> float | None:
        """Mean time of hits and misses in seconds; None without any."""
        return together((self.hit, self.miss)).mean


def read(text: str, at: float) -> ProxyReading:
    """A reading from Prometheus' text format. Raises ValueError where the text is none, or is not a proxy's."""
    samples: defaultdict[str, dict[_Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        if family.name.startswith(_PREFIX):
            for sample in family.samples:
                samples[sample.name.removeprefix(_PREFIX)][tuple(sorted(sample.labels.items()))] = sample.value
    if "requests_total" not in samples:
        raise ValueError("no metrics of an rpcaccel proxy")
    return ProxyReading(at, dict(samples))


def between(before: ProxyReading, after: ProxyReading) -> ProxyFigures:
    """What was counted after `before` and until `after`."""
    restarted = after.sum("requests_total") < before.sum("requests_total")
    first = ProxyReading(before.at, {}) if restarted else before

    def counted(name: str, label: str) -> dict[str, int]:
        found: defaultdict[str, int] = defaultdict(int)
        for labels, value in _passed(first, after, name):
            found[labels.get(label, "")] += int(value)
        return {key: count for key, count in found.items() if count}

    by_source = _histograms(first, after, "call_seconds", ("source",))
    build = next(iter(after.samples.get("build_info", {})), ())
    return ProxyFigures(
        version=dict(build).get("version", ""),
        seconds=after.at - before.at,
        requests=int(after.sum("requests_total") - first.sum("requests_total")),
        outcomes=counted("calls_total", "outcome"),
        turned_away=sum(counted("refusals_total", "reason").values()),
        hit=together(by_source[source.label,] for source in HITS if (source.label,) in by_source),
        miss=together(by_source[source.label,] for source in MISSES if (source.label,) in by_source),
        nodes=_nodes(first, after),
        tiers=list(_tiers(first, after)),
        processes=list(_processes(first, after)),
        replaced=sum(counted("workers_replaced_total", "reason").values()),
        restarted=restarted,
    )


def _passed(before: ProxyReading, after: ProxyReading, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and growth of each sample of a counter; the whole value of one that was reset."""
    earlier = before.samples.get(name, {})
    for labels, value in after.samples.get(name, {}).items():
        first = earlier.get(labels, 0.0)
        yield dict(labels), value - first if value >= first else value


def _histograms(
    before: ProxyReading, after: ProxyReading, name: str, by: tuple[str, ...]
) -> dict[tuple[str, ...], Histogram]:
    """The growth of a histogram, added up by the values of these labels."""
    buckets: defaultdict[tuple[str, ...], defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    for labels, value in _passed(before, after, f"{name}_bucket"):
        buckets[tuple(labels.get(label, "") for label in by)][float(labels["le"])] += value
    seconds: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for labels, value in _passed(before, after, f"{name}_sum"):
        seconds[tuple(labels.get(label, "") for label in by)] += value
    return {key: Histogram(_own(bounds), seconds[key]) for key, bounds in buckets.items() if len(bounds) == BUCKETS}


def _own(running: Mapping[float, float]) -> list[int]:
    """The counts of buckets of which each includes those below it."""
    ordered = [int(running[bound]) for bound in sorted(running)]
    return [value - below for below, value in zip([0, *ordered], ordered, strict=False)]


def _nodes(before: ProxyReading, after: ProxyReading) -> list[NodeWork]:
    times = _histograms(before, after, "node_seconds", ("network", "node"))
    failed: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for labels, value in _passed(before, after, "node_failures_total"):
        if value:
            failed[labels["network"], labels["node"]][labels["kind"]] = int(value)
    calls = {(one["network"], one["node"]): int(value) for one, value in _passed(before, after, "node_calls_total")}
    several = len({network for network, _ in calls}) > 1
    return [
        NodeWork(f"{network}/{node}" if several else node, count, times.get((network, node), Histogram()),
                 failed.get((network, node), {}))
        for (network, node), count in calls.items()
    ]  # fmt: skip


def _tiers(before: ProxyReading, after: ProxyReading) -> Iterator[TierUse]:
    def growth(name: str, tier: str, label: str, value: str) -> int:
        return int(
            sum(more for labels, more in _passed(before, after, name) if _is(labels, tier=tier, **{label: value}))
        )

    for labels, entries in after.samples.get("tier_entries", {}).items():
        tier = dict(labels)["tier"]
        yield TierUse(
            tier,
            int(entries),
            int(after.samples.get("tier_bytes", {}).get(labels, 0)),
            int(after.samples.get("tier_limit_bytes", {}).get(labels, 0)),
            growth("tier_lookups_total", tier, "result", "hit"),
            growth("tier_lookups_total", tier, "result", "miss"),
            growth("tier_removed_total", tier, "reason", "evicted"),
        )


def _is(labels: Mapping[str, str], **wanted: str) -> bool:
    return all(labels.get(label) == value for label, value in wanted.items())


def _processes(before: ProxyReading, after: ProxyReading) -> Iterable[ProcessUse]:
    resident = after.samples.get("process_resident_memory_bytes", {})
    for labels, cpu in _passed(before, after, "process_cpu_seconds_total"):
        yield ProcessUse(labels["worker"], cpu, int(resident.get(tuple(sorted(labels.items())), 0)))
