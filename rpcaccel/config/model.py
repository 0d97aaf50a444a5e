"""The settings: every key with its default, its unit and its bounds. They are frozen; a change makes a new value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rpcaccel.config.alert_settings import AlertsSettings
from rpcaccel.config.names import NAME, NODE_ID, default_id, named_nodes, parse_node
from rpcaccel.config.resilience import ErrorRuleSettings, ResilientNetwork, ResilientNode, ResilientProgram
from rpcaccel.config.secrets import HeaderText, NodeSocketUrl, NodeUrl, PasswordHash, RedisUrl
from rpcaccel.config.sections import ClientsSettings, ErrorsSettings, LogSettings, Section, TracingSettings
from rpcaccel.config.value_types import (
    BalancerName,
    ChainName,
    Duration,
    HeaderName,
    HostNames,
    ListenText,
    MethodPattern,
    MethodPatterns,
    Number,
    Origins,
    RedisUrls,
    Roles,
    Size,
    Whole,
    WorkerCount,
)

MIB = 1 << 20
MOST_NODES = 4000
"""Nodes of one network; what consistent_hash can lay on its ring is a little more."""


class AccountSettings(Section):
    """An account of the admin side."""

    password: PasswordHash = Field(
        description="A hash printed by `rpcaccel passwd`; never shown.",
        examples=[f"scrypt:15:8:1:{'A' * 22}:{'A' * 43}"],  # no password has it
    )
    role: Literal["admin", "read"] = Field(default="read", description="Whether it may change, or only read.")


class AdminSettings(Section):
    """The admin side: page, API and /metrics."""

    listen: ListenText = Field(
        default="127.0.0.1:8889",
        description="HOST:PORT of the admin side; port 0 takes a free one. Beyond this machine it needs an account.",
    )
    names: HostNames = Field(
        default=(),
        description="Further names it is asked under, such as that of a reverse proxy in front of it.",
        examples=[["rpcaccel.example.com"]],
    )
    accounts: dict[Annotated[str, Field(pattern=NAME)], AccountSettings] = Field(
        default={}, description="Who may log in, by name; with none, everyone on this machine may do everything."
    )
    session: Duration = Field(default=43_200.0, gt=0, le=2_592_000, description="Seconds a login lasts.")
    tls_cert: str = Field(
        default="",
        description="PEM file of the certificate; with it the admin side speaks TLS.",
        examples=["/etc/rpcaccel/admin.pem"],
    )
    tls_key: str = Field(
        default="", description="PEM file of the certificate's key.", examples=["/etc/rpcaccel/admin.key"]
    )
    currency: str = Field(
        default="USD",
        pattern=r"^[A-Z]{3}$",
        description="The currency of networks.*.price, in three letters (ISO 4217).",
    )


class MemorySettings(Section):
    """The first cache tier, in each worker's memory."""

    size: Size = Field(
        default=256_000_000,
        description="Bytes the tier may hold, what is remembered of calls, keys and overheads included; 0 for none.",
    )
    max_entry: Size = Field(
        default=8_000_000,
        description="Bytes above which an answer is passed through and not kept; if given, no more than size.",
    )


class DiskSettings(Section):
    """The cache tier on this host's disk, shared by its workers: answers that are final, which outlive a restart."""

    path: str = Field(
        default="",
        max_length=4096,
        description="Folder of its files, made where it is missing, best as a whole path: a relative one counts from "
        "where the program is started; empty: no such tier.",
        examples=["/var/cache/rpcaccel"],
    )
    size: Size = Field(
        default=10_000_000_000,
        ge=64 * MIB,
        description="Bytes that its files may take together, what the engine wastes included.",
    )
    read_timeout: Duration = Field(
        default=0.05, gt=0, le=10, description="Seconds a read may take before it counts as a miss."
    )
    queue: Size = Field(
        default=32 * MIB,
        ge=1 * MIB,
        description="Bytes of answers that may wait to be written, per worker; more are dropped and counted.",
    )


