"""A small world in which everything that happens is chosen: simulated nodes whose answers wait to be let through, two
hosts that share a second tier, the real prober, and a clock that stands still.

Nothing in it is left to luck: no socket, no sleep, no thread. A script (or hypothesis) says what happens next.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar, TypeVarTuple, cast

import msgspec

from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.controlplane.nodes.prober import Prober
from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.event_loop import in_turns
from rpcaccel.dataplane.live.hub import Hub
from rpcaccel.dataplane.networks.worker_state import WorkerState
from rpcaccel.dataplane.rpc.admission import Caller, PathRoute
from rpcaccel.dataplane.rpc.calls import Answered, Calls
from rpcaccel.dataplane.rpc.hit_memo import KnownCalls
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.chain.raw_tx import RawTransaction
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode
from rpcaccel.stores.base import PurgeResult, Store
from tests.support.dataplane.fake_client import FakeClient
from tests.support.dataplane.fake_live import FakeFollower, FakePending
from tests.support.manual_clock import ManualClock
from tests.support.scripted_socket import closed_door
from tests.support.stores.looking import looked

HEAD = 50
"""Near the end of an epoch (52), and far enough from genesis."""
DEPTH = 8
"""Blocks under the head that are not final on the chain that can reorganise."""
HOSTS = ("host-1", "host-2")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("it waited")


def say(node: SimNode, method: str, params: bytes) -> Answer:
    """What a node answers at this moment."""
    reply = at_once(node.brain.reply(RequestItem(method, params, b"1"))) or b"{}"
    members = msgspec.json.decode(reply, type=dict[str, msgspec.Raw])
    if "error" in members:
        return Answer(error=bytes(members["error"]))
    return Answer(result=bytes(members["result"]))


@dataclass(eq=False)
class Sent:
    """A call on its way: to the node until it has `said` something, back to the proxy until then `done`."""

    node: SimNode
    method: str
    params: bytes
    done: asyncio.Future[Answer | Failure]
    said: Answer | None = None

    def arrive(self) -> None:
        """The node reads it, and answers from what it knows now."""
        if self.said is None:
            self.said = say(self.node, self.method, self.params)

    def deliver(self) -> None:
        """The answer gets back."""
        self.arrive()
        if not self.done.done():
            self.done.set_result(cast(Answer, self.said))

    def fail(self, kind: FailureKind) -> None:
        """It is lost on the way."""
        if not self.done.done():
            self.done.set_result(Failure(kind, f"{self.node.name} failed", node=self.node.name))


class Wire(FakeClient):
    """The port of an upstream: what is sent waits in the world."""

    def __init__(self, world: World, node: SimNode) -> None:
        self._world, self._node = world, node

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        machine = self._world.answering(self._node, probe=False)
        sent = Sent(machine, method, params, asyncio.get_running_loop().create_future())
        self._world.sent.append(sent)
        return await sent.done

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        """Each of them at its own time; they come back together."""
        return list(await asyncio.gather(*(self.send(*call, timeout=timeout) for call in calls)))

    async def warm(self) -> None: ...

    async def close(self, within: float = 0.0) -> None: ...


class Ask:
    """The prober's port: nodes tell the truth about themselves, at once."""

    def __init__(self, world: World, node: SimNode) -> None:
        self._world, self._node = world, node

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        return say(self._world.answering(self._node, probe=True), method, params)

    async def close(self) -> None: ...


class Shared:
    """What two hosts share: a Redis that answers late, forgets, refuses and drops when it is told to."""

    def __init__(self) -> None:
        self.held: dict[bytes, Entry] = {}
        self.reads: list[tuple[bytes, asyncio.Future[Entry | None]]] = []
        self.writes: list[tuple[bytes, Entry]] = []
        self.up = True

    def answer(self, which: int) -> None:
        """Let one read through."""
        key, read = self.reads.pop(which)
        if not read.done():
            read.set_result(self.held.get(key) if self.up else None)

    def write(self, which: int) -> None:
        """Let one write through; it is lost while the server is down."""
        key, entry = self.writes.pop(which)
        if self.up:
            self.held[key] = entry


