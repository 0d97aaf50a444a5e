"""The types of what the admin API is sent and answers. `documents` is checked against them; OpenAPI is made of them.

What is not known is None, never 0. Tests hold the answers of a running program against these types.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta, Struct

from rpcaccel.controlplane.alerts.mutes import Mute
from rpcaccel.controlplane.stats.proof_document import ProofNow
from rpcaccel.controlplane.stats.series import ClientPast, Columns
from rpcaccel.controlplane.stats.snapshot import NodeState
from rpcaccel.controlplane.stats.summaries import (
    At,
    Looked,
    MethodFigures,
    NodeFigures,
    PerSecond,
    Quantiles,
    Readings,
    Seconds,
    Share,
    SubscriptionFigures,
)
from rpcaccel.core.explanation import Explanation

Iso = Annotated[str, Meta(description="ISO 8601, in UTC.")]


class NetworkNow(TypedDict):
    """One network: its served head, and how many of its nodes take calls."""

    network: str
    chain: str
    shard: Annotated[int | None, Meta(description="null where the chain has no shards.")]
    balancer: str
    head: int | None
    age: Annotated[float | None, Meta(description="Seconds since the head moved.")]
    block_time: Annotated[
        float | None,
        Meta(description="Seconds that a block takes: by the settings, else as measured; null until some have come."),
    ]
    nodes: int
    eligible: int
    failing: Annotated[int, Meta(description="Nodes in the state failing, some of which may still take calls.")]
    state: Annotated[
        Literal["ok", "part", "down"],
        Meta(description="ok: all nodes take calls and none is failing; down: no node takes any."),
    ]
    note: Annotated[str, Meta(description="A sentence when something is unusual.")]


class Moment(TypedDict):
    """The part of the overview that the event stream sends each second."""

    networks: list[NetworkNow]
    readings: Readings | None
    by_network: Annotated[dict[str, Readings], Meta(description="Of each network, where there are several.")]
    in_flight: int
    connections: Annotated[int, Meta(description="Of clients.")]
    websockets: Annotated[int, Meta(description="Connections of clients that are WebSockets.")]
    subscriptions: Annotated[
        list[SubscriptionFigures], Meta(description="Of each network that somebody subscribes to, or did.")
    ]


class Attention(TypedDict):
    """A sentence about something that should be looked at."""

    level: Literal["bad", "warn"]
    subject: Annotated[str, Meta(description="A network, NETWORK/NODE, a tier, or what else it is about.")]
    text: str
    id: Annotated[str, Meta(description="Of the alert that it becomes; the same while the numbers change.")]
    muted: Annotated[Mute | None, Meta(description="The mute that keeps it from webhooks; null: they are told.")]


class WorkerNow(TypedDict):
    """A worker, and the settings it runs."""

    id: str
    revision: int
    uptime: Seconds


class Saved(TypedDict):
    """Spared by the cache since the start."""

    node_calls: int
    seconds: Annotated[float, Meta(description="That callers would have waited longer.")]


class StepNow(TypedDict):
    """A stage of calls in the last minute."""

    step: str
    count: int
    seconds: Annotated[float, Meta(description="Spent in it, together.")]
    p50: Seconds | None
    p99: Seconds | None


class Overview(Moment):
    """The document of the first view of the page."""

    version: str
    at: At
    revision: int
    workers: list[WorkerNow]
    history: Columns
    saved: Saved
    attention: list[Attention]
    settings: Annotated[dict[str, str | int | float | bool], Meta(description="Some of them, by dotted path.")]
    balancers: Annotated[list[str], Meta(description="Those there are to choose from.")]
    steps: list[StepNow]


class QuotaNow(TypedDict):
    """The use of a quota by all workers together."""

    window: Literal["day", "month"]
    used: float
    limit: float
    since: Annotated[str, Meta(description="ISO 8601: when counting began.")]
    renews: Iso
    runs_out: Annotated[str | None, Meta(description="ISO 8601: when it is used up at this pace; null: it will last.")]


class ProofBegun(TypedDict):
    """A node whose proof begins; the event `proof` tells when it has ended."""

    network: str
    id: str
    proving: Annotated[bool, Meta(description="Does it get no calls until then?")]
    proof: Annotated[ProofNow | None, Meta(description="The last proof before this one.")]


class NodeStanding(TypedDict):
    """The state of a node, and the share of calls that it should get."""

    network: str
    id: str
    address: Annotated[str, Meta(description="Host and port alone.")]
    roles: Annotated[list[str], Meta(description="What the operator says it has.")]
    says: Annotated[
        dict[str, bool],
        Meta(description="Which roles it has by its own word, as far as it speaks of them; `roles` come before that."),
    ]
    weight: int
    share_wanted: Annotated[float | None, Meta(description="Of the calls of its network, as the weights ask for.")]
    share_aim: Annotated[
        str, Meta(description="What the balancer aims at instead of that share; empty where it aims at that.")
    ]
    eligible: bool
    state: NodeState
    why: Annotated[str, Meta(description="A sentence: why it is in this state, and what would end it.")]
    since: Annotated[float | None, Meta(description="Seconds it has been in this state.")]
    head: int | None
    head_age: Annotated[float | None, Meta(description="Seconds since its head moved.")]
    lag: Annotated[int | None, Meta(description="Blocks behind the served head now; a new block takes a moment.")]
    pushes: Annotated[bool, Meta(description="Whether it tells new heads over a WebSocket; else it is asked for them.")]
    tier: int
    limit: Annotated[int, Meta(description="Calls it may have at once, all workers together; 0 when not known.")]
    quota: list[QuotaNow]
    suspect: Annotated[bool, Meta(description="Do other nodes contradict it more often than by chance?")]
    proof: Annotated[ProofNow | None, Meta(description="The last proof; null before the first has ended.")]


class NodeNow(NodeStanding, NodeFigures):
    """A node."""

    calls_per_second: PerSecond | None
    share_got: Annotated[float | None, Meta(description="Of the calls of its network, in the last 10 s.")]


class Nodes(TypedDict):
    """Every node, in the order of the settings."""

    window: Looked
    minute: Looked
    nodes: list[NodeNow]


class MethodNow(MethodFigures):
    """A method of a network."""

    network: str
    method: str
    classes: Annotated[list[str], Meta(description="Cache classes it was called under.")]
    calls_total: Annotated[int, Meta(description="Since the start.")]
    share: Annotated[float | None, Meta(description="Of all calls in the last minute.")]


class Methods(TypedDict):
    """Every method called since the start."""

    minute: Looked
    methods: list[MethodNow]


class TierNow(TypedDict):
    """A cache tier since the start."""

    name: str
    shared: Annotated[bool, Meta(description="One tier for all workers.")]
    up: bool
    fault: Annotated[
        str, Meta(description="Why it, or a part of it, is not used, or its trouble; empty while all is well.")
    ]
    entries: Annotated[int, Meta(description="0 of Redis, which does not say it.")]
    bytes: Annotated[int, Meta(description="Bytes; 0 of Redis, which does not say it.")]
    limit: Annotated[int, Meta(description="Bytes; 0 when it is not this program that limits it.")]
    hits: int
    misses: int
    hit_ratio: Annotated[Share | None, Meta(description="Of the lookups that were answered in time.")]
    late_ratio: Annotated[
        Share | None, Meta(description="Of all lookups, those without an answer in time: their calls went to nodes.")
    ]
    reads: Annotated[
        Quantiles | None,
        Meta(description="Times of its lookups since the start; null of memory, which is not timed, and before one."),
    ]
    stored: int
    evicted: Annotated[int | None, Meta(description="null where only Redis knows.")]
    expired: Annotated[int | None, Meta(description="null where only Redis knows, and on the disk, where none do.")]
    purged: int
    refused: Annotated[int, Meta(description="Answers too large to keep.")]
    errors: int
    timeouts: Annotated[int, Meta(description="Operations that took too long; on the disk, reads that came late.")]
    dropped: Annotated[int, Meta(description="Writes given up because too many waited, or the tier was away.")]


_Class = TypedDict("_Class", {"class": str})


class ClassNow(MethodFigures, _Class):
    """A cache class."""


class Cache(TypedDict):
    """The tiers since the start, and the last minute by cache class."""

    minute: Looked
    tiers: list[TierNow]
    warnings: list[str]
    classes: list[ClassNow]


class ClientNow(TypedDict):
    """A holder of keys, or `anonymous`: all who call without one."""

    name: str
    hit_ratio: Annotated[float | None, Meta(description="Since the start, 0 to 1.")]
    errors_total: Annotated[int, Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors_total: Annotated[int, Meta(description="Errors by the client's own doing.")]
    calls_total: int
    calls_per_second: PerSecond | None
    limited_total: int
    limited_per_second: PerSecond | None
    limited: Annotated[dict[str, int], Meta(description="Refused since the start, by limit.")]
    in_flight: int
    seen: Annotated[float | None, Meta(description="Seconds since it last called; null: never.")]
    enabled: bool
    limits: Annotated[dict[str, Any] | None, Meta(description="As in the settings; null when it is not there.")]


class Clients(TypedDict):
    """The callers, with what they call and what is refused to them."""

    window: Looked
    require_key: bool
    clients: list[ClientNow]


class ClientMethod(TypedDict):
    """A method that a client called since the start; "other" is every method without a rule, and beyond 64."""

    method: str
    calls: Annotated[int, Meta(description="Refused ones included.")]
    hits: int
    errors: Annotated[int, Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors: Annotated[int, Meta(description="Errors by the client's own doing.")]


class ClientDocument(ClientPast):
    """A client, and its last hour or day."""

    client: ClientNow
    methods: list[ClientMethod]


class WorkerList(TypedDict):
    """The workers that run."""

    workers: list[WorkerStanding]
    replaced: Annotated[int, Meta(description="Those that died or hung and were replaced since the start.")]


class WorkerStanding(TypedDict):
    """A worker process."""

    id: str
    pid: int
    revision: Annotated[int, Meta(description="Of the settings it runs.")]
    uptime: Annotated[float | None, Meta(description="Seconds; null before it has reported.")]
    longest_turn: Annotated[
        float | None, Meta(description="Seconds of the longest turn of its event loop in the last minute, or null.")
    ]
    state: Literal["starting", "serving", "draining"]


class ProbeOutcome(TypedDict):
    """A node as it was just found."""

    network: str
    id: str
    head: int | None
    chain_ok: Annotated[bool | None, Meta(description="Does it serve the right chain? null: it did not say.")]
    answering: bool
    latency: Annotated[float | None, Meta(description="Seconds.")]
    note: Annotated[str, Meta(description="A sentence when something is wrong.")]


class NodeTrialRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A node that is to be tried before it is added."""

    network: Annotated[str, Meta(description="The network it would be part of.")]
    url: Annotated[str, Meta(description="Its address, as in the settings.")]
    headers: Annotated[dict[str, str], Meta(description="Sent to it, as in the settings.")] = {}


