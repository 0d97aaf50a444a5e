"""Harmony's staking methods and its network-wide figures: supply, total stake, committees, utility metrics, medians.

Only the beacon shard answers them (docs/harmony.md section 9). `current-epoch-performance` follows the answering node's
head even in the ...ByBlockNumber forms (section 1, fact 3).
"""

from __future__ import annotations

from functools import partial
from math import lcm
from typing import Any

from rpcaccel.simnode.chain.addresses import to_one
from rpcaccel.simnode.chain.blocks import CommitteeSlot
from rpcaccel.simnode.methods import arguments as args
from rpcaccel.simnode.methods.arguments import LATEST
from rpcaccel.simnode.methods.block_methods import account, at_height
from rpcaccel.simnode.methods.json_views import View
from rpcaccel.simnode.methods.registry import MethodCall, RpcError, chain, staking

SELF_STAKE = 10_000 * 10**18
DELEGATED = 100 * 10**18
CREATED_AT = 2
"""The block from which the validators are there."""
VALIDATORS_A_PAGE = 100
SUPPLY = 12_600_000_000
STAKING_KEPT_BLOCKS = 20
"""Blocks for which a node keeps getTotalStaking (docs/harmony.md section 8)."""
_EXTERNAL_STAKE = str(10**22)

beacon = partial(staking, beacon=True)
"""Registers a staking function that shard 0 alone answers."""


