"""The networks of a revision, made aside of those in force.

Whatever may raise happens in `make`, which changes nothing that is in force; what is carried over gets its new settings
in `settle`, which does not raise. A refused change has changed nothing, then, and has only its connectors to close.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rpcaccel import balancers, chains
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.core.dispatch.batching import Gathering
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.memo import Memos
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.quota import Quota, QuotaLimits
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.error_rules import ErrorTable, classify
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.networks import settings_mapping
from rpcaccel.dataplane.networks.network import Network, Sight
from rpcaccel.dataplane.upstream.batcher import Batcher
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.dataplane.upstream.pool import NodePool, WaitQueue

_CONNECTOR_FIELDS = ("url", "headers", "max_connections", "keepalive", "connect_timeout", "timeout", "max_answer")
"""What an upstream is made from: when one of these changes, a new one is opened."""
Key = tuple[str, str]
"""Network and node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What networks are made with, the same for every revision."""

    tally: Tally
    clock: Callable[[], float]
    wall: Callable[[], float]
    """Seconds since 1970."""
    rng: random.Random
    connect: Callable[[NodeSettings], HttpNodeClient]
    memos: Memos
    """The account of what networks remember of calls."""
    unclassed: Callable[[str, str, str, int, str, int], None]
    """Told of every error that no rule knows: network, node, method, code, message, HTTP status."""


class Build:
    """One revision's networks, and what is needed to reach their nodes."""

    __slots__ = ("_before", "_means", "_settling", "batchers", "networks", "opened", "upstreams")

    def __init__(self, means: Means, before: Build | None = None) -> None:
        """`before`: what is in force, and carried over by id."""
        self.networks: dict[str, Network] = {}
        self.upstreams: dict[Key, tuple[tuple[Any, ...], HttpNodeClient]] = {}
        """With what each was made from."""
        self.batchers: dict[Key, Batcher] = {}
        self.opened: list[HttpNodeClient] = []
        """Those that are new with this revision: to be closed when it is refused."""
        self._means = means
        self._before = before
        self._settling: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Build {' '.join(self.networks)}, {len(self.opened)} connectors opened>"

    def make(self, settings: Settings) -> None:
        """Make the networks of `settings`; raises what making one raises."""
        for name, part in settings.networks.items():
            self.networks[name] = self._network(name, part, settings.workers)

    def settle(self) -> None:
        """Write the settings into what is carried over. From here on they are in force: call it once, and last."""
        for write in self._settling:
            write()
        self._settling.clear()
        self._before = None  # or every revision there ever was would be held

    def _network(self, name: str, settings: NetworkSettings, workers: int) -> Network:
        means, chain = self._means, chains.load(settings.chain)
        before = None if self._before is None else self._before.networks.get(name)
        balancer = balancers.load(settings.balancer)
        if before is not None and before.pool.balancer.name == balancer.name:
            balancer = before.pool.balancer
        known = _known_nodes(before, settings)
        fresh = [_node(part, settings) for part in settings.nodes]
        pool = NodePool(
            nodes=[known.get(node.id, node) for node in fresh],
            balancer=balancer,
            upstreams={part.id: self._sender(name, part) for part in settings.nodes},
            classify=_classifier(ahead_of(chain.errors, settings.error_rules)),
            unclassed=partial(means.unclassed, name),
            clock=means.clock,
            rng=means.rng,
            settings=settings_mapping.dispatch(settings, chain.block_time),
            hedging=settings_mapping.hedging(settings),
            outliers=settings_mapping.outliers(settings),
            most_lag=settings_mapping.most_lag(settings, chain.block_time),
            rooms=before.pool.rooms if before is not None else tuple(WaitQueue() for _ in Bulkhead),
            broadcast=settings_mapping.broadcast(settings),
            budget=before.pool.budget if before is not None else Budget(),
        )
        if before is not None:
            pool.hedged = before.pool.hedged
        sight = before.sight if before is not None and _same_chain(before.settings, settings) else Sight()
        network = Network(name, settings, chain, pool, means.tally, sight, means.memos)
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
        pool.cells = {node.id: tally.node(network.name, node.id) for node in pool.nodes}
        concurrency = settings.concurrency
        for bulkhead, room in zip(Bulkhead, pool.rooms, strict=True):
            room.most = concurrency.waiting
            brief = bulkhead in (Bulkhead.LIGHT, Bulkhead.EXECUTION)
            room.seconds = concurrency.wait if brief else concurrency.heavy_wait
        pool.budget.share, pool.budget.floor = settings.budget.share, settings.budget.floor

    def _give_quota(self, node: Node, limits: QuotaLimits) -> None:
        """What was used of a quota stays used when the limits change."""
        if not limits.limits:
            node.quota = None
        elif node.quota is None:
            now = self._means.clock()
            node.quota = Quota(limits, now=now, epoch=self._means.wall() - now)
        else:
            node.quota.settings = limits

    def _sender(self, network: str, node: NodeSettings) -> Batcher:
        """What calls to the node go through; the same one as before as long as its connector is."""
        key, upstream = (network, node.id), self._upstream(network, node)
        batcher = None if self._before is None else self._before.batchers.get(key)
        if batcher is None or batcher.client is not upstream or batcher.gathers != node.gather:
            batcher = Batcher(upstream, node.max_connections, self._means.clock, Gathering(), gathers=node.gather)
        self.batchers[key] = batcher
        return batcher

    def _upstream(self, network: str, node: NodeSettings) -> HttpNodeClient:
        key = (network, node.id)
        made_from = tuple(getattr(node, field) for field in _CONNECTOR_FIELDS)
        found = None if self._before is None else self._before.upstreams.get(key)
        if found is None or found[0] != made_from:
            found = (made_from, self._means.connect(node))
            self.opened.append(found[1])
        self.upstreams[key] = found
        return found[1]


def _same_chain(before: NetworkSettings, after: NetworkSettings) -> bool:
    """Does what is known of the network hold on? Not its head, nor its ids, on another chain."""
    return (before.chain, before.shard, before.chain_id) == (after.chain, after.shard, after.chain_id)


def _known_nodes(before: Network | None, settings: NetworkSettings) -> dict[str, Node]:
    """The nodes that are the same as before, by id. Behind another address stands another node: nothing of what was
    known is true of it, least of all that it serves the right chain."""
    if before is None or not _same_chain(before.settings, settings):
        return {}
    addresses = {node.id: node.url for node in before.settings.nodes}
    same = {node.id for node in settings.nodes if addresses.get(node.id) == node.url}
    return {node.id: node for node in before.pool.nodes if node.id in same}


def _node(settings: NodeSettings, network: NetworkSettings) -> Node:
    """The node of `settings`, of which nothing is known yet."""
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