class RedisSettings(Section):
    """The last cache tier, shared by workers and hosts."""

    url: RedisUrl = Field(
        default=RedisUrl(""),
        description="Its address: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://; empty: none.",
        examples=["redis://:${REDIS_PASSWORD:-}@127.0.0.1:6379/0"],
    )
    replicas: RedisUrls = Field(
        default=(),
        description="Addresses that are read in turn; the primary is read when none answers.",
        examples=[["redis://10.0.0.6:6379"]],
    )
    prefix: str = Field(
        default="rpcaccel", pattern=r"^[A-Za-z0-9_.:-]{1,64}$", description="First part of every key in Redis."
    )
    read_timeout: Duration = Field(
        default=0.03, gt=0, le=10, description="Seconds a read may take before it counts as a miss."
    )
    write_timeout: Duration = Field(default=0.5, gt=0, le=60, description="Seconds a background write may take.")
    connect_timeout: Duration = Field(default=0.5, gt=0, le=60, description="Seconds to connect.")
    pool_size: Whole = Field(default=16, ge=1, le=1024, description="Connections to each Redis server, per worker.")
    queue: Whole = Field(
        default=10_000, ge=1, le=1_000_000, description="Writes that may wait; more are dropped and counted."
    )
    compress_from: Size = Field(default=1024, description="Bytes from which values are compressed (zstd).")
    single_flight: Literal["auto", "always", "heavy"] = Field(
        default="auto",
        description='Reads one process fetches for all: "heavy", "always" all; "auto": if nodes are slow or paid, too.',
    )


class WebSocketSettings(Section):
    """WebSockets of clients: calls and subscriptions."""

    enabled: bool = Field(default=True, description="Whether clients may open WebSockets.")
    connections: Whole = Field(
        default=20_000, ge=1, le=1_000_000, description="WebSockets open at once, per worker; more get 503."
    )
    per_client: Whole = Field(
        default=1000, ge=1, le=1_000_000, description="Of these, how many one key or address may have."
    )
    subscriptions: Whole = Field(
        default=200, ge=1, le=100_000, description="Subscriptions of one WebSocket; more get an error."
    )
    at_once: Whole = Field(
        default=100, ge=1, le=100_000, description="Calls of one WebSocket answered at once; further ones wait unread."
    )
    queue: Size = Field(
        default=4 * MIB,
        ge=64 * 1024,
        description="Bytes that one client may leave unread before it is told so and closed (1013).",
    )
    ping: Duration = Field(
        default=30.0, gt=0, le=3600, description="Seconds without a word from a client until it is sent a ping."
    )
    idle: Duration = Field(
        default=3600.0,
        gt=0,
        le=86_400,
        description="Seconds after which a WebSocket without subscriptions and calls is closed.",
    )
    replay: Whole = Field(
        default=10_000, ge=0, le=1_000_000, description="Blocks that a subscription may ask to be sent again."
    )


class HttpSettings(Section):
    """The HTTP front: limits and what answers say about themselves."""

    max_body: Size = Field(default=5 * MIB, gt=0, le=1 << 30, description="Bytes of a request's body, also after gzip.")
    max_batch: Whole = Field(default=1000, ge=1, le=100_000, description="Calls in one batch.")
    max_batch_answer: Size = Field(
        default=25_000_000,
        gt=0,
        description="Bytes of a batch's answer; calls whose answers find no room get an error.",
    )
    max_in_flight: Whole = Field(
        default=4096, ge=1, le=1_000_000, description="Calls served at once per worker; more get 503."
    )
    max_header: Size = Field(default=16 * 1024, ge=1024, le=MIB, description="Bytes of a request's header.")
    read_timeout: Duration = Field(
        default=30.0, gt=0, le=3600, description="Seconds a client may take to send a head, and to send a body."
    )
    write_timeout: Duration = Field(
        default=30.0, gt=0, le=3600, description="Seconds in which a client must take 64 KiB of its answer."
    )
    max_unsent: Size = Field(
        default=256 * MIB,
        ge=MIB,
        description="Bytes of answers that slow clients may leave waiting, per worker; the largest one aside.",
    )
    batch_at_once: Whole = Field(
        default=64, ge=1, le=10_000, description="Calls of one batch that may wait for nodes at the same time."
    )
    keepalive: Duration = Field(default=75.0, le=86400, description="Seconds an idle client connection is kept.")
    gzip_from: Size = Field(
        default=1024, description="Bytes from which answers are compressed for clients that accept gzip."
    )
    cors_origins: Origins = Field(
        default=("*",), description='Origins that browsers may call from; "*" for any, [] for none.'
    )
    headers: Literal["all", "cache", "none"] = Field(
        default="all", description="X-Rpcaccel-* and Server-Timing headers: all, only X-Rpcaccel-Cache, or none."
    )
    websocket: WebSocketSettings = Field(default=WebSocketSettings(), description="WebSockets of clients.")
    deny: MethodPatterns = Field(
        default=(),
        description='Methods refused for every client, as names or patterns ("debug_*").',
        examples=[["debug_*"]],
    )
    expose: MethodPatterns = Field(
        default=(),
        description="Methods of a node's operator that clients may call all the same, as names or patterns.",
        examples=[["evm_mine"]],
    )