class Problem(TypedDict):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    code: NotRequired[str]
    detail: NotRequired[str]
    errors: NotRequired[list[dict[str, Any]]]


class NewKey(TypedDict):
    """An API key, told this once."""

    key: str
    hash: Annotated[str, Meta(description="What the settings hold of it.")]


class Session(TypedDict):
    """The account that is logged in."""

    required: Annotated[bool, Meta(description="Has one to be?")]
    user: str | None
    role: Literal["admin", "read"] | None


class Purged(TypedDict):
    """The number of kept answers that were removed, or would be."""

    memory: Annotated[int, Meta(description="From the memory of all workers of this host.")]
    disk: Annotated[int, Meta(description="From the disk of this host.")]
    store: Annotated[int, Meta(description="From Redis.")]
    complete: Annotated[bool, Meta(description="Was everything looked through? The disk or Redis may have been away.")]
    dry_run: bool
    workers: int


class RecordedCall(TypedDict):
    """A call that a client made, without anything about the client."""

    at: Annotated[float, Meta(description="When it came, in the monotonic seconds of that machine.")]
    network: str
    method: str
    params: Annotated[str, Meta(description="JSON, as sent.")]
    head: Annotated[int, Meta(description="The served head it was answered at.")]
    block: Annotated[int | None, Meta(description="The block it was about.")]
    first: Annotated[int | None, Meta(description="The first block, of a range.")]
    source: Annotated[str, Meta(description="Where the answer came from.")]
    seconds: float
    hashed: Annotated[bool, Meta(description="Do the params stand for a transaction, as its hash?")]


class RecordedCalls(TypedDict):
    """The calls of all workers since the last time, oldest first."""

    calls: list[RecordedCall]
    missed: Annotated[int, Meta(description="Those that found no room.")]
    workers: int


class Ran(TypedDict):
    """The answer to a call that was sent through the proxy's own front."""

    status: int
    headers: Annotated[dict[str, str], Meta(description="The telling ones, in lower case.")]
    seconds: float
    size: Annotated[int, Meta(description="Bytes of the body.")]
    body: Annotated[str, Meta(description="Its beginning, as text.")]


class Treatment(TypedDict):
    """The treatment of an error."""

    kind: str
    why: str
    by: Annotated[
        Literal["tried", "settings", "chain", "nobody"],
        Meta(description="Whose rule says so: the one tried, the settings', the chain's, nobody's."),
    ]
    folded: Annotated[str, Meta(description="The message as it is compared with others.")]
    retry: str
    breaker: str
    client: str
    client_code: int


class ExplainedCall(Explanation, frozen=True, kw_only=True):
    """One call, as the workers would treat it now."""

    workers: tuple[str, ...]
    """The workers that were asked."""
