"""Checks whether a node serves the expected chain, by what it reports about itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T", int, str)
_SHOWN = 10
"""Characters of a hash in messages for the operator."""


class Claims(Struct, frozen=True):
    """What a node reports to serve; None where it reports nothing."""

    eth_chain_id: int | None = None
    network_id: int | None = None
    shard: int | None = None
    epoch: int | None = None
    """The epoch of the node's head. It is not checked, but used as a lower bound of the current epoch."""
    genesis: str | None = None
    """The hash of block 0, in lower case."""
    says: dict[str, bool] = {}
    """Whether the node has a role, by role; only roles that it reports about."""


class ExpectedIdentity(Struct, frozen=True):
    """What a node must serve; None where anything is accepted."""

    eth_chain_id: int | None = None
    shard: int | None = None
    genesis: str | None = None


class IdentityCheck(Struct, frozen=True):
    """Whether a node serves the right chain (None: not known yet), and if not, a sentence why."""

    right: bool | None
    why: str = ""


def judge(claims: Claims, wanted: ExpectedIdentity) -> IdentityCheck:
    """Compare what a node reports with what is expected; every id that both state must agree."""
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
    """What every node of a network must serve.

    The ids in the settings come first (None: not set). Other ids are those that most of the weight reports, among the
    nodes that agree with the settings. `said`: the claims and the weight of each node.
    """
    if eth_chain_id is None:
        of_shard = ((claims.eth_chain_id, weight) for claims, weight in said if claims.shard in {None, shard})
        eth_chain_id = most_said(of_shard)
    alike = ExpectedIdentity(eth_chain_id, shard)
    genesis = most_said((claims.genesis, weight) for claims, weight in said if judge(claims, alike).right is not False)
    return replace(alike, genesis=genesis)


def most_said(said: Iterable[tuple[T | None, float]]) -> T | None:
    """The id that most of the weight reports, on a tie the first one; None when no node reports any."""
    weights: dict[T, float] = {}
    for name, weight in said:
        if name is not None:
            weights[name] = weights.get(name, 0.0) + weight
    return max(weights, key=lambda name: weights[name]) if weights else None
