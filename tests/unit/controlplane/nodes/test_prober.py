"""The prober over scripted nodes on a clock moved by hand, and once over simulated nodes on real sockets."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.controlplane.nodes.prober import CHECK_EVERY, Prober
from rpcaccel.controlplane.nodes.quotas import Quotas
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.manual_clock import ManualClock
from tests.support.scripted_socket import closed_door
from tests.support.waiting import settle, until

VALIDATOR = {"explorer": False, "archive": False}
GENESIS = "0x" + "1a" * 32
BLOCK_ONE = "0x" + "4d" * 32


class Node:
    """A node that says what a test sets."""

    def __init__(self, head: int = 100, *, chain_id: int = 1666600000, shard: int = 0) -> None:
        self.head = head
        self.chain_id = chain_id
        self.shard = shard
        self.branch = "a"
        self.genesis: str | None = GENESIS
        self.block_one: str | None = BLOCK_ONE
        self.role = "Validator"
        self.down = False
        self.shut = False
        self.hang = False
        self.broken = False
        self.asked: list[str] = []
        self.closed = 0

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        self.asked.append(method)
        if self.hang:
            await asyncio.Event().wait()
        if self.broken:
            raise RuntimeError("a fault in our own code")
        if self.shut:
            return Failure(FailureKind.UNAUTHORIZED, "the node does not let us in: HTTP 401")
        if self.down:
            return Failure(FailureKind.CONNECT, f"no connection within {timeout:g} s")
        try:
            result = self._result(method, json.loads(params))
        except KeyError:
            return Answer(error=b'{"code":-32601,"message":"the method does not exist"}', elapsed=0.25)
        return Answer(result=msgspec.json.encode(result), elapsed=0.25)

    def _result(self, method: str, params: list[Any]) -> object:
        facts: dict[str, object] = {
            "hmyv2_blockNumber": self.head,
            "eth_blockNumber": hex(self.head),
            "eth_chainId": hex(self.chain_id),
            "net_version": str(self.chain_id),
            "web3_clientVersion": "a/1.0",
            "hmyv2_chainId": 1,
            "hmyv2_getShardID": self.shard,
            "hmyv2_getEpoch": self.head // 10,
            "hmyv2_getHeaderByNumber": {"blockHash": self._begins(params)},
            "hmyv2_getNodeMetadata": {"role": self.role, "is-archival": False},
        }
        if method != "eth_getBlockByNumber":
            return facts[method]
        if params[0] in {"0x0", "0x1"}:
            return {"hash": self._begins(params)}
        number = {"latest": self.head, "finalized": self.head - 64, "safe": self.head - 32}.get(params[0]) or int(
            params[0], 16
        )
        branch = self.branch if number > 90 else "a"
        return {"number": hex(number), "hash": f"{branch}{number}", "parentHash": f"{branch}{number - 1}"}

    def _begins(self, params: list[Any]) -> str | None:
        """The hash of block 0 or 1, if the chain has that block."""
        if params in ([0], ["0x0", False]):
            return self.genesis
        return self.block_one if self.head >= 1 else None

    async def close(self) -> None:
        self.closed += 1


class World:
    """Nodes, a clock and the prober that looks at them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.nodes: dict[str, Node] = {}
        self.told: list[NetworkHeads] = []
        self.made: list[str] = []
        self.prober: Prober | None = None
        self.quotas: Any = None

    async def start(self, chain: str = "harmony", **settings: Any) -> Prober:
        self.prober = Prober(
            "net",
            self.settings(chain, **settings),
            publish=self.told.append,
            clock=self.clock.now,
            sleep=self.clock.sleep,
            rng=random.Random(7),
            connect=self._connect,
            open_socket=closed_door,
            quotas=self.quotas,
        )
        await self.prober.start()
        await settle()
        return self.prober

    def settings(self, chain: str = "harmony", *, each: dict[str, dict[str, Any]] | None = None, **rest: Any) -> Any:
        nodes = [{"id": name, "url": "http://127.0.0.1:1", **(each or {}).get(name, {})} for name in self.nodes]
        return NetworkSettings.model_validate({"chain": chain, "nodes": nodes, **rest})

    async def wait(self, seconds: float, step: float = 0.25) -> None:
        steps = max(1, round(seconds / step))
        for _ in range(steps):
            self.clock.advance(seconds / steps)
            await settle()

    @property
    def heads(self) -> NetworkHeads:
        return self.told[-1]

    def node(self, name: str) -> NodeHead:
        return next(node for node in self.heads.nodes if node.id == name)

    def _connect(self, settings: NodeSettings) -> Node:
        self.made.append(settings.id)
        return self.nodes[settings.id]


