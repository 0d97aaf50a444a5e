"""Is a node what it is taken for? What nodes say of their chain, weighed against what is wanted of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T", int, str)
_SHOWN = 10
"""Characters of a hash that the operator is shown."""


class Claims(Struct, frozen=True):
    """What a node says it serves; None where it does not say."""

    eth_chain_id: int | None = None
    network_id: int | None = None
    shard: int | None = None
    epoch: int | None = None
    """The epoch it is in: no claim to be checked, but as good as one as a lower bound."""
    genesis: str | None = None
    """The hash of block 0, in lower case."""
    says: dict[str, bool] = {}
    """Which of the roles that it speaks of it has, by role; empty where it does not say."""


class ExpectedIdentity(Struct, frozen=True):
    """What a node has to serve; None where anything will do."""

    eth_chain_id: int | None = None
    shard: int | None = None
    genesis: str | None = None


class IdentityCheck(Struct, frozen=True):
    """Whether a node may be asked (None: it has not said enough to tell), and why not in a sentence."""

    right: bool | None
    why: str = ""


def judge(claims: Claims, wanted: ExpectedIdentity) -> IdentityCheck:
    """Weigh what a node says against what is wanted; every id that is told and wanted has to agree."""
    known = False
    for said, must, what in (
        (claims.eth_chain_id, wanted.eth_chain_id, "chain id"),
        (claims.shard, wanted.shard, "shard"),
    ):
        if said is None or must is None:
            continue
        if said != must:
            return IdentityCheck(False, f"it serves {what} {said}, not {must}")
        known = True
    if claims.genesis is not None and wanted.genesis is not None and claims.genesis != wanted.genesis:
        its, theirs = claims.genesis[:_SHOWN], wanted.genesis[:_SHOWN]
        return IdentityCheck(
            False, f"its chain begins with block {its}…, that of the network with {theirs}…: another chain"
        )
    return IdentityCheck(True) if known else IdentityCheck(None, "it does not say which chain it serves")


def wanted_of(said: Collection[tuple[Claims, float]], eth_chain_id: int | None, shard: int | None) -> ExpectedIdentity:
    """What every node of a network has to serve: what the settings say (None: nothing), else what the nodes with the
    most weight say that are right as far as the settings go. `said`: what each node says, and its weight."""
    if eth_chain_id is None:
        of_shard = ((claims.eth_chain_id, weight) for claims, weight in said if claims.shard in {None, shard})
        eth_chain_id = most_said(of_shard)
    alike = ExpectedIdentity(eth_chain_id, shard)
    genesis = most_said((claims.genesis, weight) for claims, weight in said if judge(claims, alike).right is not False)
    return replace(alike, genesis=genesis)


def most_said(said: Iterable[tuple[T | None, float]]) -> T | None:
    """The id with the most weight behind it; on a tie the one said first. None when nobody says any."""
    weights: dict[T, float] = {}
    for name, weight in said:
        if name is not None:
            weights[name] = weights.get(name, 0.0) + weight
    return max(weights, key=lambda name: weights[name]) if weights else None
