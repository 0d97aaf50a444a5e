"""The edges at which a real Harmony node was asked (two-shard localnet, head 178), replayed: edges.json."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.factories import harmony_chain, knobs
from rpcaccel.simnode.server.responder import LIMITER_REFUSAL, Counts, Responder
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock

EDGES = json.loads(Path(__file__).with_name("edges.json").read_text())


def _cast(node: SimNode, params: Any) -> Any:
    make = node.chain.generator
    names = {
        "$0x": to_hex(make.accounts[0]),
        "$one": to_one(make.accounts[0]),
        "$contract": to_hex(make.contract),
        "$validator": to_one(make.validators[0]),
    }
    written = json.dumps(params)
    for name, address in names.items():
        written = written.replace(name, address)
    return json.loads(written)


@pytest.mark.parametrize(("method", "params", "expected"), EDGES)
async def test_the_edges_are_those_of_a_real_node(method: str, params: Any, expected: Any, node: SimNode) -> None:
    written = b"" if params is None else json.dumps(_cast(node, params)).encode()
    reply = json.loads(await node.brain.reply(RequestItem(method, written, b"1")) or b"")
    if "code" in expected:
        assert reply["error"] == expected
    elif "result" in expected:
        assert reply["result"] == expected["result"]
    elif "number" in expected:
        assert reply["result"]["number"] == expected["number"]
    elif "first" in expected:
        assert reply["result"][0]["number"] == expected["first"]
    else:
        assert type(reply["result"]).__name__ == expected["like"]


async def test_an_invalid_request_keeps_its_id_and_a_notification_is_run_and_not_answered(node: SimNode) -> None:
    assert b'"id":7,"error":{"code":-32600' in (await node.brain.reply(RequestItem("", b"", b"7")) or b"")
    assert await node.brain.reply(RequestItem("hmyv2_blockNumber", b"", None)) is None
    assert (node.counts.asked("hmyv2_blockNumber"), node.counts.notifications, node.counts.errors) == (1, 1, 1)


async def test_lag_and_stall_hold_the_head_back(chain: SimChain, node: SimNode) -> None:
    node.knobs.lag = 3
    assert await node.ask("hmyv2_blockNumber") == 175
    node.knobs.lag = 0
    node.knobs.stall = True
    chain.advance(5)
    assert node.head == 178
    node.knobs.stall = False
    assert node.head == 183
    assert repr(node.brain) == "<Responder alone head 183>"
    assert SimNode(chain, knobs=knobs(stall=True)).head == 183


def test_a_wandering_node_is_a_block_behind_now_and_then_and_never_goes_back(chain: SimChain) -> None:
    node = SimNode(chain, knobs=knobs(wander=0.3))
    behind, last = 0, node.head
    for _ in range(300):
        head = chain.advance()
        assert node.head in (head, head - 1)
        assert node.head >= last
        behind += node.head < head
        last = node.head
    assert 40 < behind < 140


async def test_a_shard_without_the_beacon_refuses_staking_methods() -> None:
    node = SimNode(harmony_chain(shard=1))
    for method in ("hmyv2_getCurrentUtilityMetrics", "hmyv2_getAllValidatorAddresses", "eth_getLastCrossLinks"):
        with pytest.raises(RpcError, match="cannot call this rpc on non beaconchain node"):
            await node.ask(method)
    assert await node.ask("eth_chainId") == hex(1_666_700_001)


async def test_a_missing_method_is_missing_on_that_node_alone(chain: SimChain) -> None:
    poor, rich = SimNode(chain, knobs=knobs(missing=["hmyv2_getBlocks"])), SimNode(chain)
    with pytest.raises(RpcError, match="does not exist/is not available"):
        await poor.ask("hmyv2_getBlocks", 1, 2, {})
    assert len(await rich.ask("hmyv2_getBlocks", 1, 2, {})) == 2


async def served_at_once(brain: Responder, clock: ManualClock, method: str, params: str, count: int) -> list[int]:
    """How many of parallel calls are answered without a wait, within five seconds, and never."""
    tasks = [asyncio.ensure_future(brain.reply(RequestItem(method, params.encode(), b"1"))) for _ in range(count)]
    await asyncio.sleep(0)
    waiting = clock.waiting
    clock.advance(5.0)
    refused = sum(LIMITER_REFUSAL.encode() in (reply or b"") for reply in await asyncio.gather(*tasks))
    return [count - waiting - refused, waiting, refused]


@pytest.mark.parametrize(
    ("method", "params", "count", "passed"),
    [
        ("hmyv2_getCurrentUtilityMetrics", "[]", 60, 30),
        ("hmyv2_getAllValidatorInformation", "[0]", 20, 6),
        ("hmyv2_getDelegationsByValidator", '["0x' + "11" * 20 + '"]', 80, 35),
    ],
)
async def test_as_many_parallel_calls_pass_as_a_real_node_let_pass(
    method: str, params: str, count: int, passed: int, chain: SimChain
) -> None:
    clock = ManualClock()
    brain = Responder(chain, "limited", knobs(), clock)
    at_once, waited, refused = await served_at_once(brain, clock, method, params, count)
    assert (at_once + waited, refused) == (passed, count - passed)
    other = await served_at_once(brain, clock, method.replace("hmyv2", "hmy"), params, 1)
    assert other == [1, 0, 0]  # each namespace has limiters of its own
    clock.advance(100.0)
    assert await served_at_once(brain, clock, method, params, 1) == [1, 0, 0]


async def test_limiters_can_be_switched_off_and_the_configurable_one_on(chain: SimChain) -> None:
    clock = ManualClock()
    brain = Responder(chain, "limited", knobs(limiters=False), clock)
    assert await served_at_once(brain, clock, "hmyv2_getAllValidatorInformation", "[0]", 50) == [50, 0, 0]
    assert await served_at_once(brain, clock, "hmyv2_latestHeader", "[]", 50) == [50, 0, 0]
    brain.knobs.rate_limit = 10.0
    assert (await served_at_once(brain, clock, "hmyv2_latestHeader", "[]", 20))[1] > 0


async def test_work_is_waited_for_on_the_nodes_clock(chain: SimChain) -> None:
    clock = ManualClock()
    brain = Responder(chain, "slow", knobs(work=0.1, method_work={"hmyv2_call": "1s"}), clock)
    quick = asyncio.ensure_future(brain.reply(RequestItem("hmyv2_blockNumber", b"", b"1")))
    slow = asyncio.ensure_future(brain.reply(RequestItem("hmyv2_gasPrice", b"[]", b"1")))
    await asyncio.sleep(0)
    clock.advance(0.1)
    assert await quick
    assert await slow


@given(st.integers(0, 178), st.booleans(), st.booleans())
async def test_two_nodes_at_one_height_answer_byte_for_byte_alike(number: int, full: bool, signers: bool) -> None:
    chain = harmony_chain(180)
    options = {"fullTx": full, "withSigners": signers and number > 0, "inclStaking": True}
    calls = [
        RequestItem("hmyv2_getBlockByNumber", json.dumps([number, options]).encode(), b"1"),
        RequestItem("eth_getBlockByNumber", json.dumps([hex(number), full]).encode(), b"1"),
        RequestItem("hmyv2_getHeaderByNumber", json.dumps([number]).encode(), b"1"),
        RequestItem("hmyv2_getBlockSigners", json.dumps([number]).encode(), b"1"),
        RequestItem(
            "hmyv2_getBalanceByBlockNumber", json.dumps([to_one(chain.generator.accounts[1]), number]).encode(), b"1"
        ),
    ]
    one, other = SimNode(chain, name="a"), SimNode(harmony_chain(190), name="b")
    for call in calls:
        assert await one.brain.reply(call) == await other.brain.reply(call)


@given(st.integers(1, 150), st.integers(0, 20))
async def test_a_range_of_blocks_is_its_blocks_one_by_one(start: int, length: int) -> None:
    node = SimNode(harmony_chain(178))
    options = {"fullTx": True, "withSigners": True, "inclStaking": True}
    blocks = await node.ask("hmyv2_getBlocks", start, start + length, options)
    single = [await node.ask("hmyv2_getBlockByNumber", n, options) for n in range(start, start + length + 1)]
    assert blocks == single
    assert all(b["parentHash"] == a["hash"] for a, b in pairwise(blocks))


async def test_what_a_method_did_not_expect_makes_its_handler_stumble_and_not_the_node() -> None:
    node = SimNode(harmony_chain(50))
    with pytest.raises(RpcError, match="method handler crashed"):
        await node.ask("hmyv2_getProof", "one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3", 5, "latest")


async def test_one_can_wait_for_a_count() -> None:
    counts = Counts()
    waiting = asyncio.ensure_future(counts.until(lambda seen: seen.asked("a") == 2))
    gone = asyncio.ensure_future(counts.until(lambda seen: seen.asked("a") == 2))
    for _ in range(2):
        await asyncio.sleep(0)
        assert not waiting.done()
        counts.methods["a"] += 1
        gone.cancel()
        counts.settle()
    await waiting
    await counts.until(lambda seen: seen.calls == 2)


def test_counts_start_anew_after_a_reset() -> None:
    counts = Counts()
    counts.methods["a"] += 2
    counts.faults["reset"] += 1
    assert (counts.asked("a"), counts.asked("b"), counts.calls) == (2, 0, 2)
    assert counts.view()["faults"] == {"reset": 1}
    counts.reset()
    assert counts.view() == Counts().view()