Make = Callable[..., World]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    made.nodes = {"a": Node(), "b": Node(), "c": Node()}
    yield made
    if made.prober is not None:
        await made.prober.stop()


async def test_the_first_heads_are_told_once_every_node_was_looked_at(world: World) -> None:
    world.nodes["b"].head = 99
    prober = await world.start(websockets="off")
    assert {heads.served.head for heads in world.told} == {100}
    assert (world.heads.network, world.heads.served.head, world.heads.served.final) == ("net", 100, 100)
    assert (world.heads.eth_chain_id, world.heads.network_id, world.heads.epoch) == (1666600000, 1, 10)
    assert world.heads.finalized == -1
    assert world.node("b") == NodeHead(
        id="b", head=99, chain_ok=True, says=VALIDATOR, answering=True, latency=0.25, seen_at=world.clock.now()
    )
    assert repr(prober) == "<Prober net 3 nodes, <HeadBook instant head 100 epoch 0, 3 nodes>>"


async def test_a_node_that_hangs_holds_the_first_heads_up_for_a_moment_only(world: World) -> None:
    world.nodes["b"].hang = True
    await world.start()
    assert world.told == []
    await world.wait(0.3)
    assert world.heads.served.head == 100
    assert (world.node("b").head, world.node("b").chain_ok) == (-1, None)


