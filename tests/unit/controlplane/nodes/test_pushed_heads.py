"""Heads that nodes push, on a clock moved by hand, beside the probes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.controlplane.nodes.head_stream import LASTING, SEARCH_AGAIN_SECONDS, read_header, strange
from rpcaccel.controlplane.nodes.prober import Prober
from rpcaccel.core.heads.identity import Claims
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead
from rpcaccel.core.live.block import LONGEST_HEADER
from rpcaccel.core.messages import Announced
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from tests.support.manual_clock import ManualClock
from tests.support.scripted_socket import ScriptedSocket
from tests.support.waiting import settle

GENESIS = "0x" + "1a" * 32
CHAINS = {"ethereum": 1, "harmony": 1666600000}


def named(number: int, branch: str = "a") -> str:
    """The hash of a block on a branch."""
    return f"0x{branch}{number:063x}"


class PushingNode:
    """A node that is asked over HTTP, and pushes what a test says."""

    def __init__(self, chain: str, head: int = 100) -> None:
        self.chain, self.head = chain, head
        self.branches = {range(101): "a"}
        self.down = False
        self.holds: asyncio.Future[None] | None = None
        """What an answer waits for once it is made."""
        self.looks = 0

    def at(self, number: int) -> dict[str, str]:
        own, parent = (
            next((named(one, branch) for blocks, branch in self.branches.items() if one in blocks), named(one))
            for one in (number, number - 1)
        )
        return {"number": hex(number), "hash": own, "parentHash": parent}

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "eth_chainId": hex(CHAINS[self.chain]),
            "net_version": str(CHAINS[self.chain]),
            "hmyv2_chainId": 1,
            "hmyv2_getShardID": 0,
            "hmyv2_getEpoch": 1,
            "hmyv2_getHeaderByNumber": {"blockHash": GENESIS},
            "hmyv2_getNodeMetadata": {},
            "hmyv2_blockNumber": self.head,
            "web3_clientVersion": "x",
        }

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        if self.down:
            return Failure(FailureKind.CONNECT, "no connection")
        result = self.facts.get(method)
        asked = json.loads(params)
        if method == "eth_getBlockByNumber":
            number = {"latest": self.head, "finalized": self.head - 64, "safe": self.head - 32}.get(asked[0])
            result = self.at(int(asked[0], 16) if number is None else number)
        self.looks += method == "hmyv2_blockNumber" or asked[:1] == ["latest"]
        if self.holds is not None:
            await self.holds
        return Answer(result=msgspec.json.encode(result), elapsed=0.001)

    async def close(self) -> None:
        """Nothing is open."""


class PushedWorld:
    """Nodes that push, their prober, and what it tells."""

    def __init__(self, chain: str = "ethereum", nodes: int = 1) -> None:
        self.chain = chain
        self.clock = ManualClock()
        self.nodes = {name: PushingNode(chain) for name in "abc"[:nodes]}
        self.told: list[NetworkHeads] = []
        self.announced: list[Announced] = []
        self.order: list[str] = []
        self.opened: list[tuple[str, str]] = []
        self.sockets: dict[str, ScriptedSocket] = {}
        self.refusal = ""
        self.mute = ""
        self.other: dict[str, Any] = {}
        self.prober: Prober | None = None

    def settings(self, *, ws: str = "", **settings: Any) -> NetworkSettings:
        listed = [{"id": name, "url": "http://127.0.0.1:8545", "ws": ws} for name in self.nodes]
        return NetworkSettings.model_validate({"chain": self.chain, "nodes": listed, **settings})

    async def start(self, **settings: Any) -> None:
        self.prober = Prober(
            "net",
            self.settings(**settings),
            publish=self._publish,
            announce=self._announce,
            clock=self.clock.now,
            sleep=self.clock.sleep,
            rng=random.Random(7),
            connect=lambda node: self.nodes[node.id],
            open_socket=self._open,
        )
        await self.prober.start()
        await settle()

    def _publish(self, heads: NetworkHeads) -> None:
        self.told.append(heads)
        self.order.append(f"heads {heads.served.head}")

    def _announce(self, announced: Announced) -> None:
        self.announced.append(announced)
        self.order.append(f"announced {announced.number}")

    def _open(self, node: NodeSettings, address: str) -> ScriptedSocket:
        self.opened.append((node.id, address))
        pushing = self.nodes[node.id]
        facts = {**pushing.facts, "eth_getBlockByNumber": lambda asked: pushing.at(int(asked[0], 16)), **self.other}
        self.sockets[node.id] = ScriptedSocket(facts, refusal=self.refusal, mute=self.mute)
        return self.sockets[node.id]

    async def wait(self, seconds: float, step: float = 0.1) -> None:
        for _ in range(max(1, round(seconds / step))):
            self.clock.advance(step)
            await settle()

    async def push(self, number: int, branch: str = "a", parent: str = "", name: str = "a") -> None:
        """A new block, at the node and pushed by it."""
        self.nodes[name].head = number
        self.nodes[name].branches = {range(number, number + 1): branch, **self.nodes[name].branches}
        self.sockets[name].push(number, named(number, branch), named(number - 1, parent or branch))
        await settle()

    @property
    def heads(self) -> NetworkHeads:
        return self.told[-1]

    @property
    def node(self) -> NodeHead:
        return self.heads.nodes[0]


Make = Callable[..., PushedWorld]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes worlds whose probers are stopped at the end."""
    worlds: list[PushedWorld] = []

    def made(*args: Any, **more: Any) -> PushedWorld:
        worlds.append(PushedWorld(*args, **more))
        return worlds[-1]

    yield made
    for one in worlds:
        if one.prober is not None:
            await one.prober.stop()


