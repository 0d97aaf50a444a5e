"""The state of a worker in one place, with one writer.

A change of settings builds the new networks beside those in force, carries node state over by id, and swaps once. A
call keeps the network it started with (architecture section 7).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from rpcaccel.config.model import NodeSettings
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.memo import Memos
from rpcaccel.core.nodes import outliers
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.replies.unknown_errors import UnclassedError, UnclassedLog
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.networks import settings_mapping
from rpcaccel.dataplane.networks.build import Build, NetworkDependencies
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient


class WorkerState:
    """Networks by name, with their nodes and connectors."""

    def __init__(
        self,
        tally: Tally,
        clock: Callable[[], float],
        rng: random.Random,
        *,
        wall: Callable[[], float] = time.time,
        connect: Callable[[NodeSettings, NodeCell], HttpNodeClient] = HttpNodeClient,
    ) -> None:
        """`wall`: seconds since 1970, for what people read. `connect` makes the client of a node."""
        self.unclassed = UnclassedLog()
        self.networks: dict[str, Network] = {}
        self.revision = 0
        self._tally = tally
        self._clock = clock
        self._wall = wall
        self.memos = Memos()
        """The budget for what is remembered of calls, in all networks and on all paths."""
        self._means = NetworkDependencies(
            tally=tally, clock=clock, wall=wall, rng=rng, connect=connect, memos=self.memos, unclassed=self._note
        )
        self._built = Build(self._means)

    def build(self) -> Build:
        """A build in which the networks of a new revision are made, beside those in force."""
        return Build(self._means, self._built)

    def adopt(self, build: Build, revision: int) -> list[HttpNodeClient]:
        """Put a build in force. Returns the clients that no network uses any more, which are to be closed once idle."""
        old, self._built = self._built, build
        build.settle()
        self.networks = build.networks
        self.revision = revision
        self.unclassed.keep(self._is_unclassed)
        kept = {id(line.client) for line in build.lines.values()}
        return [line.client for line in old.lines.values() if id(line.client) not in kept]

    def see(self, heads: NetworkHeads) -> None:
        """Take what the control plane knows of the nodes of a network."""
        network = self.networks.get(heads.network)
        if network is None:
            return
        nodes = {node.id: node for node in network.pool.nodes}
        network.sight.suspects = frozenset(heads.suspects)
        if heads.block_time != network.sight.block_time:
            network.keep_pace(heads.block_time)
        now = self._clock()
        checked, came = any(told.chain_ok for told in heads.nodes), False
        for told in heads.nodes:
            node = nodes.get(told.id)
            if node is not None:
                # Beside nodes known to be right, one that has not said which chain it serves is not tried out.
                node.chain_ok = False if checked and told.chain_ok is None else told.chain_ok
                node.bar(told.barred)
                node.hear(told.says)
                shut = not node.breaker.allows(now)
                node.breaker.probed(now, answered=told.answering)
                node.answering = told.answering if told.looked_at else None
                came = came or told.head > node.head or (shut and node.breaker.allows(now))
                node.told_head(told.head, now)
                node.distrusted = frozenset(heads.suspects.get(told.id, ()))
                node.examined.examining = told.examining
                node.take_examination(told.examination, network.chain.untraced)
                batches = self._built.lines[network.name, node.id].batcher.state
                batches.bound(None if told.examination is None else told.examination.batch_most)
                node.probed = told.latency if told.answering else None
                if told.answering:
                    node.parking.probed(told.seen_at)
                if node.quota is not None:
                    node.quota.epoch = self._wall() - now
        self._watch(network, now)
        seen = max((node.hidden_lag(now) for node in network.pool.nodes), default=0)
        doubt = settings_mapping.doubt(network.settings, network.block_time, seen)
        view = _view(network.view, heads, doubt=doubt, forgetting=network.sight.forgetting)
        served = heads.served
        network.sight.known_blocks.served(served.head, served.hash, served.final, served.fork_epoch, served.doubted)
        if view != network.view:
            network.see(view)
        elif came:
            network.sight.wake()

    def watch(self) -> None:
        """Leave nodes alone that are much slower than the others or hang: a probe may be long in coming."""
        now = self._clock()
        for network in self.networks.values():
            self._watch(network, now)

    def _watch(self, network: Network, now: float) -> None:
        pool = network.pool
        for node in outliers.look(pool.nodes, now, pool.outliers):
            self._tally.node(network.name, node.id).ejections += 1
        for node in pool.nodes:
            # Repeated while the node is out or silent: the retry budget may not pay for all of its calls at once.
            silent = outliers.silent(node, now, pool.outliers, pool.settings.patience)
            if silent or now < node.ejected_until or not node.breaker.allows(now):
                pool.abandon(node.id, silent=silent)

    def bring(self, uses: Iterable[Brought]) -> None:
        """Take what other workers used of this worker's part of the quotas; quotas that do not exist (any more) are
        ignored."""
        now = self._clock()
        for brought in uses:
            network = self.networks.get(brought.network)
            for node in network.pool.nodes if network is not None else ():
                if node.id == brought.node and node.quota is not None:
                    node.quota.bring(brought, now)

    def upstreams(self) -> list[HttpNodeClient]:
        """The clients of all nodes."""
        return [line.client for line in self._built.lines.values()]

    def _is_unclassed(self, error: UnclassedError) -> bool:
        network = self.networks.get(error.network)
        if network is None:
            return False
        return network.pool.classify(error.code, error.message, error.http_status) is FailureKind.UNKNOWN

    def _note(self, network: str, node: str, method: str, code: int, message: str, http_status: int) -> None:
        self.unclassed.note(network, node, method, code, message, http_status, at=self._wall())


def _view(before: ChainSnapshot, heads: NetworkHeads, *, doubt: int, forgetting: bool) -> ChainSnapshot:
    """The snapshot that follows from the heads; its serial increases only when another field changed."""
    best = max((node.head for node in heads.nodes if node.chain_ok is not False), default=-1)
    view = ChainSnapshot(
        serial=before.serial,
        head=heads.served.head,
        best=max(best, heads.served.head),
        final=-1 if forgetting else heads.served.final,
        finalized=heads.finalized,
        safe=heads.safe,
        doubt=doubt,
        fork_epoch=heads.served.fork_epoch,
        epoch=heads.epoch,
        eth_chain_id=-1 if heads.eth_chain_id is None else heads.eth_chain_id,
        network_id=-1 if heads.network_id is None else heads.network_id,
        genesis=heads.genesis,
        block_one=heads.block_one,
    )
    return view if view == before else replace(view, serial=before.serial + 1)