def _delegated(call: MethodCall, validator: int, delegator: int, height: int) -> int:
    """Atto that a delegator has with a validator: one delegation at first, and each Delegate in the blocks since."""
    make = call.make
    turns = make.staking_turns(height)
    period = lcm(len(make.delegators), len(make.validators))
    for first in range(delegator, period, len(make.delegators)):
        if first % len(make.validators) == validator:
            return DELEGATED * (1 + max(0, -((first - turns) // period)))
    return DELEGATED


def delegations(call: MethodCall, validator: int, height: int) -> list[tuple[bytes, int]]:
    """(delegator, atto) of one validator at a height; the validator's own comes first."""
    others = [(who, _delegated(call, validator, i, height)) for i, who in enumerate(call.make.delegators)]
    return [(call.make.validators[validator], SELF_STAKE), *others]


def _stake(call: MethodCall, validator: int, height: int) -> int:
    """Atto staked with a validator."""
    return sum(amount for _, amount in delegations(call, validator, height))


def _stakes(call: MethodCall, height: int) -> list[int]:
    """Atto staked with each validator."""
    return [_stake(call, i, height) for i in range(len(call.make.validators))]


def _index(call: MethodCall, who: str, height: int) -> int:
    """The place of a validator among all. Raises RpcError where there is none."""
    address = account(who)
    if address not in call.make.validators or height < CREATED_AT:
        raise RpcError(f"not found address in current state {who}: address not present in state")
    return call.make.validators.index(address)


def _height(call: MethodCall, reference: int) -> int:
    """The height that a reference names. Raises RpcError where the node has no state of it."""
    height = at_height(call, reference).number
    call.shown_height(height)
    return height


def _information(call: MethodCall, validator: int, height: int) -> View:
    make, spec = call.make, call.spec
    epoch, now = spec.epoch_of(height), spec.epoch_of(call.head)
    stake = _stake(call, validator, height)
    name = to_one(make.validators[validator])
    key = next(slot.key for slot in make.members if slot.address == make.validators[validator]).hex()
    history = range(max(0, epoch - 30), epoch)
    done = call.head - spec.epoch_last_block(now - 1) if now else call.head
    signing = {"current-epoch-signed": done, "current-epoch-signing-percentage": "1.000000000000000000"}
    signed = {e: {"signed": spec.epoch_length - e % 2, "to-sign": spec.epoch_length} for e in reversed(history)}
    earned = {"earned-reward": 10**15 * call.head, "key": _key(call, key, name, stake)}
    return {
        "active-status": "active", "booted-status": None,
        "current-epoch-performance": {
            "block": call.head,
            "current-epoch-signing-percent": {**signing, "current-epoch-to-sign": done},
            "epoch": now,
        },
        "currently-in-committee": any(slot.key.hex() == key for slot in make.committee(epoch)),
        "epos-status": "currently elected", "epos-winning-stake": str(stake),
        "lifetime": {
            "apr": f"0.0{7 + validator}31415926535897",
            "blocks": {"signed": height - height // 9, "to-sign": height},
            "epoch-apr": [{"apr": f"0.07{e % 100:02d}", "epoch": e} for e in history],
            "epoch-blocks": [{"blocks": blocks, "epoch": e} for e, blocks in signed.items()],
            "reward-accumulated": 10**18 * height + validator,
        },
        "metrics": {"by-bls-key": [earned]},
        "total-delegation": stake,
        "validator": _validator(call, name, key, delegations(call, validator, height), epoch),
    }  # fmt: skip


def _key(call: MethodCall, key: str, name: str, stake: int) -> View:
    return {
        "bls-public-key": key, "earning-account": name, "effective-stake": str(stake), "group-percent": "1",
        "overall-percent": "0.320000000000000002", "raw-stake": str(stake), "shard-id": call.spec.shard,
    }  # fmt: skip


def _validator(call: MethodCall, name: str, key: str, held: list[tuple[bytes, int]], epoch: int) -> View:
    delegated = [
        {"amount": amount, "delegator-address": to_one(who), "reward": 0, "undelegations": []} for who, amount in held
    ]
    return {
        "address": name, "bls-public-keys": [key], "creation-height": CREATED_AT, "delegations": delegated,
        "details": "a simulated validator", "identity": name[-6:], "last-epoch-in-committee": epoch,
        "max-change-rate": "0.05", "max-rate": "0.9", "max-total-delegation": 10**26,
        "min-self-delegation": SELF_STAKE, "name": f"Validator {name[-4:]}", "rate": "0.1",
        "security-contact": "nobody", "update-height": CREATED_AT, "website": f"{call.spec.seed}.example",
    }  # fmt: skip


@beacon("getValidatorInformation", args.string)
@beacon("getValidatorInformationByBlockNumber", args.string, args.number)
def get_validator_information(call: MethodCall, who: str, reference: int = LATEST) -> View:
    height = _height(call, reference)
    return _information(call, _index(call, who, height), height)


def _page(call: MethodCall, page: int, height: int) -> list[int]:
    if page < 0:
        raise RpcError(f"page given {page} cannot be less than 0")
    count = len(call.make.validators) if height >= CREATED_AT else 0
    return list(range(count))[page * VALIDATORS_A_PAGE : (page + 1) * VALIDATORS_A_PAGE]


@beacon("getAllValidatorInformation", args.uint, limiter="all_validators")
@beacon("getAllValidatorInformationByBlockNumber", args.uint, args.number, limiter="all_validators")
def get_all_validator_information(call: MethodCall, page: int, reference: int = LATEST) -> list[View]:
    height = _height(call, reference)
    return [_information(call, i, height) for i in _page(call, page, height)]


@staking("getValidators", args.uint)
def get_validators(call: MethodCall, epoch: int) -> View:
    reward = call.number(10**18 * (epoch + 1))
    validators = [{"address": to_one(slot.address), "balance": reward} for slot in _committee(call, epoch)]
    return {"shardID": call.spec.shard, "validators": validators}


def _committee(call: MethodCall, epoch: int) -> tuple[CommitteeSlot, ...]:
    # The last block of an epoch already carries the next committee.
    if epoch > call.spec.epoch_of(call.head + 1):
        raise RpcError(f"failed to read shard state from DB%!(EXTRA string=epoch: %d, uint64={epoch})")
    return call.make.committee(epoch)


def _delegations(call: MethodCall, validator: int, height: int) -> list[View]:
    name = to_one(call.make.validators[validator])
    return [
        {
            "Undelegations": [], "amount": amount, "delegator_address": to_one(who),
            "reward": 0, "validator_address": name,
        }
        for who, amount in delegations(call, validator, height)
    ]  # fmt: skip


def _by_delegator(call: MethodCall, who: str, height: int) -> list[View]:
    name = to_one(account(who))
    everything = (one for i in range(len(call.make.validators)) for one in _delegations(call, i, height))
    return [one for one in everything if one["delegator_address"] == name]


@beacon("getDelegationsByDelegator", args.string)
@beacon("getDelegationsByDelegatorByBlockNumber", args.anything, args.number)
def get_delegations_by_delegator(call: MethodCall, who: str | list[str], reference: int = LATEST) -> Any:
    height = _height(call, reference)
    if isinstance(who, str):
        return _by_delegator(call, who, height) or None
    return [_by_delegator(call, one, height) for one in who]


@beacon("getDelegationsByValidator", args.string, limiter="delegations")
def get_delegations_by_validator(call: MethodCall, who: str) -> list[View]:
    address, validators = account(who), call.make.validators
    return _delegations(call, validators.index(address), call.head) if address in validators else []


@beacon("getDelegationByDelegatorAndValidator", args.string, args.string)
def get_delegation(call: MethodCall, who: str, validator: str) -> View | None:
    name = to_one(account(validator))
    return next((one for one in _by_delegator(call, who, call.head) if one["validator_address"] == name), None)


@beacon("getAvailableRedelegationBalance", args.string)
def get_redelegation_balance(call: MethodCall, who: str) -> int | str:
    account(who)
    return call.number(0)


@beacon("getValidatorSelfDelegation", args.string)
def get_self_delegation(call: MethodCall, who: str) -> int | str:
    _index(call, who, call.head)
    return call.number(SELF_STAKE % 2**64)


@beacon("getValidatorsStakeByBlockNumber", args.number)
def get_validators_stake(call: MethodCall, reference: int) -> View:
    height = _height(call, reference)
    stakes = _stakes(call, height) if height >= CREATED_AT else []
    return {to_one(who): stake for who, stake in zip(call.make.validators, stakes, strict=False)}


@chain("getSignedBlocks", args.string)
def get_signed_blocks(call: MethodCall, who: str) -> int | str:
    if account(who) not in call.make.validators:
        raise RpcError("address not present in state")
    return call.number(call.head - call.head // 9)


@chain("getTotalSupply getCirculatingSupply")
def get_supply(call: MethodCall) -> str:
    if call.spec.shard:
        raise RpcError("given chain is not beaconchain")
    return f"{SUPPLY + 28 * call.head}"


@chain("getStakingNetworkInfo", beacon=True, limiter="staking_network_info")
def get_staking_network_info(call: MethodCall) -> View:
    stakes, supply = _stakes(call, call.head), get_supply(call)
    last = call.spec.epoch_last_block(call.spec.epoch_of(call.head))
    return {
        "circulating-supply": supply, "epoch-last-block": last, "median-raw-stake": str(min(stakes)),
        "total-staking": sum(stakes), "total-supply": supply,
    }  # fmt: skip


@chain("getCurrentUtilityMetrics", beacon=True, limiter="utility_metrics")
def get_utility_metrics(call: MethodCall) -> View:
    return {
        "AccumulatorSnapshot": 28 * 10**18 * call.head, "Adjustment": "13999989800000000000",
        "CurrentStakedPercentage": f"0.{call.head % 10**9:09d}", "Deviation": "0.349999745",
    }  # fmt: skip


@beacon("getMedianRawStakeSnapshot")
def get_median_raw_stake(call: MethodCall) -> View:
    stakes = _stakes(call, call.head)
    candidates = [
        {
            "keys-at-auction": [slot.key.hex()], "percentage-of-total-auction-stake": "0.25",
            "stake": str(stake), "stake-per-key": 0, "validator": to_one(slot.address),
        }
        for slot, stake in zip(call.make.members, stakes, strict=False)
    ]  # fmt: skip
    median = str(sorted(stakes)[len(stakes) // 2])
    slots = {"epos-slot-candidates": candidates, "epos-slot-winners": []}
    return {"epos-median-stake": median, **slots, "max-external-slots": len(stakes)}


@chain("getSuperCommittees", beacon=True, limiter="super_committees")
def get_super_committees(call: MethodCall) -> View:
    epoch = call.spec.epoch_of(call.head)
    return {"current": _super_committee(call, epoch), "previous": _super_committee(call, max(0, epoch - 1))}


def _super_committee(call: MethodCall, epoch: int) -> View:
    slots = call.make.committee(epoch)
    external = sum(slot.external for slot in slots)
    stake = str(external * 10**22)
    decider = {
        "committee-members": [_member(slot, f"{1 / len(slots):.18f}") for slot in slots],
        "count": len(slots), "external-validator-slot-count": external,
        "hmy-voting-power": "0.679999999999999998", "policy": "SuperMajorityStake",
        "staked-voting-power": "0.320000000000000002", "total-effective-stake": stake, "total-raw-stake": stake,
    }  # fmt: skip
    return {
        "epoch": epoch, "epos-median-stake": _EXTERNAL_STAKE, "external-slot-count": external,
        "quorum-deciders": {"shard-0": decider},
    }  # fmt: skip


def _member(slot: CommitteeSlot, power: str) -> View:
    """A slot of a super committee; those of Harmony itself have no stake."""
    view = {
        "bls-public-key": slot.key.hex(), "earning-account": to_one(slot.address), "effective-stake": _EXTERNAL_STAKE,
        "is-harmony-slot": not slot.external, "raw-stake": _EXTERNAL_STAKE, "voting-power-%": power,
        "voting-power-unnormalized": "0.166666666666666666",
    }  # fmt: skip
    return {name: value for name, value in view.items() if slot.external or not name.endswith("-stake")}


beacon("getAllDelegationInformation", args.uint, limiter="all_delegations")(
    lambda call, page: [_delegations(call, i, call.head) for i in _page(call, page, call.head)]
)
beacon("getAllValidatorAddresses getElectedValidatorAddresses")(
    lambda call: [to_one(who) for who in call.make.validators]
)
staking("getValidatorKeys", args.uint)(lambda call, epoch: [slot.key.hex() for slot in _committee(call, epoch)])
beacon("getValidatorTotalDelegation", args.string)(
    lambda call, who: call.number(_stake(call, _index(call, who, call.head), call.head))
)
beacon("getTotalStaking")(lambda call: call.number(sum(_stakes(call, call.head - call.head % STAKING_KEPT_BLOCKS))))
