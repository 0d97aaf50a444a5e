"""The counters by method, node, network, cache tier and client: plain integers and fixed buckets.

The structs are the live counters of a worker and, copied, the values in a snapshot.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.histogram import BOUNDS, Histogram

OTHER = "other"
"""The label of every method without a rule, and of every reason beyond MAX_REASONS."""

MAX_METHODS = 64
"""Distinct methods that are counted of one client, and those whose latency is kept of one node; further ones are
counted as OTHER. A method of a node takes some 80 bytes of a worker's report, so a node takes 5 kB at the most."""

MAX_REASONS = 24
"""Distinct reasons that are counted in one cell; further ones are counted as OTHER."""


SHARED_TIER = "redis"
"""The name of the tier that hosts share, in headers, in metrics and on the page: there is no other store than Redis."""


class AnswerSource(IntEnum):
    """Where an answer came from. The value is the index of the histogram in a cell."""

    LOCAL = 0
    MEMORY = 1
    DISK = 2
    SHARED = 3
    FLIGHT = 4
    NODE = 5
    PARTIAL = 6
    REFUSED = 7
    LIVE = 8
    """Subscribes and unsubscribes: no cache or node could have answered them, so they are neither hits nor misses."""

    @property
    def label(self) -> str:
        """The name in headers, in metrics and on the page."""
        return SHARED_TIER if self is AnswerSource.SHARED else self.name.lower()


HITS = (AnswerSource.LOCAL, AnswerSource.MEMORY, AnswerSource.DISK, AnswerSource.SHARED)
"""Sources that need no node. A flight saves a call to a node but waits for one, so it is no hit."""


PARSED_OF = 64
"""One in this many requests has its parsing timed, since the clock costs as much as the parsing. A power of 2."""


class Step(StrEnum):
    """A step on the way of a call that is timed by itself."""

    PARSE = "parse"
    DISK = "disk"
    SHARED = SHARED_TIER
    FLIGHT = "flight"
    FORWARD = "forward"


def _histograms() -> list[Histogram]:
    return [Histogram() for _ in AnswerSource]


def bump(counts: dict[str, int], reason: str) -> None:
    """Count `reason`, or OTHER once there are MAX_REASONS distinct reasons."""
    if reason not in counts and len(counts) >= MAX_REASONS:
        reason = OTHER
    counts[reason] = counts.get(reason, 0) + 1


class Cell(Struct):
    """The counters of one method of one network under one cache class."""

    network: str
    method: str
    cache: CacheClass
    latency: list[Histogram] = field(default_factory=_histograms)
    """Latency by AnswerSource; the count of a histogram is the number of calls answered from that source."""
    errors: int = 0
    """Calls that the proxy or its nodes failed at."""
    client_errors: int = 0
    """Calls that the client got an error for by its own doing: invalid params, reverts, invented methods. Refusals are
    not among them."""
    size: int = 0
    """Bytes of results sent to clients."""
    misses: dict[str, int] = field(default_factory=dict)
    """Misses by the reason why the cache had no answer, of a fixed set; who fetches adds to them."""
    skips: dict[str, int] = field(default_factory=dict)
    """Fetched answers that were not kept, by reason."""
    spent: dict[str, int] = field(default_factory=dict)
    """Microseconds by Step, of calls not answered at once; the rest of their latency is the proxy's own work."""
    refreshed: int = 0
    """Answers that were refreshed when the head moved, before a client asked."""
    proofs: dict[str, int] = field(default_factory=dict)
    """Answers of nodes that were judged by arithmetic, by `Standing` (core.proof.received_answer) in lower case."""
    proof_seconds: float = 0.0
    """Seconds of the event loop that judging them took."""

    def done(
        self,
        source: int,
        seconds: float,
        size: int = 0,
        failed: bool = False,
        by_client: bool = False,
        steps: Sequence[tuple[str, float]] = (),
    ) -> None:
        """Count one answered call.

        Args:
            seconds: the latency of the call.
            size: bytes of its result.
            failed: the client got an error.
            by_client: the error is the client's own doing.
            steps: names and seconds of the steps of a call that was not answered at once.
        """
        histogram = self.latency[source]
        histogram.counts[bisect_left(BOUNDS, seconds)] += 1
        histogram.seconds += seconds
        self.size += size
        if failed and source != AnswerSource.REFUSED:
            self.errors += not by_client
            self.client_errors += by_client
        for step, taken in steps:
            self.spent[step] = self.spent.get(step, 0) + round(taken * 1e6)

    def judged(self, standing: str) -> None:
        """Count an answer of a node that was judged by arithmetic."""
        bump(self.proofs, standing)

    def skipped(self, reason: str) -> None:
        """Count a fetched answer that was not kept."""
        bump(self.skips, reason)

    @property
    def calls(self) -> int:
        """All calls, including refused ones."""
        return sum(histogram.count for histogram in self.latency)

    @property
    def refused(self) -> int:
        """Calls that the proxy refused."""
        return self.latency[AnswerSource.REFUSED].count

    @property
    def hits(self) -> int:
        """Calls answered without a node."""
        return sum(self.latency[source].count for source in HITS)


