"""What is known about a chain, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from rpcaccel.core.plan.rules import RuleTable
from rpcaccel.core.replies.error_rules import ErrorTable

Finality = Literal["instant", "tag", "depth"]
"""When a block can no longer be replaced: at once, once a `finalized` tag has passed it, or so many blocks later."""


class Probe(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that asks a node who or where it is."""

    method: str
    params: str = "[]"
    """The raw JSON text of the params."""
    at: str = "."
    """Path to the fact in the result, dots between members; "." for the result itself. Numbers there are integers,
    hex strings or decimal strings."""


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """The probes of a chain; None where its nodes cannot be asked."""

    head: Probe
    eth_chain_id: Probe
    network_id: Probe | None = None
    shard: Probe | None = None
    genesis: Probe | None = None
    """The hash of block 0: two chains may have the same ids, and one may begin anew under them."""
    final: Probe | None = None
    """The number of the newest final block, where finality is a tag."""
    block: Probe | None = None
    """A block with its `number`, `hash` and `parentHash`, where blocks can be replaced. `{block}` in the params stands
    for a tag or a hex number, quotes included."""
    epoch: Probe | None = None
    """The number of the epoch the node's head is in."""
    role: Probe | None = None
    roles: dict[str, str] = {}
    """What the node calls itself, and the role that is in our words."""
    archive: Probe | None = None
    """A boolean: does the node keep the state of old blocks?"""
    version: Probe | None = None


class RangeLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """How far a range may reach on a node, and what the node says to more."""

    most: int
    """The greatest difference of last and first block."""
    message: str
    code: int = -32000


class Chain(Struct, frozen=True, kw_only=True):
    """The rules of a network: methods, errors, time, finality, identity."""

    name: str
    rules: RuleTable
    errors: ErrorTable
    block_time: float
    """Seconds between blocks, as a first guess."""
    finality: Finality
    finality_depth: int
    """Blocks under the head that count as final, where finality is a depth (or the tag cannot be had)."""
    tags: frozenset[str]
    """The block tags that all of its nodes read alike."""
    paths: Mapping[str, str]
    """Well-known request paths, and the prefix of methods written without one there."""
    identity: Identity
    ranges: Mapping[str, RangeLimit]
    """By the way of splitting ("blocks", "logs")."""

    def __repr__(self) -> str:
        return f"<Chain {self.name}: {len(self.rules)} methods, {len(self.errors.rows)} error rows>"
