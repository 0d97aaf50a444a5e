from __future__ import annotations

import aiohttp
import pytest

from rpcaccel.simnode.server.factories import (
    demo_nodes,
    ethereum_nodes,
    harmony_chain,
    harmony_nodes,
    running,
)


async def test_nodes_of_one_chain_are_served_and_gone_afterwards() -> None:
    async with harmony_nodes(3, head=70, lag=1) as nodes:
        assert [await node.ask("hmyv2_blockNumber") for node in nodes] == [69, 69, 69]
        assert len({node.url for node in nodes}) == 3
        assert len({await node.ask("net_peerCount") or node.brain.local.peer_id for node in nodes}) > 1
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.post(nodes[0].url)


async def test_each_node_can_have_its_own_knobs() -> None:
    async with running(harmony_chain(50), 2, each=[{}, {"lag": 4}]) as nodes:
        assert [node.head for node in nodes] == [50, 46]
    async with ethereum_nodes(1) as nodes:
        assert await nodes[0].ask("eth_chainId") == "0x539"


async def test_the_demos_nodes_are_uneven_and_agree() -> None:
    nodes = demo_nodes()
    assert [node.knobs.latency.mean for node in nodes] == [0.04, 0.09, 0.2]
    assert nodes[2].knobs.wander > 0
    block = nodes[0].head - 5
    hashes = {(await node.ask("hmyv2_getBlockByNumber", block, {}))["hash"] for node in nodes}
    assert len(hashes) == 1
