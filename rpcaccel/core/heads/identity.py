"""Checks whether a node serves the expected chain, by what it reports about itself; and the verdict on a node that is
tried before it is added."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

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
    block_one: str | None = None
    """The hash of block 1, in lower case: it tells a chain from one that was begun anew with the same block 0."""
    says: dict[str, bool] = {}
    """Whether the node has a role, by role; only roles that it reports about."""
    version: str = ""
    """The version of the node's software; empty where it does not tell."""


class ExpectedIdentity(Struct, frozen=True):
    """What a node must serve; None where anything is accepted."""

    eth_chain_id: int | None = None
    shard: int | None = None
    genesis: str | None = None
    block_one: str | None = None


class IdentityCheck(Struct, frozen=True):
    """Whether a node serves the right chain (None: not known yet), and if not, a sentence why."""

    right: bool | None
    why: str = ""


def judge(claims: Claims, wanted: ExpectedIdentity) -> IdentityCheck:
    """Compare what a node reports with what is expected; every id and every hash that both state must agree."""
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
    if claims.block_one is not None and wanted.block_one is not None and claims.block_one != wanted.block_one:
        its, theirs = claims.block_one[:_SHOWN], wanted.block_one[:_SHOWN]
        return IdentityCheck(
            False, f"its block 1 is {its}…, that of the network {theirs}…: another chain, or the same one begun anew"
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
    alike = replace(alike, genesis=most_said((claims.genesis, weight) for claims, weight in _right(said, alike)))
    return replace(alike, block_one=most_said((claims.block_one, weight) for claims, weight in _right(said, alike)))


def _right(said: Iterable[tuple[Claims, float]], wanted: ExpectedIdentity) -> list[tuple[Claims, float]]:
    """The claims, with their weights, of the nodes that do not contradict what is expected."""
    return [(claims, weight) for claims, weight in said if judge(claims, wanted).right is not False]


def most_said(said: Iterable[tuple[T | None, float]]) -> T | None:
    """The id that most of the weight reports, on a tie the first one; None when no node reports any."""
    weights: dict[T, float] = {}
    for name, weight in said:
        if name is not None:
            weights[name] = weights.get(name, 0.0) + weight
    return max(weights, key=lambda name: weights[name]) if weights else None


class Finding(Struct, frozen=True, kw_only=True):
    """The result of probing a node; numbers and hashes that are not known are None."""

    network: str
    node: str
    url: str
    chain: str = ""
    """The chain of its network."""
    weight: float = 1.0
    chain_id: int | None = None
    head: int | None = None
    latency: float | None = None
    """Seconds that the answer with the head took."""
    shard: int | None = None
    genesis: str | None = None
    """The hash of block 0, in lower case."""
    block_one: str | None = None
    """The hash of block 1, in lower case."""
    role: str = ""
    """Its roles by its own word, or else the version of its software."""
    version: str = ""
    behind: int | None = None
    """Blocks that it is behind the best head of its network; None where it serves something else."""
    websocket: str | None = None
    """What the WebSocket that is named for the node is: "right", or what is wrong; None where none is named."""
    trouble: str = ""
    """A sentence when the node is wrong."""


class NodesFound(Struct, frozen=True):
    """Nodes that are not served yet, as they were found."""

    networks: dict[str, dict[str, Any]]
    """The networks that they make, as a configuration file has them. URLs are as they were given, keys included."""
    nodes: list[Finding]
    notes: list[str]
    """Sentences about nodes that did not say what they serve, or whose endpoints these are."""


class NodeTrial(Struct, frozen=True, kw_only=True):
    """A node as it answered one probe, compared with a network that it is not part of."""

    answering: bool
    """Did it tell its head?"""
    chain_ok: bool | None = None
    """Does it serve the chain and shard of the network? null: that cannot be told."""
    head: int | None = None
    chain_id: int | None = None
    latency: float | None = None
    """Seconds that the answer with the head took."""
    lag: int | None = None
    """Blocks that it is behind the served head of the network."""
    note: str = ""
    """A sentence when something is wrong."""


def tried(
    claims: Claims | None,
    wanted: ExpectedIdentity,
    *,
    head: int = -1,
    latency: float | None = None,
    served: int = -1,
    fault: str = "",
) -> NodeTrial:
    """The verdict on a node.

    Args:
        claims: the identity that the node claims; None when it did not answer that.
        wanted: the identity of the network's nodes.
        head: the block that the node told as its head; -1 when `fault` says why it told none.
        served: the served head of the network; -1 when there is none yet.
    """
    verdict = None if claims is None else judge(claims, wanted)
    right = None if verdict is None else verdict.right
    note = fault
    if verdict is not None and (right is False or not fault):
        comparable = wanted.eth_chain_id is not None or wanted.shard is not None
        note = verdict.why if comparable else "no node of the network has told its chain yet: nothing to compare with"
    return NodeTrial(
        answering=head >= 0,
        chain_ok=right,
        head=head if head >= 0 else None,
        chain_id=None if claims is None else claims.eth_chain_id,
        latency=latency if head >= 0 else None,
        lag=max(0, served - head) if head >= 0 and served >= 0 else None,
        note=note,
    )
