"""The one place of a worker's state, and its one writer.

A change of settings builds the new networks aside, carrying node state over by id, and swaps once. A call keeps the
network it started with. Architecture section 7.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from rpcaccel import balancers, chains
from rpcaccel.chains import Chain
from rpcaccel.config.error_rules import ahead_of
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.core import outliers
from rpcaccel.core.budget import Budget
from rpcaccel.core.classify import ErrorTable, classify
from rpcaccel.core.failure import FailureKind
from rpcaccel.core.gathering import Gathering
from rpcaccel.core.heads import NetworkHeads
from rpcaccel.core.node import Node
from rpcaccel.core.quota import Brought, Quota
from rpcaccel.core.tally import Tally
from rpcaccel.core.unclassed import Unclassed, UnclassedError
from rpcaccel.core.view import View
from rpcaccel.dataplane import tuning
from rpcaccel.dataplane.forward import Pool
from rpcaccel.dataplane.gather import Gatherer
from rpcaccel.dataplane.network import Network, Sight
from rpcaccel.dataplane.room import Room
from rpcaccel.dataplane.upstream import Upstream

_CONNECTOR_FIELDS = ("url", "headers", "max_connections", "keepalive", "connect_timeout", "timeout")
"""What an upstream is made from: when one of these changes, a new one is opened."""


class State:
    """Networks by name, with their nodes and connectors."""

    def __init__(
        self,
        tally: Tally,
        clock: Callable[[], float],
        rng: random.Random,
        *,
        wall: Callable[[], float] = time.time,
        connect: Callable[[NodeSettings], Upstream] = Upstream,
    ) -> None:
        """`wall`: seconds since 1970, for what people read. `connect` makes what sends calls to a node."""
        self.unclassed = Unclassed()
        self.networks: dict[str, Network] = {}
        self.revision = 0
        self._tally = tally
        self._clock = clock
        self._rng = rng
        self._wall = wall
        self._connect = connect
        self._workers = 1
        self._upstreams: dict[tuple[str, str], tuple[tuple[Any, ...], Upstream]] = {}
        self._gatherers: dict[tuple[str, str], Gatherer] = {}

    def adopt(self, settings: Settings, revision: int) -> list[Upstream]:
        """Take over `settings`; returns the upstreams that no network uses any more, to be closed once idle.

        What it raises, the networks raise when they are built: nothing is swapped then.
        """
        old = self._upstreams
        self._upstreams = {}
        workers, self._workers = self._workers, settings.workers
        try:
            networks = {name: self._network(name, part, old) for name, part in settings.networks.items()}
        except BaseException:
            self._upstreams, self._workers = old, workers
            raise
        self.networks = networks
        self.revision = revision
        self.unclassed.keep(self._is_unclassed)
        kept = {id(upstream) for _, upstream in self._upstreams.values()}
        self._gatherers = {key: found for key, found in self._gatherers.items() if key in self._upstreams}
        return [upstream for _, upstream in old.values() if id(upstream) not in kept]

    def see(self, heads: NetworkHeads) -> None:
        """The control plane tells where the nodes of a network are."""
        network = self.networks.get(heads.network)
        if network is None:
            return
        nodes = {node.id: node for node in network.pool.nodes}
        now = self._clock()
        checked = any(told.chain_ok for told in heads.nodes)
        for told in heads.nodes:
            node = nodes.get(told.id)
            if node is not None:
                # Beside nodes that are known to be right, one that has not said what it serves is not tried out.
                node.chain_ok = False if checked and told.chain_ok is None else told.chain_ok
                node.bar(told.barred)
                node.breaker.probed(now, answered=told.answering)
                node.answering = told.answering if told.looked_at else None
                _set_head(node, told.head, now)
                node.probed = told.latency if told.answering else None
                if node.quota is not None:
                    node.quota.epoch = self._wall() - now
        for node in outliers.look(network.pool.nodes, now, network.pool.outliers):
            self._tally.node(network.name, node.id).ejections += 1
        for node in network.pool.nodes:
            # As long as it is out, and not once: not everything may be paid for at the same time.
            if now < node.ejected_until or not node.breaker.allows(now):
                network.pool.desert(node.id)
        view = _view(network.view, heads)
        if view != network.view:
            network.see(view)

    def bring(self, uses: Iterable[Brought]) -> None:
        """What others used of this worker's part of the quotas; quotas that are not there (any more) are let be."""
        now = self._clock()
        for brought in uses:
            network = self.networks.get(brought.network)
            for node in network.pool.nodes if network is not None else ():
                if node.id == brought.node and node.quota is not None:
                    node.quota.bring(brought, now)

    def upstreams(self) -> Iterator[tuple[str, str, Upstream]]:
        """Every upstream with its network and node."""
        for (network, node), (_, upstream) in self._upstreams.items():
            yield network, node, upstream

    def _network(
        self, name: str, settings: NetworkSettings, old: dict[tuple[str, str], tuple[tuple[Any, ...], Upstream]]
    ) -> Network:
        chain = chains.load(settings.chain)
        self._tally.know(rule.method for rule in chain.rules)
        before = self.networks.get(name)
        known = _known_nodes(before, settings)
        nodes = [_node(part, settings, known.get(part.id)) for part in settings.nodes]
        for part, node in zip(settings.nodes, nodes, strict=True):
            self._give_quota(part, node)
        balancer = balancers.load(settings.balancer)
        if before is not None and before.pool.balancer.name == balancer.name:
            balancer = before.pool.balancer
        balancer.adopt(nodes)
        pool = Pool(
            nodes=nodes,
            balancer=balancer,
            upstreams={part.id: self._sender(name, part, chain, old) for part in settings.nodes},
            classify=_classifier(ahead_of(chain.errors, settings.error_rules)),
            unclassed=partial(self._note, name),
            clock=self._clock,
            rng=self._rng,
            settings=tuning.dispatch(settings, chain.block_time),
            hedging=tuning.hedging(settings),
            outliers=tuning.outliers(settings),
            busy_wait=settings.concurrency.wait,
            room=before.pool.room if before is not None else Room(),
            broadcast=tuning.broadcast(settings),
            cells={part.id: self._tally.node(name, part.id) for part in settings.nodes},
            budget=before.pool.budget if before is not None else Budget(),
        )
        if before is not None:
            pool.waiting, pool.late = before.pool.waiting, before.pool.late
        pool.room.most = settings.concurrency.waiting
        pool.budget.share, pool.budget.floor = settings.budget.share, settings.budget.floor
        sight = before.sight if before is not None and _same_chain(before.settings, settings) else Sight()
        return Network(name, settings, chain, pool, self._tally, sight)

    def _is_unclassed(self, error: UnclassedError) -> bool:
        network = self.networks.get(error.network)
        if network is None:
            return False
        return network.pool.classify(error.code, error.message, error.http_status) is FailureKind.UNKNOWN

    def _note(self, network: str, node: str, method: str, code: int, message: str, http_status: int) -> None:
        self.unclassed.note(network, node, method, code, message, http_status, at=self._wall())

    def _give_quota(self, settings: NodeSettings, node: Node) -> None:
        """What was used of a quota stays used when the limits change."""
        limits, now = tuning.quota(settings, self._workers), self._clock()
        if not limits.limits:
            node.quota = None
        elif node.quota is None:
            node.quota = Quota(limits, now=now, epoch=self._wall() - now)
        else:
            node.quota.settings = limits

    def _sender(
        self,
        network: str,
        node: NodeSettings,
        chain: Chain,
        old: dict[tuple[str, str], tuple[tuple[Any, ...], Upstream]],
    ) -> Upstream | Gatherer:
        """What calls to the node go through; the same one as before as long as its connector is."""
        key, upstream = (network, node.id), self._upstream(network, node, old)
        if not node.gather:
            return upstream
        gatherer = self._gatherers.get(key)
        if gatherer is None or gatherer.upstream is not upstream:
            gatherer = Gatherer(upstream, chain.rules, node.max_connections, self._clock, Gathering())
        self._gatherers[key] = gatherer
        return gatherer

    def _upstream(
        self, network: str, node: NodeSettings, old: dict[tuple[str, str], tuple[tuple[Any, ...], Upstream]]
    ) -> Upstream:
        key = (network, node.id)
        made_from = tuple(getattr(node, field) for field in _CONNECTOR_FIELDS)
        found = old.get(key)
        if found is None or found[0] != made_from:
            found = (made_from, self._connect(node))
        self._upstreams[key] = found
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


