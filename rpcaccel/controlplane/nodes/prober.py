"""Probers follow the head of every node of a network, check what each node serves, and publish both to the workers.

A node that does not answer, or serves another chain, is probed again and again, since it may come back. Nothing that a
node says or does ends the probing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import structlog
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.chains import Chain
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.controlplane.nodes.probe_state import ProbeState
from rpcaccel.controlplane.nodes.probes import Asker, Look, Questions, Unseen
from rpcaccel.controlplane.stats.notices import LEVELS, changes
from rpcaccel.core.heads.block_time import BlockPace
from rpcaccel.core.heads.identity import ExpectedIdentity, most_said, wanted_of
from rpcaccel.core.heads.lateness import HeadTimes
from rpcaccel.core.heads.node_trial import NodeTrial, tried
from rpcaccel.core.heads.served_head import Finality, HeadBook, NetworkHeads, NodeHead, reached_by_half
from rpcaccel.core.messages import Hint
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient

log = structlog.get_logger("rpcaccel.heads")

QUICKEST, SLOWEST = 0.1, 5.0
"""Seconds: bounds of the time between two looks at a node that answers, and of the back-off from one that does not."""
UNASKED = 1.0
"""Seconds between two probes at the least, where the settings do not name the block time: providers charge for probes.
"""
CHECK_EVERY = 60.0
"""Seconds after which a node is asked for its identity again."""
TELL_EVERY = 1.0
"""Seconds after which the heads are published again though only latencies and times have changed."""
FIRST_WITHIN = 0.3
"""Seconds that the first heads wait for all nodes to be probed: workers should not begin with half of them."""
_PATIENCE = 5.0
_CONNECTIONS = 4
_LARGEST = 16 << 20
"""Bytes of an answer to a probe: the longest asked for is a block with the hashes of its transactions."""
_GONE_AFTER = 2
"""Failed probes in a row after which a node's last head no longer counts."""


def _address(settings: NodeSettings) -> object:
    """The settings that a session is made from: when they change, a new session is needed."""
    return (settings.url, settings.headers, settings.connect_timeout)


def _connect(settings: NodeSettings) -> HttpNodeClient:
    return HttpNodeClient(
        settings.model_copy(update={"max_connections": _CONNECTIONS, "warm": 0, "max_answer": _LARGEST})
    )


