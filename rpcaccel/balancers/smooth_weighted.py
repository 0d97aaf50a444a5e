"""Smooth weighted round robin, as nginx does it: shares follow the weights over any run of calls, without bursts.

On each call every eligible node gains its effective weight; the node with the highest sum takes the call and pays what
all nodes gained together. The effective weight falls on a failure and recovers a little with each call of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node

_UNIT = 120
"""Integer steps in one unit of weight: sums stay exact, and a weight of 1 can fall by parts."""
_FALL = 4
"""A failure takes one part in `_FALL` of the initial weight."""
_RISE = 120
"""Each call of the pool gives back one part in `_RISE` of the initial weight."""


class _Standing:
    """The weights of one node, in steps of `_UNIT`."""

    __slots__ = ("current", "effective", "initial")

    def __init__(self, weight: int) -> None:
        self.initial = self.effective = weight * _UNIT
        self.current = 0
        """The sum that the node has gained and not yet paid."""

    def set_effective(self, effective: int) -> None:
        """Set the effective weight, between 0 and the initial weight."""
        self.effective = min(max(effective, 0), self.initial)


class Choice:
    """Smooth weighted round robin, the default balancer."""

    name: ClassVar[str] = "smooth_weighted"
    aim: ClassVar[str] = ""
    penalised: ClassVar[frozenset[str]] = frozenset()

    __slots__ = ("_standings",)

    def __init__(self) -> None:
        self._standings: dict[str, _Standing] = {}

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Apply new weights at once; a node weakened by failures stays weakened in proportion."""
        before, self._standings = self._standings, {}
        for node in nodes:
            standing = before.get(node.id) or _Standing(node.weight)
            initial = node.weight * _UNIT
            if standing.initial != initial:
                standing.effective = initial * standing.effective // standing.initial if standing.initial else initial
                standing.initial = initial
            self._standings[node.id] = standing
            standing.current = 0  # the sums add up to zero only among the nodes they were gained with

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:  # noqa: ARG002 - the port's
        """The node with the highest sum; the first one of equals. O(n)."""
        if len(eligible) == 1:
            return eligible[0]
        total, best, chosen = 0, None, None
        for node in eligible:
            standing = self._of(node)
            if not standing.initial:
                continue
            if standing.effective < standing.initial:
                standing.set_effective(standing.effective + standing.initial // _RISE)
            standing.current += standing.effective
            total += standing.effective
            if best is None or standing.current > best.current:
                best, chosen = standing, node
        if best is None or chosen is None:
            raise ValueError("no node of any weight to choose from")
        best.current -= total
        return chosen

    def failed(self, node: Node) -> None:
        """Lower the node's effective weight, so that it takes fewer calls for a while."""
        standing = self._of(node)
        standing.set_effective(standing.effective - standing.initial // _FALL)

    def succeeded(self, node: Node) -> None:
        """Do nothing: the effective weight recovers with the calls of the pool."""

    def preview(self, eligible: Sequence[Node], route_key: bytes) -> list[Node]:  # noqa: ARG002 - the port's
        """The nodes ordered by the sums that they would have on the next call, highest first."""

        def standing_next(node: Node) -> int:
            standing = self._of(node)
            step = standing.initial // _RISE if standing.effective < standing.initial else 0
            return standing.current + min(standing.effective + step, standing.initial)

        return sorted(
            (node for node in eligible if node.weight > 0),
            key=standing_next,
            reverse=True,
        )

    def _of(self, node: Node) -> _Standing:
        standing = self._standings.get(node.id)
        if standing is None:
            standing = self._standings[node.id] = _Standing(node.weight)
        return standing
