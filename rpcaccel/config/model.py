"""The settings: every key with its default, its unit and its bounds. They are frozen; a change makes a new value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rpcaccel.config.resilience import (
    AgreementSettings,
    BreakerSettings,
    BudgetSettings,
    ConcurrencySettings,
    ErrorRuleSettings,
    HedgeSettings,
    OutlierSettings,
    QuotaSettings,
    RouteSettings,
    TransactionSettings,
)
from rpcaccel.config.secrets import HeaderText, NodeSocketUrl, NodeUrl, PasswordHash, StoreUrl
from rpcaccel.config.sections import (
    MIB,
    AlertsSettings,
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
    Roles,
    Size,
    StoreUrls,
    Tags,
    Whole,
    WorkerCount,
    WorkerTimeout,
    default_id,
    named_nodes,
    parse_node,
)

MOST_NODES, MOST_NETWORKS, MOST_NODES_IN_ALL = 500, 100, 1000
"""Nodes of one network, networks, and nodes of all networks. A change of so many is in force within a second."""


class AccountSettings(Section):
    """An account of the admin side."""

    password: PasswordHash = Field(examples=[f"scrypt:15:8:1:{'A' * 22}:{'A' * 43}"])  # no password has it
    """The hash that `rpcaccel passwd` prints. It is never shown."""
    role: Literal["admin", "read"] = "read"
    """"admin" may change everything, "read" may only look."""


class AdminSettings(Section):
    """The admin side: page, API and /metrics."""

    listen: ListenText = "127.0.0.1:8889"
    """HOST:PORT of the admin side; port 0 takes a free one. An address that other machines reach needs an account."""
    names: HostNames = Field(default=(), examples=[["rpcaccel.example.com"]])
    """Further names of the admin side, such as that of a reverse proxy before it."""
    accounts: dict[Annotated[str, Field(pattern=NAME)], AccountSettings] = Field(default={})
    """Who may log in. Without accounts, everyone on this machine may do everything."""
    session: Duration = Field(default=43_200.0, gt=0, le=2_592_000)
    """A login lasts this long."""
    tls_cert: str = Field(default="", examples=["/etc/rpcaccel/admin.pem"])
    """The PEM file of the certificate. With it, the admin side speaks TLS. It is read again when it changes."""
    tls_key: str = Field(default="", examples=["/etc/rpcaccel/admin.key"])
    """The PEM file of its key."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """The currency of networks.*.price (ISO 4217)."""


class MemorySettings(Section):
    """The first cache tier, in each worker's memory."""

    size: Size = 256_000_000
    """Bytes of the tier, with keys, overheads and what is remembered of calls. 0: there is no such tier."""
    max_entry: Size = 8_000_000
    """An answer with more bytes is passed on and not kept. At most memory.size."""


class DiskSettings(Section):
    """The cache tier on this host's disk, shared by its workers: answers that are final, which outlive a restart."""

    path: str = Field(default="", max_length=4096, examples=["/var/cache/rpcaccel"])
    """The folder of the tier's files, made where it is missing, best as a whole path. If empty, there is no such
    tier."""
    size: Size = Field(default=10_000_000_000, ge=64 * MIB)
    """Bytes of all files of the tier, with what the engine wastes."""
    read_timeout: Duration = Field(default=0.05, gt=0, le=10)
    """A read that takes longer counts as a miss."""
    queue: Size = Field(default=32 * MIB, ge=1 * MIB)
    """Bytes of answers that may wait to be written, for each worker. Further ones are dropped and counted."""


class RedisSettings(Section):
    """The last cache tier, shared by workers and hosts."""

    url: StoreUrl = Field(default=StoreUrl(""), examples=["redis://:${REDIS_PASSWORD:-}@127.0.0.1:6379/0"])
    """redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://. If empty, there is no such tier."""
    replicas: StoreUrls = Field(default=(), examples=[["redis://10.0.0.6:6379"]])
    """Addresses that are read in turn; the primary when none of them answers."""
    prefix: str = Field(default="rpcaccel", pattern=r"^[A-Za-z0-9_.:-]{1,64}$")
    """Every key in Redis begins with this text."""
    read_timeout: Duration = Field(default=0.03, gt=0, le=10)
    """A read that takes longer counts as a miss."""
    write_timeout: Duration = Field(default=0.5, gt=0, le=60)
    """A write in the background may take this long."""
    connect_timeout: Duration = Field(default=0.5, gt=0, le=60)
    """Connecting may take this long."""
    pool_size: Whole = Field(default=16, ge=1, le=1024)
    """Connections of each worker to each server."""
    queue: Whole = Field(default=10_000, ge=1, le=1_000_000)
    """Writes that may wait. Further ones are dropped and counted."""
    compress_from: Size = 1024
    """Values of this many bytes or more are compressed with zstd."""
    single_flight: Literal["auto", "always", "heavy"] = "auto"
    """"heavy": one process fetches heavy methods for all; "always": every read; "auto": heavy ones and, where nodes are
    slow or paid, light ones."""