@pytest.fixture(params=["ethereum", "harmony"])
def world(request: pytest.FixtureRequest, make: Make) -> PushedWorld:
    return make(request.param)


@pytest.fixture
async def forking(make: Make) -> PushedWorld:
    made = make()
    await made.start()
    await made.push(101)
    return made


async def test_a_pushed_block_is_announced_first_and_served_at_once(world: PushedWorld) -> None:
    await world.start()
    assert not world.node.pushes
    world.order.clear()
    await world.push(101)
    assert world.order[:1] == ["announced 101"]
    assert "heads 101" in world.order
    assert (world.heads.served.head, world.node.head, world.node.pushes, world.node.note) == (101, 101, True, "")
    (announced,) = world.announced
    assert (announced.network, announced.hash) == ("net", named(101))
    assert json.loads(announced.header)["number"] == "0x65"


async def test_while_block_1_is_served_and_was_not_asked_for_it_is_not_known(make: Make) -> None:
    world = make("harmony")
    world.nodes["a"].head = 0
    await world.start()
    assert (world.heads.served.head, world.heads.block_one) == (0, "")
    await world.push(1)
    assert (world.heads.served.head, world.heads.block_one) == (1, None)
    await world.wait(6)
    assert world.heads.block_one == GENESIS


async def test_the_hash_of_the_served_head_is_told_where_blocks_may_be_replaced(world: PushedWorld) -> None:
    await world.start()
    await world.push(101)
    assert world.heads.served.hash == (named(101) if world.chain == "ethereum" else "")


async def test_a_block_is_announced_once_however_many_nodes_push_it(make: Make) -> None:
    world = make(nodes=3)
    await world.start()
    for name in "abc":
        await world.push(101, name=name)
    await world.push(101, name="a")
    assert [one.number for one in world.announced] == [101]


@pytest.mark.parametrize("settings", [{"weight": 0}, {"drain": True}])
async def test_what_a_node_that_does_not_count_pushes_is_not_announced(make: Make, settings: dict[str, Any]) -> None:
    world = make(nodes=2)
    listed = [
        {"id": "a", "url": "http://127.0.0.1:8545", **settings},
        {"id": "b", "url": "http://127.0.0.1:8545"},
    ]
    await world.start(nodes=listed)
    await world.push(101, name="a")
    assert world.announced == []
    await world.push(101, name="b")
    assert [one.number for one in world.announced] == [101]


