"""Calls that the disk answers: after memory forgot them, after a restart, and never what may have changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.engine.store_lookup import HotAnswers
from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from rpcaccel.stores.disk.disk_store import DiskStore
from tests.support.proxy import Proxy, Reply, proxying, settings_for
from tests.support.waiting import until

BLOCK = ("eth_getBlockByNumber", "0x10", True)
ETHEREUM = {"network": "eth", "net": {"chain": "ethereum"}}


def disk(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    """The settings of a tier in this folder. On a busy machine a healthy disk may take longer than the default."""
    return {"disk": {"path": str(tmp_path / "cache"), "read_timeout": 10, **settings}}


async def written(proxy: Proxy, count: int) -> None:
    await until(lambda: proxy.worker.engine.disk.stats().writes == count)


async def truth(proxy: Proxy, method: str, *params: Any) -> bytes:
    """What a node that nobody counts says."""
    witness = SimNode(proxy.nodes[0].chain, name="witness")
    return await witness.brain.reply(RequestItem(method, orjson.dumps(params), b"1"))


async def asked_again(proxy: Proxy, *call: Any) -> Reply:
    """Ask once memory has forgotten everything."""
    proxy.worker.engine.memory.purge(Selection())
    return await proxy.call(*call)


async def test_a_final_answer_that_memory_forgot_comes_from_the_disk_and_fills_memory(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        assert (await proxy.call(*BLOCK)).cache == "miss"
        await written(proxy, 1)
        again = await asked_again(proxy, *BLOCK)
        assert again.cache == "disk"
        assert again.body == await truth(proxy, *BLOCK)
        assert (await proxy.call(*BLOCK)).cache == "memory"
        assert proxy.asked(BLOCK[0]) == 1


async def test_a_final_answer_outlives_the_proxy(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes:
        async with proxying(nodes, **disk(tmp_path)) as proxy:
            await proxy.call(*BLOCK)
        async with proxying(nodes, **disk(tmp_path)) as proxy:
            again = await proxy.call(*BLOCK)
            assert again.cache in {"disk", "memory"}, "memory: it was read ahead already"
            assert again.body == await truth(proxy, *BLOCK)
        assert nodes[0].counts.asked(BLOCK[0]) == 1


async def test_two_workers_share_it(tmp_path: Path) -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes, **disk(tmp_path)) as one,
        proxying(nodes, **disk(tmp_path)) as other,
    ):
        await one.call(*BLOCK)
        await written(one, 1)
        assert (await other.call(*BLOCK)).cache == "disk"


@pytest.mark.parametrize(
    "call",
    [
        ("eth_getBlockByNumber", "0x64", True),  # above what is final
        ("eth_getBlockByNumber", "latest", True),
        ("eth_getBlockByNumber", "pending", True),
        ("eth_getBalance", "0x" + "a5" * 20, "latest"),
        ("eth_gasPrice",),
        ("eth_getTransactionReceipt", "0x" + "77" * 32),  # null may become something
    ],
)
async def test_what_may_change_is_not_kept_on_disk(tmp_path: Path, call: tuple[Any, ...]) -> None:
    async with ethereum_nodes(1) as nodes, proxying(nodes, **disk(tmp_path), **ETHEREUM, final=60) as proxy:
        await proxy.call(*call)
        await proxy.call(*BLOCK)
        await written(proxy, 1)
        assert (await asked_again(proxy, *call)).cache == "miss"


async def test_what_the_operator_lets_age_is_not_kept_on_disk(tmp_path: Path) -> None:
    net = {"rules": {BLOCK[0]: {"max_age": "1h"}}}
    async with harmony_nodes(1) as nodes, proxying(nodes, net=net, **disk(tmp_path)) as proxy:
        await proxy.call(*BLOCK)
        await proxy.call("eth_getBlockTransactionCountByNumber", "0x10")
        await written(proxy, 1)
        assert (await asked_again(proxy, *BLOCK)).cache == "miss"


async def test_of_a_chain_begun_anew_with_the_same_block_0_nothing_is_found(tmp_path: Path) -> None:
    zero, old, new = ("0x" + pair * 32 for pair in ("11", "22", "33"))
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        proxy.see(genesis=zero, block_one=old)
        await proxy.call(*BLOCK)
        await written(proxy, 1)
        assert (await asked_again(proxy, *BLOCK)).cache == "disk"
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        for block_one in (None, new):
            proxy.see(genesis=zero, block_one=block_one)
            assert (await proxy.call(*BLOCK)).cache == "miss"
        await written(proxy, 1)
        proxy.see(genesis=zero, block_one=old)
        assert (await proxy.call(*BLOCK)).cache == "disk", "the old chain is back"


async def test_after_final_blocks_were_replaced_nothing_of_them_is_found(tmp_path: Path) -> None:
    async with ethereum_nodes(1) as nodes, proxying(nodes, **disk(tmp_path), **ETHEREUM) as proxy:
        old = await proxy.call(*BLOCK)
        await written(proxy, 1)
        nodes[0].chain.reorg(199)
        proxy.see(18, final=-1, fork_epoch=1, doubted=1)
        await until(lambda: proxy.worker.engine.disk.stats().purged == 1)
        proxy.see(100, final=90, fork_epoch=2, doubted=1)
        new = await asked_again(proxy, *BLOCK)
        assert new.result["hash"] != old.result["hash"]


async def test_the_disk_is_not_asked_while_it_is_being_purged_of_a_chain_that_began_anew(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        by_hash = ("eth_getBlockByHash", (await proxy.call(*BLOCK)).result["hash"], True)
        await proxy.call(*by_hash)
        await written(proxy, 2)
        assert (await asked_again(proxy, *by_hash)).cache == "disk"
        proxy.worker.state.networks["harmony-s0"].sight.forgetting = True
        assert (await asked_again(proxy, *by_hash)).cache == "miss"


async def test_pieces_of_a_range_come_from_the_disk(tmp_path: Path) -> None:
    call = ("hmyv2_getBlocks", 10, 49, {})
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        await proxy.call(*call)
        await written(proxy, 40)
        whole = await asked_again(proxy, *call)
        assert whole.cache == "disk"
        assert whole.body == await truth(proxy, *call)
        part = await asked_again(proxy, "hmyv2_getBlocks", 30, 69, {})
        assert part.cache == "partial; cached=20; of=40"


async def test_a_purge_reaches_the_disk(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        await proxy.call(*BLOCK)
        await written(proxy, 1)
        assert (await proxy.worker.purge(Selection(), dry=True)).disk == 1
        done = await proxy.worker.purge(Selection(method=BLOCK[0]))
        assert (done.memory, done.disk, done.complete) == (1, 1, True)
        assert (await proxy.call(*BLOCK)).cache == "miss"


async def test_a_tier_that_cannot_be_used_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a plain file")
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        assert (await proxy.call(*BLOCK)).cache == "miss"
        assert (await proxy.call(*BLOCK)).cache == "memory"
        (tier,) = [tier for tier in proxy.worker.report().tally.tiers if tier.name == "disk"]
        assert not tier.up
        assert tier.fault


async def test_the_disk_is_explained(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        await proxy.call(*BLOCK)
        await written(proxy, 1)
        told = await proxy.worker.explain("", BLOCK[0], b'["0x10",true]')
        assert told is not None
        assert told.on_disk == (told.key,)
        assert [(held.tier, held.left, held.served) for held in told.held] == [
            ("memory", None, True),
            ("disk", None, True),
        ]
        assert "on the disk as long as there is room" in " ".join(told.keeping)


async def test_the_time_that_the_disk_took_is_counted(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        await proxy.call(*BLOCK)
        await written(proxy, 1)
        await asked_again(proxy, *BLOCK)
        tally = proxy.worker.report().tally
        assert tally.steps["disk"].count == 2, "of the miss, and of the hit"
        assert sum(cell.latency[AnswerSource.DISK].count for cell in tally.cells) == 1
        (tier,) = [tier for tier in tally.tiers if tier.name == "disk"]
        assert (tier.hits, tier.misses, tier.shared, tier.up) == (1, 1, True, True)


async def test_a_bound_changed_at_run_time_is_taken_over(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        proxy.worker.adopt(settings_for(nodes, disk={"path": str(tmp_path / "cache"), "size": "1GB"}), 2)
        assert proxy.worker.engine.disk.stats().limit == 10**9


async def test_what_is_hot_in_memory_does_not_come_back_to_the_disk_after_a_purge(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **disk(tmp_path)) as proxy:
        engine, store = proxy.worker.engine, proxy.worker.engine.disk
        assert isinstance(store, DiskStore)
        hot = HotAnswers(engine.memory, store, engine.purges, engine.now, lambda _: True)
        await proxy.call(*BLOCK)
        await written(proxy, 1)
        await proxy.call(*BLOCK)
        purging = asyncio.ensure_future(proxy.worker.purge(Selection()))
        while not purging.done():
            hot.look()
            await asyncio.sleep(0)
        assert (await purging).memory == 1
        await store.purge(Selection(), dry=True)  # which stands behind whatever was to be written
        assert (await proxy.call(*BLOCK)).cache == "miss"


async def test_what_is_hot_in_memory_is_kept_on_the_disk_and_read_ahead_after_a_restart(tmp_path: Path) -> None:
    async with harmony_nodes(1) as nodes:
        async with proxying(nodes, **disk(tmp_path)) as proxy:
            engine, store = proxy.worker.engine, proxy.worker.engine.disk
            assert isinstance(store, DiskStore)
            await proxy.call(*BLOCK)
            await written(proxy, 1)
            await store.purge(Selection())  # as if it had been evicted
            await proxy.call(*BLOCK)
            hot = HotAnswers(engine.memory, store, engine.purges, engine.now, lambda _: True)
            while store.stats().writes < 2:
                hot.look()
                await asyncio.sleep(0.01)
        async with proxying(nodes, **disk(tmp_path)) as proxy:
            await until(lambda: len(proxy.worker.engine.memory))
            assert (await proxy.call(*BLOCK)).cache == "memory"
        assert nodes[0].counts.asked(BLOCK[0]) == 1
