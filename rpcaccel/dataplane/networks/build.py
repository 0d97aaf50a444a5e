"""Builds the networks of a new revision beside those in force.

Everything that may raise happens in `make`, which changes nothing that is in force. What is carried over gets its new
settings in `settle`, which does not raise. So a revision that is refused has changed nothing, and only its connectors
are to be closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rpcaccel import balancers, chains
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.core.dispatch.batching import Gathering
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.memo import Memos
from rpcaccel.core.nodes.limits import Quota, QuotaLimits
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.error_rules import ErrorTable, classify
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.networks import settings_mapping
from rpcaccel.dataplane.networks.network import ChainState, Network
from rpcaccel.dataplane.upstream.batcher import Batcher
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.dataplane.upstream.pool import NodePool, WaitQueue

_CONNECTOR_FIELDS = ("url", "headers", "max_connections", "keepalive", "connect_timeout", "timeout", "max_answer")
"""The settings that an upstream is made from: when one of these changes, a new one is opened."""
NodeKey = tuple[str, str]
"""The names of a network and of a node."""


class NodeLine(NamedTuple):
    """The way to one node."""

    made_from: tuple[Any, ...]
    """The settings that the client was made from."""
    client: HttpNodeClient
    batcher: Batcher


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDependencies:
    """The means with which networks are made; they are the same for every revision."""

    tally: Tally
    clock: Callable[[], float]
    wall: Callable[[], float]
    """The wall clock: seconds since 1970."""
    rng: random.Random
    connect: Callable[[NodeSettings, NodeCell], HttpNodeClient]
    memos: Memos
    """The budget for what networks remember of calls."""
    unclassed: Callable[[str, str, str, int, str, int], None]
    """Called with every error that no rule knows: network, node, method, code, message, HTTP status."""


class Build:
    """One revision's networks, and what is needed to reach their nodes."""

    __slots__ = ("_before", "_means", "_settling", "lines", "networks", "opened")

    def __init__(self, means: NetworkDependencies, before: Build | None = None) -> None:
        """`before`: the build in force, whose nodes and connectors are carried over by id."""
        self.networks: dict[str, Network] = {}
        self.lines: dict[NodeKey, NodeLine] = {}
        self.opened: list[HttpNodeClient] = []
        """The clients that are new with this revision: they are closed when it is refused."""
        self._means = means
        self._before = before
        self._settling: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Build {' '.join(self.networks)}, {len(self.opened)} connectors opened>"

    def make(self, settings: Settings) -> None:
        """Make the networks of `settings`. Raises whatever making one of them raises."""
        for name, part in settings.networks.items():
            self.networks[name] = self._network(name, part, settings.workers)

    def settle(self) -> None:
        """Write the settings into what is carried over. They are in force afterwards, so this is called once, and
        last."""
        for write in self._settling:
            write()
        self._settling.clear()
        self._before = None  # else every revision would hold the one before it

    def _network(self, name: str, settings: NetworkSettings, workers: int) -> Network:
        means, chain = self._means, chains.load(settings.chain)
        before = None if self._before is None else self._before.networks.get(name)
        balancer = balancers.load(settings.balancer)
        if before is not None and before.pool.balancer.name == balancer.name:
            balancer = before.pool.balancer
        known = _known_nodes(before, settings)
        fresh = [_node(part, settings) for part in settings.nodes]
        cells = {part.id: means.tally.find_node(name, part.id) for part in settings.nodes}
        pool = NodePool(
            nodes=[known.get(node.id, node) for node in fresh],
            balancer=balancer,
            upstreams={part.id: self._line(name, part, cells[part.id]) for part in settings.nodes},
            cells=cells,
            classify=_classifier(ahead_of(chain.errors, settings.error_rules)),
            unclassed=partial(means.unclassed, name),
            clock=means.clock,
            rng=means.rng,
            hedging=settings_mapping.hedging(settings),
            outliers=settings_mapping.outliers(settings),
            rooms=before.pool.rooms if before is not None else tuple(WaitQueue() for _ in Bulkhead),
            broadcast=settings_mapping.broadcast(settings),
            budget=before.pool.budget if before is not None else Budget(),
        )
        if before is not None:
            pool.hedged = before.pool.hedged
        sight = before.sight if before is not None and same_chain(before.settings, settings) else ChainState()
        sampling = settings_mapping.sampling(settings, workers)
        network = Network(name, settings, chain, pool, means.tally, sight, means.memos, sampling)
        quotas = [settings_mapping.quota(part, workers) for part in settings.nodes]
        self._settling.append(partial(self._settle_network, network, fresh, quotas))
        return network

    def _settle_network(self, network: Network, fresh: list[Node], quotas: list[QuotaLimits]) -> None:
        pool, settings, tally = network.pool, network.settings, self._means.tally
        tally.know(rule.method for rule in network.chain.rules)
        for node, new, limits in zip(pool.nodes, fresh, quotas, strict=True):
            if node is not new:
                node.adopt(new)
            self._give_quota(node, limits)
        pool.balancer.adopt(pool.nodes)
        for cell in pool.cells.values():
            tally.add_node(cell)
        concurrency = settings.concurrency
        for bulkhead, room in zip(Bulkhead, pool.rooms, strict=True):
            room.most = concurrency.waiting
            brief = bulkhead in (Bulkhead.LIGHT, Bulkhead.EXECUTION)
            room.seconds = concurrency.wait if brief else concurrency.heavy_wait
        pool.budget.share, pool.budget.floor = settings.budget.share, settings.budget.floor

    def _give_quota(self, node: Node, limits: QuotaLimits) -> None:
        """Give a node its quota. What was used of the quota stays used when its limits change."""
        if not limits.counts:
            node.quota = None
        elif node.quota is None:
            now = self._means.clock()
            node.quota = Quota(limits, now=now, epoch=self._means.wall() - now)
        else:
            node.quota.settings = limits

    def _line(self, network: str, node: NodeSettings, cell: NodeCell) -> Batcher:
        """What calls to the node go through. The client is carried over as long as what it is made from is the same,
        and what is known of batches as long as they are gathered."""
        made_from = tuple(getattr(node, field) for field in _CONNECTOR_FIELDS)
        line = None if self._before is None else self._before.lines.get((network, node.id))
        if line is None or line.made_from != made_from:
            client, batcher = self._means.connect(node, cell), None
            self.opened.append(client)
        else:
            client, batcher = line.client, line.batcher
        if batcher is None or batcher.gathers != node.gather:
            batcher = Batcher(client, node.max_connections, self._means.clock, Gathering(), gathers=node.gather)
        self.lines[network, node.id] = NodeLine(made_from, client, batcher)
        return batcher


