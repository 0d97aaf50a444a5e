"""The settings: every key with its default, its unit and its bounds. They are frozen; a change makes a new value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rpcaccel.config.alert_settings import AlertsSettings
from rpcaccel.config.resilience import ErrorRuleSettings, ResilientNetwork, ResilientNode, ResilientProgram
from rpcaccel.config.secrets import HeaderText, NodeSocketUrl, NodeUrl, PasswordHash, RedisUrl
from rpcaccel.config.sections import (
    MIB,
    ClientsSettings,
    ErrorsSettings,
    HttpSettings,
    LogSettings,
    Section,
    TracingSettings,
)
from rpcaccel.config.value_types import (
    NAME,
    NODE_ID,
    BalancerName,
    ChainName,
    Duration,
    HeaderName,
    HostNames,
    ListenText,
    MethodPattern,
    Number,
    RedisUrls,
    Roles,
    Size,
    Whole,
    WorkerCount,
    default_id,
    named_nodes,
    parse_node,
)

MOST_NODES, MOST_NETWORKS, MOST_NODES_IN_ALL = 500, 100, 1000
"""Nodes of one network, networks, and nodes of all networks. A change of so many is in force within a second."""


class AccountSettings(Section):
    """An account of the admin side."""

    password: PasswordHash = Field(
        description="The hash that `rpcaccel passwd` prints. It is never shown.",
        examples=[f"scrypt:15:8:1:{'A' * 22}:{'A' * 43}"],  # no password has it
    )
    role: Literal["admin", "read"] = Field(
        default="read", description='"admin" may change everything, "read" may only look.'
    )


class AdminSettings(Section):
    """The admin side: page, API and /metrics."""

    listen: ListenText = Field(
        default="127.0.0.1:8889",
        description="HOST:PORT of the admin side; port 0 takes a free one. An address that other machines "
        "reach needs an account.",
    )
    names: HostNames = Field(
        default=(),
        description="Further names of the admin side, such as that of a reverse proxy before it.",
        examples=[["rpcaccel.example.com"]],
    )
    accounts: dict[Annotated[str, Field(pattern=NAME)], AccountSettings] = Field(
        default={}, description="Who may log in. Without accounts, everyone on this machine may do everything."
    )
    session: Duration = Field(default=43_200.0, gt=0, le=2_592_000, description="A login lasts this long.")
    tls_cert: str = Field(
        default="",
        description="The PEM file of the certificate. With it, the admin side speaks TLS.",
        examples=["/etc/rpcaccel/admin.pem"],
    )
    tls_key: str = Field(
        default="",
        description="The PEM file of its key.",
        examples=["/etc/rpcaccel/admin.key"],
    )
    currency: str = Field(
        default="USD",
        pattern=r"^[A-Z]{3}$",
        description="The currency of networks.*.price (ISO 4217).",
    )


class MemorySettings(Section):
    """The first cache tier, in each worker's memory."""

    size: Size = Field(
        default=256_000_000,
        description="Bytes of the tier, with keys, overheads and what is remembered of calls. 0: there is no "
        "such tier.",
    )
    max_entry: Size = Field(
        default=8_000_000,
        description="An answer with more bytes is passed on and not kept. At most memory.size.",
    )


class DiskSettings(Section):
    """The cache tier on this host's disk, shared by its workers: answers that are final, which outlive a restart."""

    path: str = Field(
        default="",
        max_length=4096,
        description="The folder of the tier's files, made where it is missing, best as a whole path. If "
        "empty, there is no such tier.",
        examples=["/var/cache/rpcaccel"],
    )
    size: Size = Field(
        default=10_000_000_000,
        ge=64 * MIB,
        description="Bytes of all files of the tier, with what the engine wastes.",
    )
    read_timeout: Duration = Field(default=0.05, gt=0, le=10, description="A read that takes longer counts as a miss.")
    queue: Size = Field(
        default=32 * MIB,
        ge=1 * MIB,
        description="Bytes of answers that may wait to be written, for each worker. Further ones are dropped "
        "and counted.",
    )


class RedisSettings(Section):
    """The last cache tier, shared by workers and hosts."""

    url: RedisUrl = Field(
        default=RedisUrl(""),
        description="redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://. If empty, there is "
        "no such tier.",
        examples=["redis://:${REDIS_PASSWORD:-}@127.0.0.1:6379/0"],
    )
    replicas: RedisUrls = Field(
        default=(),
        description="Addresses that are read in turn; the primary when none of them answers.",
        examples=[["redis://10.0.0.6:6379"]],
    )
    prefix: str = Field(
        default="rpcaccel", pattern=r"^[A-Za-z0-9_.:-]{1,64}$", description="Every key in Redis begins with this text."
    )
    read_timeout: Duration = Field(default=0.03, gt=0, le=10, description="A read that takes longer counts as a miss.")
    write_timeout: Duration = Field(
        default=0.5, gt=0, le=60, description="A write in the background may take this long."
    )
    connect_timeout: Duration = Field(default=0.5, gt=0, le=60, description="Connecting may take this long.")
    pool_size: Whole = Field(default=16, ge=1, le=1024, description="Connections of each worker to each server.")
    queue: Whole = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Writes that may wait. Further ones are dropped and counted.",
    )
    compress_from: Size = Field(default=1024, description="Values of this many bytes or more are compressed with zstd.")
    single_flight: Literal["auto", "always", "heavy"] = Field(
        default="auto",
        description='"heavy": one process fetches heavy methods for all; "always": every read; "auto": heavy '
        "ones and, where nodes are slow or paid, light ones.",
    )


