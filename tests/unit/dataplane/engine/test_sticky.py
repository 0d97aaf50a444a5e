"""Filters through the proxy: they live on one node, and the proxy keeps no table."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest
from msgspec.structs import replace

from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.world import World
from tests.support.proxy import Proxy, proxying

NOT_FOUND = {"code": -32000, "message": "filter not found"}


def call(method: str, param: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": [param]})


def made_on(nodes: list[SimNode], reply_node: str) -> SimNode:
    return next(node for node in nodes if node.name == reply_node)


async def test_every_poll_of_a_filter_reaches_the_node_that_made_it() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        made = [await proxy.call("eth_newBlockFilter") for _ in range(6)]
        assert {reply.node for reply in made} == {node.name for node in nodes}
        nodes[0].chain.advance(2)
        proxy.see()
        for reply in made:
            changes = await proxy.call("eth_getFilterChanges", reply.result)
            assert len(changes.result) == 2
            assert changes.node == reply.node
            assert (await proxy.call("eth_getFilterChanges", reply.result)).result == []


@pytest.mark.parametrize("method", ["hmy_newFilter", "eth_newFilter"])
async def test_a_log_filter_can_be_read_as_a_whole_and_removed(method: str) -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        space = method.partition("_")[0]
        made = await proxy.call(method, {"fromBlock": "0x1", "toBlock": "0x5"})
        logs = await proxy.call(f"{space}_getFilterLogs", made.result)
        assert logs.result == await nodes[0].ask(f"{space}_getLogs", {"fromBlock": "0x1", "toBlock": "0x5"})
        assert (await proxy.call(f"{space}_uninstallFilter", made.result)).result is True
        gone = await proxy.call(f"{space}_getFilterLogs", made.result)
        assert (gone.error, gone.node) == (NOT_FOUND, made.node)


async def test_another_worker_finds_the_filter_by_its_id_alone() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as one, proxying(nodes) as other:
        made = await one.call("eth_newBlockFilter")
        polled = await other.call("eth_getFilterChanges", made.result)
        assert (polled.result, polled.node) == ([], made.node)


async def test_a_filter_whose_node_left_the_settings_is_not_found() -> None:
    async with harmony_nodes(2) as nodes:
        async with proxying(nodes) as proxy:
            made = [await proxy.call("eth_newBlockFilter") for _ in range(2)]
        (lost,) = [reply for reply in made if reply.node == nodes[1].name]
        async with proxying(nodes[:1]) as proxy:
            await gone(proxy, lost.result)


async def test_a_filter_whose_node_is_down_is_not_found() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        made = await proxy.call("eth_newBlockFilter")
        await made_on(nodes, made.node).kill()
        await gone(proxy, made.result)


async def gone(proxy: Proxy, shown: str) -> None:
    poll = await proxy.call("eth_getFilterChanges", shown)
    assert (poll.status, poll.error, poll.cache) == (200, NOT_FOUND, "local")
    assert (await proxy.call("eth_uninstallFilter", shown)).result is False


async def test_a_drained_node_still_answers_for_the_filters_it_holds() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        made = await proxy.call("eth_newBlockFilter")
        pool = proxy.worker.state.networks["harmony-s0"].pool.nodes
        holder = next(node for node in pool if node.id == made.node)
        holder.drained = True
        assert (await proxy.call("eth_getFilterChanges", made.result)).node == made.node
        assert (await proxy.call("eth_newBlockFilter")).node != made.node


async def test_an_id_that_no_node_of_ours_gave_is_not_found_and_costs_no_node_call() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await gone(proxy, "0x1234")
        assert nodes[0].counts.calls == 0


async def test_params_that_name_no_filter_are_left_to_a_node_to_refuse() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert (await proxy.call("eth_getFilterChanges")).error["code"] == -32602
        assert (await proxy.call("eth_getFilterChanges", 5)).error["code"] == -32602


def test_a_filter_is_asked_for_as_its_node_knows_it_also_after_a_wait_for_room_and_a_reorganisation() -> None:
    with closing(World({"one": "harmony"})) as world:
        world.look("one")
        host = world.hosts[0]
        network = host.state.networks["one"]
        made = world.start(host.ask("one", call("hmy_newFilter", {"fromBlock": "0x1", "toBlock": "0x5"})))
        world.let_through()
        body = call("hmy_getFilterLogs", msgspec.json.decode(made.result().body)["result"])
        for node in network.pool.nodes:
            node.max_heavy = 1
        reads = [world.start(host.ask("one", body)) for _ in range(2)]
        (first,) = world.sent
        network.sight.see(replace(network.view, fork_epoch=network.view.fork_epoch + 1))
        first.deliver()
        world.clock.advance(0.2)
        world.settle()
        (second,) = world.sent
        assert second.params == first.params
        world.let_through()
        assert reads[0].result().body == reads[1].result().body


async def test_a_parked_node_keeps_its_filters_and_the_client_is_told_to_wait() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        made = await proxy.call("eth_newBlockFilter")
        pool = proxy.worker.state.networks["harmony-s0"].pool
        holder = next(node for node in pool.nodes if node.id == made.node)
        holder.parking.refused("eth_getFilterChanges", pool.clock(), 60.0)
        poll = await proxy.call("eth_getFilterChanges", made.result)
        assert (poll.status, poll.error["code"]) == (429, -32005)
