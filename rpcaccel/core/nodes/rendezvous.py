"""Leads each caller to one node, and always to the same one as long as that node is available.

Weighted rendezvous hashing (Thaler and Ravishankar, 1998; Schindelhauer and Schomaker, 2005): for each node a number is
computed from the caller's key and the node's id and scaled by the weight, and the lowest number wins. There is no
state, so all workers, hosts and restarts agree. When a node goes, only its own callers move; when a weight changes,
only as many as necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log

from rpcaccel.core.nodes.node import Node

_SPAN = 1 << 64


def rendezvous(nodes: Sequence[Node], key: bytes) -> Node:
    """The node for the caller with this key, out of at least one node; each must have a weight above 0."""
    return min(nodes, key=lambda node: _distance(node, key))


def _distance(node: Node, key: bytes) -> float:
    """An exponentially distributed number with the weight as its rate, so that a node wins in proportion to its
    weight."""
    number = int.from_bytes(blake2b(key, digest_size=8, key=_name(node)).digest(), "big")
    return -log((number + 0.5) / _SPAN) / node.weight


def _name(node: Node) -> bytes:
    """The id as a key for blake2b, which takes at most 64 bytes."""
    name = node.id.encode()
    return name if len(name) <= 64 else blake2b(name).digest()