class CountedUnits(Quotas):
    """Keeps what is spent, by node."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def spend(self, network: str, node: str, units: float) -> None:
        self.spent[node] = self.spent.get(node, 0.0) + units


async def test_probes_of_a_node_with_costs_are_counted_and_those_of_others_are_not(world: World) -> None:
    world.quotas = CountedUnits()
    costs = {"hmyv2_*": 20, "*": 0.5}
    await world.start(websockets="off", examine=False, each={"a": {"quota": {"month": 1e6, "costs": costs}}})
    await world.wait(10)
    asked = world.nodes["a"].asked
    assert len(asked) > 5
    assert world.quotas.spent == {"a": sum(20 if one.startswith("hmyv2_") else 0.5 for one in asked)}


async def test_the_head_is_followed_at_half_the_block_time(world: World) -> None:
    await world.start()
    asked = len(world.nodes["a"].asked)
    for node in world.nodes.values():
        node.head = 101
    await world.wait(1.25)
    assert world.heads.served.head == 101
    assert world.nodes["a"].asked[asked:] == ["hmyv2_blockNumber"]


async def test_the_block_time_can_be_set(world: World) -> None:
    await world.start(block_time=0.5)
    asked = len(world.nodes["a"].asked)
    await world.wait(2.0, step=0.01)
    assert 7 <= len(world.nodes["a"].asked) - asked <= 9


async def grow(world: World, blocks: int, every: float) -> int:
    """New blocks, one after the other: how many the served head was behind, at the worst."""
    most = 0
    for _ in range(blocks):
        for node in world.nodes.values():
            node.head += 1
        await world.wait(every)
        most = max(most, world.nodes["a"].head - world.heads.served.head)
    return most


async def test_a_chain_quicker_than_its_table_is_looked_at_as_often_as_its_blocks_come(world: World) -> None:
    await world.start("ethereum")
    assert await grow(world, 40, every=2.0) <= 1


async def test_however_quick_a_chain_is_it_is_looked_at_eight_times_a_second(
    world: World,
) -> None:
    await world.start()
    await grow(world, 100, every=0.1)
    asked = world.nodes["a"].asked.count("hmyv2_blockNumber")
    await grow(world, 100, every=0.1)
    assert 70 <= world.nodes["a"].asked.count("hmyv2_blockNumber") - asked <= 84


class PacedNode(Node):
    """A node of a chain that makes a block every `period` seconds, with timestamps in whole seconds."""

    def __init__(self, clock: ManualClock, period: float, phase: float) -> None:
        super().__init__(chain_id=1)
        self.clock, self.period, self.phase = clock, period, phase
        self.timestamps = True
        self.replaced: dict[int, str] = {}
        """The branches of the blocks that were replaced."""

    @property
    def due(self) -> int:
        """The newest block of the chain."""
        return 1000 + int((self.clock.now() - 1000.0) / self.period + self.phase)

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        await self.clock.sleep(0.004)
        self.head = self.due
        return await super().send(method, params, timeout=timeout)

    def _result(self, method: str, params: list[Any]) -> object:
        found = super()._result(method, params)
        if isinstance(found, dict) and "parentHash" in found:
            number = int(found["number"], 16)
            own, parent = (self.replaced.get(one, "a") + str(one) for one in (number, number - 1))
            found = {**found, "hash": own, "parentHash": parent}
        if self.timestamps and isinstance(found, dict) and "number" in found:
            at = (int(found["number"], 16) - self.phase) * self.period
            return {**found, "timestamp": hex(int(1_790_000_000.3 + at))}
        return found


@pytest.mark.parametrize("period", [0.25, 0.5, 2.0, 12.0])
@pytest.mark.parametrize("phase", [0.1, 0.6])
@pytest.mark.parametrize("nodes", ["a", "abc"])
async def test_three_seconds_after_the_start_the_head_is_right_within_half_a_block_whatever_the_table_says(
    world: World, period: float, phase: float, nodes: str
) -> None:
    paced = {name: PacedNode(world.clock, period, phase) for name in nodes}
    world.nodes = {**paced}
    await world.start("ethereum")
    await world.wait(3.0, step=0.01)
    assert world.heads.block_time == pytest.approx(period, rel=0.1)
    late = 0.0
    for _ in range(round(max(3.0, 2 * period) / 0.01)):
        await world.wait(0.01, step=0.01)
        late = late + 0.01 if world.heads.served.head < paced["a"].due else 0.0
        assert late <= period / 2 + 0.02


@pytest.mark.parametrize(("nodes", "usual", "most"), [("a", 0.35, 0.75), ("abc", 0.25, 0.65)])
async def test_a_block_that_is_replaced_by_one_of_its_number_is_noticed_between_two_blocks(
    world: World, nodes: str, usual: float, most: float
) -> None:
    period, rng, delays, looks = 2.0, random.Random(3), list[float](), 0
    paced = {name: PacedNode(world.clock, period, 0.5) for name in nodes}
    world.nodes = {**paced}
    await world.start("ethereum")
    await world.wait(20 * period, step=0.05)
    for node in paced.values():
        node.asked.clear()
    began = world.clock.now()
    for turn in range(20):
        await world.wait(period + rng.uniform(0.0, period), step=0.02)
        head = paced["a"].due
        for node in paced.values():
            node.replaced[head] = f"b{turn}-"
        at = world.clock.now()
        while world.heads.served.hash != f"b{turn}-{head}" and paced["a"].due == head:
            await world.wait(0.01, step=0.01)
        delays.append((world.clock.now() - at) / period)
    looks = len(paced["a"].asked) / ((world.clock.now() - began) / period)
    assert sorted(delays)[10] <= usual
    assert sorted(delays)[-3] <= most
    assert looks <= 8, "calls a block"


async def test_where_no_timestamps_are_told_the_pace_is_learned_from_the_blocks_that_come(world: World) -> None:
    node = PacedNode(world.clock, 2.0, 0.5)
    node.timestamps = False
    world.nodes = {"a": node}
    await world.start("ethereum")
    await world.wait(1.0)
    assert world.heads.block_time is None
    await world.wait(30.0)
    assert world.heads.block_time == pytest.approx(2.0, rel=0.1)


async def test_what_the_settings_say_of_the_block_time_holds_however_quick_the_chain_is(world: World) -> None:
    world.nodes = {"a": Node()}
    await world.start("ethereum", block_time=8.0)
    await grow(world, 20, every=2.0)
    assert await grow(world, 20, every=2.0) >= 2


NO_GENESIS, NO_BLOCK_ONE, DOWN = {"genesis": None}, {"block_one": None}, {"down": True}
SHARD_1 = {"chain_id": 1666600001, "shard": 1}


@pytest.mark.parametrize(
    ("odd", "settings", "right", "told", "note"),
    [
        ({"c": {"chain_id": 1, "head": 5000}}, {}, "ab", {}, "it serves chain id 1, not 1666600000"),
        ({"c": {"chain_id": 1666700000}}, {"chain_id": 1666700000}, "c", {"eth_chain_id": 1666700000}, ""),
        ({"a": SHARD_1, "b": SHARD_1}, {}, "c", {}, ""),
        (
            {"c": {"genesis": "0x" + "2B" * 32}},
            {},
            "ab",
            {},
            "its chain begins with block 0x2b2b2b2b…, that of the network with 0x1a1a1a1a…: another chain",
        ),
        (dict.fromkeys("abc", NO_GENESIS), {}, "abc", {"genesis": ""}, ""),
        (
            dict.fromkeys("abc", DOWN),
            {},
            "",
            {"genesis": None, "eth_chain_id": None, "block_one": ""},
            "no connection within 5 s",
        ),
        (
            {"c": {"block_one": "0x" + "5E" * 32}},
            {},
            "ab",
            {},
            "its block 1 is 0x5e5e5e5e…, that of the network 0x4d4d4d4d…",
        ),
        ({"a": NO_BLOCK_ONE}, {}, "abc", {}, ""),
        (dict.fromkeys("abc", NO_BLOCK_ONE), {}, "abc", {"block_one": ""}, ""),
    ],
)
async def test_a_node_of_another_chain_is_shut_out_and_says_so(
    world: World, odd: dict[str, Any], settings: dict[str, Any], right: str, told: dict[str, Any], note: str
) -> None:
    """`odd`: how nodes differ from a plain one; `told`: what is told of the network, where that differs."""
    for name, more in odd.items():
        vars(world.nodes[name]).update(more)
    await world.start(**settings)
    assert "".join(name for name in "abc" if world.node(name).chain_ok) == right
    assert world.node("c").note.startswith(note)
    usual: dict[str, Any] = {"eth_chain_id": 1666600000, "genesis": GENESIS, "block_one": BLOCK_ONE}
    assert world.heads.served.head == (100 if right else -1)
    assert {name: getattr(world.heads, name) for name in usual} == usual | told


async def test_a_chain_that_begins_anew_is_asked_at_once_what_it_is(world: World) -> None:
    await world.start()
    anew = "0x" + "3c" * 32
    for name in "abc":
        world.nodes[name].head, world.nodes[name].genesis = 3, anew
    await world.wait(5)
    assert world.heads.genesis == anew


async def test_block_1_stays_known_while_the_nodes_that_tell_it_are_away_or_keep_it_to_themselves(world: World) -> None:
    world.nodes["b"].block_one = world.nodes["c"].block_one = None
    await world.start()
    world.nodes["a"].down = True
    await world.wait(2 * CHECK_EVERY)
    world.nodes["a"].down, world.nodes["a"].block_one = False, None
    await world.wait(2 * CHECK_EVERY)
    assert {heads.block_one for heads in world.told} == {BLOCK_ONE}


async def test_block_1_is_asked_for_as_soon_as_it_is_there_and_before_it_is_served(world: World) -> None:
    for node in world.nodes.values():
        node.head = 0
    await world.start()
    assert (world.heads.served.head, world.heads.block_one) == (0, "")
    for node in world.nodes.values():
        node.head = 1
    await world.wait(2.5)
    assert (world.heads.served.head, world.heads.block_one) == (1, BLOCK_ONE)
    assert {heads.block_one for heads in world.told if heads.served.head == 1} == {BLOCK_ONE}
    asked = [node.asked.count("hmyv2_getHeaderByNumber") for node in world.nodes.values()]
    await world.wait(10)
    assert [node.asked.count("hmyv2_getHeaderByNumber") for node in world.nodes.values()] == asked == [4, 4, 4]


async def test_a_chain_begun_anew_that_has_no_block_1_yet_does_not_keep_that_of_the_old_one(world: World) -> None:
    await world.start()
    for node in world.nodes.values():
        node.head, node.block_one = 0, "0x" + "5e" * 32
    await world.wait(5)
    assert world.heads.block_one is None, "the old chain is served still, until the nodes that had it were waited for"
    for node in world.nodes.values():
        node.head = 1
    await world.wait(5)
    assert world.heads.block_one == "0x" + "5e" * 32


async def test_a_block_1_that_is_not_final_says_nothing_about_the_chain(world: World) -> None:
    for node in world.nodes.values():
        node.head, node.chain_id = 60, 1
    world.nodes["c"].block_one = "0x" + "5e" * 32  # it is on a branch that the others have left
    await world.start("ethereum", finality_depth=64)
    assert [world.node(name).chain_ok for name in "abc"] == [True, True, True]
    assert world.heads.block_one == ""
    for node in world.nodes.values():
        node.head, node.block_one = 65, BLOCK_ONE
    await world.wait(13)
    assert world.heads.block_one == BLOCK_ONE


async def test_a_look_that_an_operator_asks_for_forgets_nothing_of_what_is_known(world: World) -> None:
    world.nodes["b"].block_one = world.nodes["c"].block_one = None
    prober = await world.start()
    world.nodes["a"].hang = True
    looking = asyncio.create_task(prober.probe_now("a"))
    await world.wait(2)
    assert world.heads.block_one == BLOCK_ONE
    looking.cancel()


async def test_a_node_put_on_another_chain_is_noticed_now_and_then(world: World) -> None:
    await world.start()
    world.nodes["b"].chain_id = 1
    await world.wait(CHECK_EVERY + 2)
    assert world.node("b").chain_ok is False
    world.nodes["b"].chain_id = 1666600000
    await world.wait(CHECK_EVERY + 2)
    assert (world.node("b").chain_ok, world.node("b").note) == (True, "")


async def test_what_a_node_says_it_is_is_asked_now_and_then_and_when_it_comes_back(world: World) -> None:
    await world.start()
    node = world.nodes["b"]
    node.role = "ExplorerNode"
    await world.wait(CHECK_EVERY + 2)
    assert world.node("b").says == {"explorer": True, "archive": False}
    node.down = True
    await world.wait(5)
    node.down, node.role = False, "Validator"
    await world.wait(6)
    assert world.node("b").says == VALIDATOR


async def test_a_node_that_does_not_answer_is_asked_less_often_but_always(world: World) -> None:
    await world.start()
    node = world.nodes["b"]
    node.down = True
    await world.wait(30)
    node.asked.clear()
    await world.wait(30)
    looks = node.asked.count("hmyv2_blockNumber")
    assert 5 <= looks <= 7
    assert not world.node("b").answering
    assert world.node("b").note.startswith("no connection within 5 s (")
    node.down = False
    await world.wait(6)
    assert (world.node("b").answering, world.node("b").note) == (True, "")


async def test_while_no_node_answers_each_is_asked_every_second(world: World) -> None:
    await world.start()
    world.nodes["b"].down = True
    await world.wait(60)
    for node in world.nodes.values():
        node.down = True
        node.asked.clear()
    await world.wait(3)
    assert world.nodes["b"].asked.count("hmyv2_blockNumber") in (2, 3), "though it had been asked every 5 s before"
    await world.wait(27)
    assert all(25 <= node.asked.count("hmyv2_blockNumber") <= 34 for node in world.nodes.values())
    world.nodes["b"].down = False
    await world.wait(1.25)
    assert world.node("b").answering


async def test_when_the_nodes_at_the_head_are_gone_the_best_one_left_is_followed(world: World) -> None:
    world.nodes["c"].head = 97
    await world.start()
    world.nodes["a"].down = world.nodes["b"].down = True
    await world.wait(4)
    assert world.heads.served.head == 100
    assert world.heads.served.note.startswith("waiting for a node at block 100")
    await world.wait(10)
    assert world.heads.served.head == 97
    assert world.heads.served.note.endswith("following the best one left, at block 97")


@pytest.mark.parametrize(("chain", "every"), [("harmony", 2.0), ("ethereum", 12.0)])
async def test_when_the_heaviest_node_hangs_the_head_goes_on_in_time(world: World, chain: str, every: float) -> None:
    await world.start(chain, websockets="off", each={"a": {"weight": 5}})
    await grow(world, 10, every)
    world.nodes["a"].hang = True
    for _ in range(6):
        assert await grow(world, 1, 1.9) == 0
        await world.wait(every - 1.9)


async def test_a_node_that_does_not_let_its_probes_in_is_shut_out_until_it_does(world: World) -> None:
    world.nodes = {"a": Node(), "b": Node()}
    await world.start()
    assert world.node("a").barred == ""
    world.nodes["a"].shut = True
    await world.wait(2.0)
    assert world.node("a").barred == "the node does not let us in: HTTP 401"
    assert not world.node("a").answering
    world.nodes["a"].shut = False
    await world.wait(6.0)
    assert (world.node("a").barred, world.node("a").answering) == ("", True)


async def test_a_fault_of_our_own_does_not_end_the_probing(world: World) -> None:
    await world.start()
    world.nodes["b"].broken = True
    await world.wait(3)
    assert world.node("b").note.startswith("the probe itself failed: RuntimeError")
    world.nodes["b"].broken = False
    await world.wait(6)
    assert world.node("b").answering


async def test_a_listener_that_fails_does_not_end_the_probing(world: World) -> None:
    told: list[NetworkHeads] = []

    def publish(heads: NetworkHeads) -> None:
        told.append(heads)
        raise RuntimeError("nobody home")

    prober = Prober(
        "net",
        world.settings(),
        publish=publish,
        clock=world.clock.now,
        sleep=world.clock.sleep,
        connect=world._connect,
        open_socket=closed_door,
    )
    await prober.start()
    await world.wait(3)
    assert len(told) > 1
    await prober.stop()


async def test_a_node_whose_head_stands_is_noticed(world: World) -> None:
    await world.start()
    for _ in range(50):
        for name in "ab":
            world.nodes[name].head += 1
        await world.wait(1)
    assert world.node("c").note.startswith("its head has not moved for ")
    assert world.node("a").note == ""


@pytest.mark.parametrize("block_time", [None, 20.0])
async def test_an_answer_that_names_a_block_makes_one_look_which_alone_moves_the_head(
    world: World, block_time: float | None
) -> None:
    prober = await world.start(block_time=block_time)
    await world.wait(0.3)
    world.nodes["b"].head = 101
    looks = {name: node.asked.count("hmyv2_blockNumber") for name, node in world.nodes.items()}
    for name in ("a", "b", "nobody"):
        for _ in range(5):
            prober.hint(name, 101)
            await settle()
    assert {name: world.node(name).head for name in "abc"} == {"a": 100, "b": 101, "c": 100}
    assert world.nodes["a"].asked.count("hmyv2_blockNumber") == looks["a"] + 1
    for never in (90, 16_777_215, 2**64):
        prober.hint("c", never)
    await settle()
    if block_time is not None:
        assert world.nodes["c"].asked.count("hmyv2_blockNumber") == looks["c"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**65)), max_size=20))
def test_whatever_answers_name_no_head_is_above_what_nodes_gave(hints: list[tuple[str, int]]) -> None:
    async def story() -> None:
        world = World()
        world.nodes = {"a": Node(), "b": Node(), "c": Node(99)}
        prober = await world.start("ethereum", chain_id=1666600000)
        for name, number in hints:
            prober.hint(name, number)
            await world.wait(0.1, step=0.1)
        assert {(heads.served.head, *(node.head for node in heads.nodes)) for heads in world.told[1:]} <= {
            (100, 100, 100, 99)
        }
        await prober.stop()

    asyncio.run(story())


async def test_a_node_can_be_looked_at_at_once(world: World) -> None:
    prober = await world.start()
    world.nodes["b"].head, world.nodes["b"].chain_id = 120, 1
    got = await prober.probe_now("b")
    assert (got.head, got.chain_ok) == (120, False)
    assert await prober.probe_now("nobody") is None


async def test_unchanged_heads_are_told_again_once_in_a_while_only(world: World) -> None:
    await world.start(block_time=0.2)
    count = len(world.told)
    await world.wait(5)
    assert 4 <= len(world.told) - count <= 6


async def test_nodes_join_and_leave_and_weights_change_while_it_runs(world: World) -> None:
    prober = await world.start()
    world.nodes["d"] = Node(130)
    gone = world.nodes.pop("a")
    await prober.adopt(world.settings(each={"d": {"weight": 50}}))
    await settle()
    assert [node.id for node in world.heads.nodes] == ["b", "c", "d"]
    assert (world.heads.served.head, gone.closed) == (130, 1)
    assert world.made == ["a", "b", "c", "d"], "the sessions of nodes that stay are kept"
    await prober.adopt(world.settings(each={"d": {"weight": 50, "url": "http://127.0.0.1:2"}}))
    await settle()
    assert world.made == ["a", "b", "c", "d", "d"]
    assert world.nodes["d"].closed == 1


async def test_of_nodes_that_are_reached_with_another_key_from_now_on_one_alone_is_kept_out(world: World) -> None:
    prober = await world.start()
    key = {"headers": {"x-key": "new"}}
    await prober.adopt(world.settings(each={"a": key, "b": key}))
    await settle()
    assert world.made == ["a", "b", "c", "a", "b"]
    assert {node.id for heads in world.told for node in heads.nodes if node.examining} == {"a"}


async def test_a_drained_node_is_followed_but_does_not_make_the_head(world: World) -> None:
    world.nodes = {"a": Node(100), "b": Node(130)}
    await world.start(each={"b": {"drain": True, "weight": 9}})
    assert (world.heads.served.head, world.node("b").head) == (100, 130)


async def test_stopping_ends_every_task_and_closes_every_session(world: World) -> None:
    world.nodes["b"].hang = True
    prober = await world.start()
    await prober.stop()
    count = len(world.told)
    await world.wait(10)
    assert [node.closed for node in world.nodes.values()] == [1, 1, 1]
    assert len(world.told) == count
    prober.hint("a", 500)
    assert len(world.told) == count


async def test_a_reorganisation_moves_the_fork_epoch(world: World) -> None:
    for node in world.nodes.values():
        node.chain_id = 1
    await world.start("ethereum")
    assert (world.heads.served.final, world.heads.finalized, world.heads.safe) == (36, 36, 68)
    assert world.heads.served.fork_epoch == 0
    for node in world.nodes.values():
        node.head, node.branch = 103, "b"
    await world.wait(7)
    assert world.heads.served.head == 103
    assert world.heads.served.fork_epoch > 0


async def test_a_chain_that_only_grows_keeps_its_fork_epoch(world: World) -> None:
    await world.start("ethereum", block_time=2.0)
    for _ in range(10):
        for node in world.nodes.values():
            node.head += 3
        await world.wait(2)
    assert (world.heads.served.head, world.heads.served.fork_epoch) == (130, 0)


async def test_a_depth_in_the_settings_comes_before_the_chains_own_finality(world: World) -> None:
    await world.start("ethereum", finality_depth=5)
    assert (world.heads.served.final, world.heads.finalized) == (95, -1)
    assert "eth_getBlockByNumber" in world.nodes["a"].asked


async def test_it_follows_simulated_nodes_over_real_sockets() -> None:
    told: list[NetworkHeads] = []
    async with harmony_nodes(2, head=200) as nodes:
        listed = [{"id": node.name, "url": node.url} for node in nodes]
        prober = Prober("net", NetworkSettings.model_validate({"nodes": listed}), publish=told.append)
        await prober.start()
        await until(lambda: told)
        assert told[-1].served.head == 200
        assert [node.chain_ok for node in told[-1].nodes] == [True, True]
        assert told[-1].eth_chain_id is not None
        branch = nodes[0].chain.branch
        assert (told[-1].genesis, told[-1].block_one) == tuple("0x" + branch.hash_of(number).hex() for number in (0, 1))
        await prober.stop()


async def test_a_node_that_joins_at_run_time_is_examined_before_its_head_counts() -> None:
    told: list[NetworkHeads] = []
    async with harmony_nodes(2, head=200) as (old, new):
        old.knobs.lag = 3
        new.knobs.turn({"archive": False, "prune_depth": 64, "method_work": {"eth_getBalance": "20ms"}})
        listed = [{"id": node.name, "url": node.url} for node in (old, new)]
        first, both = (NetworkSettings.model_validate({"nodes": listed[:many]}) for many in (1, 2))
        prober = Prober("net", first, publish=told.append)
        await prober.start()
        await until(lambda: told and told[-1].served.head == 197)
        assert not told[-1].nodes[0].examining, "the nodes of the start serve at once"
        await prober.adopt(both)
        await until(lambda: told[-1].nodes[-1].examination is not None)
        await prober.stop()
    joined = [heads for heads in told if len(heads.nodes) == 2]
    examining = [heads for heads in joined if heads.nodes[1].examining]
    assert joined[: len(examining)] == examining
    assert any(heads.nodes[1].chain_ok for heads in examining)
    assert {heads.served.head for heads in examining} == {197}
    examination = joined[-1].nodes[1].examination
    assert (examination.state_from, joined[-1].served.head) == (136, 200)
    assert "(simulated)" in examination.version
