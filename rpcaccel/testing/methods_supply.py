"""Harmony's network-wide figures: supply, total stake, committees, utility metrics, medians."""

from __future__ import annotations

from typing import Any

from .address import to_one
from .methods_staking import delegations
from .registry import Asked, failed, text
from .tables import CHAIN, HARMONY, STAKING

SUPPLY = 12_600_000_000
MEMO = 20
"""Blocks for which a node keeps getTotalStaking (docs/harmony.md section 8)."""


def total_stake(asked: Asked, height: int) -> int:
    """Atto staked with all validators."""
    validators = range(len(asked.branch.generator.validators))
    return sum(amount for i in validators for _, amount in delegations(asked, i, height))


@HARMONY.add("getTotalSupply getCirculatingSupply", spaces=CHAIN)
def get_supply(asked: Asked) -> bytes:
    if asked.branch.spec.shard:
        raise failed("given chain is not beaconchain")
    return text(_supply(asked))


def _supply(asked: Asked) -> str:
    return f"{SUPPLY + 28 * asked.head}"


@HARMONY.add("getTotalStaking", spaces=STAKING, beacon=True)
def get_total_staking(asked: Asked) -> bytes:
    return text(asked.number(total_stake(asked, asked.head - asked.head % MEMO)))


@HARMONY.add("getStakingNetworkInfo", spaces=CHAIN, beacon=True, limiter="staking_network_info")
def get_staking_network_info(asked: Asked) -> bytes:
    spec = asked.branch.spec
    return text({
        "circulating-supply": _supply(asked),
        "epoch-last-block": spec.epoch_last_block(spec.epoch_of(asked.head)),
        "median-raw-stake": str(_stakes(asked)[0]),
        "total-staking": total_stake(asked, asked.head),
        "total-supply": _supply(asked),
    })  # fmt: skip


@HARMONY.add("getCurrentUtilityMetrics", spaces=CHAIN, beacon=True, limiter="utility_metrics")
def get_utility_metrics(asked: Asked) -> bytes:
    return text({
        "AccumulatorSnapshot": 28 * 10**18 * asked.head,
        "Adjustment": "13999989800000000000",
        "CurrentStakedPercentage": f"0.{asked.head % 10**9:09d}",
        "Deviation": "0.349999745",
    })  # fmt: skip


def _stakes(asked: Asked) -> list[int]:
    validators = range(len(asked.branch.generator.validators))
    return sorted(sum(amount for _, amount in delegations(asked, i, asked.head)) for i in validators)


@HARMONY.add("getMedianRawStakeSnapshot", spaces=STAKING, beacon=True)
def get_median_raw_stake(asked: Asked) -> bytes:
    make = asked.branch.generator
    candidates = [
        {
            "keys-at-auction": [slot.key.hex()],
            "percentage-of-total-auction-stake": "0.25",
            "stake": str(sum(amount for _, amount in delegations(asked, i, asked.head))),
            "stake-per-key": 0,
            "validator": to_one(slot.address),
        }
        for i, slot in enumerate(make.members[: len(make.validators)])
    ]
    stakes = _stakes(asked)
    return text({
        "epos-median-stake": str(stakes[len(stakes) // 2]),
        "epos-slot-candidates": candidates,
        "epos-slot-winners": [],
        "max-external-slots": len(stakes),
    })  # fmt: skip


@HARMONY.add("getSuperCommittees", spaces=CHAIN, beacon=True, limiter="super_committees")
def get_super_committees(asked: Asked) -> bytes:
    epoch = asked.branch.spec.epoch_of(asked.head)
    return text({"current": _super_committee(asked, epoch), "previous": _super_committee(asked, max(0, epoch - 1))})


def _super_committee(asked: Asked, epoch: int) -> dict[str, Any]:
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
