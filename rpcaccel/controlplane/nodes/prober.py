"""Probers follow the head of every node of a network, check what each node serves, and publish both to the workers.

A node that does not answer, or serves another chain, is probed again and again, since it may come back. Nothing that a
node says or does ends the probing.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.controlplane.nodes.examination_schedule import ExaminationSchedule
from rpcaccel.controlplane.nodes.examine import examine
from rpcaccel.controlplane.nodes.head_stream import HeadSocket, HeadStream, PushedHead, StreamHooks, strange
from rpcaccel.controlplane.nodes.probe_state import ProbeState
from rpcaccel.controlplane.nodes.probes import Asker, CountedAsker, Look, Questions, Unseen, connect
from rpcaccel.controlplane.nodes.quotas import Quotas
from rpcaccel.controlplane.nodes.shadow_calls import Examined
from rpcaccel.core.heads.block_time import HEADERS_APART, SLOWEST, BlockPace
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.head_book import SILENT_AFTER, HeadBook, reached_by_half
from rpcaccel.core.heads.identity import ExpectedIdentity, NodeTrial, most_said, tried, wanted_of
from rpcaccel.core.heads.lateness import HeadTimes
from rpcaccel.core.heads.probe_schedule import ProbeSchedule
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead
from rpcaccel.core.messages import Announced
from rpcaccel.dataplane.upstream.node_socket import NodeSocket, places

CHECK_EVERY = 60.0
"""Seconds after which a node is asked for its identity again."""
TAGS_EVERY = 1.0
"""Seconds after which a node is asked again which blocks are final and safe, or half a block: heads are asked for more
often."""
TELL_EVERY = 1.0
"""Seconds after which the heads are published again though only latencies and times have changed."""
FIRST_WITHIN = 0.3
"""Seconds that the first heads wait for all nodes to be probed: workers should not begin with half of them."""
QUICKEST = 0.1
"""Seconds between two probes of a node at the least, where the settings name the block time."""
RENEWED_WITHIN = 0.5
"""Seconds for which nodes are waited for that are looked at because a call changed their state."""
_PATIENCE = 5.0
_TOLD = 128
"""Blocks that were announced to the workers and are remembered: each is announced once."""
_STREAMS = 32
"""WebSockets of a network that are looked for at usual places; more would tell the same blocks once more."""
_ALL_GONE = 1.0
"""Seconds between two probes of each node at the most while none answers: every call waits for the first that does."""
_GONE_AFTER = 2
"""Failed probes in a row after which a node's last head no longer counts."""