def _node(settings: NodeSettings, network: NetworkSettings, known: Node | None) -> Node:
    """The node of `settings`, with everything already known about it."""
    roles = frozenset(settings.roles) | ({"beacon"} if network.shard == 0 else set())
    node = Node(
        settings.id,
        weight=settings.weight,
        tier=settings.tier,
        tags=settings.tags,
        roles=roles,
        timeout=settings.timeout,
        limit=tuning.limit(network, settings),
        drained=settings.drain,
    )
    node.slow_start = network.slow_start
    if known is not None:
        known.adopt(node)
        node = known
    node.breaker.settings = tuning.breaker(network)
    node.pace.share = network.hedge.quantile or 0.95
    return node


def _set_head(node: Node, head: int, now: float) -> None:
    """The prober's word counts in both directions: a restored node may be behind where it was."""
    if head != node.head:
        node.head, node.head_at = head, now


def _classifier(table: ErrorTable) -> Callable[[int, str, int], FailureKind]:
    return lambda code, message, status: classify(table, code, message, status).kind


def _view(before: View, heads: NetworkHeads) -> View:
    """The view that follows from the heads; the serial moves only when something did."""
    best = max((node.head for node in heads.nodes if node.chain_ok is not False), default=-1)
    view = View(
        serial=before.serial,
        head=heads.served.head,
        best=max(best, heads.served.head),
        final=heads.served.final,
        finalized=heads.finalized,
        fork_epoch=heads.served.fork_epoch,
        epoch=heads.epoch,
        eth_chain_id=-1 if heads.eth_chain_id is None else heads.eth_chain_id,
        network_id=-1 if heads.network_id is None else heads.network_id,
    )
    return view if view == before else View(**{**_fields(view), "serial": before.serial + 1})


def _fields(view: View) -> dict[str, int]:
    return {name: getattr(view, name) for name in view.__struct_fields__}
