"""Which of several nodes a caller is led to: the same caller to the same node, as long as that serves.

Weighted rendezvous hashing (Thaler and Ravishankar, 1998; Schindelhauer and Schomaker, 2005): every node draws a number
from the caller's key and its own id, scaled by its weight, and the lowest wins. There is nothing to remember, so that
workers, hosts and restarts agree. A node that goes moves only its own callers, and a weight only those it has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log

from rpcaccel.core.nodes.node import Node

_SPAN = 1 << 64


def rendezvous(nodes: Sequence[Node], key: bytes) -> Node:
    """The node of the caller whose key this is, among `nodes`: at least one, each of a weight above 0."""
    return min(nodes, key=lambda node: _distance(node, key))


def _distance(node: Node, key: bytes) -> float:
    """Exponentially distributed with the weight as its rate: the lowest is a node's in proportion to its weight."""
    number = int.from_bytes(blake2b(key, digest_size=8, key=_name(node)).digest(), "big")
    return -log((number + 0.5) / _SPAN) / node.weight


def _name(node: Node) -> bytes:
    """The id as a key of the hash, which takes 64 bytes at the most."""
    name = node.id.encode()
    return name if len(name) <= 64 else blake2b(name).digest()