class FakeStore(Store):
    """One host's end of the shared second tier."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def get(self, key: bytes) -> asyncio.Future[Entry | None]:
        read: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()
        self._shared.reads.append((key, read))
        return read

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        return looked(self, keys, accepts, done)

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        self._shared.writes.append((key, entry))

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        assert not dry
        shared = self._shared
        shared.writes[:] = [write for write in shared.writes if not selection.matches(write[0])]
        if not shared.up:
            return PurgeResult(0, complete=False)
        meant = [key for key in shared.held if selection.matches(key)]
        for key in meant:
            del shared.held[key]
        return PurgeResult(len(meant))


def network_of(node: SimNode) -> str:
    """The network a node belongs to."""
    return node.name.rpartition("-")[0]


class Host:
    """One worker's data plane, without its socket, and the prober that tells it of heads."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        tally = Tally()
        self.memory = MemoryTier(1 << 20, 1 << 18)
        rng = random.Random(name)
        self.engine = Engine(self.memory, FakeStore(world.shared), tally, world.clock.now, rng)
        self.state = WorkerState(tally, world.clock.now, rng, connect=world.connect)
        sockets = world.settings.http.websocket
        self.live = Hub(tally, world.clock.now, self.engine, sockets, follow=FakeFollower, listen=FakePending)
        self.calls = Calls(self.engine, self.live, world.clock.now, world.settings.http)
        self.probers = {
            network: Prober(
                network,
                world.settings.networks[network],
                publish=lambda _heads: None,
                clock=world.clock.now,
                connect=lambda node: Ask(world, world.by_id[node.id]),
                open_socket=closed_door,
            )
            for network in world.kinds
        }

    def adopt_settings(self, settings: Settings, revision: int) -> None:
        """Its data plane takes over settings."""
        build = self.state.build()
        build.make(settings)
        self.state.adopt(build, revision)
        self.live.adopt(self.state.networks, settings.http.websocket)

    async def adopt(self, settings: Settings, revision: int) -> None:
        self.adopt_settings(settings, revision)
        for name, prober in self.probers.items():
            await prober.adopt(settings.networks[name])

    async def probe(self, node: SimNode) -> None:
        """Its prober looks at a node, and reckons with that at once; the data plane is not told yet."""
        prober = self.probers[network_of(node)]
        await prober.probe_now(node.name)
        prober.heads()

    async def see(self, network: str) -> None:
        """The data plane hears what the prober knows, and fetches again what is asked most."""
        served = self.state.networks[network]
        before = served.view.head
        self.state.see(self.probers[network].heads())
        if served.view.head > before >= 0:
            await in_turns(self.engine.refresh.head_moved(served))

    async def ask(self, network: str, body: bytes, client: bytes = b"") -> Answered:
        """A client's request."""
        served = self.state.networks[network]
        return await self.calls.answer(body, PathRoute(served, KnownCalls(served)), Caller(client.decode()))

    async def close(self) -> None:
        await self.engine.flights.close()
        for prober in self.probers.values():
            await prober.stop()

    async def purge(self, selection: Selection) -> None:
        self.memory.purge(selection)
        await self.engine.store.purge(selection)


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop that reads the time from a clock that a test moves, and counts what it was given to do."""

    def __init__(self, clock: ManualClock) -> None:
        self.scheduled = 0
        super().__init__()
        self._now = clock.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.scheduled += 1
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.scheduled += 1
        return super().call_at(when, callback, *args, context=context)

    async def come_to_rest(self) -> None:
        """Return when a whole turn has scheduled nothing but this coroutine's own next step."""
        scheduled = -1
        while self.scheduled != scheduled + 1:
            scheduled = self.scheduled
            await asyncio.sleep(0)

    def time(self) -> float:
        """Seconds on that clock."""
        return self._now()