class NodeSettings(ResilientNode):
    """One endpoint of a network."""

    id: str = Field(
        default="",
        pattern=NODE_ID,
        description="The name of the node, whatever its URL. If empty, host and port of the URL.",
        examples=["own"],
    )
    url: NodeUrl = Field(
        description="The http:// or https:// address. User info and keys in it are never shown.",
        examples=["https://harmony.example/${HARMONY_KEY:-no-key}"],
    )
    ws: NodeSocketUrl = Field(
        default=NodeSocketUrl(""),
        description="The node pushes new heads at this ws:// or wss:// address. If empty, websockets of the "
        "network decides.",
        examples=["wss://harmony.example/ws"],
    )
    weight: Whole = Field(
        default=1,
        ge=0,
        le=1000,
        description="The node's share of the calls, in relation to the other weights. 0 gives it none.",
    )
    headers: dict[HeaderName, HeaderText] = Field(
        default={},
        description="Headers for the node. Their values are never shown.",
        examples=[{"Authorization": "Bearer ${HARMONY_TOKEN:-no-token}"}],
    )
    roles: Roles = Field(
        default=frozenset(),
        description="What the node has beyond a plain one. If empty, what it says of itself counts.",
        examples=[["archive", "explorer"]],
    )
    max_connections: Whole = Field(
        default=512,
        ge=1,
        le=65_535,
        description="Connections to the node, for each worker. Of two or more, one is for light reads.",
    )
    keepalive: Duration = Field(
        default=10.0, le=3600, description="An idle connection to the node is kept for this long."
    )
    connect_timeout: Duration = Field(
        default=2.0, gt=0, le=300, description="Connecting may take this long, TLS included."
    )
    timeout: Duration = Field(default=10.0, gt=0, le=3600, description="One attempt may take this long.")
    warm: Whole = Field(
        default=2,
        ge=0,
        le=512,
        description="Connections that are opened at the start, so that the first calls do not wait.",
    )
    max_answer: Size = Field(
        default=256 * MIB,
        ge=MIB,
        description="Bytes of one answer of the node, unpacked. A longer one is cut off.",
    )
    drain: bool = Field(
        default=False, description="If true, the node finishes what it has and gets no new calls.", examples=[False]
    )

    @model_validator(mode="before")
    @classmethod
    def _read_text_and_name(cls, data: Any) -> Any:
        table = parse_node(data) if isinstance(data, str) else data
        if isinstance(table, Mapping) and not table.get("id"):
            return {**table, "id": default_id(table.get("url"))}
        return table


class RangeSettings(Section):
    """Long ranges (getBlocks, getLogs), which are put together from pieces."""

    enabled: bool = Field(
        default=True,
        description="If true, ranges are cut into pieces, which are kept and shared by all ranges.",
    )
    segment: Whole = Field(
        default=128,
        ge=1,
        le=10_000,
        description="The logs of this many blocks are kept together. After a change, kept logs are fetched anew.",
    )
    divide_from: Whole = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="A run of missing blocks at least twice as long is shared out to several nodes, at least "
        "this many blocks to each.",
    )
    max_pieces: Whole = Field(
        default=256,
        ge=1,
        le=1024,
        description="Node calls that one range may become, refused ones included.",
    )
    at_once: Whole = Field(default=8, ge=1, le=256, description="Node calls of one range that run at the same time.")


class RuleSettings(Section):
    """An operator's rule for methods: keep less than the chain's rules allow, or for a shorter time."""

    cache: Literal["", "off", "head"] = Field(
        default="",
        description='"off": neither kept nor shared; "head": kept until the next block at most. If empty, '
        "the chain's rule decides.",
        examples=["head"],
    )
    max_age: Duration = Field(
        default=0.0,
        le=86_400,
        description="An answer is served for this long at most. What differs by node is kept only with it.",
        examples=["10s"],
    )
    stale: Duration = Field(
        default=0.0,
        le=86_400,
        description="For this long after max_age, what differs by node is still served while one call renews it.",
        examples=["1m"],
    )
    agree: Whole = Field(
        default=1,
        ge=1,
        le=5,
        description="This many nodes must give the same answer to a read before the client gets it.",
    )