class Prober:
    """The prober of one network. `publish` is called with every change, from the loop it was started in."""

    def __init__(
        self,
        network: str,
        settings: NetworkSettings,
        *,
        publish: Callable[[NetworkHeads], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        connect: Callable[[NodeSettings], Asker] = _connect,
        fork_epoch: int = 0,
    ) -> None:
        """`fork_epoch`: the first fork epoch, when there was a prober of this network before."""
        self.network = network
        self._settings = settings
        self._publish = publish
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._connect = connect
        self._chain = chains.load(settings.chain)
        block_time = settings.block_time or self._chain.block_time
        self._pace = BlockPace(block_time)
        self._head_times = HeadTimes()
        self._interval = min(SLOWEST, max(QUICKEST, block_time / 2))
        self._stall = max(45.0, 20 * block_time)
        self._finality, depth = _finality(settings, self._chain)
        self._book = HeadBook(
            self._finality,
            depth=depth,
            wait=min(15.0, max(2.0, 3 * block_time)),
            fresh=max(15.0, 4 * self._interval),
            stall=self._stall,
            fork_epoch=fork_epoch,
        )
        self._questions = Questions(self._chain.identity, _PATIENCE)
        self._nodes: dict[str, ProbeState] = {}
        self._running = False
        self._opening: asyncio.Task[None] | None = None
        self._last: NetworkHeads | None = None
        self._told_at = 0.0

    def __repr__(self) -> str:
        return f"<Prober {self.network} {len(self._nodes)} nodes, {self._book!r}>"

    async def start(self) -> None:
        """Begin to follow every node; the first probes are under way when this returns."""
        self._running = True
        self._opening = asyncio.create_task(self._open(), name=f"first heads of {self.network}")
        await self.adopt(self._settings)

    async def stop(self) -> None:
        """End every probe and close the sockets."""
        self._running = False
        if self._opening is not None:
            self._opening.cancel()
        await asyncio.gather(*(self._leave(node_id) for node_id in list(self._nodes)))

    async def adopt(self, settings: NetworkSettings) -> None:
        """Take over nodes, weights, drains and the wanted chain; another chain or finality needs another prober."""
        self._settings = settings
        wanted = {node.id: node for node in settings.nodes}
        for node_id, probed in list(self._nodes.items()):
            node = wanted.get(node_id)
            if node is None or _address(node) != _address(probed.settings):
                await self._leave(node_id)
        for node_id, node in wanted.items():
            known = self._nodes.get(node_id)
            if known is None:
                self._join(node)
            else:
                known.settings = node
        self._judge()
        self._tell()

    def hint(self, node_id: str, head: int) -> None:
        """Take an answer that named block `head` as a sign that the node has it, as far as the block time allows."""
        probed = self._nodes.get(node_id)
        if probed is None or probed.verdict.right is False:
            return
        if self._book.hint(node_id, head, self._clock(), self._pace.seconds):
            self._tell()

    async def probe_now(self, node_id: str) -> NodeHead | None:
        """Probe a node at once, its identity included; None when there is no such node."""
        probed = self._nodes.get(node_id)
        if probed is None:
            return None
        probed.claims = None
        await self._probe(probed)
        return self._node_head(probed, self._clock())

    async def try_node(self, settings: NodeSettings) -> NodeTrial:
        """Probe a node that need not be one of the network, once, and compare it with the network. Each call may take
        as long as in any other probe."""
        asker = self._connect(settings)
        try:
            look, claims = await asyncio.gather(
                self._questions.look(asker, again=None, hashes=False, final=False), self._questions.claims(asker)
            )
        finally:
            await asker.close()
        wanted, served = self._wanted(), self._last.served.head if self._last else -1
        if isinstance(look, Unseen):
            return tried(claims, wanted, served=served, fault=look.text)
        return tried(claims, wanted, head=look.sighting.number, latency=look.latency, served=served)

    def heads(self) -> NetworkHeads:
        """The heads of all nodes at this moment."""
        now = self._clock()
        served = self._book.served(now)
        right = [
            (probed.claims, probed.settings.weight)
            for probed in self._nodes.values()
            if probed.claims is not None and probed.verdict.right is not False
        ]
        return NetworkHeads(
            network=self.network,
            served=served,
            finalized=self._book.finalized,
            epoch=reached_by_half((claims.epoch, weight) for claims, weight in right if claims.epoch is not None),
            block_time=self._pace.measured,
            eth_chain_id=self._wanted().eth_chain_id,
            network_id=most_said((claims.network_id, weight) for claims, weight in right),
            genesis=(most_said((claims.genesis, weight) for claims, weight in right) or "") if right else None,
            nodes=tuple(self._node_head(probed, now) for probed in self._nodes.values()),
        )

    def _node_head(self, probed: ProbeState, now: float) -> NodeHead:
        node_id = probed.settings.id
        return NodeHead(
            id=node_id,
            head=self._book.usable_head_of(node_id),
            chain_ok=probed.verdict.right,
            says={} if probed.claims is None else probed.claims.says,
            answering=probed.answering,
            barred=probed.fault if probed.barred else "",
            note=probed.note(now, self._book.lag_of(node_id), self._stall),
            latency=probed.latency,
            seen_at=probed.seen_at,
            behind=probed.lateness.behind,
            late=probed.lateness.usual,
        )

    # -- nodes come and go ---------------------------------------------------------------------------------------

    def _join(self, settings: NodeSettings) -> None:
        probed = self._nodes[settings.id] = ProbeState(settings, self._connect(settings))
        if self._running:
            probed.task = asyncio.create_task(self._follow(probed), name=f"probe {self.network} {settings.id}")

    async def _leave(self, node_id: str) -> None:
        probed = self._nodes.pop(node_id)
        self._book.forget(node_id)
        if probed.task is not None:
            probed.task.cancel()
            await asyncio.gather(probed.task, return_exceptions=True)
        await probed.asker.close()

    # -- looking -------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self._sleep(FIRST_WITHIN)
        self._opening = None
        self._tell()

    async def _follow(self, probed: ProbeState) -> None:
        while True:
            try:
                await self._probe(probed)
            except Exception as error:  # a bug in a probe must not end the probing of the node
                probed.fail(f"the probe itself failed: {type(error).__name__}")
            await self._sleep(self._pause(probed))

    def _pause(self, probed: ProbeState) -> float:
        """Seconds until the next probe: half a block, doubled with each failure, with a jitter that keeps probers out
        of step."""
        backed_off = self._between() * 2 ** min(probed.fails, 10)
        jitter: float = self._rng.uniform(0.9, 1.1)
        return float(min(backed_off, SLOWEST) * jitter)

    def _between(self) -> float:
        """Seconds between two probes of a node that answers."""
        if self._settings.block_time is not None:
            return self._interval
        return min(self._interval, max(UNASKED, self._pace.seconds / 2))

    async def _probe(self, probed: ProbeState) -> None:
        async with probed.lock:  # a look asked for in between waits for the one under way: their answers must not cross
            asked_at = self._clock()
            deep = self._finality != "instant"
            again = probed.told if deep and probed.told >= 0 else None
            question = self._book.in_question(probed.settings.id) if deep else None
            looking = self._questions.look(
                probed.asker, again=again, hashes=deep, final=self._finality == "tag", question=question
            )
            if probed.due(asked_at, CHECK_EVERY):
                look, claims = await asyncio.gather(looking, self._questions.claims(probed.asker))
            else:
                look, claims = await looking, None
        if self._nodes.get(probed.settings.id) is not probed:
            return  # the node left the network meanwhile
        now = self._clock()
        if claims is not None:
            probed.claim(claims, now)
            self._judge()
        if isinstance(look, Look):
            self._see(probed, look, (again, look.old_hash), (question, look.other_hash), asked_at=asked_at)
        else:
            probed.fail(look.text, barred=look.barred)
            if probed.fails >= _GONE_AFTER:
                self._book.gone(probed.settings.id)
        self._tell()

    def _see(self, probed: ProbeState, look: Look, *hashes: tuple[int | None, str | None], asked_at: float) -> None:
        now, node_id = self._clock(), probed.settings.id
        for number, block_hash in hashes:
            if number is not None and block_hash is not None:
                self._book.confirm(node_id, number, block_hash)
        self._book.observe(node_id, replace(look.sighting, asked_at=asked_at), now)
        probed.see(look.sighting.number, look.latency, now)

    # -- judging and telling -------------------------------------------------------------------------------------

    def _wanted(self) -> ExpectedIdentity:
        """The identity that every node must have."""
        shard = None if self._chain.identity.shard is None else self._settings.shard
        said = [(probed.claims, probed.settings.weight) for probed in self._nodes.values() if probed.claims is not None]
        return wanted_of(said, self._settings.chain_id, shard)

    def _judge(self) -> None:
        wanted = self._wanted()
        for node_id, probed in self._nodes.items():
            probed.judge(wanted)
            self._book.weigh(node_id, probed.settings.weight, eligible=probed.counts)

    def _tell(self) -> None:
        """Publish the heads, unless nothing but times has changed since they were published."""
        if not self._running:
            return
        if self._opening is not None:
            if not all(probed.looked_at for probed in self._nodes.values()):
                return
            self._opening.cancel()
            self._opening = None
        now = self._clock()
        self._pace.see(self._book.told(now), now)
        self._time_blocks(now)
        heads = self.heads()
        if now - self._told_at < TELL_EVERY and self._last is not None and _essence(heads) == _essence(self._last):
            return
        self._last, self._told_at = heads, now
        self._publish(heads)

    def _time_blocks(self, now: float) -> None:
        """Note how late the blocks that are known now reached the nodes."""
        self._head_times.see(self._book.served(now).head, now)
        for node_id, probed in self._nodes.items():
            probed.lateness.look(
                self._book.usable_head_of(node_id),
                self._head_times,
                now,
                block_time=self._pace.seconds,
                interval=self._between(),
                latency=probed.latency or 0.0,
            )


def _essence(heads: NetworkHeads) -> tuple[object, ...]:
    """The part of the heads whose change is published at once: everything but times."""
    nodes = tuple(replace(node, latency=None, seen_at=None, late=0.0) for node in heads.nodes)
    return (replace(heads, nodes=()), nodes)


def _finality(settings: NetworkSettings, chain: Chain) -> tuple[Finality, int]:
    """The operator's depth comes before the chain's own finality."""
    depth = settings.finality_depth
    if depth is None:
        return chain.finality, chain.finality_depth
    return ("instant", 0) if depth == 0 and chain.finality == "instant" else ("depth", depth)


def _made_from(settings: NetworkSettings) -> object:
    """The settings that a running prober cannot take over."""
    return (settings.chain, settings.finality_depth, settings.block_time)


class Probers:
    """A prober for each network. `publish` is called with every change of heads."""

    def __init__(self, publish: Callable[[NetworkHeads], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.heads: dict[str, NetworkHeads] = {}
        self._publish = publish
        self._clock = clock
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
                    name, network, publish=self._hear, clock=self._clock, fork_epoch=self._epochs.get(name, 0)
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

    async def probe_now(self, network: str, node: str) -> NodeHead | None:
        """Probe a node at once; None when there is no such node."""
        known = self._probers.get(network)
        return None if known is None else await known[1].probe_now(node)

    async def try_node(self, network: str, node: NodeSettings) -> NodeTrial | None:
        """Probe a node that is not in the settings; None when there is no such network."""
        known = self._probers.get(network)
        return None if known is None else await known[1].try_node(node)

    async def stop(self) -> None:
        """End all probing."""
        for _, prober in self._probers.values():
            await prober.stop()

    def _hear(self, heads: NetworkHeads) -> None:
        if heads.network in self._probers:
            for notice in changes(self.heads.get(heads.network), heads):
                about = {"network": heads.network, "node": notice.node} if notice.node else {"network": heads.network}
                log.log(LEVELS[notice.level], notice.text, **about)
            self.heads[heads.network] = heads
            self._publish(heads)
