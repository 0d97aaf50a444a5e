"""Probers follow the settings."""

from __future__ import annotations

from typing import Any

from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.probers import Probers
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import Hint
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_chain, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import settings_for
from tests.support.waiting import until


async def until_heard(probers: Probers, *networks: str) -> None:
    await until(lambda: set(probers.heads) == set(networks))


def two(nodes: list[SimNode], **net: Any) -> Any:
    """Two networks of one node each."""
    one = settings_for(nodes[:1], net=net)
    other = settings_for(nodes[1:], network="other")
    return one.model_copy(update={"networks": {**one.networks, **other.networks}})


async def test_networks_come_and_go_with_the_settings() -> None:
    heard: list[NetworkHeads] = []
    async with harmony_nodes(2) as nodes:
        probers = Probers(heard.append)
        await probers.adopt(settings_for(nodes[:1]))
        await until_heard(probers, "harmony-s0")
        await probers.adopt(two(nodes))
        await until_heard(probers, "harmony-s0", "other")
        assert repr(probers) == "<Probers harmony-s0 other>"
        await probers.adopt(settings_for(nodes[:1]))
        assert set(probers.heads) == {"harmony-s0"}
        assert await probers.probe_now("other", nodes[1].name) is None
        await probers.stop()
    assert {heads.network for heads in heard} == {"harmony-s0", "other"}


async def test_nodes_come_and_go_without_a_new_prober_and_another_finality_needs_one() -> None:
    async with harmony_nodes(2) as nodes:
        probers = Probers(lambda _heads: None)
        await probers.adopt(settings_for(nodes[:1]))
        await probers.adopt(settings_for(nodes))
        head = await probers.probe_now("harmony-s0", nodes[1].name)
        assert head.answering
        await probers.adopt(settings_for(nodes, net={"finality_depth": 5}))
        assert await probers.probe_now("harmony-s0", nodes[0].name) is not None
        await probers.stop()


async def test_a_hint_reaches_its_network_and_one_for_no_network_is_dropped() -> None:
    async with harmony_nodes(1) as (node,):
        probers = Probers(lambda _heads: None)
        await probers.adopt(settings_for([node], net={"block_time": 3600, "websockets": "off"}))
        await until_heard(probers, "harmony-s0")
        node.chain.advance()
        probers.hint(Hint("harmony-s0", node.name, node.head))
        probers.hint(Hint("nowhere", node.name, node.head))
        await until(lambda: probers.heads["harmony-s0"].nodes[0].head == node.head)
        await probers.stop()


async def test_what_was_kept_of_a_branch_is_not_found_again_after_another_finality_was_set() -> None:
    async with ethereum_nodes(1) as nodes:
        probers = Probers(lambda _heads: None)
        for depth, epoch in ((None, 0), (5, 1), (6, 2)):
            await probers.adopt(settings_for(nodes, "chain", net={"chain": "ethereum", "finality_depth": depth}))
            await until_heard(probers, "chain")
            assert probers.heads["chain"].served.fork_epoch == epoch
        await probers.stop()


async def test_a_final_block_that_is_replaced_under_a_head_that_only_grows_is_noticed() -> None:
    async with ethereum_nodes(2, head=100) as nodes:
        probers, chain = Probers(lambda _heads: None), nodes[0].chain
        await probers.adopt(settings_for(nodes, "chain", net={"chain": "ethereum", "finality_depth": 5}))

        async def look() -> None:
            for node in nodes:
                await probers.probe_now("chain", node.name)

        for _ in range(8):
            await look()
            chain.advance(1)
        await look()
        assert probers.heads["chain"].served.doubted == -1
        chain.reorg(3)
        chain.advance(1)
        for _ in range(3):
            await look()
        assert probers.heads["chain"].served.doubted == -1, "no final block was touched"
        chain.reorg(12)
        chain.advance(2)
        for _ in range(3):
            await look()
        served = probers.heads["chain"].served
        assert (served.head, served.doubted > 0) == (chain.head, True)
        await probers.stop()


def untried(url: str, **headers: str) -> NodeSettings:
    """A node that is not in the settings."""
    return NodeSettings.model_validate({"url": url, "headers": headers})


async def test_a_node_of_the_right_chain_is_tried_without_becoming_one_of_the_network() -> None:
    async with harmony_nodes(2) as (node, other):
        probers = Probers(lambda _heads: None)
        await probers.adopt(settings_for([node]))
        await until_heard(probers, "harmony-s0")
        other.knobs.lag = 3
        found = await probers.try_node("harmony-s0", untried(other.url))
        assert (found.answering, found.chain_ok, found.chain_id, found.note) == (True, True, 1666700000, "")
        assert (found.head, found.lag) == (node.head - 3, 3)
        assert found.latency is not None
        assert [known.id for known in probers.heads["harmony-s0"].nodes] == [node.name]
        assert await probers.try_node("nowhere", untried(other.url)) is None
        await probers.stop()


async def test_a_node_of_another_chain_or_shard_is_told_as_wrong() -> None:
    async with harmony_nodes(1) as (node,), ethereum_nodes(1) as (foreign,), SimNode(harmony_chain(9, shard=1)) as far:
        probers = Probers(lambda _heads: None)
        await probers.adopt(settings_for([node]))
        await until_heard(probers, "harmony-s0")
        ethereum = await probers.try_node("harmony-s0", untried(foreign.url))
        shard = await probers.try_node("harmony-s0", untried(far.url))
        assert (ethereum.chain_ok, shard.chain_ok, shard.answering) == (False, False, True)
        assert ethereum.note.startswith(f"it serves chain id {ethereum.chain_id}, not ")
        await probers.stop()


async def test_a_node_that_fails_is_told_with_the_reason_and_without_its_secrets() -> None:
    secret = "k3y-0f-this-node-4711"
    async with harmony_nodes(2) as (node, other):
        probers = Probers(lambda _heads: None)
        await probers.adopt(settings_for([node]))
        await until_heard(probers, "harmony-s0")
        for fault, word in (("html", "502"), ("reset", "closed"), ("garbage", "JSON")):
            other.knobs.turn({"faults": {fault: 1.0}})
            found = await probers.try_node("harmony-s0", untried(f"{other.url}/{secret}", **{"X-Key": secret}))
            assert (found.answering, found.chain_ok, found.head, found.lag) == (False, None, None, None), fault
            assert word in found.note
            assert secret not in repr(found)
        silent = await probers.try_node("harmony-s0", untried(f"http://user:{secret}@127.0.0.1:1/{secret}"))
        assert not silent.answering
        assert "no connection to http://127.0.0.1:1" in silent.note
        assert secret not in silent.note
        await probers.stop()