@dataclass
class World:
    """Chains, nodes, hosts and everything under way between them."""

    kinds: dict[str, str] = field(default_factory=lambda: {"one": "harmony", "two": "harmony", "three": "ethereum"})
    """Networks by name, with the kind of their chain."""
    head: int = HEAD
    seed: int = 1
    """Of the chains: another one makes other chains with the same ids."""
    shared: Shared = field(default_factory=Shared)

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.loop = ManualLoop(self.clock)
        self.sent: list[Sent] = []
        self.chains: dict[str, SimChain] = {}
        self.nodes: dict[str, list[SimNode]] = {}
        for number, (name, kind) in enumerate(self.kinds.items()):
            chain = self.chains[name] = _chain(kind, number, self.head, self.seed)
            self.nodes[name] = [
                SimNode(chain, name=f"{name}-{i}", knobs=Knobs(limiters=False), clock=self.clock) for i in range(3)
            ]
        self.by_id = {node.name: node for nodes in self.nodes.values() for node in nodes}
        self.oracles = {
            name: SimNode(chain, name="oracle", knobs=Knobs(limiters=False), clock=self.clock)
            for name, chain in self.chains.items()
        }
        self.settings = self.settings_with()
        self.revision = 1
        self.nonce = 0
        self.hosts = [Host(self, name) for name in HOSTS]
        self.run(self.adopt(self.settings))
        for host in self.hosts:
            for node in self.by_id.values():
                self.run(host.probe(node))
            for name in self.kinds:
                self.run(host.see(name))

    def answering(self, node: SimNode, *, probe: bool) -> SimNode:
        """The machine that answers a call to a node, or a probe of it."""
        return node

    # -- settings -----------------------------------------------------------------------------------------------------

    def connect(self, node: NodeSettings, _cell: NodeCell) -> HttpNodeClient:
        return cast(HttpNodeClient, Wire(self, self.by_id[node.id]))

    def settings_with(
        self, without: frozenset[str] = frozenset(), weights: dict[str, int] | None = None, **net: Any
    ) -> Settings:
        """Settings that serve every network, some nodes left out or weighed otherwise."""
        networks = {}
        for name, kind in self.kinds.items():
            nodes = [
                {"id": node.name, "url": f"http://{node.name}.test", "weight": (weights or {}).get(node.name, 1)}
                for node in self.nodes[name]
                if node.name not in without
            ]
            shard = self.chains[name].spec.shard
            depth = {"finality_depth": DEPTH} if kind == "ethereum" else {}
            cuts = {"segment": 4, "divide_from": 3}
            usual = {"chain": kind, "shard": shard, "nodes": nodes, "ranges": cuts, "refresh": 0.5}
            usual |= {"hidden_lag": 0, "agreement": {"share": 0}, "examine": False}
            networks[name] = usual | depth | net
        return Settings.model_validate({"networks": networks})

    async def adopt(self, settings: Settings) -> None:
        self.settings, self.revision = settings, self.revision + 1
        for host in self.hosts:
            await host.adopt(settings, self.revision)

    def restart(self, which: int) -> None:
        """A host begins anew: its memory is lost, and what it counted; the shared tier is not."""
        self.run(self.hosts[which].close())
        host = self.hosts[which] = Host(self, HOSTS[which])
        self.run(host.adopt(self.settings, self.revision))
        self.settle()

    # -- time ---------------------------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self.loop.create_task(work)
        self.settle()
        return task

    def look(self, network: str) -> None:
        """The first host asks every node for its head, and serves by what they say."""
        for node in self.nodes[network]:
            self.run(self.hosts[0].probe(node))
        self.run(self.hosts[0].see(network))
        self.settle()

    def settle(self) -> None:
        """Let everything go on that can."""
        self.run(self.loop.come_to_rest())
        self.sent = [sent for sent in self.sent if not sent.done.done()]
        self.shared.reads = [read for read in self.shared.reads if not read[1].done()]

    def let_through(self) -> None:
        """Everything under way arrives, in the order it was sent, until nothing is under way."""
        while self.sent or self.shared.reads:
            for sent in self.sent:
                sent.deliver()
            while self.shared.reads:
                self.shared.answer(0)
            self.settle()

    def close(self) -> None:
        async def end() -> None:
            for host in self.hosts:
                await host.close()
            mine = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not mine]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(end())
        self.loop.close()

    # -- transactions -------------------------------------------------------------------------------------------------

    def send(self, network: str) -> Tx:
        """A client's transaction is in every pool, to be mined in the next block. It goes past the proxy."""
        self.nonce += 1
        raw = RawTransaction(
            hash=self.nonce.to_bytes(32, "big"),
            encoded=b"",
            sender=self.chains[network].generator.accounts[4],
            to=self.chains[network].generator.accounts[5],
            nonce=self.nonce,
            value=10**15,
            gas=21_000,
            gas_price=10**9,
            data=b"",
            chain_id=None,
            v=27,
            r=self.nonce,
            s=1,
        )
        return self.chains[network].add(raw)

    # -- what is true -------------------------------------------------------------------------------------------------

    def moment(self, network: str) -> tuple[float, ...]:
        """What a truth may depend on: as long as this is the same, it is the same truth."""
        chain = self.chains[network]
        return (self.clock.now(), self.nonce, chain.head, len(chain.branches))

    def truth(self, network: str, method: str, params: bytes, branch: int, head: int) -> Answer:
        """What a node that has never lied answers on a branch, with that head."""
        oracle = self.oracles[network]
        oracle.knobs.branch = branch
        oracle.knobs.lag = self.chains[network].head - head
        return say(oracle, method, params)


def _chain(kind: str, number: int, head: int, seed: int) -> SimChain:
    if kind == "harmony":
        return harmony_chain(head, shard=number % 2, validators=2, committee=5, density=2, seed=seed)
    return ethereum_chain(head, finality_depth=DEPTH, density=2, seed=seed)
