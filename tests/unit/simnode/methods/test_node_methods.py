from __future__ import annotations

import pytest

from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import knobs
from rpcaccel.simnode.server.sim_server import SimNode


async def test_metadata_and_peers_differ_between_nodes_of_one_head(chain: SimChain) -> None:
    one, other = SimNode(chain, name="a"), SimNode(chain, name="b", knobs=knobs(archive=False, explorer=False))
    for method in ("hmyv2_getNodeMetadata", "hmyv2_getPeerInfo"):
        assert await one.ask(method) != await other.ask(method)
    said = await other.ask("hmyv2_getNodeMetadata")
    assert (said["is-archival"], said["role"], said["current-block-number"]) == (False, "Validator", 178)
    assert {"staking-epoch", "prestaking-epoch", "chain-id"} <= set(said["chain-config"])
    assert await one.ask("netv2_peerCount") == int(await one.ask("net_peerCount"), 16)


async def test_a_node_can_be_of_the_wrong_chain(chain: SimChain) -> None:
    wrong = SimNode(chain, knobs=knobs(chain_id=1, network_id=7))
    assert [await wrong.ask(m) for m in ("eth_chainId", "net_version", "hmyv2_chainId", "netv2_version")] == [
        "0x1",
        "1",
        7,
        "7",
    ]
    right = SimNode(chain)
    assert [await right.ask(m) for m in ("eth_chainId", "net_version", "hmy_chainId", "netv2_version")] == [
        "0x6357d2e0",
        "1666700000",
        "0x2",
        "2",
    ]


async def test_a_node_far_behind_is_not_in_sync(chain: SimChain) -> None:
    late = SimNode(chain, knobs=knobs(lag=20))
    assert await late.ask("hmyv2_inSync") is False
    assert await late.ask("hmyv2_syncing") == {"startingBlock": 0, "currentBlock": 158, "highestBlock": 178}


async def test_the_rest(node: SimNode) -> None:
    assert await node.ask("hmyv2_protocolVersion") == 1
    assert await node.ask("rpc_modules") == dict.fromkeys(
        ["eth", "hmy", "hmyv2", "net", "netv1", "netv2", "rpc", "web3"], "1.0"
    )
    assert (await node.ask("web3_clientVersion")).startswith("Harmony")
    assert [shard["current"] for shard in await node.ask("hmyv2_getShardingStructure")] == [True, False]
    assert await node.ask("hmyv2_getShardID") == 0
    assert await node.ask("net_listening") is True
    assert 0.6 < await node.ask("hmyv2_getLastSigningPower") <= 1
    assert await node.ask("hmyv2_setNodeToBackupMode", False) is True
    with pytest.raises(RpcError, match="notifications not supported"):
        await node.ask("eth_subscribe", "newHeads")
    with pytest.raises(RpcError, match="subscription not found"):
        await node.ask("eth_unsubscribe", "0x1")