class CutReason(StrEnum):
    """Why the proxy closed a connection with subscriptions."""

    SLOW = "slow"
    """Its client did not read."""
    LATE = "late"
    """No node gave what was to be sent."""
    RESTARTED = "restarted"
    """What it followed is there no longer: the branch, the chain, or the network."""
    DRAINED = "drained"
    """The worker ends."""


class NodeCell(Struct):
    """The counters of one node, which attempts and the client of the node add to."""

    network: str
    node: str
    latency: Histogram = field(default_factory=Histogram)
    """Latency of answered attempts."""
    by_method: dict[str, Histogram] = field(default_factory=dict)
    """Latency of good answers by method, for methods with a rule."""
    calls: int = 0
    """Attempts sent to the node, including retries and hedges."""
    credits: float = 0.0
    """Units that calls cost, by the costs of the node's quota."""
    credited: int = 0
    """Calls that `credits` counts: none of a node without costs."""
    retries: int = 0
    hedges: int = 0
    ejections: int = 0
    """Times that the node was ejected as much slower than the others."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed attempts by failure kind."""
    size_in: int = 0
    """Bytes of results."""
    dns: int = 0
    """Lookups of the node's name."""
    connects: int = 0
    """Connections that were opened."""
    tls: int = 0
    """Connections among them that took a TLS handshake."""
    reused: int = 0
    """Requests that found an open connection."""
    batches: int = 0
    """Requests that carried several calls."""
    gathered: int = 0
    """Calls that travelled in those requests."""
    compared: int = 0
    """Answers that were compared with another node's."""
    minority: int = 0
    """Comparisons in which the node was the one that two others contradicted."""
    undecided: int = 0
    """Comparisons that no third node could decide."""
    contradicted: dict[str, int] = field(default_factory=dict)
    """By method with a rule: errors that no table names, to calls that another node answered."""
    false_hashes: int = 0
    """Answers whose logs named a block hash that the block does not have."""
    disproved: int = 0
    """Answers that contradicted the call, or the hash of their block."""
    wait_seconds: float = 0.0
    """Seconds from requests to the heads of their replies."""
    read_seconds: float = 0.0
    """Seconds from the heads of replies to their ends."""
    in_flight: int = 0
    """Calls under way (gauge)."""
    connections_open: int = 0
    """Open connections (gauge)."""
    connections_idle: int = 0
    """Open connections that no request holds (gauge)."""

    def answered(self, seconds: float, size: int = 0, count: int = 1, methods: Iterable[str] = ()) -> None:
        """Count the answers in one reply: seconds from the request to the reply, bytes of all results.

        `methods`: that of each good answer, by its rule; empty for a method without one.
        """
        latency, bucket = self.latency, bisect_left(BOUNDS, seconds)
        latency.counts[bucket] += count
        latency.seconds += seconds * count
        self.size_in += size
        for method in methods:
            if method:
                latency = self.by_method.get(method) or self._open(method)
                latency.counts[bucket] += 1
                latency.seconds += seconds

    def _open(self, method: str) -> Histogram:
        return self.by_method.setdefault(method if len(self.by_method) < MAX_METHODS else OTHER, Histogram())

    def failed(self, kind: str) -> None:
        """Count a failed attempt; `kind` is a FailureKind."""
        bump(self.failures, str(kind))

    def contradict(self, method: str) -> None:
        """Count an error that the answer of another node contradicts."""
        bump(self.contradicted, method)


class NetworkCell(Struct):
    """The counters of one network as a whole."""

    network: str
    broadcasts: dict[str, int] = field(default_factory=dict)
    """Transactions that were sent, by outcome: accepted, known, refused, failed; and "fallback": those that were sent
    again, to all nodes."""
    told: dict[str, int] = field(default_factory=dict)
    """Nodes that were sent a broadcast transaction, by the same outcomes."""
    forced: int = 0
    """Calls for which no node was eligible, so that the least bad one was asked."""
    busy: int = 0
    """Calls refused because every node had as many calls in flight as it may have."""
    unpaid: int = 0
    """Retries that the retry budget forbade."""
    failed: dict[str, int] = field(default_factory=dict)
    """Calls that the proxy or its nodes failed at, by JSON-RPC code."""
    in_room: int = 0
    """Calls that are waiting for a node with room now (gauge)."""
    subscriptions: dict[str, int] = field(default_factory=dict)
    """Subscriptions of clients now, by kind (gauge)."""
    topics: int = 0
    """Different topics that are subscribed to now: kinds, and canonical filters of logs (gauge)."""
    delivered: dict[str, int] = field(default_factory=dict)
    """Notifications that were sent to clients, by kind of subscription."""
    lateness: Histogram = field(default_factory=Histogram)
    """Seconds from the moment at which a block became the served head until it was sent to a client, for each
    notification of a block."""
    filled: int = 0
    """Blocks below a new head that were fetched because nobody had told of them."""
    abandoned: int = 0
    """Blocks that were sent and then left by a reorganisation."""
    resumed: int = 0
    """Subscriptions that began at an older block."""
    replayed: int = 0
    """Blocks of which a resumed subscription was sent what it had missed."""
    cut: dict[str, int] = field(default_factory=dict)
    """Connections with subscriptions that were closed by the proxy, by CutReason."""

    def was_cut(self, reason: CutReason) -> None:
        """Count a connection with subscriptions that the proxy closed."""
        bump(self.cut, str(reason))


