"""Smooth weighted round robin, the nginx way: shares follow weights over any run of calls, without bursts.

Each call every eligible node gains its effective weight, the richest takes the call and pays what all gained
together. The effective weight falls on a failure and recovers a little with each call of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node

_UNIT = 120
"""Integer steps to one unit of weight: sums stay exact, and a weight of 1 can fall by parts."""
_FALL = 4
"""A failure takes a quarter of the initial weight,"""
_RISE = 120
"""and each call of the pool gives back one part in so many."""


class _Standing:
    """What one node has gained."""

    __slots__ = ("current", "effective", "initial")

    def __init__(self, weight: int) -> None:
        self.initial = self.effective = weight * _UNIT
        self.current = 0


class Choice:
    """The default balancer."""

    name: ClassVar[str] = "smooth_weighted"

    __slots__ = ("_standings",)

    def __init__(self) -> None:
        self._standings: dict[str, _Standing] = {}

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Weights change at once; a node weakened by failures stays as weak in proportion."""
        before, self._standings = self._standings, {}
        for node in nodes:
            standing = before.get(node.id) or _Standing(node.weight)
            initial = node.weight * _UNIT
            if standing.initial != initial:
                standing.effective = initial * standing.effective // standing.initial if standing.initial else initial
                standing.initial = initial
            self._standings[node.id] = standing
            standing.current = 0  # what is owed adds up to nothing only among the nodes it was gained with
            node.effective_weight = standing.effective / _UNIT

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:  # noqa: ARG002 - the port's
        """The richest; the first of equals. O(n)."""
        if len(eligible) == 1:
            return eligible[0]
        total, best, chosen = 0, None, None
        for node in eligible:
            standing = self._of(node)
            if not standing.initial:
                continue
            if standing.effective < standing.initial:
                self._set(node, standing, standing.effective + standing.initial // _RISE)
            standing.current += standing.effective
            total += standing.effective
            if best is None or standing.current > best.current:
                best, chosen = standing, node
        if best is None or chosen is None:
            raise ValueError("no node of any weight to choose from")
        best.current -= total
        return chosen

    def failed(self, node: Node) -> None:
        """The node takes less of what comes, for a while."""
        standing = self._of(node)
        self._set(node, standing, standing.effective - standing.initial // _FALL)

    def succeeded(self, node: Node) -> None:
        """Nothing: the weight comes back with the calls of the pool."""

    def preview(self, eligible: Sequence[Node], route_key: bytes) -> list[Node]:  # noqa: ARG002 - the port's
        """By what each would stand at when the next call comes."""

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

    @staticmethod
    def _set(node: Node, standing: _Standing, effective: int) -> None:
        standing.effective = min(max(effective, 0), standing.initial)
        node.effective_weight = standing.effective / _UNIT
