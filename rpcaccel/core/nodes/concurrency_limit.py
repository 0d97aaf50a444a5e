"""How many calls a node may have at once: additive increase, multiplicative decrease, between two bounds.

A node that is overloaded says so by not answering in time, or by leaving no connection free. Then the limit falls below
what it had in flight, and it grows by one for each round of calls answered while the limit is being used (Chiu and
Jain, 1989). Latency alone does not lower it: methods differ in it by a hundred times.
"""

from __future__ import annotations

from msgspec import Struct


class ConcurrencyPolicy(Struct, frozen=True, kw_only=True):
    """How the limit moves."""

    least: int = 16
    """It never falls below this many calls."""
    cut: float = 0.7
    """What is left of it after a sign of overload,"""
    every: float = 1.0
    """at most once in so many seconds: the calls of one jam are one sign."""


class Limit:
    """The limit of one node."""

    __slots__ = ("_cut_at", "most", "settings", "value")

    def __init__(self, most: int, settings: ConcurrencyPolicy | None = None) -> None:
        """`most`: the upper bound; it starts there, and a node has to show that it is too much."""
        self.settings = settings or ConcurrencyPolicy()
        self.most = most
        self.value = float(most)
        self._cut_at = float("-inf")

    def adopt(self, most: int, settings: ConcurrencyPolicy) -> None:
        """Take over new bounds; what was learnt stays, unless the node was never found wanting."""
        self.value = float(most) if self.value >= self.most else min(self.value, float(most))
        self.most, self.settings = most, settings

    def answered(self, in_flight: int) -> None:
        """A call was answered while so many were in flight."""
        if self.value < self.most and in_flight * 2 >= self.value:
            self.value = min(self.value + 1.0 / self.value, float(self.most))

    def overloaded(self, in_flight: int, now: float) -> None:
        """A sign that `in_flight` calls were too many."""
        if now - self._cut_at < self.settings.every:
            return
        self._cut_at = now
        self.value = max(min(self.value, in_flight) * self.settings.cut, min(self.settings.least, self.most), 1.0)

    def __repr__(self) -> str:
        return f"<limit {self.value:.0f} of {self.most}>"