def same_chain(before: NetworkSettings, after: NetworkSettings) -> bool:
    """Does what is known of a network stay true? A head and ids do not, on another chain."""
    return (before.chain, before.shard, before.chain_id) == (after.chain, after.shard, after.chain_id)


def _known_nodes(before: Network | None, settings: NetworkSettings) -> dict[str, Node]:
    """The nodes that are the same as before, by id. Behind another address stands another node, of which nothing is
    known, least of all that it serves the right chain."""
    if before is None or not same_chain(before.settings, settings):
        return {}
    addresses = {node.id: node.url for node in before.settings.nodes}
    same = {node.id for node in settings.nodes if addresses.get(node.id) == node.url}
    return {node.id: node for node in before.pool.nodes if node.id in same}


def _node(settings: NodeSettings, network: NetworkSettings) -> Node:
    """A new node with these settings, of which nothing is known yet."""
    roles = frozenset(settings.roles) | ({"beacon"} if network.shard == 0 else set())
    node = Node(
        settings.id,
        weight=settings.weight,
        tier=settings.tier,
        tags=settings.tags,
        roles=roles,
        timeout=settings.timeout,
        limit=settings_mapping.limit(network, settings),
        drained=settings.drain,
    )
    node.slow_start, node.max_heavy = network.slow_start, settings.max_heavy
    node.breaker.settings = settings_mapping.breaker(network)
    node.pace.share = network.hedge.quantile or 0.95
    return node


def _classifier(table: ErrorTable) -> Callable[[int, str, int], FailureKind]:
    return lambda code, message, status: classify(table, code, message, status).kind