class NodeSettings(ResilientNode):
    """One endpoint of a network."""

    id: str = Field(
        default="",
        pattern=NODE_ID,
        description="Name of the node, which it keeps; the host and port of its URL when not given.",
        examples=["own"],
    )
    url: NodeUrl = Field(
        description="http:// or https:// address; user info and keys in it are never shown.",
        examples=["https://harmony.example/${HARMONY_KEY:-no-key}"],
    )
    ws: NodeSocketUrl = Field(
        default=NodeSocketUrl(""),
        description="ws:// or wss:// address where it pushes new heads; empty: as networks.*.websockets says.",
        examples=["wss://harmony.example/ws"],
    )
    weight: Whole = Field(
        default=1, ge=0, le=1000, description="Share of the calls, relative to the others; 0 takes none."
    )
    headers: dict[HeaderName, HeaderText] = Field(
        default={},
        description="Headers sent to this node; values are never shown.",
        examples=[{"Authorization": "Bearer ${HARMONY_TOKEN:-no-token}"}],
    )
    roles: Roles = Field(
        default=frozenset(),
        description="What the node has beyond a plain one of its chain; when empty, what it says of itself counts.",
        examples=[["archive", "explorer"]],
    )
    max_connections: Whole = Field(
        default=512,
        ge=1,
        le=65_535,
        description="Connections open to it at once, per worker. Of two or more, one is for light reads.",
    )
    keepalive: Duration = Field(default=10.0, le=3600, description="Seconds an idle connection to it is kept.")
    connect_timeout: Duration = Field(default=2.0, gt=0, le=300, description="Seconds to connect, TLS included.")
    timeout: Duration = Field(default=10.0, gt=0, le=3600, description="Seconds one attempt may take.")
    warm: Whole = Field(
        default=2, ge=0, le=512, description="Connections opened at start, so that first calls do not wait."
    )
    max_answer: Size = Field(
        default=256 * MIB, ge=MIB, description="Bytes of one answer of it, unpacked; a longer one is cut off."
    )
    drain: bool = Field(
        default=False, description="Whether it finishes what it has and takes no new calls.", examples=[False]
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
        default=True, description="Whether ranges are cut into pieces, kept each by itself and shared by all ranges."
    )
    segment: Whole = Field(
        default=128, ge=1, le=10_000, description="Blocks whose logs are kept together; a change starts anew."
    )
    divide_from: Whole = Field(
        default=256, ge=1, le=1_000_000, description="Missing blocks for each of which another node is asked."
    )
    max_pieces: Whole = Field(
        default=32, ge=1, le=1024, description="Node calls that one range may become, refused ones included."
    )
    at_once: Whole = Field(default=8, ge=1, le=256, description="Of these, how many run at the same time.")


class RuleSettings(Section):
    """An operator's rule for methods: keep less than the chain's rules allow, or for a shorter time."""

    cache: Literal["", "off", "head"] = Field(
        default="",
        description='"off" keeps and shares nothing; "head" keeps until the next block at most.',
        examples=["head"],
    )
    max_age: Duration = Field(
        default=0.0,
        le=86_400,
        description="Seconds an answer may be served; what differs by node is kept only with this.",
        examples=["10s"],
    )
    stale: Duration = Field(
        default=0.0,
        le=86_400,
        description="Seconds after max_age in which what differs by node is still served while one call renews it.",
        examples=["1m"],
    )
    agree: Whole = Field(
        default=1,
        ge=1,
        le=5,
        description="Nodes that must give the same answer to a read before the client gets it; 1: one node's counts.",
    )


