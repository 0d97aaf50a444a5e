"""The probers of all networks, which follow the settings."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.controlplane.nodes.prober import Prober
from rpcaccel.controlplane.nodes.quotas import Quotas
from rpcaccel.controlplane.stats.notices import LEVELS, LogNotice, changes
from rpcaccel.core.heads.identity import NodeTrial
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead
from rpcaccel.core.messages import Announced, Hint

log = structlog.get_logger("rpcaccel.heads")


def _made_from(settings: NetworkSettings) -> object:
    """The settings that a running prober cannot take over."""
    return (settings.chain, settings.shard, settings.chain_id, settings.finality_depth, settings.block_time)


class Probers:
    """A prober for each network. `publish` is called with every change of heads, `announce` with every block that a
    node pushes."""

    def __init__(
        self,
        publish: Callable[[NetworkHeads], None],
        clock: Callable[[], float] = time.monotonic,
        announce: Callable[[Announced], None] = lambda _announced: None,
        quotas: Quotas | None = None,
        examined: Callable[[str, LogNotice], None] = lambda _network, _notice: None,
    ) -> None:
        """
        Args:
            quotas: says what nodes may be asked when they are examined.
            examined: is called with the network and the line about each examination that begins or has ended.
        """
        self.heads: dict[str, NetworkHeads] = {}
        self._publish = publish
        self._clock = clock
        self._announce = announce
        self._quotas = quotas
        self._examined = examined
        self._probers: dict[str, tuple[object, Prober]] = {}
        self._epochs: dict[str, int] = {}
        """The next fork epoch of each network whose prober was stopped: a branch may be left without being noticed, and
        answers kept from it must not be found again."""

    def __repr__(self) -> str:
        return f"<Probers {' '.join(self._probers)}>"

    async def adopt(self, settings: Settings) -> None:
        """Probe the networks of these settings, and no others."""
        for name, (made_from, prober) in list(self._probers.items()):
            network = settings.networks.get(name)
            if network is None or _made_from(network) != made_from:
                del self._probers[name]
                await prober.stop()
                self.heads.pop(name, None)
                self._epochs[name] = prober.heads().served.fork_epoch + 1
        for name, network in settings.networks.items():
            known = self._probers.get(name)
            if known is None:
                prober = Prober(
                    name,
                    network,
                    publish=self._hear,
                    clock=self._clock,
                    announce=self._announce,
                    fork_epoch=self._epochs.get(name, 0),
                    quotas=self._quotas,
                )
                self._probers[name] = (_made_from(network), prober)
                await prober.start()
            else:
                await known[1].adopt(network)

    def hint(self, hint: Hint) -> None:
        """An answer to a worker showed that a node has a block."""
        known = self._probers.get(hint.network)
        if known is not None:
            known[1].hint(hint.node, hint.head)

    async def renew(self, network: str) -> None:
        """Look at all nodes of a network whose state or blocks a call changed."""
        known = self._probers.get(network)
        if known is not None:
            await known[1].renew()

    async def probe_now(self, network: str, node: str) -> NodeHead | None:
        """Probe a node at once; None when there is no such node."""
        known = self._probers.get(network)
        return None if known is None else await known[1].probe_now(node)

    def examine_now(self, network: str, node: str) -> NodeHead | None:
        """Examine a node, which goes on serving meanwhile; returns what is known of the node before, and None when
        there is no such node."""
        known = self._probers.get(network)
        if known is None or not known[1].examine_now(node):
            return None
        return next(head for head in known[1].heads().nodes if head.id == node)

    async def try_node(self, network: str, node: NodeSettings) -> NodeTrial | None:
        """Probe a node that is not in the settings; None when there is no such network."""
        known = self._probers.get(network)
        return None if known is None else await known[1].try_node(node)

    async def stop(self) -> None:
        for _, prober in self._probers.values():
            await prober.stop()

    def _hear(self, heads: NetworkHeads) -> None:
        if heads.network in self._probers:
            for notice in changes(self.heads.get(heads.network), heads):
                about = {"network": heads.network, "node": notice.node} if notice.node else {"network": heads.network}
                log.log(LEVELS[notice.level], notice.text, **about)
                if notice.examination:
                    self._examined(heads.network, notice)
            self.heads[heads.network] = heads
            self._publish(heads)