class NodeSettings(Section):
    """One endpoint of a network."""

    id: str = Field(default="", pattern=NODE_ID, examples=["own"])
    """The name of the node, whatever its URL. If empty, host and port of the URL."""
    url: NodeUrl = Field(examples=["https://harmony.example/${HARMONY_KEY:-no-key}"])
    """The http:// or https:// address. User info and keys in it are never shown."""
    ws: NodeSocketUrl = Field(default=NodeSocketUrl(""), examples=["wss://harmony.example/ws"])
    """The node pushes new heads at this ws:// or wss:// address. If empty, websockets of the network decides."""
    weight: Whole = Field(default=1, ge=0, le=1000)
    """The node's share of the calls, in relation to the other weights. 0 gives it none."""
    headers: dict[HeaderName, HeaderText] = Field(
        default={}, examples=[{"Authorization": "Bearer ${HARMONY_TOKEN:-no-token}"}]
    )
    """Headers for the node. Their values are never shown."""
    roles: Roles = Field(default=frozenset(), examples=[["archive", "explorer"]])
    """What the node has beyond a plain one. If empty, what it says of itself counts."""
    max_connections: Whole = Field(default=512, ge=1, le=65_535)
    """Connections to the node, for each worker. Of two or more, one is for light reads."""
    keepalive: Duration = Field(default=10.0, le=3600)
    """An idle connection to the node is kept for this long."""
    connect_timeout: Duration = Field(default=2.0, gt=0, le=300)
    """Connecting may take this long, TLS included."""
    timeout: Duration = Field(default=10.0, gt=0, le=3600)
    """One attempt may take this long."""
    warm: Whole = Field(default=2, ge=0, le=512)
    """Connections that are opened at the start, so that the first calls do not wait."""
    max_answer: Size = Field(default=256 * MIB, ge=MIB)
    """Bytes of one answer of the node, unpacked. A longer one is cut off."""
    drain: bool = Field(default=False, examples=[False])
    """If true, the node finishes what it has and gets no new calls."""
    tier: Whole = Field(default=0, ge=0, le=100, examples=[1])
    """The node is asked when no node of a lower tier can be. 0 for your own, 1 for paid ones."""
    tags: Tags = Field(default=frozenset(), examples=[["archive"]])
    """Routes name the node by these tags."""
    quota: QuotaSettings = QuotaSettings()
    """Calls, or the units that they cost, it may be asked for; once used up, it waits for them to renew."""
    max_heavy: Whole = Field(default=16, ge=1, le=65_535)
    """Heavy calls at once at the node, for each worker, and as many of unknown methods; each at most a quarter of
    max_connections. Further ones wait."""
    gather: bool = True
    """If true, light reads travel as one batch while the node is asked thousands of times a second."""

    @model_validator(mode="before")
    @classmethod
    def _read_text_and_name(cls, data: Any) -> Any:
        table = parse_node(data) if isinstance(data, str) else data
        if isinstance(table, Mapping) and not table.get("id"):
            return {**table, "id": default_id(table.get("url"))}
        return table


class RangeSettings(Section):
    """Long ranges (getBlocks, getLogs), which are put together from pieces."""

    enabled: bool = True
    """If true, ranges are cut into pieces, which are kept and shared by all ranges."""
    segment: Whole = Field(default=128, ge=1, le=10_000)
    """The logs of this many blocks are kept together. After a change, kept logs are fetched anew."""
    divide_from: Whole = Field(default=256, ge=1, le=1_000_000)
    """A run of missing blocks at least twice as long is shared out to several nodes, at least this many blocks to
    each."""
    max_pieces: Whole = Field(default=256, ge=1, le=1024)
    """Node calls that one range may become, refused ones included."""
    at_once: Whole = Field(default=8, ge=1, le=256)
    """Node calls of one range that run at the same time."""


