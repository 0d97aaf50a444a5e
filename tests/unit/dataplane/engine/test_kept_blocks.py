"""What an indexer asks block by block is answered out of the blocks that are kept, to the byte as a node would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from rpcaccel.core.cache.block_contents import APART_SECONDS
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.factories import ethereum_chain, running
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.gate import Gate
from tests.support.proxy import Proxy, Reply, proxying
from tests.support.waiting import until

BLOCK, RECEIPTS, RECEIPT = "eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getTransactionReceipt"
BY_HASH = "eth_getTransactionByHash"
FINAL, HEAD = 150, 200
FULL = 101
"""A final block of twenty transactions."""


@asynccontextmanager
async def indexed(
    count: int = 1,
    *,
    rules: dict[str, Any] | None = None,
    proxy: dict[str, Any] | None = None,
    net: dict[str, Any] | None = None,
    **knobs: Any,
) -> AsyncIterator[Proxy]:
    """A proxy before nodes of a chain whose blocks have no, ten and twenty transactions in turn."""
    # What simulated blocks are hashed of is made up.
    net = {"chain": "ethereum", "rules": rules or {}, "prove": "off", **(net or {})}
    async with (
        running(ethereum_chain(HEAD, density=10), count, **knobs) as nodes,
        proxying(nodes, net=net, final=FINAL, **(proxy or {})) as served,
    ):
        yield served


async def same(proxy: Proxy, method: str, *params: Any) -> Reply:
    """Ask the proxy, and a node that nobody counts: the answers are the same to the byte."""
    reply = await proxy.call(method, *params)
    witness = SimNode(proxy.nodes[0].chain, name="witness")
    assert reply.body == await witness.brain.reply(RequestItem(method, orjson.dumps(params), b"1"))
    return reply


async def hashes_of(proxy: Proxy, number: int) -> list[str]:
    block = await SimNode(proxy.nodes[0].chain, name="witness").ask(BLOCK, hex(number), False)
    return list(block["transactions"])


def calls(proxy: Proxy) -> int:
    return sum(node.counts.calls for node in proxy.nodes)


@pytest.mark.parametrize("number", [FULL, HEAD - 1])
async def test_a_block_and_its_receipts_are_two_calls_whatever_is_asked_of_them_afterwards(number: int) -> None:
    async with indexed() as proxy:
        block = (await same(proxy, BLOCK, hex(number), True)).result
        await same(proxy, RECEIPTS, hex(number))
        for at, one in enumerate(block["transactions"]):
            for method, params in (
                (BY_HASH, (one["hash"],)),
                (RECEIPT, (one["hash"],)),
                ("eth_getTransactionByBlockNumberAndIndex", (hex(number), hex(at))),
                ("eth_getTransactionByBlockHashAndIndex", (block["hash"], hex(at))),
            ):
                assert (await same(proxy, method, *params)).cache == "memory"
        for method, params in (
            (BLOCK, (hex(number), False)),
            ("eth_getBlockByHash", (block["hash"], True)),
            ("eth_getBlockByHash", (block["hash"], False)),
            (RECEIPTS, (block["hash"],)),
        ):
            assert (await same(proxy, method, *params)).cache == "memory"
        assert len(block["transactions"]) >= 10
        assert calls(proxy) == 2


async def test_what_a_block_has_not_is_asked_of_a_node() -> None:
    async with indexed() as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        await same(proxy, "eth_getTransactionByBlockNumberAndIndex", hex(FULL), "0x14")
        await same(proxy, BY_HASH, (await hashes_of(proxy, FULL + 3))[0])
        await same(proxy, BY_HASH, "0x" + "77" * 32)
        assert calls(proxy) == 4


async def test_the_third_receipt_of_a_final_block_brings_all_of_them_in_one_call() -> None:
    async with indexed() as proxy:
        hashes = await hashes_of(proxy, FULL)
        await same(proxy, BLOCK, hex(FULL), False)
        for one in hashes:
            await same(proxy, RECEIPT, one)
        assert (proxy.asked(RECEIPT), proxy.asked(RECEIPTS)) == (2, 1)


async def test_receipts_that_are_asked_for_together_share_the_one_call() -> None:
    async with indexed() as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        await asyncio.gather(*(same(proxy, RECEIPT, one) for one in await hashes_of(proxy, FULL)))
        assert (proxy.asked(RECEIPT), proxy.asked(RECEIPTS)) == (2, 1)


async def test_receipts_of_a_block_that_is_not_final_are_asked_for_one_by_one() -> None:
    async with indexed() as proxy:
        hashes = await hashes_of(proxy, HEAD - 1)
        await same(proxy, BLOCK, hex(HEAD - 1), True)
        for one in hashes:
            await same(proxy, RECEIPT, one)
        assert (proxy.asked(RECEIPT), proxy.asked(RECEIPTS)) == (len(hashes), 0)


async def test_where_no_node_gives_all_receipts_each_is_asked_for() -> None:
    async with indexed(missing={RECEIPTS}) as proxy:
        hashes = await hashes_of(proxy, FULL)
        await same(proxy, BLOCK, hex(FULL), True)
        for one in hashes:
            await same(proxy, RECEIPT, one)
        assert (proxy.asked(RECEIPT), proxy.asked(RECEIPTS)) == (len(hashes), 1)


async def test_after_a_call_for_all_receipts_that_failed_none_is_made_for_a_while() -> None:
    seconds = 1000.0
    async with indexed(proxy={"clock": lambda: seconds}) as proxy:
        for number in (FULL, FULL + 3):
            await same(proxy, BLOCK, hex(number), True)
        hashes, more = await hashes_of(proxy, FULL), await hashes_of(proxy, FULL + 3)
        proxy.nodes[0].knobs.turn({"faults": {"garbage": 1.0}, "fault_methods": {RECEIPTS}})
        for one in hashes[:3]:
            await same(proxy, RECEIPT, one)
        failed = proxy.asked(RECEIPTS)
        for one in (*hashes[3:], *more[:4]):
            await same(proxy, RECEIPT, one)
        assert proxy.asked(RECEIPTS) == failed > 0
        seconds += APART_SECONDS
        proxy.nodes[0].knobs.turn({"faults": {}})
        await same(proxy, RECEIPT, more[4])
        assert proxy.asked(RECEIPTS) == failed + 1


async def test_a_call_for_all_receipts_is_waited_for_no_longer_than_half_the_time_of_the_call() -> None:
    async with indexed(net={"deadline": "1s"}) as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        hashes = await hashes_of(proxy, FULL)
        proxy.nodes[0].knobs.turn({"faults": {"hang": 1.0}, "fault_methods": {RECEIPTS}})
        for one in hashes:
            await same(proxy, RECEIPT, one)


async def test_all_receipts_are_fetched_only_where_their_method_may_be_called() -> None:
    async with indexed(proxy={"http": {"deny": [RECEIPTS]}}) as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        for one in await hashes_of(proxy, FULL):
            await same(proxy, RECEIPT, one)
        assert proxy.asked(RECEIPTS) == 0


async def test_what_was_under_way_when_a_branch_was_left_is_taken_out_of_no_block() -> None:
    gate = Gate()
    async with indexed(clock=gate) as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        hashes = await hashes_of(proxy, FULL)
        for one in hashes[:2]:
            await same(proxy, RECEIPT, one)
        proxy.nodes[0].knobs.turn({"latency": "100ms"})
        third = asyncio.ensure_future(same(proxy, RECEIPT, hashes[2]))
        await gate.reached.wait()
        proxy.see(final=FINAL, fork_epoch=1)
        gate.open.set()
        await third
        assert proxy.asked(RECEIPT) == 3


async def test_receipts_that_the_disk_has_are_asked_of_no_node(tmp_path: Path) -> None:
    async with indexed(proxy={"disk": {"path": str(tmp_path), "read_timeout": 10}}) as proxy:
        hashes = await hashes_of(proxy, FULL)
        for one in hashes:
            await same(proxy, RECEIPT, one)
        await until(lambda: proxy.worker.engine.disk.stats().writes == len(hashes))
        proxy.worker.engine.memory.purge(Selection(method=RECEIPT))
        await same(proxy, BLOCK, hex(FULL), False)
        assert {(await same(proxy, RECEIPT, one)).cache for one in hashes} == {"disk"}
        assert proxy.asked(RECEIPTS) == 0


async def test_a_receipt_waits_behind_no_heavy_call() -> None:
    async with indexed() as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        hashes = await hashes_of(proxy, FULL)
        pool = proxy.worker.state.networks["harmony-s0"].pool
        (node,) = pool.nodes
        while node.has_room(0.0, Bulkhead.HEAVY):
            node.begin(0.0, Bulkhead.HEAVY)
        for one in hashes[:5]:
            await same(proxy, RECEIPT, one)
        assert (proxy.asked(RECEIPTS), pool.rooms[Bulkhead.HEAVY].refused) == (0, 0)


@pytest.mark.parametrize(("all_of_them", "singly"), [(1, 2), (50, 4), (200, 19), (201, 20)])
async def test_all_receipts_are_asked_for_once_each_by_itself_has_cost_as_much(all_of_them: int, singly: int) -> None:
    listed = {"quota": {"day": 1_000_000, "costs": {RECEIPT: 10, RECEIPTS: all_of_them}}}
    async with running(ethereum_chain(HEAD, density=10), 1) as nodes:
        net = {"chain": "ethereum", "nodes": [{"id": nodes[0].name, "url": nodes[0].url, **listed}]}
        async with proxying(nodes, net=net, final=FINAL) as proxy:
            await same(proxy, BLOCK, hex(FULL), True)
            for one in await hashes_of(proxy, FULL):
                await same(proxy, RECEIPT, one)
            assert proxy.asked(RECEIPT) == singly


@pytest.mark.parametrize(
    ("rules", "cache"),
    [
        ({BY_HASH: {"cache": "off"}}, "miss"),
        ({BY_HASH: {"cache": "head"}}, "miss"),
        ({BY_HASH: {"agree": 2}}, "miss"),
        ({BLOCK: {"agree": 2}}, "miss"),
        ({BLOCK: {"agree": 2}, BY_HASH: {"agree": 2}}, "memory"),
        ({BLOCK: {"cache": "off"}}, "miss"),
        ({BLOCK: {"cache": "head"}}, "memory"),
    ],
)
async def test_an_operators_rule_for_the_part_or_for_the_whole_holds(rules: dict[str, Any], cache: str) -> None:
    async with indexed(2, rules=rules) as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        assert (await same(proxy, BY_HASH, (await hashes_of(proxy, FULL))[0])).cache == cache


@pytest.mark.parametrize(("age", "asked"), [(59, 0), (61, 1)])
async def test_a_part_is_as_old_as_the_answer_that_it_is_taken_from(age: int, asked: int) -> None:
    seconds = 1000.0
    async with indexed(rules={BY_HASH: {"max_age": 60}}, proxy={"clock": lambda: seconds}) as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        seconds += age
        await same(proxy, BY_HASH, (await hashes_of(proxy, FULL))[0])
        assert proxy.asked(BY_HASH) == asked


async def test_a_block_that_was_left_holds_nothing_any_more() -> None:
    async with indexed() as proxy:
        chain, number = proxy.nodes[0].chain, HEAD - 1
        left = await hashes_of(proxy, number)
        block = (await same(proxy, BLOCK, hex(number), True)).result
        await same(proxy, "eth_getBlockByHash", block["hash"], True)
        chain.reorg(5)
        proxy.see(final=FINAL, fork_epoch=1)
        assert (await same(proxy, BY_HASH, left[0])).cache == "miss"
        assert (await same(proxy, "eth_getTransactionByBlockNumberAndIndex", hex(number), "0x0")).cache == "miss"
        await same(proxy, BLOCK, hex(number), True)
        assert (await same(proxy, "eth_getTransactionByBlockNumberAndIndex", hex(number), "0x1")).cache == "memory"


async def test_what_is_kept_of_a_part_is_found_without_its_block() -> None:
    async with indexed() as proxy:
        one = (await hashes_of(proxy, FULL))[0]
        await same(proxy, BLOCK, hex(FULL), True)
        await same(proxy, BY_HASH, one)
        proxy.worker.engine.memory.purge(Selection(method=BLOCK))
        assert (await same(proxy, BY_HASH, one)).cache == "memory"


async def test_a_call_that_asks_no_node_gets_what_a_kept_block_holds() -> None:
    clients = {"anonymous": {"directives": ["cache"]}}
    async with indexed(proxy={"clients": clients}) as proxy:
        one, other = (await hashes_of(proxy, FULL))[:2]
        assert b"no answer to this call is kept" in (await proxy.call(BY_HASH, one, path="/?cache=only")).body
        await same(proxy, BLOCK, hex(FULL), True)
        assert (await proxy.call(BY_HASH, one, path="/?cache=only")).result["hash"] == one
        assert b"no answer to this call" in (await proxy.call(RECEIPT, other, path="/?cache=only")).body
        assert calls(proxy) == 1


async def test_after_a_purge_of_the_blocks_nothing_is_taken_out_of_them() -> None:
    async with indexed() as proxy:
        one = (await hashes_of(proxy, FULL))[0]
        await same(proxy, BLOCK, hex(FULL), True)
        proxy.worker.engine.memory.purge(Selection(method=BLOCK))
        assert (await same(proxy, BY_HASH, one)).cache == "miss"


async def test_identical_calls_for_what_a_kept_block_has_not_share_one_flight() -> None:
    async with indexed() as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        method = "eth_getTransactionByBlockNumberAndIndex"
        await asyncio.gather(*(proxy.call(method, hex(FULL), "0x99") for _ in range(20)))
        assert proxy.asked(method) == 1


async def test_a_call_for_what_a_block_has_not_changes_nothing_for_its_receipts() -> None:
    async with indexed() as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        await same(proxy, "eth_getTransactionByBlockNumberAndIndex", hex(FULL), "0x99")
        for one in await hashes_of(proxy, FULL):
            await same(proxy, RECEIPT, one)
        assert (proxy.asked(RECEIPT), proxy.asked(RECEIPTS)) == (2, 1)


async def test_receipts_that_are_too_long_to_be_kept_together_are_asked_for_together_once() -> None:
    async with indexed(proxy={"memory": {"max_entry": "8kB"}}) as proxy:
        hashes = await hashes_of(proxy, FULL)
        await same(proxy, BLOCK, hex(FULL), False)
        for one in hashes:
            await same(proxy, RECEIPT, one)
        assert (proxy.asked(RECEIPT), proxy.asked(RECEIPTS)) == (len(hashes) - 1, 1)


async def test_who_asks_after_state_was_rewritten_waits_for_no_receipts_that_were_asked_for_before() -> None:
    async with indexed() as proxy:
        await same(proxy, BLOCK, hex(FULL), True)
        hashes = await hashes_of(proxy, FULL)
        for one in hashes[:2]:
            await same(proxy, RECEIPT, one)
        proxy.nodes[0].knobs.turn({"latency": {"mean": 0.2}})
        early = asyncio.create_task(proxy.call(RECEIPT, hashes[2]))
        await asyncio.sleep(0.1)
        engine, network = proxy.worker.engine, proxy.worker.state.networks[proxy.network]
        assert engine.flights.running
        engine.rewritten(network)
        assert not engine.flights.running
        await early
