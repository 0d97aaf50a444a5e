"""Pending transactions of a network: pushed by a node, or taken from a filter of one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from rpcaccel.config.model import NodeSettings
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.plan.plan import Plan
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.live.pending import MAX_TOLD_HASHES, MIN_REST_SECONDS, PendingTransactions
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.node_socket import NodeSocket
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock
from tests.support.proxy import Proxy, proxying
from tests.support.scripted_socket import ScriptedSocket
from tests.support.waiting import until
from tests.unit.dataplane.engine.test_read_your_writes import signed


def name(number: int) -> bytes:
    return b'"0x%064x"' % number


class Subscribers:
    """The topics of a network, which note what they are sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.whole_wanted = False
        self.whole: list[bytes] = []
        self.broken: BaseException | None = None
        """What the next delivery fails with."""

    async def pending(self, hashes: Sequence[bytes]) -> None:
        broken, self.broken = self.broken, None
        if broken is not None:
            raise broken
        self.sent += hashes

    async def whole_pending(self, transactions: Sequence[bytes]) -> None:
        self.whole += transactions


class GivingUp:
    """The engine of a worker, which may give up the next call that it fetches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.now, self.answer_now = engine.now, engine.answer_now
        self.gives_up = False
        self.given_up: list[str] = []

    async def outcome(self, network: Network, plan: Plan) -> Outcome:
        if self.gives_up:
            self.gives_up = False
            self.given_up.append(plan.method)
            raise asyncio.CancelledError
        return await self._engine.outcome(network, plan)


class Fed:
    """A worker over simulated nodes, and the pending transactions of its network."""

    def __init__(self, proxy: Proxy, nodes: list[SimNode]) -> None:
        self.proxy, self.nodes = proxy, nodes
        self.clock = ManualClock()
        self.engine = GivingUp(proxy.worker.engine)
        self.subscribers = Subscribers()
        self.sockets: list[tuple[str, ScriptedSocket]] = []
        self.mute = ""
        self.broken: Exception | None = None
        network = proxy.worker.state.networks[proxy.network]
        self.feed = PendingTransactions(
            network,
            cast("Engine", self.engine),
            cast("Topics", self.subscribers),
            sleep=self.clock.sleep,
            rng=random.Random(5),
            open_socket=cast("Callable[[NodeSettings, str], NodeSocket]", self._open),
        )

    def _open(self, node: NodeSettings, address: str) -> ScriptedSocket:
        assert address == node.url.reveal().replace("http", "ws")
        self.sockets.append((node.id, ScriptedSocket(mute=self.mute)))
        if self.broken is not None:
            raise self.broken
        return self.sockets[-1][1]

    def see(self, *pushing: str) -> None:
        """Say which nodes push."""
        told = (
            NodeHead(id=one.name, head=1, chain_ok=True, answering=True, pushes=one.name in pushing)
            for one in self.nodes
        )
        self.feed.see(NetworkHeads(network=self.proxy.network, served=Served(), nodes=tuple(told)))

    async def listen(self, *pushing: str) -> None:
        """Somebody subscribes, and a node that pushes (the first one, where none is named) is listened to."""
        self.see(*(pushing or (self.nodes[0].name,)))
        self.feed.want(wanted=True)
        await self.listening()

    async def listening(self, sockets: int = 1) -> None:
        """So many WebSockets were opened, and the newest one is listened to."""
        await until(lambda: len(self.sockets) >= sockets and self.sockets[-1][1].heard)

    async def tick(self, seconds: float = 2 * MIN_REST_SECONDS) -> None:
        """Let the pause that is there, or comes next, pass."""
        await until(lambda: self.clock.waiting)
        self.clock.advance(seconds)

    def push(self, *numbers: int) -> None:
        """The newest WebSocket tells these transactions."""
        heard = self.sockets[-1][1].heard
        assert heard is not None
        for number in numbers:
            heard(name(number))


@pytest.fixture
async def complaints() -> AsyncIterator[list[str]]:
    """What the loop is told of failures that nobody foresaw."""
    told: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: told.append(str(context["exception"])))
    yield told
    loop.set_exception_handler(None)


@asynccontextmanager
async def feeding(count: int = 2) -> AsyncIterator[Fed]:
    async with harmony_nodes(count) as nodes, proxying(nodes) as proxy:
        fed = Fed(proxy, nodes)
        try:
            yield fed
        finally:
            await fed.feed.close()


async def test_nothing_is_opened_while_nobody_subscribes() -> None:
    async with feeding() as fed:
        fed.see(fed.nodes[0].name)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (fed.sockets, fed.clock.waiting) == ([], 0)
        assert fed.proxy.asked("eth_newPendingTransactionFilter") == 0


async def test_what_a_node_pushes_is_told_once_each() -> None:
    async with feeding() as fed:
        await fed.listen(fed.nodes[1].name)
        assert fed.sockets[-1][0] == fed.nodes[1].name
        assert repr(fed.feed) == f"<PendingTransactions harmony-s0 listening to {fed.nodes[1].name}>"
        fed.push(1, 2, 1)
        heard = fed.sockets[-1][1].heard
        assert heard is not None
        for odd in (
            b"null",
            b'"0x12"',
            b'{"hash":"0x1"}',
            name(1).upper().replace(b"X", b"x"),
            b'"' + b"x" * 9000 + b'"',
        ):
            heard(odd)
        fed.push(3)
        await until(lambda: len(fed.subscribers.sent) == 3)
        assert fed.subscribers.sent == [name(1), name(2), name(3)]


async def test_the_hashes_that_are_remembered_are_bounded() -> None:
    async with feeding() as fed:
        await fed.listen()
        for first in range(0, MAX_TOLD_HASHES + 1000, 1000):
            fed.push(*range(first, first + 1000))
            await until(lambda sent=first + 1000: len(fed.subscribers.sent) >= sent)
        fed.push(MAX_TOLD_HASHES + 500, 5)
        await until(lambda: fed.subscribers.sent[-1] == name(5))
        assert fed.subscribers.sent[-2] != name(MAX_TOLD_HASHES + 500)


async def test_when_the_node_is_lost_another_one_is_listened_to() -> None:
    async with feeding() as fed:
        await fed.listen(*(node.name for node in fed.nodes))
        lost, socket = fed.sockets[-1]
        (other,) = (node.name for node in fed.nodes if node.name != lost)
        fed.see(other)
        await until(lambda: socket.closed)
        await fed.tick()
        await fed.listening(2)
        assert fed.sockets[-1][0] == other
        fed.sockets[-1][1].end()
        await fed.tick()
        await fed.listening(3)
        fed.push(7)
        await until(lambda: fed.subscribers.sent == [name(7)])


async def test_a_node_that_does_not_tell_them_is_left_for_another_one_and_then_for_a_filter() -> None:
    async with feeding() as fed:
        fed.mute = "refuses to push newPendingTransactions: no"
        fed.see(*(node.name for node in fed.nodes))
        fed.feed.want(wanted=True)
        await fed.tick()
        await until(lambda: len(fed.sockets) == 2)
        await fed.tick(4 * MIN_REST_SECONDS)
        await until(lambda: fed.proxy.asked("eth_newPendingTransactionFilter") == 1)
        assert {node for node, _ in fed.sockets} == {node.name for node in fed.nodes}
        assert [socket.closed for _, socket in fed.sockets] == [1, 1]


async def test_without_a_node_that_pushes_a_filter_of_one_node_is_polled_and_made_anew_when_it_is_lost() -> None:
    async with feeding() as fed:
        fed.see()
        fed.feed.want(wanted=True)
        await until(lambda: fed.proxy.asked("eth_newPendingTransactionFilter") == 1)
        holder = next(node for node in fed.nodes if node.counts.asked("eth_newPendingTransactionFilter"))
        sent = await holder.ask("eth_sendRawTransaction", signed())
        await fed.tick()
        await until(lambda: fed.subscribers.sent)
        assert fed.subscribers.sent == [msgspec.json.encode(sent)]
        await holder.kill()
        await fed.tick()
        await fed.tick()
        await until(lambda: fed.proxy.asked("eth_newPendingTransactionFilter") == 2)


async def test_a_filter_is_left_as_soon_as_a_node_pushes() -> None:
    async with feeding() as fed:
        fed.see()
        fed.feed.want(wanted=True)
        await until(lambda: fed.clock.waiting)
        fed.see(fed.nodes[0].name)
        await fed.tick()
        await until(lambda: fed.proxy.asked("eth_uninstallFilter") == 1)
        await fed.tick()
        await fed.listening()


async def test_when_nobody_subscribes_any_more_everything_is_closed() -> None:
    async with feeding() as fed:
        await fed.listen()
        fed.feed.want(wanted=False)
        await until(lambda: fed.sockets[-1][1].closed)
        assert repr(fed.feed) == "<PendingTransactions harmony-s0 idle>"


async def test_whole_transactions_are_fetched_and_those_that_nobody_knows_are_left_out() -> None:
    async with feeding() as fed:
        block = await fed.nodes[0].ask("eth_getBlockByNumber", "0x5", True)
        known = [msgspec.json.encode(one["hash"]) for one in block["transactions"]]
        assert known
        fed.subscribers.whole_wanted = True
        await fed.listen()
        heard = fed.sockets[-1][1].heard
        assert heard is not None
        for text in (name(1), *known, name(2)):
            heard(text)
        await until(lambda: len(fed.subscribers.whole) == len(known))
        hashes = [msgspec.json.decode(text)["hash"] for text in fed.subscribers.whole]
        assert hashes == [one["hash"] for one in block["transactions"]]


@pytest.mark.parametrize("broken", [asyncio.CancelledError(), ValueError("a bug")])
async def test_a_delivery_that_fails_ends_nothing(broken: BaseException, complaints: list[str]) -> None:
    async with feeding() as fed:
        await fed.listen()
        fed.subscribers.broken = broken
        fed.push(1)
        await until(lambda: fed.subscribers.broken is None)
        fed.push(2)
        await until(lambda: fed.subscribers.sent == [name(2)])
        assert len(complaints) == isinstance(broken, Exception)


async def test_a_node_that_cannot_be_listened_to_for_a_bug_is_left_after_a_pause(complaints: list[str]) -> None:
    async with feeding() as fed:
        fed.broken = ValueError("a bug")
        fed.see(fed.nodes[0].name)
        fed.feed.want(wanted=True)
        await until(lambda: fed.clock.waiting)
        assert len(fed.sockets) == len(complaints) == 1
        await fed.tick()
        await until(lambda: fed.proxy.asked("eth_newPendingTransactionFilter") == 1)
        assert len(fed.sockets) == 1


async def test_a_call_that_is_given_up_is_a_failure() -> None:
    async with feeding() as fed:
        fed.see()
        fed.engine.gives_up = True
        fed.feed.want(wanted=True)
        await fed.tick()
        await until(lambda: fed.proxy.asked("eth_newPendingTransactionFilter") == 1)
        assert fed.engine.given_up == ["eth_newPendingTransactionFilter"]