class RuleSettings(Section):
    """An operator's rule for methods: keep less than the chain's rules allow, or for a shorter time."""

    cache: Literal["", "off", "head"] = Field(default="", examples=["head"])
    """"off": neither kept nor shared; "head": kept until the next block at most. If empty, the chain's rule decides."""
    max_age: Duration = Field(default=0.0, le=86_400, examples=["10s"])
    """An answer is served for this long at most. What differs by node is kept only with it."""
    stale: Duration = Field(default=0.0, le=86_400, examples=["1m"])
    """For this long after max_age, what differs by node is still served while one call renews it."""
    agree: Whole = Field(default=1, ge=1, le=5)
    """This many nodes must give the same answer to a read before the client gets it."""
    prove: bool = False
    """If true, a read of the state is answered with what its block's state root proves, or with an error."""


def with_present_names(network: Any) -> Any:
    """A network's table with `examine` for the switch `prove` of older versions, which was true or false; `examine`
    holds where both stand."""
    if not isinstance(network, Mapping) or network.get("prove") not in (True, False, "true", "false"):
        return network
    return {"examine": network["prove"], **{key: value for key, value in network.items() if key != "prove"}}


class NetworkSettings(Section):
    """One chain or shard served here, under /NAME."""

    chain: ChainName = "harmony"
    """"harmony", "arbitrum", "avalanche", "base", "bnb", "gnosis", "optimism", "polygon", or "ethereum" for any other
    EVM chain."""
    shard: Whole = Field(default=0, ge=0, le=65_535, examples=[0])
    """The shard that the nodes serve, on a chain that has shards."""
    chain_id: Whole | None = Field(default=None, ge=0, lt=1 << 64, examples=[1_666_600_000])
    """The nodes' eth_chainId. If unset, what most of them say counts."""
    balancer: BalancerName = "smooth_weighted"
    """"smooth_weighted": by weights alone; "peak_ewma": by latency as well; "consistent_hash": by what the call asks
    for (hash_key)."""
    hash_key: Literal["method", "params", "first-param", "client"] = "method"
    """consistent_hash sends calls that have this in common to one node. "params": method and params."""
    deadline: Duration = Field(default=30.0, gt=0, le=3600)
    """A call may take this long, all its attempts together."""
    attempts: Whole = Field(default=3, ge=1, le=100)
    """At most this many nodes are asked for one call, not counting those that cannot be reached or lack the method."""
    finality_depth: Whole | None = Field(default=None, ge=0, le=1_000_000, examples=[64])
    """Blocks under the head from which a block is final. If unset, the chain decides."""
    block_time: Duration | None = Field(default=None, gt=0, le=86400, examples=["2s"])
    """Nodes are asked for their heads every half of it. If unset, it is measured."""
    websockets: Literal["auto", "named", "off"] = "auto"
    """Nodes push new heads: with "named" those that have a ws, with "auto" also those with one at a usual place, with
    "off" none."""
    hidden_lag: Duration = Field(default=1800.0, le=86_400)
    """A machine behind a node's URL may lag this long unnoticed. 0: each URL is one machine."""
    ranges: RangeSettings = RangeSettings()
    """How long ranges are put together."""
    refresh: Number = Field(default=0.05, ge=0, le=1)
    """Share of the node calls that may fetch again what was asked most, when the head moves. 0 means none."""
    price: Number = Field(default=0.0, ge=0, le=1e9, examples=[4.5])
    """What a million calls to the nodes cost, in admin.currency; of nodes with costs, a million units. 0: nothing is
    said of money."""
    rules: dict[MethodPattern, RuleSettings] = Field(default={})
    """What you want of methods, by name or pattern ("net_*"); a name wins."""
    error_rules: tuple[ErrorRuleSettings, ...] = Field(default=(), max_length=500)
    """What errors of the nodes mean, tried before the rules of the chain."""
    uniform_error_codes: bool = False
    """If true, codes of nodes' errors other than 3 and JSON-RPC's are replaced."""
    nodes: tuple[NodeSettings, ...] = Field(
        min_length=1,
        max_length=MOST_NODES,
        examples=[["http://127.0.0.1:9500,weight=3,id=own", "https://api.s0.t.hmny.io,id=public"]],
    )
    """The nodes, as tables or as texts URL[,weight=N][,id=NAME]."""
    behind_attempts: Whole = Field(default=2, ge=0, le=100)
    """When a node lacks what another has, this many further nodes are asked, and nodes again as often within half a
    block."""
    agreement: AgreementSettings = AgreementSettings()
    """How many answers are compared with those of another node."""
    on_disagreement: Literal["warn", "drain"] = "warn"
    """When an answer of a node is disproved, or others contradict it beyond chance: "warn" says so, "drain" also drains
    it, unless it is the last one."""
    prove: Literal["off", "cheap", "full"] = "cheap"
    """If "cheap", another node is asked where an answer contradicts the call, or its hashes do not come out. If "full",
    answers are proved whole, by further calls where it takes some, and so is what Redis and the disk have."""
    examine: bool = True
    """If true, nodes are examined by calls in the shadow, those that join at run time before they get calls."""
    hedge: HedgeSettings = HedgeSettings()
    """A second node asked beside a slow one."""
    budget: BudgetSettings = BudgetSettings()
    """Retries and hedges that may be sent."""
    breaker: BreakerSettings = BreakerSettings()
    """When failures shut a node out."""
    outliers: OutlierSettings = OutlierSettings()
    """When slowness shuts a node out."""
    slow_start: Duration = Field(default=10.0, le=3600)
    """A node that returns comes back to its share within this time."""
    concurrency: ConcurrencySettings = ConcurrencySettings()
    """How many calls a node has at once."""
    routes: tuple[RouteSettings, ...] = ()
    """Methods for tagged nodes only. The first route that fits decides."""
    transactions: TransactionSettings = TransactionSettings()
    """How signed transactions are handed to the nodes."""

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, data: Any) -> Any:
        data = with_present_names(data)
        nodes = data.get("nodes") if isinstance(data, Mapping) else None
        nodes = nodes.split() if isinstance(nodes, str) else nodes
        return {**data, "nodes": named_nodes(nodes)} if isinstance(nodes, list | tuple) else data


