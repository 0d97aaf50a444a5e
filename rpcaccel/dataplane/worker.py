"""A worker: everything that serves calls in one process, between `start` and `drain`."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from rpcaccel import stores
from rpcaccel.config.model import Settings
from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.client_limits import Exposure
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.memo import part_of
from rpcaccel.core.messages import Announced, NodeReport, Noted, PurgeDone, Recorded, Spent, WorkerReport
from rpcaccel.core.nodes.eligibility import explain, rests
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.core.stats.counters import SHARED_TIER, TallySnapshot
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane import gauges
from rpcaccel.dataplane.certificate import ServedCertificate
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.engine.explain import explanation
from rpcaccel.dataplane.engine.head_change import ChainRestarts
from rpcaccel.dataplane.engine.store_lookup import HotAnswers
from rpcaccel.dataplane.event_loop import ROOM_TO_SEND, LongestTurn, in_turns, report_bug
from rpcaccel.dataplane.http.connections import Lanes
from rpcaccel.dataplane.http.handler import NO_NODES, RequestHandler
from rpcaccel.dataplane.http.tls_transport import TlsTransport
from rpcaccel.dataplane.live.hub import Hub
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.networks.worker_state import WorkerState
from rpcaccel.dataplane.rpc.admission import Admission, Neighbours, SharedLimits, routes
from rpcaccel.dataplane.rpc.calls import Calls
from rpcaccel.dataplane.rpc.observers import Observer, Observers, Recorder

BACKLOG = 1024
"""The number of connections that may wait to be accepted."""
NEWEST = "rpcaccel_newest"
"""A method that no node serves: its plan asks for nodes at the served head, as that of every unknown method does."""


ERRORS_SECONDS = 1.0
"""Seconds between two messages about errors."""
_WATCH = 0.5
"""Seconds between two looks whether a node hangs."""
DRAIN_LOOK_SECONDS = 0.02
"""Seconds between two looks whether the last client has left."""


class Worker:
    """Serves the networks of its settings on one socket."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        revision: int = 1,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        on_hint: Callable[[Noted], None] = lambda _hint: None,
        on_spent: Callable[[Spent], None] | None = None,
    ) -> None:
        """`on_spent` is called with what clients spent here, where there are other workers."""
        self.name = name
        self._settings = settings
        self._clock = clock
        self._started = clock()
        self._revision = revision
        self._tally = Tally()
        self._memory = MemoryTier(settings.memory.size - part_of(settings.memory.size), settings.memory.max_entry)
        self._store = stores.driver(settings.redis).build(settings.redis)
        self._disk = stores.load_disk(settings.disk)
        rng = rng or random.Random()
        self.state = WorkerState(self._tally, clock, rng)
        single_flight = settings.redis.single_flight
        self.engine = Engine(
            self._memory, self._store, self._tally, clock, rng, on_hint, disk=self._disk, single_flight=single_flight
        )
        further = self.engine.disk, self._store
        self._chain_restarts = ChainRestarts(
            self._memory, further, self.engine.purges, clock, self.engine.flights.under_way
        )
        self.admission = Admission(self._tally, clock)
        self._shared_limits = SharedLimits(self.admission.clients, clock, self._tally)
        self._on_spent = on_spent
        self._tell = on_hint
        self.live = Hub(self._tally, clock, self.engine, settings.http.websocket)
        self._calls = Calls(self.engine, self.live, clock, settings.http)
        self._recorder = Recorder(clock, rng, self._hook)
        self._front = RequestHandler(
            settings.http,
            self._calls,
            self._not_ready,
            self._tally,
            clock,
            self.admission,
            self._memory,
        )
        self._observers = Observers()
        self._observer: Observer | None = None
        self._server: asyncio.Server | None = None
        self._lanes = Lanes(self._front)
        self._background: set[asyncio.Task[None]] = set()
        self._lingers_until = math.inf
        self._longest_turn = LongestTurn()

    async def start(
        self,
        sock: socket.socket,
        heads: Iterable[NetworkHeads] = (),
        brought: Iterable[Brought] = (),
        certificate: ServedCertificate | None = None,
    ) -> None:
        """Connect to what the settings name, and take calls on a bound socket, with a certificate over TLS alone.
        Its caller watches the certificate.

        The heads that are known already, and what is used of the quotas, are taken over first.
        """
        await asyncio.gather(self._store.start(), self.engine.disk.start())
        self.adopt(self._settings, self._revision)
        self.bring(brought)
        self._later(_every(ERRORS_SECONDS, self._tell_errors))
        self._later(_every(_WATCH, self.state.watch))
        if self._disk is not None:
            hot = HotAnswers(self._memory, self._disk, self.engine.purges, self._clock, self._believes)
            self._later(hot.run())
        for known in heads:
            self.see(known)
        if self._store.shares_limits:
            self._later(self._shared_limits.run(self._store.exchange))
        elif self._on_spent is not None:
            self._later(self._shared_limits.run(Neighbours(self._on_spent).exchange))
        self._longest_turn.start()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM_TO_SEND)  # connections have it from here
        sock.listen(BACKLOG)  # uvloop would not raise that another program listens there

        def secured() -> asyncio.Protocol:
            lane = self._lanes()
            return lane if certificate is None else TlsTransport(certificate.context, lane, self._front.lost)

        self._server = await asyncio.get_running_loop().create_server(secured, sock=sock, backlog=BACKLOG)

    @property
    def port(self) -> int:
        """The port that the worker listens on; 0 while it does not."""
        return self._server.sockets[0].getsockname()[1] if self._server and self._server.sockets else 0

    def adopt(self, settings: Settings, revision: int) -> None:
        """Put a revision of the settings in force for the next call. Raises whatever building it raises; then nothing
        has changed."""
        build = self.state.build()
        try:
            build.make(settings)
            routes(build.networks.values(), settings.main_network)  # whatever it raises is raised before the swap
            self._observer, old = self._observers.adopt(settings)
        except BaseException:
            for upstream in build.opened:
                self._later(upstream.close())
            raise
        for upstream in self.state.adopt(build, revision):
            self._later(upstream.close(settings.drain_timeout))
        memos = part_of(settings.memory.size)
        self.state.memos.resize(memos)
        self._memory.resize(settings.memory.size - memos, settings.memory.max_entry, self._clock())
        if self._disk is not None:
            self._disk.resize(settings.disk.size)
        self.live.adopt(self.state.networks, settings.http.websocket)
        self.engine.private.keep_of(self.state.networks)
        self._settings = settings
        self._front.settings = self._calls.settings = settings.http
        self._calls.errors.params = settings.errors.params
        if old is not None:
            self._later(old.close())
        self._hook()
        self.engine.exposure = Exposure(settings.http.deny, settings.http.expose)
        self.admission.adopt(settings.clients)
        for upstream in self.state.upstreams():
            self._later(upstream.warm())

    def _believes(self, entry: Entry) -> bool:
        """May memory have an entry of the disk before it was proved?"""
        network = self.state.networks.get(entry.network)
        return network is None or not network.planner.rule(entry.method).fully

    def see(self, heads: NetworkHeads) -> None:
        """Take the heads of a network, as the prober knows them."""
        network = self.state.networks.get(heads.network)
        before = -1 if network is None else network.view.head
        if network is not None and self._chain_restarts.look(network, heads.served):
            self._later(self._chain_restarts.forget(network))
        self.state.see(heads)
        if network is not None and network.view.head > before >= 0:
            self._later(in_turns(self.engine.refresh.head_moved(network)))
            self.engine.tell_due(network)
        if network is not None:
            self.live.see(heads)

    def announced(self, header: Announced) -> None:
        """Take a header that a node pushed."""
        self.live.announced(header)

    def heard(self, sent: Sent) -> None:
        """Note that nodes took a transaction that another worker sent."""
        self.engine.sends.heard(sent)

    def charge(self, spent: Spent) -> None:
        """Take what clients spent at another worker."""
        self._shared_limits.charge(spent.tokens)

    def bring(self, uses: Iterable[Brought]) -> None:
        """Take what other workers used of this worker's part of the quotas."""
        self.state.bring(uses)

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        """Remove the selected entries from all tiers; `dry` only counts them."""
        if not dry and (flights := self.engine.flights.under_way()):
            self._later(self._purge_after(flights, selection))
        return await self._purge_tiers(selection, dry=dry)

    async def _purge_tiers(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        """Purge the tiers, the furthest first, since it fills the others. Memory is purged before that as well, because
        what is hot in it is written to the disk."""
        if not dry:
            self.engine.purges.add(selection, self._clock())
        memory = self._memory
        removed = await in_turns(memory.count_steps(selection) if dry else memory.purge_steps(selection))
        shared = await self._store.purge(selection, dry=dry)
        disk = await self.engine.disk.purge(selection, dry=dry)
        if not dry:
            removed += await in_turns(memory.purge_steps(selection))
        return PurgeDone(
            removed,
            shared.removed,
            disk=disk.removed,
            store_complete=shared.complete,
            disk_complete=disk.complete,
        )

    async def _purge_after(self, flights: list[asyncio.Future[Any]], selection: Selection) -> None:
        """Purge again once the calls under way have landed: their answers were asked for before the purge, so it is
        about them too."""
        await asyncio.wait(flights)
        await self._purge_tiers(selection)

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        """Explain how a call would be treated, on the main network when none is named; None when the network is not
        served."""
        found = self.state.networks.get(network or self._settings.main_network)
        sockets = self._settings.http.websocket
        return None if found is None else await explanation(self.name, self.engine, found, method, params, sockets)

    def record(self, sample: float, *, stop: bool = False) -> Recorded:
        """The calls recorded since the last request. From now on this share (0..1) of the calls is recorded, unless
        `stop`."""
        was_on = self._recorder.on
        calls, missed = self._recorder.stop() if stop else self._recorder.take(sample)
        if was_on != self._recorder.on:
            self._hook()
        return Recorded(calls, missed)

    def _hook(self) -> None:
        """Apply who is told of every call. Paths are made anew, because what is remembered on a path depends on it."""
        self._calls.access = self._recorder.before(self._observer)
        self._front.routes = routes(self.state.networks.values(), self._settings.main_network)

    def report(self) -> WorkerReport:
        """A report of the whole worker, for the control plane."""
        return WorkerReport(
            worker=self.name,
            pid=os.getpid(),
            revision=self.state.revision,
            uptime=self._clock() - self._started,
            port=self.port,
            tally=self._count(),
            nodes=tuple(self._nodes()),
            flights=len(self.engine.flights),
            longest_turn=self._longest_turn.seconds,
            unclassed=self.state.unclassed.all(),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[tuple[str, str]]:
        """Sentences for the operator, with the tiers that they are about."""
        yield from (("disk", sentence) for sentence in self.engine.disk.stats().warnings)
        yield from (
            (SHARED_TIER, sentence) for sentence in (*self._store.stats().warnings, *self._chain_restarts.warnings())
        )

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        """Take no new connections, let running calls finish for at most `timeout` seconds, then close everything.

        For `linger` seconds before that, calls on open connections are still answered, each with word to close it: a
        client that sends just now loses nothing.
        """
        self._front.draining = True
        self.hasten(linger)
        if self._server is not None:
            self._server.close()
            # A connection that was accepted is told of to its lane one turn of uvloop later. A lane that is not counted
            # yet would be closed before its client could send a call.
            await asyncio.sleep(0)
        await self._lanes.websockets.leave()
        while self._lanes.open and self._clock() < self._lingers_until:  # noqa: ASYNC110 -- nobody is told of the last one
            await asyncio.sleep(DRAIN_LOOK_SECONDS)
        await asyncio.sleep(0)  # calls that have arrived begin before idle connections are closed
        await self._lanes.drain(timeout)
        await self.live.close()
        await self.engine.flights.close()
        await self.engine.leasing.close()
        await self.engine.broadcasts.close(timeout)
        self._tell_errors()
        await asyncio.gather(self._store.close(), self.engine.disk.close())
        await self._observers.close()
        self._longest_turn.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for upstream in self.state.upstreams():
            await upstream.close()

    def _tell_errors(self) -> None:
        """Tell the control plane of the errors that clients got since the last time. Never raises: a worker that drains
        has more to close."""
        try:
            if (news := self._calls.errors.take()) is not None:
                self._tell(news)
        except Exception as error:
            report_bug("errors that clients got are not reported", error)

    def hasten(self, linger: float) -> None:
        """Limit how long calls on open connections are answered while the worker drains: `linger` seconds from now."""
        self._lingers_until = min(self._lingers_until, self._clock() + linger)

    def _not_ready(self) -> list[str]:
        """Sentences about the networks without a node that may be asked about the newest block."""
        reasons = [] if self.state.networks else [NO_NODES]
        for network in self.state.networks.values():
            if network.view.head < 0:
                reasons.append(f"{network.name}: no node has told its head yet")
                continue
            silent = (node.id for node in network.pool.nodes if node.answering is False)
            refused = {one: f"node {one} does not answer" for one in silent} | _refusals(network, self._clock())
            if len(refused) == len(network.pool.nodes):
                reasons.append(f"{network.name}: " + "; ".join(refused.values()))
        return reasons

    def _count(self) -> TallySnapshot:
        """The tally, with the figures that tiers and pools count by themselves."""
        gauges.fill_memory(self._tally.tier("memory"), self._memory.stats(), self.state.memos)
        if self._disk is not None:
            gauges.fill_store(self._tally.tier("disk", shared=True), self._disk.stats())
        if self.engine.shared:
            gauges.fill_store(self._tally.tier(SHARED_TIER, shared=True), self._store.stats())
        for network in self.state.networks.values():
            gauges.fill_network(self._tally.network(network.name), network.pool)
            for node in network.pool.nodes:
                self._tally.node(network.name, node.id).in_flight = node.in_flight
        self._tally.websockets = len(self._lanes.websockets.open)
        self._tally.connections = len(self._lanes.open) + self._tally.websockets
        return self._tally.snapshot()

    def _nodes(self) -> Iterator[NodeReport]:
        now = self._clock()
        for network in self.state.networks.values():
            refused = _refusals(network, now, at_any_block=True)
            for node in network.pool.nodes:
                yield NodeReport(
                    network=network.name,
                    id=node.id,
                    head=node.head,
                    in_flight=node.in_flight,
                    breaker=node.breaker.state.value,
                    latency=node.latency.ewma if node.latency.known else None,
                    parked=max(0.0, node.parking.until - now),
                    rests=rests(node, now),
                    ejected=max(0.0, node.ejected_until - now),
                    limit=int(node.limit.value),
                    quota=node.quota.uses(now) if node.quota is not None else (),
                    refusal=refused.get(node.id, ""),
                )

    def _later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in the background, no longer than the worker lives."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _every(seconds: float, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            work()
        except Exception as error:  # the next time is still to come
            report_bug("what a worker does now and then met a bug", error)


def _refusals(network: Network, now: float, *, at_any_block: bool = False) -> dict[str, str]:
    """Why nodes get no calls about the newest block, by node id; with `at_any_block` only of those that would get none
    about an older block either."""
    newest = network.plan(NEWEST, b"[]")
    plan = replace(newest, min_head=-1) if at_any_block else newest
    return {node.id: why for node, why in explain(network.pool.nodes, plan, now).refused}
