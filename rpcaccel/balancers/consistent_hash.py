"""Consistent hashing with bounded loads: a key stays on its node, unless the node has more than its share of calls.

Each unit of weight has a number of points on a ring. A key belongs to the first point after its hash whose node is
eligible and has room, so a node that goes moves only its own keys. The points of a node follow from its id alone: a
changed weight adds or removes points, and moves only the keys before them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import ceil
from struct import unpack
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node

POINTS = 64
"""Points on the ring for one unit of weight (eight from each digest); shares are within some 12 % of the weights."""
LOAD_FACTOR = 1.25
"""A node may have at most this multiple of its share of the calls in flight (Mirrokni et al., bounded loads)."""
MIN_IN_FLIGHT = 4
"""Calls in flight that a node may have in any case, so that a quiet proxy does not scatter its keys."""
_OWNER_BITS = 12
_OWNER = (1 << _OWNER_BITS) - 1


class Choice:
    """Sends equal calls to one node, which then answers them from its own caches."""

    name: ClassVar[str] = "consistent_hash"
    aim: ClassVar[str] = "shares of the keys by weight; how many calls those are depends on the keys"
    penalised: ClassVar[frozenset[str]] = frozenset()

    __slots__ = ("_ids", "_points", "_ring", "_weights")

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._weights: dict[str, int] = {}
        self._points: dict[str, list[int]] = {}
        self._ring: array[int] = array("Q")

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Rebuild the ring if a weight or the set of nodes changed. Raises ValueError for more than 4095 nodes."""
        weights = {node.id: node.weight for node in nodes}
        if len(weights) > _OWNER:
            raise ValueError(f"a ring holds at most {_OWNER} nodes")
        if weights == self._weights:
            return
        self._points = {id: _points(id, weight, self._points.get(id, [])) for id, weight in weights.items()}
        self._weights = weights
        self._ids = sorted(weights)
        # The owner is in the low bits of the point, so that the ring is one flat array.
        self._ring = array(
            "Q",
            sorted(point | owner for owner, id in enumerate(self._ids) for point in self._points[id]),
        )

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:  # noqa: ARG002 - the port's
        """The first node with room, clockwise from the key. O(n) for the loads and O(log) for the search in the
        ring."""
        if len(eligible) == 1:
            return eligible[0]
        in_flight = weight = 0
        for node in eligible:
            in_flight += node.in_flight
            weight += node.weight
        if not weight:
            raise ValueError("no node of any weight to choose from")
        share = LOAD_FACTOR * (in_flight + 1) / weight
        for node in self._clockwise(eligible, route_key):
            if node.in_flight < max(ceil(share * node.weight), MIN_IN_FLIGHT):
                return node
        raise ValueError("none of these nodes is on the ring: adopt was not called")

    def failed(self, node: Node) -> None:
        """Do nothing: the place of a key does not depend on failures."""

    def succeeded(self, node: Node) -> None:
        """Do nothing: the place of a key does not depend on successes."""

    def preview(self, eligible: Sequence[Node], route_key: bytes) -> list[Node]:
        """The nodes clockwise from the key, without regard to loads."""
        return list(self._clockwise(eligible, route_key))

    def _clockwise(self, eligible: Sequence[Node], route_key: bytes) -> Iterator[Node]:
        waiting = {node.id: node for node in eligible if self._weights.get(node.id)}
        ring, ids = self._ring, self._ids
        start = bisect_left(ring, int.from_bytes(blake2b(route_key, digest_size=8).digest(), "big"))
        for part in (range(start, len(ring)), range(start)):
            for index in part:
                if not waiting:
                    return
                node = waiting.pop(ids[ring[index] & _OWNER], None)
                if node is not None:
                    yield node


def _points(id: str, weight: int, known: list[int]) -> list[int]:
    """The first `weight * POINTS` points of a node, eight from each digest."""
    wanted = weight * POINTS
    points = known[:wanted]
    for number in range(len(points) // 8, wanted // 8):
        digest = blake2b(f"{id}#{number}".encode(), digest_size=64).digest()
        points.extend(point & ~_OWNER for point in unpack(">8Q", digest))
    return points
