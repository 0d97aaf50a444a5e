from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.chain.addresses import to_one
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.methods.staking_methods import DELEGATED
from rpcaccel.simnode.server.factories import harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode


@pytest.fixture
def validator(chain: SimChain) -> str:
    return to_one(chain.generator.validators[0])


async def test_performance_follows_the_head_even_for_an_old_block(
    chain: SimChain, node: SimNode, validator: str
) -> None:
    method = "hmyv2_getValidatorInformationByBlockNumber"
    before = await node.ask(method, validator, 100)
    assert (before["current-epoch-performance"]["block"], before["current-epoch-performance"]["epoch"]) == (178, 11)
    chain.advance(10)
    after = await node.ask(method, validator, 100)
    assert after["current-epoch-performance"] == {
        "block": 188,
        "current-epoch-signing-percent": after["current-epoch-performance"]["current-epoch-signing-percent"],
        "epoch": 12,
    }
    assert after["lifetime"] == before["lifetime"]


async def test_delegations_are_those_that_the_blocks_hold(chain: SimChain, node: SimNode) -> None:
    make = chain.generator
    delegated: dict[tuple[bytes, bytes], int] = {}
    for number in range(179):
        for tx in chain.branch.block(number).staking:
            delegated[tx.sender, tx.validator] = delegated.get((tx.sender, tx.validator), 0) + tx.amount
    for who in make.delegators:
        for one in await node.ask("hmyv2_getDelegationsByDelegator", to_one(who)):
            held = one["amount"] - DELEGATED
            address = next(v for v in make.validators if to_one(v) == one["validator_address"])
            assert held == delegated.get((who, address), 0)


async def test_every_way_to_a_validators_stake_agrees(node: SimNode, validator: str) -> None:
    information = await node.ask("hmyv2_getValidatorInformation", validator)
    total = information["total-delegation"]
    assert await node.ask("hmyv2_getValidatorTotalDelegation", validator) == total
    assert (await node.ask("hmyv2_getValidatorsStakeByBlockNumber", 178))[validator] == total
    listed = await node.ask("hmyv2_getDelegationsByValidator", validator)
    assert sum(one["amount"] for one in listed) == total
    everything: list[Any] = await node.ask("hmyv2_getAllValidatorInformation", 0)
    assert everything[0] == information
    assert await node.ask("hmyv2_getAllValidatorInformation", 99) == []
    assert await node.ask("hmyv2_getAllValidatorInformationByBlockNumber", 0, 178) == everything
    assert (await node.ask("hmyv2_getAllDelegationInformation", 0))[0] == listed
    delegator = listed[1]["delegator_address"]
    pair = await node.ask("hmyv2_getDelegationByDelegatorAndValidator", delegator, validator)
    assert pair == listed[1]
    assert pair in await node.ask("hmyv2_getDelegationsByDelegatorByBlockNumber", delegator, 178)
    assert pair in (await node.ask("hmyv2_getDelegationsByDelegatorByBlockNumber", [delegator], 178))[0]
    assert validator in await node.ask("hmyv2_getAllValidatorAddresses")
    assert await node.ask("hmyv2_getSignedBlocks", validator) > 100
    assert await node.ask("hmyv2_getAvailableRedelegationBalance", validator) == 0


async def test_before_the_validators_there_are_none(node: SimNode, validator: str) -> None:
    assert await node.ask("hmyv2_getValidatorsStakeByBlockNumber", 1) == {}
    assert await node.ask("hmyv2_getAllValidatorInformationByBlockNumber", 0, 1) == []
    nobody = to_one(b"\x01" * 20)
    assert await node.ask("hmyv2_getDelegationsByDelegator", nobody) is None
    assert await node.ask("hmyv2_getDelegationsByValidator", nobody) == []
    assert await node.ask("hmyv2_getDelegationByDelegatorAndValidator", nobody, validator) is None
    for method, params, text in (
        ("hmyv2_getValidatorInformationByBlockNumber", [validator, 1], "not found address in current state"),
        ("hmyv2_getValidatorSelfDelegation", [nobody], "address not present in state"),
        ("hmyv2_getSignedBlocks", [nobody], "address not present in state"),
        ("hmyv2_getAllDelegationInformation", [-1], "page given -1 cannot be less than 0"),
    ):
        with pytest.raises(RpcError, match=text):
            await node.ask(method, *params)


async def test_committees_are_known_up_to_the_next_epoch_at_its_eve(chain: SimChain, node: SimNode) -> None:
    keys = await node.ask("hmyv2_getValidatorKeys", 11)
    assert len(keys) == len((await node.ask("hmyv2_getValidators", 11))["validators"]) == 9
    with pytest.raises(RpcError, match="failed to read shard state"):
        await node.ask("hmyv2_getValidators", 12)
    chain.advance(2)
    assert len(await node.ask("hmyv2_getValidators", 12)) == 2
    late = SimNode(chain, knobs=knobs(lag=9))
    with pytest.raises(RpcError, match="failed to read shard state"):
        await late.ask("hmyv2_getValidatorKeys", 12)


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
