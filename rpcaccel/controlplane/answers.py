"""What is told of the moment, as types: `documents` is checked against them, and OpenAPI is made of them.

What is not known is None, never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from rpcaccel.controlplane.figures import (
    At,
    Looked,
    MethodFigures,
    NodeFigures,
    PerSecond,
    Readings,
    Seconds,
    Share,
)
from rpcaccel.controlplane.past import Columns
from rpcaccel.controlplane.view import NodeState

Iso = Annotated[str, Meta(description="ISO 8601, in UTC.")]
Bytes = Annotated[int, Meta(description="Bytes.")]


class NetworkNow(TypedDict):
    """One network: its served head, and how many of its nodes take calls."""

    network: str
    chain: str
    shard: int
    balancer: str
    head: int | None
    age: Annotated[float | None, Meta(description="Seconds since the head moved.")]
    block_time: Annotated[float, Meta(description="Seconds that a block of this chain takes, normally.")]
    nodes: int
    eligible: int
    state: Literal["ok", "part", "down"]
    note: Annotated[str, Meta(description="A sentence when something is unusual.")]


class Moment(TypedDict):
    """What the event stream tells each second as well."""

    networks: list[NetworkNow]
    readings: Readings | None
    in_flight: int
    connections: Annotated[int, Meta(description="Of clients.")]


class Attention(TypedDict):
    """Something to look at, in a sentence."""

    level: Literal["bad", "warn"]
    subject: Annotated[str, Meta(description="A network, NETWORK/NODE, a tier, or what else it is about.")]
    text: str


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
    """What the first view of the page shows."""

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
    """What is used of a quota, all workers together."""

    window: Literal["day", "month"]
    used: float
    limit: float
    since: Annotated[str, Meta(description="ISO 8601: when counting began.")]
    renews: Iso
    runs_out: Annotated[str | None, Meta(description="ISO 8601: when it is used up at this pace; null: it will last.")]


class NodeStanding(TypedDict):
    """How a node is, and what it should carry."""

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
    eligible: bool
    state: NodeState
    why: Annotated[str, Meta(description="A sentence: why it is in this state, and what would end it.")]
    since: Annotated[float | None, Meta(description="Seconds it has been in this state.")]
    head: int | None
    head_age: Annotated[float | None, Meta(description="Seconds since its head moved.")]
    lag: Annotated[int | None, Meta(description="Blocks behind the served head.")]
    tier: int
    limit: Annotated[int, Meta(description="Calls it may have at once, all workers together; 0 when not known.")]
    quota: list[QuotaNow]


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
    entries: int
    bytes: Bytes
    limit: Annotated[int, Meta(description="Bytes; 0 when it is not this program that limits it.")]
    hits: int
    misses: int
    hit_ratio: Share | None
    stored: int
    evicted: int
    expired: int
    purged: int
    refused: Annotated[int, Meta(description="Answers too large to keep.")]
    errors: int
    timeouts: int
    dropped: Annotated[int, Meta(description="Writes given up because too many waited.")]


_Class = TypedDict("_Class", {"class": str})


class ClassNow(MethodFigures, _Class):
    """A cache class."""


class Cache(TypedDict):
    """The tiers since the start, and the last minute by cache class."""

    minute: Looked
    tiers: list[TierNow]
    warnings: list[str]
    classes: list[ClassNow]
