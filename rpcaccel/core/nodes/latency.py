"""How long a node takes to answer: one average for the whole node, and an average and a quantile for each method.

Only successful calls count: a node that refuses within a millisecond is not a fast node. A method's quantile is
followed step by step (Robbins and Monro, 1951; in the multiplicative form of frugal streaming): it rises by a fraction
of itself when a sample lies above it, and falls by a smaller fraction when a sample lies below it. This needs one
number instead of a histogram, forgets old samples, and can use a call that was cut short, which would have taken
longer than it was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp

from msgspec import Struct

MAX_METHODS_A_NODE = 128
"""Methods remembered for one node."""
_STEP = 0.05
"""Relative step of the quantile for each sample, once there are many samples."""
_WEIGHT = 0.05
"""Weight of a new sample in a method's average, once there are many samples."""
FADES_AFTER_SECONDS = 10.0
"""Seconds without a sample after which an average begins to fade."""


class LatencyAverage:
    """An exponentially weighted average of a node's latency."""

    __slots__ = ("_at", "decay", "ewma")

    def __init__(self, *, decay: float = 10.0) -> None:
        self.decay = decay
        """Seconds after which an old sample weighs 1/e."""
        self.ewma = 0.0
        """The time-weighted average in seconds; 0.0 before the first sample."""
        self._at = float("-inf")

    def add(self, seconds: float, now: float) -> None:
        """Add the latency of one successful call."""
        keep = exp((self._at - now) / self.decay) if now > self._at else 1.0
        if self._at == float("-inf"):
            self.ewma = seconds
        else:
            self.ewma = self.ewma * keep + seconds * (1.0 - keep)
        self._at = max(self._at, now)

    @property
    def known(self) -> bool:
        """Has there been any sample?"""
        return self._at != float("-inf")

    def fading(self, now: float) -> float:
        """The average in seconds, which falls while there have been no samples for a while: a node that was slow is
        tried again."""
        idle = now - self._at - FADES_AFTER_SECONDS
        return self.ewma * exp(-idle / self.decay) if idle > 0.0 else self.ewma

    def __repr__(self) -> str:
        return f"<latency {self.ewma * 1000:.1f} ms>"


class MethodLatency(Struct):
    """The latency of one method on one node, in seconds."""

    count: int
    """Answered calls, and those that were given up after more than the quantile."""
    mean: float
    quantile: float
    at: float
    """Monotonic time of the last answer."""


class MethodLatencies:
    __slots__ = ("_methods", "share")

    def __init__(self, share: float = 0.95) -> None:
        self.share = share
        """The quantile (0..1) that is followed for each method; hedging waits for it."""
        self._methods: dict[str, MethodLatency] = {}

    def __repr__(self) -> str:
        return f"<latencies of {len(self._methods)} methods>"

    def of(self, method: str) -> MethodLatency | None:
        """The latency of a method; None when no call of the method was answered yet."""
        return self._methods.get(method)

    def answered(self, method: str, seconds: float, now: float) -> None:
        """Add a call of `method` that was answered in `seconds`."""
        latency = self._methods.get(method)
        if latency is None:
            if len(self._methods) >= MAX_METHODS_A_NODE:
                del self._methods[next(iter(self._methods))]
            self._methods[method] = MethodLatency(1, seconds, seconds, now)
            return
        latency.count += 1
        latency.at = now
        newness = 1.0 / latency.count
        latency.mean += (seconds - latency.mean) * (_WEIGHT if newness < _WEIGHT else newness)
        step = _STEP if newness < _STEP else newness
        latency.quantile *= 1.0 + step * self.share if seconds > latency.quantile else 1.0 - step * (1.0 - self.share)

    def overtaken(self, method: str, seconds: float) -> bool:
        """Add a call of `method` that was given up after `seconds` because another node answered first.

        True when the call was slow compared with the node's earlier calls of the method; False when it was not, or when
        there are no earlier calls.
        """
        latency = self._methods.get(method)
        if latency is None or seconds < latency.quantile:
            return False
        latency.count += 1
        latency.quantile *= 1.0 + max(_STEP, 1.0 / latency.count) * self.share
        return True

    def lately(self, since: float) -> Iterator[tuple[str, MethodLatency]]:
        """The methods that were answered at `since` (monotonic seconds) or later."""
        return ((method, latency) for method, latency in self._methods.items() if latency.at >= since)

    def forget(self) -> None:
        """Reset all latencies, because the node has changed."""
        self._methods.clear()