class NetworkSettings(ResilientNetwork):
    """One chain or shard served here, under /NAME."""

    chain: ChainName = Field(
        default="harmony", description='Chain whose rules apply: "harmony", or "ethereum" for any other EVM chain.'
    )
    shard: Whole = Field(
        default=0,
        ge=0,
        le=65_535,
        description="Shard of the chain its nodes must serve, where it has shards.",
        examples=[0],
    )
    chain_id: Whole | None = Field(
        default=None,
        ge=0,
        lt=1 << 64,
        description="eth_chainId its nodes must say; what most say if unset.",
        examples=[1_666_600_000],
    )
    balancer: BalancerName = Field(
        default="smooth_weighted",
        description='How a node is chosen: "smooth_weighted" by weights alone, "peak_ewma" by latency as well, '
        '"consistent_hash" by what the call asks for (hash_key).',
    )
    weights: Literal["manual", "auto"] = Field(
        default="manual",
        description='Who applies suggested weights: "manual": an operator; "auto": rpcaccel, in small steps.',
    )
    hash_key: Literal["method", "params", "first-param", "client"] = Field(
        default="method", description='What consistent_hash routes by; "params" is method and params.'
    )
    deadline: Duration = Field(
        default=30.0, gt=0, le=3600, description="Seconds a call may take, all attempts together."
    )
    attempts: Whole = Field(default=3, ge=1, le=100, description="Nodes asked at the most for one call.")
    finality_depth: Whole | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Blocks under the head that are final; the chain's own if unset.",
        examples=[64],
    )
    block_time: Duration | None = Field(
        default=None,
        gt=0,
        le=86400,
        description="Seconds between blocks; if unset the chain's own, or less where they are seen to come quicker.",
        examples=["2s"],
    )
    websockets: Literal["auto", "named", "off"] = Field(
        default="auto",
        description='Nodes whose new heads are pushed: "named" has a ws, "auto" tries the usual places too; or "off".',
    )
    hidden_lag: Duration = Field(
        default=1800.0,
        le=86_400,
        description="Seconds a machine hidden behind a node's URL may lag unnoticed; 0: each URL is one machine.",
    )
    ranges: RangeSettings = Field(default=RangeSettings(), description="How long ranges are put together.")
    refresh: Number = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Share of node calls spent on fetching what was asked most again when the head moves; 0 for none.",
    )
    price: Number = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="What a million calls to its nodes cost, in admin.currency; 0: nothing is said of money.",
        examples=[4.5],
    )
    rules: dict[MethodPattern, RuleSettings] = Field(
        default={}, description='What is wanted of methods, by name or pattern ("net_*"); a name wins over patterns.'
    )
    error_rules: tuple[ErrorRuleSettings, ...] = Field(
        default=(), max_length=500, description="What errors of its nodes mean; tried in turn before the chain's rules."
    )
    uniform_error_codes: bool = Field(
        default=False,
        description="Whether codes beyond those of JSON-RPC and 3 are replaced in nodes' errors; the rest stays.",
    )
    nodes: tuple[NodeSettings, ...] = Field(
        min_length=1,
        max_length=MOST_NODES,
        description="Its nodes: tables, or texts URL[,weight=N][,id=NAME].",
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
        default="127.0.0.1:8888", description="HOST:PORT calls are taken on; port 0 takes a free one."
    )
    admin: AdminSettings = Field(default=AdminSettings(), description="The admin side.")
    workers: WorkerCount = Field(
        default=1,
        ge=1,
        le=256,
        description='Processes that serve calls, or "auto": one a processor; 1 serves in the supervisor itself.',
    )
    default_network: str = Field(
        default="", description="Network served on / as well; the first one when empty.", examples=["harmony-s0"]
    )
    memory: MemorySettings = Field(default=MemorySettings(), description="The first cache tier.")
    disk: DiskSettings = Field(default=DiskSettings(), description="The cache tier on disk.")
    redis: RedisSettings = Field(default=RedisSettings(), description="The cache tier in Redis.")
    http: HttpSettings = Field(default=HttpSettings(), description="The HTTP front.")
    clients: ClientsSettings = Field(
        default=ClientsSettings(), description="Who may call: API keys, limits, proxies in front."
    )
    drain_timeout: Duration = Field(
        default=10.0, le=3600, description="Seconds that running calls get to finish at shutdown."
    )
    drain_linger: Duration = Field(
        default=0.0,
        le=600,
        examples=[5.0],
        description="Seconds at shutdown, before drain_timeout begins, in which calls on open connections are still "
        "answered, each with word to close its connection.",
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
        min_length=1, description="The networks served, by name."
    )

    @property
    def main_network(self) -> str:
        """Name of the network served on /."""
        return self.default_network or next(iter(self.networks))