class NetworkSettings(ResilientNetwork):
    """One chain or shard served here, under /NAME."""

    chain: ChainName = Field(default="harmony", description='"harmony", or "ethereum" for any other EVM chain.')
    shard: Whole = Field(
        default=0,
        ge=0,
        le=65_535,
        description="The shard that the nodes serve, on a chain that has shards.",
        examples=[0],
    )
    chain_id: Whole | None = Field(
        default=None,
        ge=0,
        lt=1 << 64,
        description="The nodes' eth_chainId. If unset, what most of them say counts.",
        examples=[1_666_600_000],
    )
    balancer: BalancerName = Field(
        default="smooth_weighted",
        description='"smooth_weighted": by weights alone; "peak_ewma": by latency as well; '
        '"consistent_hash": by what the call asks for (hash_key).',
    )
    hash_key: Literal["method", "params", "first-param", "client"] = Field(
        default="method",
        description='consistent_hash sends calls that have this in common to one node. "params": method and params.',
    )
    deadline: Duration = Field(
        default=30.0, gt=0, le=3600, description="A call may take this long, all its attempts together."
    )
    attempts: Whole = Field(default=3, ge=1, le=100, description="At most this many nodes are asked for one call.")
    finality_depth: Whole | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Blocks under the head from which a block is final. If unset, the chain decides.",
        examples=[64],
    )
    block_time: Duration | None = Field(
        default=None,
        gt=0,
        le=86400,
        description="Nodes are asked for their heads every half of it. If unset, it is measured.",
        examples=["2s"],
    )
    websockets: Literal["auto", "named", "off"] = Field(
        default="auto",
        description='Nodes push new heads: with "named" those that have a ws, with "auto" also those with '
        'one at a usual place, with "off" none.',
    )
    hidden_lag: Duration = Field(
        default=1800.0,
        le=86_400,
        description="A machine behind a node's URL may lag this long unnoticed. 0: each URL is one machine.",
    )
    ranges: RangeSettings = Field(default=RangeSettings(), description="How long ranges are put together.")
    refresh: Number = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Share of the node calls that may fetch again what was asked most, when the head moves. "
        "0 means none.",
    )
    price: Number = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="What a million calls to the nodes cost, in admin.currency. 0: nothing is said of money.",
        examples=[4.5],
    )
    rules: dict[MethodPattern, RuleSettings] = Field(
        default={}, description='What you want of methods, by name or pattern ("net_*"); a name wins.'
    )
    error_rules: tuple[ErrorRuleSettings, ...] = Field(
        default=(),
        max_length=500,
        description="What errors of the nodes mean, tried before the rules of the chain.",
    )
    uniform_error_codes: bool = Field(
        default=False,
        description="If true, codes of nodes' errors other than 3 and JSON-RPC's are replaced.",
    )
    nodes: tuple[NodeSettings, ...] = Field(
        min_length=1,
        max_length=MOST_NODES,
        description="The nodes, as tables or as texts URL[,weight=N][,id=NAME].",
        examples=[["http://127.0.0.1:9500,weight=3,id=own", "https://api.s0.t.hmny.io,id=public"]],
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_nodes(cls, data: Any) -> Any:
        nodes = data.get("nodes") if isinstance(data, Mapping) else None
        nodes = nodes.split() if isinstance(nodes, str) else nodes
        return {**data, "nodes": named_nodes(nodes)} if isinstance(nodes, list | tuple) else data


class Settings(ResilientProgram):
    """Everything the operator decides; `config.load` makes it from file, environment and flags."""

    listen: ListenText = Field(
        default="127.0.0.1:8888", description="HOST:PORT where calls are taken; port 0 takes a free one."
    )
    admin: AdminSettings = Field(default=AdminSettings(), description="The admin side.")
    workers: WorkerCount = Field(
        default=1,
        ge=1,
        le=256,
        description='Processes that serve calls. "auto": one for each processor; 1: the supervisor serves them itself.',
    )
    default_network: str = Field(
        default="",
        description="The network that is also served on /. If empty, the first one.",
        examples=["harmony-s0"],
    )
    memory: MemorySettings = Field(default=MemorySettings(), description="The first cache tier.")
    disk: DiskSettings = Field(default=DiskSettings(), description="The cache tier on disk.")
    redis: RedisSettings = Field(default=RedisSettings(), description="The cache tier in Redis.")
    http: HttpSettings = Field(default=HttpSettings(), description="The HTTP front.")
    clients: ClientsSettings = Field(
        default=ClientsSettings(), description="Who may call: API keys, limits, proxies in front."
    )
    drain_timeout: Duration = Field(
        default=10.0, le=3600, description="Running calls get this long to finish at shutdown."
    )
    drain_linger: Duration = Field(
        default=0.0,
        le=600,
        examples=[5.0],
        description="At shutdown, before drain_timeout, calls on open connections are answered for this "
        "long, each with Connection: close.",
    )
    errors: ErrorsSettings = Field(
        default=ErrorsSettings(), description="The log of errors on the page, and when they call for attention."
    )
    alerts: AlertsSettings = Field(
        default=AlertsSettings(), description="Webhooks that are told of what needs attention."
    )
    log: LogSettings = Field(default=LogSettings(), description="The log.")
    tracing: TracingSettings = Field(default=TracingSettings(), description="OpenTelemetry traces.")
    networks: dict[Annotated[str, Field(pattern=NAME)], NetworkSettings] = Field(
        min_length=1, max_length=MOST_NETWORKS, description="The networks that are served, by name."
    )

    @property
    def main_network(self) -> str:
        """Name of the network served on /."""
        return self.default_network or next(iter(self.networks))
