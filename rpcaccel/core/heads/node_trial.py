"""The verdict on a node that is tried before it is added: does it answer, serve the network's chain, and keep up?"""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.heads.identity import Claims, ExpectedIdentity, judge


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
