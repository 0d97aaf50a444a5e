"""One network and its subscribers: the real engine, topics and follower, over nodes of a tree and a clock that stands
still."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS, Topic
from rpcaccel.core.messages import Announced
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.live.follower import Follower
from rpcaccel.dataplane.live.held_logs import HeldLogs
from rpcaccel.dataplane.live.live_session import LiveSession, LiveSubscription
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.dataplane.networks.worker_state import WorkerState
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.stores.base import NoStore
from tests.support.dataplane.fake_client import FakeClient
from tests.support.dataplane.fake_live import FakeSink
from tests.support.dataplane.live_tree import Tree, TreeNode
from tests.support.dataplane.world import ManualLoop
from tests.support.manual_clock import ManualClock

NETWORK = "net"
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(eq=False)
class OnItsWay:
    """A call on its way to a node, or back."""

    world: LiveWorld
    node: TreeNode
    method: str
    params: bytes
    done: asyncio.Future[Answer | Failure]

    def deliver(self) -> None:
        """The node answers from what it knows now."""
        self.end(self.node.answer(self.method, self.params))

    def end(self, reply: Answer | Failure) -> None:
        if not self.done.done():
            lacked = isinstance(reply, Answer) and reply.result in (None, b"null")
            self.world.vain += isinstance(reply, Failure) or lacked or bool(self.node.lies)
            self.done.set_result(reply)

    def lose(self) -> None:
        self.end(Failure(FailureKind.RESET_BEFORE_REPLY, "lost", node=self.node.name))


class _Line(FakeClient):
    """The way to a node: what is sent waits in the world."""

    def __init__(self, world: LiveWorld, node: TreeNode) -> None:
        self._world, self._node = world, node

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        call = OnItsWay(self._world, self._node, method, params, asyncio.get_running_loop().create_future())
        self._world.sent.append(call)
        try:
            return await asyncio.wait_for(call.done, timeout)
        except TimeoutError:
            self._world.vain += 1
            return Failure(FailureKind.TIMEOUT, "silent", node=self._node.name)

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        return list(await asyncio.gather(*(self.send(*call, timeout=timeout) for call in calls)))

    async def warm(self) -> None: ...

    async def close(self, within: float = 0.0) -> None: ...


@dataclass(eq=False)
class LiveClient:
    """A client with one subscription."""

    kind: str
    filter: LogFilter | None
    first: int | None
    """The block from which it asked to be sent what it missed."""
    sink: FakeSink
    subscription: LiveSubscription
    joined_at: int
    """How many heads had been served when it came."""
    known: int
    """How many heads had been served when everything was last known to have been sent."""
    came_at: float
    vain_at: int
    """How many calls had been in vain when it came."""
    judged: int = 0
    """How many of its notifications have been judged."""

    @property
    def results(self) -> list[Any]:
        return self.sink.results


class LiveWorld:
    """One worker's subscriptions, and everything around them."""

    def __init__(
        self,
        kind: str = "ethereum",
        *,
        head: int = 60,
        nodes: int = 3,
        final: int = 20,
        told: bool = True,
        queue: int = 4 << 20,
        held: HeldLogs | None = None,
    ) -> None:
        """
        Args:
            final: blocks below the head that are not final, where the chain can reorganise.
            told: has a node told its head?
            queue: bytes that a client may leave unread.
            held: what resuming subscriptions may hold.
        """
        self.clock = ManualClock()
        self.loop = ManualLoop(self.clock)
        self.harmony = kind == "harmony"
        self.tree = Tree(head)
        self.nodes = [TreeNode(f"n{i}", self.tree, self.tree.trunk, self.harmony) for i in range(nodes)]
        self.sent: list[OnItsWay] = []
        self.served: list[str] = []
        """The hashes of the served heads, one after the other."""
        self.believable: list[str] = []
        """The tips of branches that were never served, of which nodes gave blocks by number and by hash while the
        served head was far above: nothing tells such a branch from that of this head until it is reached."""
        self.known = 0
        self.vain = 0
        """Calls that were lost, or answered with nothing or by a liar."""
        self.clients: list[LiveClient] = []
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _loop, told: self.errors.append(told))
        self._epoch, self._depth, self._ids = 0, 0 if self.harmony else final, 0
        self._kind, self._queue = kind, queue
        tally, rng = Tally(), random.Random(1)
        self.state = WorkerState(tally, self.clock.now, rng, connect=self._connect)
        self.engine = Engine(MemoryTier(1 << 20, 1 << 18), NoStore(), tally, self.clock.now, rng)
        self.cell = tally.network(NETWORK)
        self.topics = Topics(self.cell, self.clock.now)
        self.do(self._adopt)
        self.held = held or HeldLogs()
        self.follower = Follower(self.network, self.engine, self.topics, self.cell, self.clock.now, held=self.held)
        if told:
            self.tell(self.tree.trunk)

    # -- the worker ---------------------------------------------------------------------------------------------------

    @property
    def network(self) -> Any:
        return self.state.networks[NETWORK]

    def _connect(self, node: NodeSettings, _cell: NodeCell) -> HttpNodeClient:
        return cast(HttpNodeClient, _Line(self, next(one for one in self.nodes if one.name == node.id)))

    def _adopt(self, weight: int = 1, **more: Any) -> None:
        nodes = [{"id": node.name, "url": f"http://{node.name}.test", "weight": weight} for node in self.nodes]
        settings = {"chain": self._kind, "nodes": nodes, "hidden_lag": 0, "refresh": 0.0, "deadline": 8.0}
        settings |= {"agreement": {"share": 0}, "examine": False, **more}
        build = self.state.build()
        build.make(Settings.model_validate({"networks": {NETWORK: settings}}))
        self.state.adopt(build, weight)

    def renew(self, **more: Any) -> None:
        """A new revision of the settings comes into force, with `more` of a network."""
        self.do(self._adopt, 2, **more)
        self.do(self.follower.adopt, self.network)
        self.see()

    # -- time ---------------------------------------------------------------------------------------------------------

    def do(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something within the loop, and let everything go on that can."""

        async def work() -> T:
            return what(*args, **kwargs)

        found = self.loop.run_until_complete(work())
        self.settle()
        return found

    def settle(self) -> None:
        self.loop.run_until_complete(self.loop.come_to_rest())
        self.sent = [call for call in self.sent if not call.done.done()]

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()

    def calm(self) -> None:
        """Everything under way arrives at once, until nothing has been asked for longer than any pause or deadline."""
        quiet, until = 0, self.clock.now() + 600.0
        while quiet < 6:
            assert self.clock.now() < until, f"{self.follower!r} asks for ever"
            quiet += 1
            while self.sent:
                quiet = 0
                for call in self.sent:
                    call.deliver()
                self.settle()
            self.wait(2.0)
        self.known = len(self.served)

    def __enter__(self) -> LiveWorld:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()
        assert kind or not self.errors, self.errors

    def nobody_answers(self, seconds: float) -> None:
        """For so long, all calls are lost."""
        for _ in range(int(seconds * 2)):
            for call in self.sent:
                call.lose()
            self.wait(0.5)

    def close(self) -> None:
        async def end() -> None:
            await self.follower.close()
            await self.engine.flights.close()
            mine = asyncio.current_task()
            for task in asyncio.all_tasks() - {mine}:
                task.cancel()

        self.loop.run_until_complete(end())
        self.settle()
        self.loop.close()

    # -- heads --------------------------------------------------------------------------------------------------------

    def tell(self, tip: str, *, hashed: bool = True) -> None:
        """This block becomes the served head; without `hashed`, nobody tells its hash."""
        before = self.served[-1] if self.served else tip
        if not self.tree.has(tip, before) and not (self.harmony and self.tree.has(before, tip)):
            self._epoch += 1
        self.served.append(tip)
        self._hashed = hashed and not self.harmony
        self.see()

    def serve(self, tip: str, *, hashed: bool = True) -> None:
        """All nodes go to a block, which becomes the served head."""
        for node in self.nodes:
            node.tip = tip
        self.tell(tip, hashed=hashed)

    def advance(self, blocks: int = 1, *, hashed: bool = True, gaps: Sequence[int] = ()) -> str:
        """All nodes go on by some blocks; the hash of the last one, which is served."""
        tip = self.tree.grow(self.nodes[0].tip, blocks, gaps)
        self.serve(tip, hashed=hashed)
        return tip

    def reorganise(self, depth: int, blocks: int, *, hashed: bool = True, gaps: Sequence[int] = ()) -> str:
        """All nodes leave the newest blocks for others."""
        low = self.tree.below(self.nodes[0].tip, self.nodes[0].head - depth)
        tip = self.tree.grow(low.hash, blocks, gaps) if blocks else low.hash
        self.serve(tip, hashed=hashed)
        return tip

    def hash_at(self, number: int) -> str:
        """The hash of a block of the branch that is served."""
        block = self.tree.at(self.served[-1], number)
        assert block is not None
        return block.hash

    def see(self) -> None:
        """The worker hears of the heads of all nodes."""
        tip = self.served[-1]
        number = self.tree.blocks[tip].number
        told = Served(
            head=number,
            final=max(0, number - self._depth),
            fork_epoch=self._epoch,
            since=self.clock.now(),
            hash=tip if self._hashed else "",
        )
        nodes = tuple(
            NodeHead(id=node.name, head=self._usable(node), chain_ok=True, answering=True) for node in self.nodes
        )
        heads = NetworkHeads(network=NETWORK, served=told, eth_chain_id=1, network_id=1, nodes=nodes)
        self.last = told
        self.do(self.state.see, heads)
        self.do(self.follower.look, told)

    def _usable(self, node: TreeNode) -> int:
        """The last block that a node may be asked about: a node on another branch counts as one that has what the
        branches share."""
        tip = self.served[-1]
        if self.tree.has(node.tip, tip) or self.tree.has(tip, node.tip):
            return node.head
        return self.tree.fork(node.tip, tip).number

    def push(self, block_hash: str) -> None:
        """A node pushes the header of a block."""
        block = self.tree.blocks[block_hash]
        said = {"parentHash": block.parent, "number": hex(block.number), "hash": block.hash, "pushed": True}
        text = json.dumps(said)
        self.do(self.follower.announced, Announced(NETWORK, block.number, block.hash, text.encode()))

    # -- clients ------------------------------------------------------------------------------------------------------

    def come(
        self,
        kind: str = HEADS,
        wanted: LogFilter | None = None,
        first: int | None = None,
        sink: FakeSink | None = None,
        holder: str = "",
    ) -> LiveClient:
        """A client subscribes. `holder`: the name under which its connections are counted."""
        return self.do(self.join, kind, wanted, first, sink, holder)

    def join(
        self,
        kind: str = HEADS,
        wanted: LogFilter | None = None,
        first: int | None = None,
        sink: FakeSink | None = None,
        holder: str = "",
    ) -> LiveClient:
        """The same within the loop."""
        self._ids += 1
        wanted = (wanted or LogFilter()) if kind == LOGS else None
        sink = sink or FakeSink(self._queue)
        session = LiveSession(sink, 10, holder, sink.queue)
        subscription = LiveSubscription(hex(self._ids), Topic(kind, "eth", wanted, from_block=first), session, self)
        session.hold(subscription)
        now = self.clock.now()
        client = LiveClient(kind, wanted, first, sink, subscription, len(self.served), self.known, now, self.vain)
        self.clients.append(client)
        subscription.begin()
        return client

    def go(self, client: LiveClient) -> None:
        """A client's connection is closed."""
        self.do(client.subscription.session.close)
        self.clients.remove(client)

    def begin(self, subscription: LiveSubscription) -> None:
        self.follower.begin(subscription)

    def joined(self, subscription: LiveSubscription) -> None:
        """Do nothing."""

    def ended(self, subscription: LiveSubscription) -> None:
        self.topics.remove(subscription)
        self.follower.ended(subscription)
