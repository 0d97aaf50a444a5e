"""The adaptive limit of calls in flight on a node: additive increase, multiplicative decrease, between two bounds.

A node shows that it is overloaded by not answering in time, or by leaving no connection free. The limit then falls
below the number of calls in flight; it grows by one for each round of calls that are answered while the limit is in use
(Chiu and Jain, 1989). Latency alone does not lower the limit, because methods differ in latency by a hundred times.
"""

from __future__ import annotations

from msgspec import Struct


class ConcurrencyPolicy(Struct, frozen=True, kw_only=True):
    """How the limit changes."""

    least: int = 16
    """The lower bound of the limit."""
    cut: float = 0.7
    """The limit after a sign of overload, as a share of the calls in flight."""
    every: float = 1.0
    """Seconds between two decreases: the failures of one overload count once."""


class Limit:
    """The limit of one node."""

    __slots__ = ("_cut_at", "most", "settings", "value")

    def __init__(self, most: int, settings: ConcurrencyPolicy | None = None) -> None:
        """`most`: the upper bound, at which the limit starts."""
        self.settings = settings or ConcurrencyPolicy()
        self.most = most
        self.value = float(most)
        self._cut_at = float("-inf")

    def adopt(self, most: int, settings: ConcurrencyPolicy) -> None:
        """Apply new bounds. A limit that was lowered stays; one at its upper bound moves to the new one."""
        self.value = float(most) if self.value >= self.most else min(self.value, float(most))
        self.most, self.settings = most, settings

    def answered(self, in_flight: int, count: int = 1) -> None:
        """Count calls that were answered at once; `in_flight` calls were under way."""
        if self.value < self.most and in_flight * 2 >= self.value:
            self.value = min(self.value + count / self.value, float(self.most))

    def overloaded(self, in_flight: int, now: float) -> None:
        """Report a sign of overload with `in_flight` calls under way."""
        if now - self._cut_at < self.settings.every:
            return
        self._cut_at = now
        self.value = max(min(self.value, in_flight) * self.settings.cut, min(self.settings.least, self.most), 1.0)

    def __repr__(self) -> str:
        return f"<limit {self.value:.0f} of {self.most}>"
