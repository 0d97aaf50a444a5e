from __future__ import annotations

import pytest

from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode


async def test_figures_of_the_network_turn_with_the_head(chain: SimChain, node: SimNode) -> None:
    methods = ("hmyv2_getTotalSupply", "hmyv2_getCurrentUtilityMetrics", "hmyv2_getStakingNetworkInfo")
    before = [await node.ask(method) for method in methods]
    chain.advance()
    after = [await node.ask(method) for method in methods]
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert before[1]["AccumulatorSnapshot"] == 28 * 10**18 * 178
    assert isinstance(before[1]["Adjustment"], str)
    assert before[2]["epoch-last-block"] == 180


async def test_total_staking_is_kept_for_twenty_blocks(chain: SimChain, node: SimNode) -> None:
    seen = []
    for _ in range(60):
        chain.advance()
        seen.append((node.head // 20, await node.ask("hmyv2_getTotalStaking")))
    assert len(set(seen)) == len({window for window, _ in seen})


async def test_committees_and_medians_have_their_shape(node: SimNode) -> None:
    committees = await node.ask("hmyv2_getSuperCommittees")
    assert (committees["current"]["epoch"], committees["previous"]["epoch"]) == (11, 10)
    members = committees["current"]["quorum-deciders"]["shard-0"]["committee-members"]
    assert len(members) == 9
    snapshot = await node.ask("hmyv2_getMedianRawStakeSnapshot")
    assert len(snapshot["epos-slot-candidates"]) == 4


async def test_other_shards_know_no_supply() -> None:
    with pytest.raises(RpcError, match="given chain is not beaconchain"):
        await SimNode(harmony_chain(shard=1)).ask("hmyv2_getTotalSupply")