class Prober:
    """The prober of one network. `publish` is called with every change, from the loop it was started in."""

    def __init__(  # noqa: PLR0913 -- all but the first three have defaults
        self,
        network: str,
        settings: NetworkSettings,
        *,
        publish: Callable[[NetworkHeads], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        connect: Callable[[NodeSettings], Asker] = connect,
        announce: Callable[[Announced], None] = lambda _announced: None,
        open_socket: Callable[[NodeSettings, str], HeadSocket] = NodeSocket,
        fork_epoch: int = 0,
        quotas: Quotas | None = None,
    ) -> None:
        """
        Args:
            announce: is called with each block that a node pushes, before the heads that follow from it are published.
            open_socket: makes the WebSocket to an address of a node.
            fork_epoch: the first fork epoch, when there was a prober of this network before.
            quotas: says what nodes may be asked when they are examined, and counts probes of nodes with costs.
        """
        self.network = network
        self._settings = settings
        self._publish = publish
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._connect = connect
        self._quotas = quotas
        self._chain = chains.load(settings.chain)
        block_time = settings.block_time or self._chain.block_time
        self._announce = announce
        self._announced: deque[str] = deque(maxlen=_TOLD)
        self._open_socket = open_socket
        self._pace = BlockPace(block_time)
        self._head_times = HeadTimes()
        self._interval = min(SLOWEST, max(QUICKEST, block_time / 2))
        self._finality, depth = self._chain.finality_with(settings.finality_depth)
        fresh = max(15.0, 4 * self._interval)
        self._book = HeadBook(self._finality, self._pace, depth=depth, fresh=fresh, fork_epoch=fork_epoch)
        self._questions = Questions(self._chain.identity, _PATIENCE)
        self._nodes: dict[str, ProbeState] = {}
        wanted, served = lambda: self._settings.examine, lambda: self._book.served(clock()).head
        self._schedule = ExaminationSchedule(
            network, self._nodes, self._examine, self._weigh, clock, quotas, wanted, served
        )
        self.examine_now = self._schedule.examine_now
        self._streams: set[str] = set()
        """The nodes whose pushed heads are followed."""
        self._ending: set[asyncio.Task[None]] = set()
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
        self._schedule.start()

    async def stop(self) -> None:
        """End every probe and close the sockets."""
        self._running = False
        if self._opening is not None:
            self._opening.cancel()
        await self._schedule.stop()
        await asyncio.gather(*(self._leave(node_id) for node_id in list(self._nodes)))

    async def adopt(self, settings: NetworkSettings) -> None:
        """Take over nodes, weights, drains and the wanted chain; another chain or finality needs another prober."""
        rule, self._settings = self._settings.websockets, settings
        wanted, before = {node.id: node for node in settings.nodes}, dict(self._nodes)
        for node_id, probed in before.items():
            node = wanted.get(node_id)
            if node is None or not probed.reached_as(node):
                await self._leave(node_id)
        for node_id, node in wanted.items():
            known = self._nodes.get(node_id)
            if known is None:
                self._join(node, again=node_id in before)
            else:
                old, known.settings = known.settings, node
                if old.ws != node.ws or self._settings.websockets != rule:
                    self._end_stream(known)
        self._weigh()

    def hint(self, node_id: str, head: int) -> None:
        """Look at a node once, since an answer of it named block `head`. That is no head: a chain may tell of a block
        before any node gives it."""
        probed = self._nodes.get(node_id)
        if probed is not None and probed.schedule.hinted(head):
            probed.wake()

    async def renew(self) -> None:
        """Look at all nodes, and begin a fork epoch: a call changed state or blocks without a new block."""

        async def look(probed: ProbeState) -> None:
            await self._probe(probed)
            await self._probe(probed)  # a head that went back is believed when it is told twice

        if looks := [asyncio.ensure_future(look(probed)) for probed in self._nodes.values()]:
            await asyncio.wait(looks, timeout=RENEWED_WITHIN)
        self._book.renew()
        self._tell()

    async def probe_now(self, node_id: str) -> NodeHead | None:
        """Probe a node at once, its identity included; None when there is no such node."""
        probed = self._nodes.get(node_id)
        if probed is None:
            return None
        probed.checked_at = -math.inf
        await self._probe(probed)
        return self._node_head(probed, self._clock())

    async def try_node(self, settings: NodeSettings) -> NodeTrial:
        """Probe a node that need not be one of the network, once, and compare it with the network. Each call may take
        as long as in any other probe."""
        asker = self._connect(settings)
        try:
            look, claims = await asyncio.gather(
                self._questions.look(asker, again=None, hashes=False, tags=False), self._questions.claims(asker)
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
        told = [probed for probed in self._nodes.values() if probed.verdict.right is not False]
        right = [(probed.claims, probed.settings.weight) for probed in told if probed.claims is not None]
        early = all(probed.early for probed in told if probed.claims is not None)
        return NetworkHeads(
            network=self.network,
            served=served,
            finalized=self._book.finalized,
            safe=self._book.safe,
            epoch=reached_by_half((claims.epoch, weight) for claims, weight in right if claims.epoch is not None),
            block_time=self._pace.told,
            eth_chain_id=self._wanted().eth_chain_id,
            network_id=most_said((claims.network_id, weight) for claims, weight in right),
            genesis=(most_said((claims.genesis, weight) for claims, weight in right) or "") if right else None,
            block_one=most_said((claims.block_one, weight) for claims, weight in right)
            or (None if early and served.final >= 1 else ""),
            nodes=tuple(self._node_head(probed, now) for probed in self._nodes.values()),
        )

    def _node_head(self, probed: ProbeState, now: float) -> NodeHead:
        node_id = probed.settings.id
        head = probed.node_head(self._book.usable_head_of(node_id), self._book.lag_of(node_id), now, self._pace.stall)
        return replace(head, examining=self._schedule.keeps_out(node_id), examination=self._schedule.last(node_id))

    async def _examine(self, node: Examined, peers: Sequence[Examined]) -> Examination:
        errors = ahead_of(self._chain.errors, self._settings.error_rules)
        return await examine(node, peers, self._chain, errors, clock=self._clock, sleep=self._sleep)

    # -- nodes come and go ---------------------------------------------------------------------------------------

    def _join(self, settings: NodeSettings, *, again: bool) -> None:
        skew, replaced = self._rng.uniform(0.9, 1.1), self._finality != "instant"
        schedule = ProbeSchedule(self._pace, self._clock(), skew=skew, replaced=replaced)
        probed = self._nodes[settings.id] = ProbeState(settings, self._connect(settings), schedule)
        self._schedule.joined(settings.id, again=again)
        if self._running:
            probed.task = asyncio.create_task(self._follow(probed), name=f"probe {self.network} {settings.id}")

    async def _leave(self, node_id: str) -> None:
        probed, examination = self._nodes.pop(node_id), self._schedule.left(node_id)
        self._book.forget(node_id)
        ended = [task for task in (probed.task, examination, self._end_stream(probed)) if task is not None]
        if probed.task is not None:
            probed.task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
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
            await self._rest(probed)

    async def _rest(self, probed: ProbeState) -> None:
        """Wait until the next probe of a node is due. News of another node may bring that forward."""
        steady = probed.fails or self._settings.block_time is not None
        began, jitter = self._clock(), self._rng.uniform(0.9, 1.1)  # which keeps probers out of step
        while (now := self._clock()) < (
            at := min(began + self._pause(probed) * jitter, probed.schedule.look_for_hint(now))
            if steady
            else probed.schedule.next(now)
        ):
            probed.resting = asyncio.ensure_future(self._sleep(at - now))
            try:
                await asyncio.wait({probed.resting})
            finally:
                probed.resting.cancel()
                probed.resting = None

    def _pause(self, probed: ProbeState) -> float:
        """Seconds until the next probe where the rhythm of the blocks does not say: half a block, doubled with each
        failure: up to SLOWEST, or to _ALL_GONE where no node answers and this one has not refused us."""
        lone = not probed.barred and not any(other.answering for other in self._nodes.values())
        return min(self._between() * 2.0 ** min(probed.fails, 10), _ALL_GONE if lone else SLOWEST)

    def _between(self) -> float:
        """Seconds between two probes of a node that answers, while no block comes."""
        return self._interval if self._settings.block_time is not None else self._pace.calm

    async def _probe(self, probed: ProbeState) -> None:
        asker = self._counted(probed)
        async with probed.lock:  # a look asked for in between waits for the one under way: their answers must not cross
            asked_at = self._clock()
            self._book.asked(probed.settings.id, asked_at)
            deep = self._finality != "instant"
            older = probed.leapt_from if probed.leapt_from >= 0 else probed.told
            again = older if deep and older >= 0 else None
            question = self._book.in_question(probed.settings.id) if deep else None
            check, every = probed.due(asked_at, CHECK_EVERY), max(TAGS_EVERY, self._pace.period / 2)
            tags = self._finality == "tag" and (check or probed.early or asked_at - probed.tags_at >= every)
            probed.tags_at = asked_at if tags else probed.tags_at
            looking = self._questions.look(asker, again=again, hashes=deep, tags=tags, question=question)
            silence = asyncio.ensure_future(self._tell_of_silence())
            try:
                if check:
                    look, claims = await asyncio.gather(looking, self._questions.claims(asker))
                else:
                    look, claims = await looking, None
                    if probed.early and self._has_final_one(look):  # keys without it would be those of any such chain
                        claims = await self._questions.claims(asker)
            finally:
                silence.cancel()
        if self._nodes.get(probed.settings.id) is not probed:
            return  # the node left the network meanwhile
        now = self._clock()
        if claims is not None:
            probed.claim(claims, now, one_is_final=self._has_final_one(look))
            self._judge()
        if isinstance(look, Look):
            if probed.fails and probed.stream is not None:
                probed.stream.retry()
            self._see(probed, look, (again, look.old_hash), (question, look.other_hash), asked_at=asked_at)
        else:
            probed.fail(look.text, barred=look.barred)
            if probed.fails >= _GONE_AFTER:
                self._book.gone(probed.settings.id)
            for other in self._nodes.values():  # none may be left that answers
                other.wake()
        self._tell()
        if isinstance(look, Look) and probed.counts and not probed.timed:
            probed.timed = True
            blocks, method = min(HEADERS_APART, head := look.sighting.number), self._chain.live.block
            self._pace.state(blocks, await self._questions.seconds_between(asker, method, head - blocks, head))
            self._tell()

    async def _tell_of_silence(self) -> None:
        """Tell the heads once a node that is looked at is silent: the next look at another may be long in coming."""
        await self._sleep(SILENT_AFTER)
        self._tell()

    def _counted(self, probed: ProbeState) -> Asker:
        """The session for probes of a node, which are counted where the node has costs: its provider bills them."""
        quotas, costs = self._quotas, probed.settings.quota.method_costs
        if quotas is None or not costs.billed:
            return probed.asker
        rules, node_id = self._chain.rules, probed.settings.id
        return CountedAsker(
            probed.asker,
            lambda method: quotas.spend(self.network, node_id, costs.of(method, rules.get(method).heavy)),
        )

    def _has_final_one(self, look: Look | Unseen) -> bool | None:
        """Whether a node has block 1 and it is final; None where the node did not tell its head."""
        return self._book.is_final(1, look.sighting) if isinstance(look, Look) else None

    def _see(self, probed: ProbeState, look: Look, *hashes: tuple[int | None, str | None], asked_at: float) -> None:
        now, node_id, seen, turns = self._clock(), probed.settings.id, look.sighting, self._book.turns
        overtaken = probed.pushed_at > asked_at and seen.number <= probed.told  # by a push
        if not overtaken:
            for number, block_hash in hashes:
                if number is not None and block_hash is not None:
                    self._book.confirm(node_id, number, block_hash)
                    probed.leapt_from = -1 if number == probed.leapt_from else probed.leapt_from
            self._book.observe(node_id, seen, now)
        probed.see(probed.told if overtaken else seen.number, look.latency, now)
        self._schedule.seen(probed)
        probed.schedule.looked(seen.number, asked_at)
        self._spread(probed, seen.number, turned=self._book.turns != turns)
        if probed.stream is not None:
            probed.stream.compare(seen.number, now, self._pace.period)

    def _spread(self, probed: ProbeState, number: int, *, pushed: bool = False, turned: bool) -> None:
        """Look at the other nodes as soon as one has a new block, or has left its branch."""
        now = self._clock()
        for other in self._nodes.values() if probed.counts else ():
            if other is not probed and other.schedule.heard(number, now, pushed=pushed, turned=turned):
                other.wake()

    # -- heads that nodes push -----------------------------------------------------------------------------------

    def _begin_stream(self, probed: ProbeState) -> None:
        """Follow the heads that a node pushes, where there is an address at which it may."""
        node, live, enough = probed.settings, self._chain.live, len(self._streams) >= _STREAMS
        if probed.stream is not None or not self._running or not live.namespaces or (enough and not node.ws):
            return
        if not (found := places(node, self._settings.websockets, live, self._settings.nodes)):
            return
        self._streams.add(node.id)
        hooks = StreamHooks(
            connect=lambda address: self._open_socket(probed.settings, address),
            strange=lambda claims: strange(probed.claims, claims),
            pushed=lambda head: self._pushed(probed, head),
            turned=lambda: self._turned(probed),
        )
        identity, namespace, named = self._chain.identity, live.namespaces[0], bool(node.ws)
        probed.stream = HeadStream(
            found, identity, namespace, hooks, named=named, clock=self._clock, sleep=self._sleep, rng=self._rng
        )
        probed.streaming = asyncio.create_task(probed.stream.run(), name=f"heads of {self.network} {node.id}")

    def _end_stream(self, probed: ProbeState) -> asyncio.Task[None] | None:
        """No longer follow the heads that a node pushes; returns the task that is being cancelled."""
        task, probed.streaming, probed.stream = probed.streaming, None, None
        probed.schedule.turned(pushes=False)
        self._streams.discard(probed.settings.id)
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()
        return task

    def _pushed(self, probed: ProbeState, head: PushedHead) -> None:
        """Take a block that a node has pushed."""
        node_id, seen = probed.settings.id, head.sighting
        if self._nodes.get(node_id) is not probed or probed.verdict.right is False or not self._running:
            return
        if probed.announces and seen.hash is not None and seen.hash not in self._announced:
            self._announced.append(seen.hash)
            self._announce(Announced(self.network, seen.number, seen.hash, head.header))
        now = self._clock()
        before, turns = self._book.head_of(node_id), self._book.turns
        understood = self._book.announced(node_id, seen, now)
        if self._book.head_of(node_id) != before:
            probed.push(seen.number, now)
            if before + 1 < seen.number and probed.leapt_from < 0:
                probed.leapt_from = before
        probed.schedule.pushed(seen.number, now, understood=understood)
        probed.wake()
        self._spread(probed, seen.number, pushed=True, turned=self._book.turns != turns)
        self._tell()

    def _turned(self, probed: ProbeState) -> None:
        """A node begins to push its heads, or does so no longer."""
        probed.schedule.turned(pushes=probed.pushes)
        probed.wake()
        self._tell()

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
            self._book.weigh(node_id, probed.settings.weight, eligible=self._schedule.weighs(probed))
            if probed.claims is not None and probed.verdict.right is not False:
                self._begin_stream(probed)
            elif probed.verdict.right is False:
                self._end_stream(probed)

    def _weigh(self) -> None:
        """Count a node that was examined, or no longer one that is to be."""
        self._judge()
        self._tell()

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
        if now - self._told_at < TELL_EVERY and self._last is not None and heads.essence == self._last.essence:
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