async def test_repeated_and_late_pushes_take_nothing_back(world: PushedWorld) -> None:
    await world.start()
    for number in (101, 102, 103):
        await world.push(number)
    epoch = world.heads.served.fork_epoch
    for late in (102, 101, 103, 101, 102, 90):
        world.sockets["a"].push(late, named(late), named(late - 1))
        await settle()
        assert (world.heads.served.head, world.heads.served.fork_epoch) == (103, epoch)
    await world.wait(5)
    assert (world.heads.served.head, world.heads.served.fork_epoch) == (103, epoch)


async def test_what_is_no_header_is_dropped(world: PushedWorld) -> None:
    await world.start()
    heard = world.sockets["a"].heard
    assert heard is not None
    for odd in (b"null", b"{}", b'{"number":"0x1","hash":"0x1","parentHash":"0x2"}', b'"' + b"[" * 5000, b"\xff"):
        heard(odd)
        assert read_header(odd) is None
    whole = {"number": "0x65", "hash": named(101), "parentHash": named(100)}
    assert read_header(msgspec.json.encode(whole)) is not None
    for impossible in (hex(2**64), "-0x1", "0x1_0"):
        assert read_header(msgspec.json.encode({**whole, "number": impossible})) is None
    assert read_header(msgspec.json.encode({**whole, "extraData": "0" * LONGEST_HEADER})) is None
    assert (world.announced, world.node.pushes) == ([], False)


@pytest.mark.parametrize(
    "pushed",
    [
        [(104, "b", "")],  # as geth announces it: only the new head, whose parent is unknown
        [(102, "b", "a")],  # a shorter branch, as geth announces it
        [(102, "b", "a"), (103, "b", ""), (104, "b", "")],  # as anvil announces it
    ],
)
async def test_a_replacement_of_blocks_is_followed_however_it_is_announced(
    forking: PushedWorld, pushed: list[tuple[int, str, str]]
) -> None:
    await forking.push(102)
    await forking.push(103)
    epoch, number = forking.heads.served.fork_epoch, pushed[-1][0]
    if len(pushed) == 1:
        forking.nodes["a"].branches = {range(102, number + 1): "b", **forking.nodes["a"].branches}
    for block in pushed:
        await forking.push(*block)
    assert (forking.heads.served.head, forking.heads.served.hash) == (number, named(number, "b"))
    assert forking.heads.served.fork_epoch == epoch + 1


async def test_a_late_push_of_an_abandoned_branch_does_not_lead_back_to_it(forking: PushedWorld) -> None:
    await forking.push(102)
    await forking.push(102, "b", parent="a")
    await forking.push(103, "b")
    forking.sockets["a"].push(102, named(102, "a"), named(101))
    await settle()
    await forking.wait(2)
    assert (forking.heads.served.head, forking.heads.served.hash) == (103, named(103, "b"))


async def test_a_branch_that_is_gone_back_to_is_found_by_a_probe_at_once(forking: PushedWorld) -> None:
    await forking.push(102)
    await forking.push(102, "b", parent="a")
    await forking.wait(2)
    looks = forking.nodes["a"].looks
    await forking.push(102, "a")
    assert forking.nodes["a"].looks > looks
    assert forking.heads.served.hash == named(102, "a")


async def test_a_push_overtakes_the_answer_of_a_probe_that_was_asked_before(world: PushedWorld) -> None:
    await world.start()
    node = world.nodes["a"]
    node.holds = held = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(world.prober.probe_now("a"))
    await settle()
    node.holds = None
    world.clock.advance(0.01)
    await world.push(101)
    await world.push(102)
    held.set_result(None)
    await asking
    assert (world.heads.served.head, world.node.head, world.heads.served.fork_epoch) == (102, 102, 0)


async def test_a_node_that_pushes_is_probed_rarely(world: PushedWorld) -> None:
    await world.start()
    for number in range(101, 131):
        await world.push(number)
        await world.wait(2)
    looks = world.nodes["a"].looks
    for number in range(131, 161):
        await world.push(number)
        await world.wait(2)
    assert 10 <= world.nodes["a"].looks - looks <= 16


