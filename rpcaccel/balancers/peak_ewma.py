"""Peak EWMA with two random choices: of two nodes drawn at random, the one with the lower cost is chosen.

The cost of a node is its latency (an average that jumps with a slow call and decays slowly) times the calls that it
would then have in flight, divided by its weight. A failure raises the cost until the node has answered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node

_PENALTY_MAX = 64.0
_FORGIVE = 0.97
"""Factor by which a penalty decays each time the node was drawn and not chosen, so that no node is shut out for
ever."""


class Choice:
    """Balances by latency; best when nodes differ in distance or capacity."""

    name: ClassVar[str] = "peak_ewma"

    __slots__ = ("penalised",)

    def __init__(self) -> None:
        self.penalised: dict[str, float] = {}
        """The factor (above 1) by which a node that failed costs more, by its id."""

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Keep the penalties of nodes that stay."""
        ids = {node.id for node in nodes}
        self.penalised = {id: penalty for id, penalty in self.penalised.items() if id in ids}

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:
        """The cheaper one of two random nodes. O(1), unless a node without weight was drawn."""
        count = len(eligible)
        if count <= 1:
            return eligible[0] if eligible else _nobody()
        index = int(rng.random() * count)
        other = int(rng.random() * (count - 1))
        first, second = eligible[index], eligible[other + (other >= index)]
        if first.weight <= 0 or second.weight <= 0:
            weighty = [node for node in eligible if node.weight > 0]
            return self.pick(weighty, route_key=route_key, now=now, rng=rng) if weighty else _nobody()
        latency, second_latency = first.latency.peak(now), second.latency.peak(now)
        if not (first.latency.known and second.latency.known):
            latency = second_latency = max(latency, second_latency) or 1.0  # an unknown latency counts as equal
        if self._cost(first, latency) <= self._cost(second, second_latency):
            chosen, passed = first, second
        else:
            chosen, passed = second, first
        if passed.id in self.penalised:
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
        """The nodes by cost, with the latency as of each node's last answer; an unknown latency counts as the best
        one."""
        weighty = [node for node in eligible if node.weight > 0]
        best = min(
            (node.latency.last_peak for node in weighty if node.latency.known),
            default=1.0,
        )
        return sorted(
            weighty,
            key=lambda node: self._cost(node, node.latency.last_peak if node.latency.known else best),
        )

    def _cost(self, node: Node, latency: float) -> float:
        return (latency + 1e-6) * (node.in_flight + 1) * self.penalised.get(node.id, 1.0) / node.weight

    def _ease(self, node: Node, factor: float) -> None:
        eased = self.penalised[node.id] * factor
        if eased <= 1.0:
            del self.penalised[node.id]
        else:
            self.penalised[node.id] = eased


def _nobody() -> Node:
    raise ValueError("no node of any weight to choose from")
