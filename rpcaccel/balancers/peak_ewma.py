"""Weighted choice that gives way to the quicker node: shares follow the weights while nodes are equally quick.

A node is drawn by weight and takes the call, unless another one, also drawn by weight, costs clearly less. The cost of
a node is its average latency times its load (calls in flight, compared with its weight). Nodes within a tolerance count
as equal, because averages of equal nodes differ by chance; beyond it, the dearer a node is, the more of its calls go to
the other one. A failure raises the cost until the node has answered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node

_EQUAL = 1.25
"""Ratio of two costs up to which they count as equal."""
_STEEP = 3
"""The exponent by which the share of a node falls with its cost: at three times the cost of the other node it keeps
`(_EQUAL / 3) ** _STEEP` of its calls, one in fourteen."""
_ROOM = 4
"""Calls in flight that count as there in any case, so that a single call is no load on a quiet proxy."""
_TRIES = 12
"""Draws after which the weights of all nodes are added up instead: weights are very uneven then."""
_PENALTY_MAX = 64.0
_FORGIVE = 0.97
"""Factor by which a penalty decays each time the node was drawn and not chosen, so that no node is shut out for
ever."""


class Choice:
    """Balances by latency; best when nodes differ in distance or capacity."""

    name: ClassVar[str] = "peak_ewma"
    aim: ClassVar[str] = "shares by weight among nodes that are equally quick; a slower one gets less"

    __slots__ = ("_heaviest", "penalised")

    def __init__(self) -> None:
        self._heaviest = 0
        """The highest weight among the nodes."""
        self.penalised: dict[str, float] = {}
        """The factor (above 1) by which a node that failed costs more, by its id."""

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Keep the penalties of nodes that stay."""
        ids = {node.id for node in nodes}
        self.penalised = {id: penalty for id, penalty in self.penalised.items() if id in ids}
        self._heaviest = max((node.weight for node in nodes), default=0)

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:  # noqa: ARG002 - the port's
        """A node drawn by weight, or another one that costs clearly less. O(1), unless weights are very uneven."""
        if len(eligible) <= 1:
            return eligible[0] if eligible else _nobody()
        first = self._draw(eligible, rng)
        second = self._draw(eligible, rng, first)
        cost, other = self._costs(first, second, now)
        if cost <= other * _EQUAL or rng.random() < (other * _EQUAL / cost) ** _STEEP:
            chosen, passed = first, second
        else:
            chosen, passed = second, first
        if passed.id in self.penalised and passed is not chosen:
            self._ease(passed, _FORGIVE)
        return chosen

    def failed(self, node: Node) -> None:
        """Double the node's penalty."""
        self.penalised[node.id] = min(self.penalised.get(node.id, 1.0) * 2.0, _PENALTY_MAX)

    def succeeded(self, node: Node) -> None:
        """Halve the node's penalty."""
        if node.id in self.penalised:
            self._ease(node, 0.5)

    def preview(self, eligible: Sequence[Node], route_key: bytes) -> list[Node]:  # noqa: ARG002 - the port's
        """The nodes by the share of the calls that each would get, with the latency as of its last answer; an unknown
        latency counts as the best one."""
        weighty = [node for node in eligible if node.weight > 0]
        best = min((node.latency.ewma for node in weighty if node.latency.known), default=1.0)
        mean = sum(node.weight for node in weighty) / len(weighty) if weighty else 0.0
        costs = {node.id: self._cost(node, node.latency.ewma if node.latency.known else best, mean) for node in weighty}
        least = min(costs.values(), default=0.0)
        return sorted(weighty, key=lambda node: -node.weight * min(1.0, least * _EQUAL / costs[node.id]) ** _STEEP)

    def _draw(self, eligible: Sequence[Node], rng: Random, drawn: Node | None = None) -> Node:
        """A node drawn by weight, another one than `drawn` where there is one of some weight."""
        count = len(eligible)
        for _ in range(_TRIES):
            node = eligible[int(rng.random() * count)]
            weight = node.weight
            if node is drawn or weight <= 0:
                continue
            if weight >= self._heaviest or rng.random() * self._heaviest < weight:
                return node
        fit = [node for node in eligible if node is not drawn and node.weight > 0]
        return rng.choices(fit, [node.weight for node in fit])[0] if fit else drawn or _nobody()

    def _costs(self, first: Node, second: Node, now: float) -> tuple[float, float]:
        # A slow node that was not asked for a while fades down to the other one, to be tried again, and no further: of
        # two nodes that are seldom asked, the one that is asked less would seem the quicker one.
        least = min(first.latency.ewma, second.latency.ewma)
        latency, other = max(first.latency.fading(now), least), max(second.latency.fading(now), least)
        if not (first.latency.known and second.latency.known):
            latency = other = max(latency, other) or 1.0  # an unknown latency counts as equal
        mean = (first.weight + second.weight) / 2
        return self._cost(first, latency, mean), self._cost(second, other, mean)

    def _cost(self, node: Node, latency: float, mean: float) -> float:
        """The cost of a node, whose calls in flight are compared with those of a node of the `mean` weight."""
        load = _ROOM + node.in_flight * mean / node.weight
        return (latency + 1e-6) * load * self.penalised.get(node.id, 1.0)

    def _ease(self, node: Node, factor: float) -> None:
        eased = self.penalised[node.id] * factor
        if eased <= 1.0:
            del self.penalised[node.id]
        else:
            self.penalised[node.id] = eased


def _nobody() -> Node:
    raise ValueError("no node of any weight to choose from")