class TierFigures(Struct):
    """The figures of a cache tier that every tier has; its owner sets them when a snapshot is taken."""

    name: str
    shared: Annotated[
        bool, Meta(description="One tier for all workers (the disk, Redis): its entries and bytes are not added up.")
    ] = False
    up: bool = True
    fault: Annotated[
        str, Meta(description="Why it, or a part of it, is not used, or its trouble; empty while all is well.")
    ] = ""
    entries: Annotated[int, Meta(description="0 of Redis, which does not say it.")] = 0
    bytes: Annotated[int, Meta(description="Bytes; 0 of Redis, which does not say it.")] = 0
    limit: Annotated[int, Meta(description="Bytes; 0 when it is not this program that limits it.")] = 0
    hits: int = 0
    misses: int = 0
    stored: int = 0
    purged: int = 0
    refused: Annotated[int, Meta(description="Answers too large to keep.")] = 0
    errors: int = 0
    timeouts: Annotated[int, Meta(description="Operations that took too long; on the disk, reads that came late.")] = 0
    dropped: Annotated[int, Meta(description="Writes given up because too many waited, or the tier was away.")] = 0


class Tier(TierFigures):
    """The figures of a cache tier."""

    evicted: int = 0
    expired: int = 0


REMOVES = {"memory": ("evicted", "expired"), "disk": ("evicted",), SHARED_TIER: ()}
"""Why a tier removes entries by itself, as far as it is known here, by tier, in the order in which a call asks them.
Nothing expires on the disk; Redis does not say what of that was ours."""


class ClientCell(Struct):
    """The counters of one client named in the settings, or of all clients without a name."""

    client: str
    calls: int = 0
    """All calls, including refused ones."""
    limited: dict[str, int] = field(default_factory=dict)
    """Refused calls and requests by reason."""
    in_flight: int = 0
    """Requests under way now (gauge)."""
    seen_at: float = 0.0
    """Time of the latest request on the host's monotonic clock; 0 when there was none."""
    errors: int = 0
    """Calls that the proxy or its nodes failed at."""
    client_errors: int = 0
    """Calls that got an error by the client's own doing. Refusals are not among them."""
    hit: Histogram = field(default_factory=Histogram)
    """Latency of calls answered without a node."""
    miss: Histogram = field(default_factory=Histogram)
    """Latency of calls that waited for a node."""
    method_calls: dict[str, int] = field(default_factory=dict)
    """Calls by method, refused ones included."""
    method_hits: dict[str, int] = field(default_factory=dict)
    """Calls answered without a node, by method."""
    method_errors: dict[str, int] = field(default_factory=dict)
    """Calls that the proxy or its nodes failed at, by method."""
    method_client_errors: dict[str, int] = field(default_factory=dict)
    """Calls that got an error by the client's own doing, by method."""

    def answered(self, method: str, source: int, seconds: float, fault: str = "") -> None:
        """Count an answered call of this client.

        Args:
            method: the name under which the method is counted (a rule's, or OTHER).
            seconds: the latency of the call.
            fault: "service" when the proxy or its nodes failed at the call, "client" when the error is the client's own
                doing; empty without an error.
        """
        if method not in self.method_calls and len(self.method_calls) >= MAX_METHODS:
            method = OTHER
        self.method_calls[method] = self.method_calls.get(method, 0) + 1
        if source == AnswerSource.REFUSED:
            return
        if source in HITS:
            self.method_hits[method] = self.method_hits.get(method, 0) + 1
        if source != AnswerSource.LIVE:
            latency = self.hit if source in HITS else self.miss
            latency.counts[bisect_left(BOUNDS, seconds)] += 1
            latency.seconds += seconds
        if fault == "service":
            self.errors += 1
            self.method_errors[method] = self.method_errors.get(method, 0) + 1
        elif fault:
            self.client_errors += 1
            self.method_client_errors[method] = self.method_client_errors.get(method, 0) + 1

    def refused(self, reason: str) -> None:
        """Count a refused call or request of this client."""
        bump(self.limited, reason)


class TallySnapshot(Struct):
    """The values of a tally at one moment, which can be encoded."""

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
    websockets: int = 0
    """Connections that are WebSockets; they count among `connections` as well."""
    limits_alone: int = 0
    """Times that a worker could not learn what clients spent elsewhere, and applied their limits by itself."""