async def test_a_stream_that_falls_silent_while_probes_see_blocks_is_opened_again(world: PushedWorld) -> None:
    await world.start()
    for number in range(101, 121):
        await world.push(number)
        await world.wait(2)
    assert world.node.pushes
    silent = world.sockets["a"]
    served = []
    for number in range(121, 135):
        world.nodes["a"].head = number
        await world.wait(2)
        served.append(world.heads.served.head - number)
    assert silent.closed == 1
    assert world.sockets["a"] is not silent
    assert not world.node.pushes
    assert all(behind >= -2 for behind in served)
    await world.push(135)
    assert world.node.pushes


async def test_a_node_that_floods_its_stream_is_asked_instead(world: PushedWorld) -> None:
    await world.start()
    await world.push(101)
    flooded = world.sockets["a"]
    for number in range(102, 3000):
        if flooded.heard is not None:
            flooded.push(number, named(number), named(number - 1))
    await settle()
    assert flooded.closed == 1
    assert len(world.announced) <= 1000
    assert not world.node.pushes


@pytest.mark.parametrize(
    ("pushed", "times"),
    [(b"{}", 1001), (b"7", 1001), (b'{"x":"%b"}' % (b"x" * LONGEST_HEADER), 17), (b'"%b"' % (b"x" * 250_000), 17)],
)
async def test_what_is_no_head_floods_a_stream_as_well(world: PushedWorld, pushed: bytes, times: int) -> None:
    await world.start()
    await world.push(101)
    world.clock.advance(1.0)
    flooded = world.sockets["a"]
    for _ in range(times):
        assert flooded.heard is not None
        flooded.heard(pushed)
    await settle()
    assert flooded.closed == 1
    assert not world.node.pushes


async def test_heads_within_the_bounds_of_each_second_are_no_flood(world: PushedWorld) -> None:
    await world.start()
    await world.push(101)
    flooded = world.sockets["a"]
    for _ in range(4):
        world.clock.advance(1.0)
        assert flooded.heard is not None
        for _ in range(1000):
            flooded.heard(b"{}")
        await settle()
    assert flooded.closed == 0


async def test_a_chain_that_stands_is_no_silent_stream(world: PushedWorld) -> None:
    await world.start()
    await world.push(101)
    await world.wait(120)
    assert world.node.pushes
    assert world.sockets["a"].closed == 0


async def test_a_stream_that_ends_is_opened_again_and_the_node_is_asked_meanwhile(world: PushedWorld) -> None:
    await world.start()
    await world.push(101)
    world.sockets["a"].end("was closed by the node (1000)")
    await settle()
    assert (world.node.pushes, world.node.note, world.sockets["a"].closed) == (False, "", 1)
    await world.wait(2)
    await world.push(102)
    assert (world.heads.served.head, world.node.pushes) == (102, True)


async def test_a_stream_that_ends_after_every_push_is_opened_less_and_less_often(world: PushedWorld) -> None:
    await world.start()
    for number in range(101, 401):
        if world.sockets["a"].heard is not None and not world.sockets["a"].closed:
            await world.push(number)
            world.sockets["a"].end("was closed by the node (1000)")
        await world.wait(1)
    assert 8 <= len(world.opened) <= 20
    await world.wait(60, step=1)
    await world.push(500)
    await world.wait(LASTING + 1, step=1)
    opened = len(world.opened)
    world.sockets["a"].end("was closed by the node (1000)")
    await world.wait(1)
    assert len(world.opened) == opened + 1


async def test_a_place_where_another_chain_is_served_is_not_followed(world: PushedWorld) -> None:
    world.other = {"eth_chainId": "0x7"}
    await world.start()
    assert world.sockets["a"].closed == 1
    assert (world.node.pushes, world.node.note) == (False, "")


