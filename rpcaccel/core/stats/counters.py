"""What is counted, by method, by node and by cache tier: plain integers and fixed buckets.

The structs are both the live counters of a worker and, copied, the values in a snapshot.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import IntEnum, StrEnum

from msgspec import Struct, field

from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.histogram import BOUNDS, Histogram

OTHER = "other"
"""The label of every method without a rule, and of every reason above the limit."""

MAX_REASONS = 24
"""Distinct reasons kept for one cell; the rest are counted together."""


class AnswerSource(IntEnum):
    """Where an answer came from. The number is the index of its histogram in a cell."""

    LOCAL = 0
    MEMORY = 1
    REDIS = 2
    FLIGHT = 3
    NODE = 4
    PARTIAL = 5
    REFUSED = 6

    @property
    def label(self) -> str:
        """The word in headers, metrics and page."""
        return self.name.lower()


HITS = (AnswerSource.LOCAL, AnswerSource.MEMORY, AnswerSource.REDIS)
"""Answered without any node's help; a flight spares a node call but waits for one."""


PARSED_OF = 64
"""Requests of which one has its parsing timed, a power of 2: the clock would cost as much as what it measures."""


class Step(StrEnum):
    """A stage of the way of a call, each timed by itself."""

    PARSE = "parse"
    REDIS = "redis"
    FLIGHT = "flight"
    FORWARD = "forward"


def _histograms() -> list[Histogram]:
    return [Histogram() for _ in AnswerSource]


def bump(counts: dict[str, int], reason: str) -> None:
    """Count `reason`, or OTHER once MAX_REASONS different ones are there."""
    if reason not in counts and len(counts) >= MAX_REASONS:
        reason = OTHER
    counts[reason] = counts.get(reason, 0) + 1


class Cell(Struct):
    """Everything counted about one method of one network under one cache class."""

    network: str
    method: str
    cache: CacheClass
    latency: list[Histogram] = field(default_factory=_histograms)
    """By source; the count of a histogram is the number of calls answered so."""
    errors: int = 0
    """Calls that ended in an error towards the client, refusals not included."""
    size: int = 0
    """Bytes of result sent out."""
    misses: dict[str, int] = field(default_factory=dict)
    """Why the cache had no answer."""
    skips: dict[str, int] = field(default_factory=dict)
    """Why a fetched answer was not kept."""
    spent: dict[str, int] = field(default_factory=dict)
    """Microseconds of calls not answered at once, by Step; what is left of their latency is the proxy's own."""
    refreshed: int = 0
    """Answers fetched again when the head moved, before anybody asked."""

    def done(self, source: int, seconds: float, size: int = 0, failed: bool = False) -> None:
        """One call was answered from `source`, in seconds, with bytes of result. All that a hit bumps."""
        histogram = self.latency[source]
        histogram.counts[bisect_left(BOUNDS, seconds)] += 1
        histogram.seconds += seconds
        self.size += size
        if failed and source != AnswerSource.REFUSED:
            self.errors += 1

    def took(self, step: str, seconds: float) -> None:
        """A step on the way of a call that could not be answered at once."""
        self.spent[step] = self.spent.get(step, 0) + round(seconds * 1e6)

    def missed(self, reason: str) -> None:
        """The cache was no help with a call."""
        bump(self.misses, reason)

    def skipped(self, reason: str) -> None:
        """An answer was fetched and not kept."""
        bump(self.skips, reason)

    @property
    def calls(self) -> int:
        """All calls, refused ones included."""
        return sum(histogram.count for histogram in self.latency)

    @property
    def refused(self) -> int:
        """Calls that the proxy did not accept."""
        return self.latency[AnswerSource.REFUSED].count

    @property
    def hits(self) -> int:
        """Calls answered without any node."""
        return sum(self.latency[source].count for source in HITS)


