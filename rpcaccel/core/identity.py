"""Is a node what it is taken for? What nodes say of their chain, weighed against what is wanted of them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Claims(Struct, frozen=True):
    """What a node says it serves; None where it does not say."""

    eth_chain_id: int | None = None
    network_id: int | None = None
    shard: int | None = None
    epoch: int | None = None
    """The epoch it is in: no claim to be checked, but as good as one as a lower bound."""
    says: dict[str, bool] = {}
    """Which of the roles that it speaks of it has, by role; empty where it does not say."""


class Wanted(Struct, frozen=True):
    """What a node has to serve; None where anything will do."""

    eth_chain_id: int | None = None
    shard: int | None = None


class Verdict(Struct, frozen=True):
    """Whether a node may be asked (None: it has not said enough to tell), and why not in a sentence."""

    right: bool | None
    why: str = ""


def judge(claims: Claims, wanted: Wanted) -> Verdict:
    """Weigh what a node says against what is wanted; every id that is told and wanted has to agree."""
    known = False
    for said, must, what in (
        (claims.eth_chain_id, wanted.eth_chain_id, "chain id"),
        (claims.shard, wanted.shard, "shard"),
    ):
        if said is None or must is None:
            continue
        if said != must:
            return Verdict(False, f"it serves {what} {said}, not {must}")
        known = True
    return Verdict(True) if known else Verdict(None, "it does not say which chain it serves")


def most_said(said: Iterable[tuple[int | None, float]]) -> int | None:
    """The id with the most weight behind it; on a tie the one said first. None when nobody says any."""
    weights: dict[int, float] = {}
    for number, weight in said:
        if number is not None:
            weights[number] = weights.get(number, 0.0) + weight
    return max(weights, key=lambda number: weights[number]) if weights else None