async def test_a_place_where_another_chain_of_the_same_id_is_served_is_not_followed(world: PushedWorld) -> None:
    other = "0x" + "9" * 64
    world.other = {"eth_getBlockByNumber": {"hash": other}, "hmyv2_getHeaderByNumber": {"blockHash": other}}
    await world.start(ws="ws://h/key")
    assert world.node.note == "its WebSocket serves another chain"
    assert not world.node.pushes


@pytest.mark.parametrize(
    ("told", "why"),
    [("0x" + "9" * 64, "serves another chain"), (None, "does not prove that it serves the node's chain")],
)
def test_a_place_where_the_chain_was_begun_anew_or_block_1_is_not_told_is_not_the_nodes(
    told: str | None, why: str
) -> None:
    node, other = Claims(1, genesis=GENESIS, block_one="0x" + "8" * 64), Claims(1, genesis=GENESIS, block_one=told)
    assert strange(node, other) == why
    assert strange(node, node) == ""
    assert strange(Claims(1, genesis=GENESIS), other) == ""


async def test_usual_places_are_tried_quietly_and_seldom(world: PushedWorld) -> None:
    world.refusal = "cannot be connected to: connection refused"
    await world.start()
    places = [address for _, address in world.opened]
    assert places[0] == "ws://127.0.0.1:8545"
    assert world.node.note == ""
    await world.wait(0.8 * SEARCH_AGAIN_SECONDS, step=5)
    assert len(world.opened) == len(places)
    await world.wait(0.4 * SEARCH_AGAIN_SECONDS, step=5)
    assert len(world.opened) == 2 * len(places)


async def test_the_usual_places_are_tried_again_when_the_node_comes_back(world: PushedWorld) -> None:
    world.refusal = "cannot be connected to: connection refused"
    await world.start()
    tried = len(world.opened)
    world.nodes["a"].down = True
    await world.wait(5)
    assert len(world.opened) == tried
    world.nodes["a"].down, world.refusal = False, ""
    await world.wait(6)
    await world.push(101)
    assert world.node.pushes


async def test_a_named_address_is_tried_on_and_on_and_the_operator_is_told_why_it_does_not_work(
    world: PushedWorld,
) -> None:
    world.mute = "refuses to push newHeads: not for you"
    await world.start(ws="wss://h/key")
    assert {address for _, address in world.opened} == {"wss://h/key"}
    await world.wait(1)
    assert world.node.note == "its WebSocket refuses to push newHeads: not for you"
    await world.wait(300, step=1)
    assert 5 <= len(world.opened) <= 20
    world.mute = ""
    await world.wait(60, step=1)
    await world.push(101)
    assert (world.node.pushes, world.node.note) == (True, "")


async def test_nothing_is_opened_where_the_settings_say_so_and_what_they_say_later_counts(world: PushedWorld) -> None:
    await world.start(websockets="off", ws="ws://h")
    assert (world.opened, world.prober is not None) == ([], True)
    await world.prober.adopt(world.settings(websockets="named", ws="ws://h"))
    await settle()
    await world.push(101)
    assert world.node.pushes
    await world.prober.adopt(world.settings(websockets="off", ws="ws://h"))
    await settle()
    assert not world.node.pushes
    assert world.sockets["a"].closed == 1


async def test_another_node_is_looked_at_as_soon_as_one_pushes_a_block(make: Make) -> None:
    world = make(nodes=2)
    await world.start()
    for number in range(101, 113):
        await world.wait(2)
        world.nodes["b"].head = number
        await world.push(number)
    await world.wait(1)
    looks = world.nodes["b"].looks
    world.nodes["b"].head = 113
    await world.push(113)
    assert world.nodes["b"].looks == looks + 1
    assert [node.head for node in world.heads.nodes] == [113, 113]


async def test_not_every_node_of_a_large_network_is_looked_for_at_usual_places(make: Make) -> None:
    world = make()
    world.nodes = {f"n{number}": PushingNode("ethereum") for number in range(40)}
    await world.start()
    await world.wait(1)
    assert len(world.sockets) == 32
    await world.prober.stop()
    assert all(socket.closed for socket in world.sockets.values())
