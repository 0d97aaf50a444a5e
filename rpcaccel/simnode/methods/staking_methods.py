"""Harmony's staking methods and its network-wide figures: supply, total stake, committees, utility metrics, medians.

Only the beacon shard answers them (docs/harmony.md section 9). `current-epoch-performance` follows the answering node's
head even in the ...ByBlockNumber forms (section 1, fact 3).
"""

from __future__ import annotations

from math import lcm
from typing import Any

from rpcaccel.simnode.chain.addresses import to_one
from rpcaccel.simnode.methods.block_args import LATEST, number
from rpcaccel.simnode.methods.block_methods import account, at_height
from rpcaccel.simnode.methods.registry import CHAIN, HARMONY, STAKING, MethodCall, anything, failed, string, text, uint
from rpcaccel.simnode.methods.state_methods import pruned

SELF_STAKE = 10_000 * 10**18
DELEGATED = 100 * 10**18
CREATED_AT = 2
"""The block from which the validators are there."""
PAGE = 100


def _delegated(asked: MethodCall, validator: int, delegator: int, height: int) -> int:
    """Atto that a delegator has with a validator: one delegation at first, and each Delegate in the blocks since."""
    make = asked.branch.generator
    turns = make.staking_turns(height)
    period = lcm(len(make.delegators), len(make.validators))
    for first in range(delegator, period, len(make.delegators)):
        if first % len(make.validators) == validator:
            return DELEGATED * (1 + max(0, -((first - turns) // period)))
    return DELEGATED


def delegations(asked: MethodCall, validator: int, height: int) -> list[tuple[bytes, int]]:
    """(delegator, atto) of one validator at a height; the validator's own comes first."""
    make = asked.branch.generator
    others = [(who, _delegated(asked, validator, i, height)) for i, who in enumerate(make.delegators)]
    return [(make.validators[validator], SELF_STAKE), *others]


def _index(asked: MethodCall, who: str, height: int) -> int:
    address = account(who)
    if address not in asked.branch.generator.validators or height < CREATED_AT:
        raise failed(f"not found address in current state {who}: address not present in state")
    return asked.branch.generator.validators.index(address)


def _information(asked: MethodCall, validator: int, height: int) -> dict[str, Any]:
    make, spec = asked.branch.generator, asked.branch.spec
    epoch, now = spec.epoch_of(height), spec.epoch_of(asked.head)
    held = delegations(asked, validator, height)
    stake = sum(amount for _, amount in held)
    name = to_one(make.validators[validator])
    key = next(slot.key for slot in make.members if slot.address == make.validators[validator]).hex()
    signed = height - height // 9
    history = range(max(0, epoch - 30), epoch)
    done = asked.head - spec.epoch_last_block(now - 1) if now else asked.head
    return {
        "active-status": "active",
        "booted-status": None,
        "current-epoch-performance": {
            "block": asked.head,
            "current-epoch-signing-percent": {
                "current-epoch-signed": done,
                "current-epoch-signing-percentage": "1.000000000000000000",
                "current-epoch-to-sign": done,
            },
            "epoch": now,
        },
        "currently-in-committee": any(slot.key.hex() == key for slot in make.committee(epoch)),
        "epos-status": "currently elected",
        "epos-winning-stake": str(stake),
        "lifetime": {
            "apr": f"0.0{7 + validator}31415926535897",
            "blocks": {"signed": signed, "to-sign": height},
            "epoch-apr": [{"apr": f"0.07{e % 100:02d}", "epoch": e} for e in history],
            "epoch-blocks": [
                {"blocks": {"signed": spec.epoch_length - e % 2, "to-sign": spec.epoch_length}, "epoch": e}
                for e in reversed(history)
            ],
            "reward-accumulated": 10**18 * height + validator,
        },
        "metrics": {"by-bls-key": [{"earned-reward": 10**15 * asked.head, "key": _key(asked, key, name, stake)}]},
        "total-delegation": stake,
        "validator": _validator(asked, name, key, held, epoch),
    }


def _key(asked: MethodCall, key: str, name: str, stake: int) -> dict[str, Any]:
    return {
        "bls-public-key": key,
        "earning-account": name,
        "effective-stake": str(stake),
        "group-percent": "1",
        "overall-percent": "0.320000000000000002",
        "raw-stake": str(stake),
        "shard-id": asked.branch.spec.shard,
    }


def _validator(asked: MethodCall, name: str, key: str, held: list[tuple[bytes, int]], epoch: int) -> dict[str, Any]:
    return {
        "address": name,
        "bls-public-keys": [key],
        "creation-height": CREATED_AT,
        "delegations": [
            {"amount": amount, "delegator-address": to_one(who), "reward": 0, "undelegations": []}
            for who, amount in held
        ],
        "details": "a simulated validator",
        "identity": name[-6:],
        "last-epoch-in-committee": epoch,
        "max-change-rate": "0.05",
        "max-rate": "0.9",
        "max-total-delegation": 10**26,
        "min-self-delegation": SELF_STAKE,
        "name": f"Validator {name[-4:]}",
        "rate": "0.1",
        "security-contact": "nobody",
        "update-height": CREATED_AT,
        "website": f"{asked.branch.spec.seed}.example",
    }


def _height(asked: MethodCall, reference: int) -> int:
    height = at_height(asked, reference).number
    pruned(asked, height)
    return height


@HARMONY.add("getValidatorInformation", string, spaces=STAKING, beacon=True)
@HARMONY.add("getValidatorInformationByBlockNumber", string, number, spaces=STAKING, beacon=True)
def get_validator_information(asked: MethodCall, who: str, reference: int = LATEST) -> bytes:
    height = _height(asked, reference)
    return text(_information(asked, _index(asked, who, height), height))


def _page(asked: MethodCall, page: int, height: int) -> list[int]:
    if page < 0:
        raise failed(f"page given {page} cannot be less than 0")
    count = len(asked.branch.generator.validators) if height >= CREATED_AT else 0
    return list(range(count))[page * PAGE : (page + 1) * PAGE]


@HARMONY.add("getAllValidatorInformation", uint, spaces=STAKING, beacon=True, limiter="all_validators")
@HARMONY.add(
    "getAllValidatorInformationByBlockNumber", uint, number, spaces=STAKING, beacon=True, limiter="all_validators"
)
def get_all_validator_information(asked: MethodCall, page: int, reference: int = LATEST) -> bytes:
    height = _height(asked, reference)
    return text([_information(asked, i, height) for i in _page(asked, page, height)])


@HARMONY.add("getAllValidatorAddresses getElectedValidatorAddresses", spaces=STAKING, beacon=True)
def get_validator_addresses(asked: MethodCall) -> bytes:
    return text([to_one(address) for address in asked.branch.generator.validators])


@HARMONY.add("getValidators", uint, spaces=STAKING)
def get_validators(asked: MethodCall, epoch: int) -> bytes:
    slots = _committee(asked, epoch)
    reward = [{"address": to_one(slot.address), "balance": asked.number(10**18 * (epoch + 1))} for slot in slots]
    return text({"shardID": asked.branch.spec.shard, "validators": reward})


@HARMONY.add("getValidatorKeys", uint, spaces=STAKING)
def get_validator_keys(asked: MethodCall, epoch: int) -> bytes:
    return text([slot.key.hex() for slot in _committee(asked, epoch)])


def _committee(asked: MethodCall, epoch: int) -> tuple[Any, ...]:
    spec = asked.branch.spec
    # The last block of an epoch already carries the next committee.
    if epoch > spec.epoch_of(asked.head + 1):
        raise failed(f"failed to read shard state from DB%!(EXTRA string=epoch: %d, uint64={epoch})")
    return asked.branch.generator.committee(epoch)


def _delegation(who: bytes, validator: bytes, amount: int) -> dict[str, Any]:
    return {
        "Undelegations": [],
        "amount": amount,
        "delegator_address": to_one(who),
        "reward": 0,
        "validator_address": to_one(validator),
    }


def _all_delegations(asked: MethodCall, height: int) -> list[list[dict[str, Any]]]:
    validators = asked.branch.generator.validators
    return [
        [_delegation(who, address, amount) for who, amount in delegations(asked, i, height)]
        for i, address in enumerate(validators)
    ]


@HARMONY.add("getAllDelegationInformation", uint, spaces=STAKING, beacon=True, limiter="all_delegations")
def get_all_delegation_information(asked: MethodCall, page: int) -> bytes:
    everything = _all_delegations(asked, asked.head)
    return text([everything[i] for i in _page(asked, page, asked.head)])


def _by_delegator(asked: MethodCall, who: str, height: int) -> list[dict[str, Any]]:
    name = to_one(account(who))
    return [one for group in _all_delegations(asked, height) for one in group if one["delegator_address"] == name]


@HARMONY.add("getDelegationsByDelegator", string, spaces=STAKING, beacon=True)
@HARMONY.add("getDelegationsByDelegatorByBlockNumber", anything, number, spaces=STAKING, beacon=True)
def get_delegations_by_delegator(asked: MethodCall, who: str | list[str], reference: int = LATEST) -> bytes:
    height = _height(asked, reference)
    if isinstance(who, str):
        return text(_by_delegator(asked, who, height) or None)
    return text([_by_delegator(asked, one, height) for one in who])


@HARMONY.add("getDelegationsByValidator", string, spaces=STAKING, beacon=True, limiter="delegations")
def get_delegations_by_validator(asked: MethodCall, who: str) -> bytes:
    address = account(who)
    groups = _all_delegations(asked, asked.head)
    validators = asked.branch.generator.validators
    return text(groups[validators.index(address)] if address in validators else [])


@HARMONY.add("getDelegationByDelegatorAndValidator", string, string, spaces=STAKING, beacon=True)
def get_delegation(asked: MethodCall, who: str, validator: str) -> bytes:
    name = to_one(account(validator))
    found = [one for one in _by_delegator(asked, who, asked.head) if one["validator_address"] == name]
    return text(found[0] if found else None)


@HARMONY.add("getAvailableRedelegationBalance", string, spaces=STAKING, beacon=True)
def get_redelegation_balance(asked: MethodCall, who: str) -> bytes:
    account(who)
    return text(asked.number(0))


@HARMONY.add("getValidatorSelfDelegation", string, spaces=STAKING, beacon=True)
def get_self_delegation(asked: MethodCall, who: str) -> bytes:
    _index(asked, who, asked.head)
    return text(asked.number(SELF_STAKE % 2**64))


@HARMONY.add("getValidatorTotalDelegation", string, spaces=STAKING, beacon=True)
def get_total_delegation(asked: MethodCall, who: str) -> bytes:
    held = delegations(asked, _index(asked, who, asked.head), asked.head)
    return text(asked.number(sum(amount for _, amount in held)))


@HARMONY.add("getValidatorsStakeByBlockNumber", number, spaces=STAKING, beacon=True)
def get_validators_stake(asked: MethodCall, reference: int) -> bytes:
    height = _height(asked, reference)
    validators = asked.branch.generator.validators if height >= CREATED_AT else ()
    stakes = {to_one(who): sum(a for _, a in delegations(asked, i, height)) for i, who in enumerate(validators)}
    return text(stakes)


@HARMONY.add("getSignedBlocks", string, spaces=CHAIN)
def get_signed_blocks(asked: MethodCall, who: str) -> bytes:
    if account(who) not in asked.branch.generator.validators:
        raise failed("address not present in state")
    return text(asked.number(asked.head - asked.head // 9))


SUPPLY = 12_600_000_000
MEMO = 20
"""Blocks for which a node keeps getTotalStaking (docs/harmony.md section 8)."""


def _stakes(asked: MethodCall, height: int) -> list[int]:
    """Atto staked with each validator."""
    validators = range(len(asked.branch.generator.validators))
    return [sum(amount for _, amount in delegations(asked, i, height)) for i in validators]


@HARMONY.add("getTotalSupply getCirculatingSupply", spaces=CHAIN)
def get_supply(asked: MethodCall) -> bytes:
    if asked.branch.spec.shard:
        raise failed("given chain is not beaconchain")
    return text(_supply(asked))


def _supply(asked: MethodCall) -> str:
    return f"{SUPPLY + 28 * asked.head}"


@HARMONY.add("getTotalStaking", spaces=STAKING, beacon=True)
def get_total_staking(asked: MethodCall) -> bytes:
    return text(asked.number(sum(_stakes(asked, asked.head - asked.head % MEMO))))


@HARMONY.add("getStakingNetworkInfo", spaces=CHAIN, beacon=True, limiter="staking_network_info")
def get_staking_network_info(asked: MethodCall) -> bytes:
    spec, stakes = asked.branch.spec, _stakes(asked, asked.head)
    return text({
        "circulating-supply": _supply(asked),
        "epoch-last-block": spec.epoch_last_block(spec.epoch_of(asked.head)),
        "median-raw-stake": str(min(stakes)),
        "total-staking": sum(stakes),
        "total-supply": _supply(asked),
    })  # fmt: skip


@HARMONY.add("getCurrentUtilityMetrics", spaces=CHAIN, beacon=True, limiter="utility_metrics")
def get_utility_metrics(asked: MethodCall) -> bytes:
    return text({
        "AccumulatorSnapshot": 28 * 10**18 * asked.head,
        "Adjustment": "13999989800000000000",
        "CurrentStakedPercentage": f"0.{asked.head % 10**9:09d}",
        "Deviation": "0.349999745",
    })  # fmt: skip


@HARMONY.add("getMedianRawStakeSnapshot", spaces=STAKING, beacon=True)
def get_median_raw_stake(asked: MethodCall) -> bytes:
    stakes = _stakes(asked, asked.head)
    candidates = [
        {
            "keys-at-auction": [slot.key.hex()],
            "percentage-of-total-auction-stake": "0.25",
            "stake": str(stake),
            "stake-per-key": 0,
            "validator": to_one(slot.address),
        }
        for slot, stake in zip(asked.branch.generator.members, stakes, strict=False)
    ]
    return text({
        "epos-median-stake": str(sorted(stakes)[len(stakes) // 2]),
        "epos-slot-candidates": candidates,
        "epos-slot-winners": [],
        "max-external-slots": len(stakes),
    })  # fmt: skip


@HARMONY.add("getSuperCommittees", spaces=CHAIN, beacon=True, limiter="super_committees")
def get_super_committees(asked: MethodCall) -> bytes:
    epoch = asked.branch.spec.epoch_of(asked.head)
    return text({"current": _super_committee(asked, epoch), "previous": _super_committee(asked, max(0, epoch - 1))})


def _super_committee(asked: MethodCall, epoch: int) -> dict[str, Any]:
    slots = asked.branch.generator.committee(epoch)
    external = sum(slot.external for slot in slots)
    members = []
    for slot in slots:
        member: dict[str, Any] = {
            "bls-public-key": slot.key.hex(),
            "earning-account": to_one(slot.address),
            "is-harmony-slot": not slot.external,
            "voting-power-%": f"{1 / len(slots):.18f}",
            "voting-power-unnormalized": "0.166666666666666666",
        }
        if slot.external:
            member |= {"effective-stake": str(10**22), "raw-stake": str(10**22)}
        members.append(dict(sorted(member.items())))
    decider = {
        "committee-members": members,
        "count": len(slots),
        "external-validator-slot-count": external,
        "hmy-voting-power": "0.679999999999999998",
        "policy": "SuperMajorityStake",
        "staked-voting-power": "0.320000000000000002",
        "total-effective-stake": str(external * 10**22),
        "total-raw-stake": str(external * 10**22),
    }
    return {
        "epoch": epoch,
        "epos-median-stake": str(10**22),
        "external-slot-count": external,
        "quorum-deciders": {"shard-0": decider},
    }