class Settings(Section):
    """Everything the operator decides; `config.load` makes it from file, environment and flags."""

    listen: ListenText = "127.0.0.1:8888"
    """HOST:PORT where calls are taken; port 0 takes a free one."""
    tls_cert: str = Field(default="", max_length=4096, examples=["/etc/letsencrypt/live/rpc.example.com/fullchain.pem"])
    """The PEM file of the certificate, with those of its issuers. With it, calls are taken over HTTPS and WSS alone. It
    is read again when it changes."""
    tls_key: str = Field(default="", max_length=4096, examples=["/etc/letsencrypt/live/rpc.example.com/privkey.pem"])
    """The PEM file of its key, without a password."""
    admin: AdminSettings = AdminSettings()
    """The admin side."""
    workers: WorkerCount = Field(default=1, ge=1, le=256)
    """Processes that serve calls. "auto": one for each processor; 1: the supervisor serves them itself."""
    default_network: str = Field(default="", examples=["harmony-s0"])
    """The network that is also served on /. If empty, the first one."""
    memory: MemorySettings = MemorySettings()
    """The first cache tier."""
    disk: DiskSettings = DiskSettings()
    """The cache tier on disk."""
    redis: RedisSettings = RedisSettings()
    """The cache tier in Redis."""
    http: HttpSettings = HttpSettings()
    """The HTTP front."""
    clients: ClientsSettings = ClientsSettings()
    """Who may call: API keys, limits, proxies in front."""
    drain_timeout: Duration = Field(default=10.0, le=3600)
    """Running calls get this long to finish at shutdown."""
    drain_linger: Duration = Field(default=0.0, le=600, examples=[5.0])
    """At shutdown, before drain_timeout, calls on open connections are answered for this long, each with Connection:
    close."""
    errors: ErrorsSettings = ErrorsSettings()
    """The log of errors on the page, and when they call for attention."""
    alerts: AlertsSettings = AlertsSettings()
    """Webhooks that are told of what needs attention."""
    log: LogSettings = LogSettings()
    """The log."""
    tracing: TracingSettings = TracingSettings()
    """OpenTelemetry traces."""
    networks: dict[Annotated[str, Field(pattern=NAME)], NetworkSettings] = Field(max_length=MOST_NETWORKS)
    """The networks that are served, by name."""
    worker_timeout: WorkerTimeout = Field(default=10.0, le=3600)
    """A worker that says nothing for this long (3 s at least) is replaced. 0 means never."""

    @property
    def main_network(self) -> str:
        """Name of the network served on /; empty before there is any."""
        return self.default_network or next(iter(self.networks), "")
