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

MOST_METHODS = 128
"""Methods remembered for one node."""
_STEP = 0.05
"""Relative step of the quantile for each sample, once there are many samples."""
_WEIGHT = 0.05
"""Weight of a new sample in a method's average, once there are many samples."""


class LatencyAverage:
    """Exponentially weighted averages of a node's latency: a plain one, and one that follows peaks (peak EWMA)."""

    __slots__ = ("_at", "_peak", "decay", "ewma")

    def __init__(self, *, decay: float = 10.0) -> None:
        self.decay = decay
        """Seconds after which an old sample weighs 1/e."""
        self.ewma = 0.0
        """The time-weighted average in seconds; 0.0 before the first sample."""
        self._peak = 0.0
        self._at = float("-inf")

    def add(self, seconds: float, now: float) -> None:
        """Add the latency of one successful call."""
        keep = exp((self._at - now) / self.decay) if now > self._at else 1.0
        if self._at == float("-inf"):
            self.ewma = seconds
        else:
            self.ewma = self.ewma * keep + seconds * (1.0 - keep)
        self._peak = max(seconds, self._peak * keep + seconds * (1.0 - keep))
        self._at = max(self._at, now)

    @property
    def known(self) -> bool:
        """Has there been any sample?"""
        return self._at != float("-inf")

    @property
    def last_peak(self) -> float:
        """The peak-sensitive average as of the last sample, in seconds."""
        return self._peak

    def peak(self, now: float) -> float:
        """An average in seconds that jumps to a slow sample at once and decays while there are no samples, so that a
        node that was slow once is tried again."""
        return self._peak * exp((self._at - now) / self.decay) if now > self._at else self._peak

    def __repr__(self) -> str:
        return f"<latency {self.ewma * 1000:.1f} ms>"


class MethodLatency:
    """The latency of one method on one node, in seconds."""

    __slots__ = ("at", "count", "mean", "quantile")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.quantile = 0.0
        self.at = float("-inf")
        """Monotonic time of the last answer."""

    def answered(self, seconds: float, share: float, now: float) -> None:
        """Add a call that was answered in `seconds`; `share` (0..1) names the quantile that is followed."""
        self.count += 1
        self.at = now
        self.mean += (seconds - self.mean) * max(_WEIGHT, 1.0 / self.count)
        self._follow(seconds > self.quantile, seconds, share)

    def overtaken(self, seconds: float, share: float) -> bool:
        """Add a call that was given up unanswered after `seconds`; True when that already exceeded the quantile."""
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


class MethodLatencies:
    """The latencies of all methods on one node."""

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
        (self._methods.get(method) or self._open(method)).answered(seconds, self.share, now)

    def overtaken(self, method: str, seconds: float) -> bool:
        """Add a call of `method` that was given up after `seconds` because another node answered first.

        True when the call was slow compared with the node's earlier calls of the method; False when it was not, or when
        there are no earlier calls.
        """
        latency = self._methods.get(method)
        return latency is not None and latency.overtaken(seconds, self.share)

    def lately(self, since: float) -> Iterator[tuple[str, MethodLatency]]:
        """The methods that were answered at `since` (monotonic seconds) or later."""
        return ((method, latency) for method, latency in self._methods.items() if latency.at >= since)

    def forget(self) -> None:
        """Reset all latencies, because the node has changed."""
        self._methods.clear()

    def _open(self, method: str) -> MethodLatency:
        if len(self._methods) >= MOST_METHODS:
            del self._methods[next(iter(self._methods))]
        latency = self._methods[method] = MethodLatency()
        return latency