class NodeCell(Struct):
    """Everything counted about one node, and the gauges that its connector sets when a snapshot is taken."""

    network: str
    node: str
    latency: Histogram = field(default_factory=Histogram)
    """Of answers; a failed attempt has no latency worth knowing."""
    calls: int = 0
    """Attempts sent to it, the repeated and hedged ones included."""
    retries: int = 0
    hedges: int = 0
    ejections: int = 0
    """Times it was left alone for being much slower than the others."""
    failures: dict[str, int] = field(default_factory=dict)
    """By failure kind."""
    size_in: int = 0
    dns: int = 0
    connects: int = 0
    tls: int = 0
    reused: int = 0
    batches: int = 0
    """Requests that carried several calls,"""
    gathered: int = 0
    """and the calls they carried."""
    wait_seconds: float = 0.0
    read_seconds: float = 0.0
    in_flight: int = 0
    connections_open: int = 0
    connections_idle: int = 0

    def sent(self, retry: bool = False, hedge: bool = False) -> None:
        """An attempt went to this node."""
        self.calls += 1
        self.retries += retry
        self.hedges += hedge

    def answered(self, seconds: float, size: int = 0) -> None:
        """It answered: seconds of the attempt, bytes of the body."""
        self.latency.observe(seconds)
        self.size_in += size

    def failed(self, kind: str) -> None:
        """An attempt failed; `kind` is a FailureKind."""
        bump(self.failures, str(kind))


class NetworkCell(Struct):
    """What is counted about the calls of one network as a whole."""

    network: str
    broadcasts: dict[str, int] = field(default_factory=dict)
    """Transactions handed to the nodes, by how that ended: accepted, known, refused, failed."""
    told: dict[str, int] = field(default_factory=dict)
    """Nodes that were told of one, by the same words."""
    forced: int = 0
    """Calls for which no node was fit, so that the least bad was asked."""
    busy: int = 0
    """Calls refused because every node had as many as it may have."""
    unpaid: int = 0
    """Retries that the budget forbade."""
    in_room: int = 0
    """Calls that wait for a node to have room, now."""


class Tier(Struct):
    """What a cache tier says of itself; its owner fills it in when a snapshot is taken."""

    name: str
    shared: bool = False
    """One tier for all workers (Redis): entries and bytes are the same ones, so they are not added up."""
    up: bool = True
    entries: int = 0
    bytes: int = 0
    limit: int = 0
    """Bytes; 0 when it is not this program that limits it."""
    hits: int = 0
    misses: int = 0
    stored: int = 0
    evicted: int = 0
    expired: int = 0
    purged: int = 0
    refused: int = 0
    """Answers too large to keep."""
    errors: int = 0
    timeouts: int = 0
    dropped: int = 0
    """Writes given up because the queue was full."""


class ClientCell(Struct):
    """Everything counted about one client with a name in the settings, or about all those without."""

    client: str
    calls: int = 0
    """Refused ones included."""
    limited: dict[str, int] = field(default_factory=dict)
    """Calls and requests refused, by reason."""
    in_flight: int = 0
    """Requests under way."""
    seen_at: float = 0.0
    """When the latest request came, on the host's monotonic clock; 0 when none did."""

    def refused(self, reason: str) -> None:
        """A call or a request of this client was refused."""
        bump(self.limited, reason)


class TallySnapshot(Struct):
    """A tally at one moment: independent of the counting that goes on, and encodable."""

    cells: list[Cell] = field(default_factory=list)
    nodes: list[NodeCell] = field(default_factory=list)
    steps: dict[str, Histogram] = field(default_factory=dict)
    networks: list[NetworkCell] = field(default_factory=list)
    tiers: list[Tier] = field(default_factory=list)
    clients: list[ClientCell] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    batches: int = 0
    bytes_in: int = 0
    in_flight: int = 0
    connections: int = 0
    limits_alone: int = 0
    """Times that a worker could not learn what clients spent elsewhere, and held them to their limits alone."""
