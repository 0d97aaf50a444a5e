"""The demo's traffic."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.bench.load.workload import World
from rpcaccel.cli.simulated.traffic import METHODS, draw, run, subscribe
from rpcaccel.simnode.server.factories import harmony_nodes

CONTRACT = "0x" + "00" * 20
SEED_METHODS = {
    "hmyv2_blockNumber",
    "hmyv2_getBlockSigners",
    "hmyv2_getBlocks",
    "hmyv2_getBalanceByBlockNumber",
    "hmyv2_getValidatorInformation",
    "hmyv2_call",
    "net_peerCount",
    "hmyv2_getNodeMetadata",
    "hmyv2_getCurrentTransactionErrorSink",
    "hmyv2_getCurrentUtilityMetrics",
}


def world(head: int, *validators: str) -> World:
    return World("harmony", head, CONTRACT, (CONTRACT,), validators)


def test_the_ten_methods_of_the_seed_and_some_of_ethereum_are_drawn() -> None:
    rng = Random(1)
    drawn = Counter(draw(rng, world(100, "one1a", "one1b")).method for _ in range(2000))
    assert set(drawn) == set(METHODS) > SEED_METHODS
    assert sum(method.startswith("eth_") for method in METHODS) >= 3


@given(st.integers(), st.integers(0, 1 << 40), st.lists(st.from_regex(r"one1[a-z]{1,5}\Z"), min_size=1, max_size=3))
def test_calls_never_ask_above_the_head_for_what_the_next_block_settles(
    seed: int, head: int, validators: list[str]
) -> None:
    call = draw(Random(seed), world(head, *validators))
    numbers = [part for part in msgspec.json.decode(call.params) if isinstance(part, int)]
    assert all(0 <= number <= max(1, head - 2) for number in numbers)


async def test_it_calls_at_a_rate_until_it_is_stopped_and_every_call_is_answered() -> None:
    stop = asyncio.Event()
    async with harmony_nodes(1, limiters=False) as (node,):
        made = node.chain.generator
        contract = "0x" + made.contract.hex()
        validators = tuple(await node.ask("hmyv2_getAllValidatorAddresses"))
        here = World("harmony", node.head, contract, (contract,), validators)
        calling = asyncio.create_task(run(node.url, lambda: here, rng=Random(1), stop=stop, rate=500))
        await node.counts.until(lambda counts: counts.calls >= 200)
        stop.set()
        await calling
        assert (node.counts.errors, set(node.counts.methods) - set(METHODS)) == (0, set())
        assert all(re.fullmatch(rb"\[.*\]", params) for _, params in node.counts.log)


async def test_a_proxy_that_does_not_answer_does_not_end_it() -> None:
    stop = asyncio.Event()
    async with harmony_nodes(1, faults={"reset": 1.0}) as (node,):
        calling = asyncio.create_task(run(node.url, lambda: world(10, "one1a"), rng=Random(1), stop=stop, rate=500))
        await node.counts.until(lambda counts: counts.requests >= 50)
        assert not calling.done()
        stop.set()
        await calling


async def test_a_subscriber_comes_back_where_its_websocket_ended() -> None:
    stop = asyncio.Event()
    async with harmony_nodes(1) as (node,):
        listening = asyncio.create_task(subscribe(node.url.replace("http", "ws"), stop, pause=0))
        await node.counts.until(lambda counts: counts.subscriptions == 2)
        node.chain.advance()
        await node.counts.until(lambda counts: counts.pushed == 1)
        node.knobs.push_faults = {"cut": 1.0}
        node.chain.advance()
        await node.counts.until(lambda counts: counts.asked("eth_subscribe") == 4)
        params = [msgspec.json.decode(params) for _, params in node.counts.log]
        resumed = [[kind, {"fromBlock": "0xc9"}] for kind in ("logs", "newHeads")]
        assert sorted(params, key=str) == sorted([*resumed, ["logs", {}], ["newHeads"]], key=str)
        stop.set()
        await listening
        await node.counts.until(lambda _: node.sockets.open == 0)


async def test_a_subscriber_tries_again_where_there_are_no_websockets() -> None:
    stop = asyncio.Event()
    async with harmony_nodes(1, websocket="refused") as (node,):
        listening = asyncio.create_task(subscribe(node.url.replace("http", "ws"), stop, pause=0))
        await node.counts.until(lambda counts: counts.refused == 2)
        node.knobs.websocket = "on"
        await node.counts.until(lambda counts: counts.subscriptions == 2)
        stop.set()
        await listening
