"""How long each method takes on one node, kept in a few numbers: an average, and a quantile that hedging waits for.

The quantile is followed step by step (Robbins and Monro, 1951; in the multiplicative form of frugal streaming): up by
a part of itself when a sample lies above, down by a smaller one when below. It costs no memory, forgets by itself, and
takes a call that was cut short for what it is: one that would have taken longer.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST_METHODS = 128
"""Methods remembered of one node."""
_STEP = 0.05
"""Of the quantile, per sample, once there are many."""
_WEIGHT = 0.05
"""Of a new sample in the average, once there are many."""


class MethodPace:
    """One method on one node. Seconds throughout."""

    __slots__ = ("at", "count", "mean", "quantile")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.quantile = 0.0
        self.at = float("-inf")
        """When it was last answered."""

    def answered(self, seconds: float, share: float, now: float) -> None:
        """It took `seconds`. `share`: which quantile is followed, 0..1."""
        self.count += 1
        self.at = now
        self.mean += (seconds - self.mean) * max(_WEIGHT, 1.0 / self.count)
        self._follow(seconds > self.quantile, seconds, share)

    def overtaken(self, seconds: float, share: float) -> bool:
        """It was given up after `seconds`, and would have taken longer. True when that was slow by its own measure."""
        slow = seconds >= self.quantile
        if slow:
            self.count += 1
            self._follow(True, seconds, share)
        return slow

    def _follow(self, above: bool, seconds: float, share: float) -> None:
        if self.count == 1:
            self.quantile = seconds
            return
        step = max(_STEP, 1.0 / self.count)
        self.quantile *= 1.0 + step * share if above else 1.0 - step * (1.0 - share)


class Pace:
    """All methods of one node."""

    __slots__ = ("_methods", "share")

    def __init__(self, share: float = 0.95) -> None:
        self.share = share
        self._methods: dict[str, MethodPace] = {}

    def __repr__(self) -> str:
        return f"<pace of {len(self._methods)} methods>"

    def of(self, method: str) -> MethodPace | None:
        """What is known of a method, if anything."""
        return self._methods.get(method)

    def answered(self, method: str, seconds: float, now: float) -> None:
        """A call of `method` was answered in `seconds`."""
        (self._methods.get(method) or self._open(method)).answered(seconds, self.share, now)

    def overtaken(self, method: str, seconds: float) -> bool:
        """A call of `method` was given up after `seconds`, since another node was quicker. True when that was slow by
        the node's own measure; False too when there is none."""
        pace = self._methods.get(method)
        return pace is not None and pace.overtaken(seconds, self.share)

    def lately(self, since: float) -> Iterator[tuple[str, MethodPace]]:
        """The methods answered since then."""
        return ((method, pace) for method, pace in self._methods.items() if pace.at >= since)

    def forget(self) -> None:
        """The node is not what it was."""
        self._methods.clear()

    def _open(self, method: str) -> MethodPace:
        if len(self._methods) >= MOST_METHODS:
            del self._methods[next(iter(self._methods))]
        pace = self._methods[method] = MethodPace()
        return pace
