"""When a node is slow with a call: after a quantile of what that method took on that very node.

A hedge costs another node a call, so it is sent only where it is known what to expect, not sooner than a floor, and
within the budget that retries share.
"""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.node import Node


class Hedging(Struct, frozen=True, kw_only=True):
    """When a second node is asked as well."""

    at_least: float = 0.1
    """Seconds that a node is given in any case."""
    samples: int = 30
    """Answers that must have been seen before the quantile is believed."""

    def after(self, method: str, node: Node) -> float | None:
        """Seconds after which `node` is slow with `method`; None while that is not known."""
        pace = node.pace.of(method)
        if pace is None or pace.count < self.samples:
            return None
        return max(pace.quantile, self.at_least)
