"""A worker as a whole: its report, its purge, its drain."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.client_limits import hashed
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.memo import MIN_BYTES
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import Tier
from rpcaccel.dataplane import gauges
from rpcaccel.dataplane.worker import Worker
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.stores.base import StoreStats
from tests.support.fleet import gated_nodes
from tests.support.proxy import proxying, settings_for


async def test_the_report_counts_calls_by_method_source_and_node() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        for _ in range(3):
            await proxy.call("hmyv2_getBlockByNumber", 7, {})
        await proxy.call("eth_chainId")
        report = proxy.worker.report()
        cells = {cell.method: cell for cell in report.tally.cells}
        assert (cells["hmyv2_getBlockByNumber"].calls, cells["hmyv2_getBlockByNumber"].hits) == (3, 2)
        assert cells["hmyv2_getBlockByNumber"].misses == {"not-kept-yet": 1}
        assert cells["eth_chainId"].hits == 1
        assert sum(node.calls for node in report.tally.nodes) == 1
        memory = next(tier for tier in report.tally.tiers if tier.name == "memory")
        assert (memory.entries, memory.stored) == (1, 1)
        assert {node.id for node in report.nodes} == {node.name for node in nodes}
        assert all(node.refusal == "" and node.breaker == "closed" for node in report.nodes)


async def test_invented_method_names_are_counted_under_one_label() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        for number in range(50):
            await proxy.call(f"made_up{number}")
        assert {cell.method for cell in proxy.worker.report().tally.cells} == {"other"}


async def test_a_purge_empties_what_is_meant_and_nothing_else() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 7, {})
        await proxy.call("hmyv2_getBalanceByBlockNumber", "one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3", 7)
        done = await proxy.worker.purge(Selection(network="harmony-s0", method="hmyv2_getBlockByNumber"))
        assert (done.memory, done.complete) == (1, True)
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache == "miss"
        assert (await proxy.worker.purge(Selection())).memory == 2


async def test_what_was_asked_for_before_a_purge_and_comes_after_it_is_purged_too() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        nodes[0].hold("hmyv2_getBlockByNumber")
        waiting = asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", 7, {}))
        await nodes[0].arrived.wait()
        await proxy.worker.purge(Selection())
        nodes[0].release()
        assert (await waiting).result["number"] == 7
        while proxy.worker.report().tally.tiers[0].entries:
            await asyncio.sleep(0)
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache == "miss"


async def test_draining_finishes_what_runs_and_takes_nothing_new() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        nodes[0].hold("hmyv2_getBlockByNumber")
        running = asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", 7, {}))
        await nodes[0].arrived.wait()
        draining = asyncio.create_task(proxy.worker.drain(60.0))
        await asyncio.sleep(0)
        nodes[0].release()
        assert (await running).status == 200
        await draining
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        except ConnectionRefusedError:
            return
        writer.close()
        raise AssertionError("a drained worker still takes connections")


async def test_it_is_not_ready_before_a_node_has_told_its_head() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        worker = Worker("w2", settings_for(nodes))
        await worker.start(socket.create_server(("127.0.0.1", 0)))
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{worker.port}/readyz") as response:
            assert response.status == 503
            assert "harmony-s0: no node has told its head yet" in await response.text()
        await worker.drain(0.0)
        assert (await proxy.get("/readyz")).status == 200


async def test_it_is_not_ready_while_no_node_answers_the_looks_at_its_head() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        for silent, status in (({0}, 200), ({0, 1}, 503), ({1}, 200)):
            heads = tuple(
                NodeHead(id=node.name, head=node.head, chain_ok=True, answering=number not in silent, note="refused")
                for number, node in enumerate(nodes)
            )
            proxy.worker.see(NetworkHeads(network=proxy.network, served=Served(head=nodes[0].head), nodes=heads))
            assert (await proxy.get("/readyz")).status == status
        proxy.see()
        assert (await proxy.get("/readyz")).status == 200


async def test_the_report_does_not_call_a_node_unfit_that_lacks_the_newest_block() -> None:
    async with harmony_nodes(2, head=200) as nodes, proxying(nodes) as proxy:
        proxy.see(nodes=(201, 200), serve=201)
        assert [node.refusal for node in proxy.worker.report().nodes] == ["", ""]
        barred = NodeHead(id=nodes[0].name, head=201, chain_ok=False, answering=True)
        proxy.worker.see(NetworkHeads(network=proxy.network, served=Served(head=201), nodes=(barred,)))
        assert "another chain" in proxy.worker.report().nodes[0].refusal


async def test_the_report_counts_the_connections_of_clients() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert proxy.worker.report().tally.connections == 0
        await proxy.call("eth_chainId")
        assert proxy.worker.report().tally.connections == 1


async def test_draining_within_no_time_cuts_off_what_runs() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        nodes[0].knobs.turn({"latency": "20s"})
        running = asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", 7, {}))
        while proxy.worker.engine.flights.started == 0:
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await proxy.worker.drain(0.0)
            with pytest.raises(aiohttp.ClientError):
                await running


async def test_answers_and_what_is_remembered_of_calls_have_one_bound_whatever_paths_they_come_by() -> None:
    call = b'{"id":1,"method":"eth_call","params":[{"data":"0x%03900x"},"latest"]}'
    async with harmony_nodes(1) as nodes, proxying(nodes, memory={"size": "20MB"}) as proxy:
        worker, front = proxy.worker, proxy.worker._front
        network = worker.state.networks["harmony-s0"]
        for size in (20_000_000, 40_000_000, 0):
            worker.adopt(settings_for(nodes, memory={"size": size}), worker.state.revision + 1)
            network = worker.state.networks["harmony-s0"]
            for number in range(200):
                key = network.plan("eth_call", b'[{"data":"0x%03900x"},"latest"]' % number).key or b""
                entry = Entry(result=b'"0x"', cache=CacheClass.HEAD, network="n", method="m", stored_at=0.0)
                worker.engine.memory.put(key, entry, 0.0)
                for path in front.routes:
                    if "hmy" not in path:
                        await worker._calls.answer(call % number, front.routes[path])
            (tier,) = (tier for tier in worker.report().tally.tiers if tier.name == "memory")
            assert tier.limit == (size or MIN_BYTES)
            assert tier.bytes <= tier.limit
            texts = [text for route in front.routes.values() for text in route.known._known]
            assert sum(len(before) + len(behind) for before, behind in texts) <= worker.state.memos.limit
            assert bool(texts) is bool(size)


def test_the_second_tiers_troubles_are_told_apart() -> None:
    tier = Tier("redis", shared=True)
    stats = StoreStats(
        up=False,
        hits=5,
        misses=2,
        late=3,
        errors=4,
        writes_failed=1,
        damaged={"schema": 2},
        writes_dropped=6,
        purged=8,
        fault="h:1: the connection was refused",
    )
    gauges.fill_store(tier, stats)
    assert (tier.up, tier.hits, tier.misses, tier.timeouts, tier.errors, tier.dropped) == (False, 5, 2, 3, 7, 6)
    assert (tier.purged, tier.fault) == (8, "h:1: the connection was refused")


async def test_without_a_network_calls_are_told_where_the_first_nodes_are_given_and_with_one_they_are_served() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        served, adopt = settings_for(nodes), proxy.worker.adopt
        adopt(served.model_copy(update={"networks": {}}), 2)
        told = "there are no nodes yet: the page takes the first ones, at the address that was printed at the start"
        reply = await proxy.call("hmyv2_getBlockByNumber", 7, {})
        assert (reply.status, reply.error["code"], reply.error["message"]) == (503, -32603, told)
        ready = await proxy.get("/readyz")
        assert (ready.status, ready.body.decode().strip()) == (503, told)
        assert proxy.worker.report().tally.refusals["no-network"] == 1
        clients = {"require_key": True, "keys": {"shop": {"hashes": [hashed("a key of some length")]}}}
        adopt(settings_for(nodes, clients=clients).model_copy(update={"networks": {}}), 3)
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).status == 401
        assert await proxy.worker.explain("", "eth_chainId", b"[]") is None

        adopt(served, 4)
        proxy.see()
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).result["number"] == 7
