"""The way of a network's weights towards those suggested: how long the next step is, and which one is taken back.

The latency of a node may depend on its load, which no suggestion foresees: the quickest node is suggested to take all
until it is the slowest. So a step is judged by the mean latency after it, and taken back unless that fell. A step that
was taken back, or that turns around, is followed by one half as long, and a step half as long is four times as seldom:
weights settle where no step makes calls quicker.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.weights.comparison import Comparison, compare
from rpcaccel.core.weights.weighing import Suggestion, told
from rpcaccel.core.weights.whole_weights import STEP, shares_of, step

STEP_EVERY = 600.0
"""Seconds between two of the longest steps, and the seconds that nodes must have been watched before a step."""
EARLY = 120.0
"""Seconds after which a step that made calls much slower is taken back."""
MUCH = 1.25
"""Ratio of the mean latencies after and before a step that is taken back early, if that is no chance."""
LATEST = 3600.0
"""Seconds after which a step is kept that so few calls followed that it cannot be judged."""
SHORTEST = 1 / 8
"""The shortest step, as a part of the longest one, in the logarithm of a share."""
LEAST_GAIN = 0.05
"""Share of the mean latency that the suggested weights must save."""
FAR_MORE = 2.0
"""Ratio of the gain that is promised to that which a step promised that was taken back, from which on the nodes count
as changed: the next step is a long one, and does not wait."""


class Measured(Struct, frozen=True):
    """What a network did in a while."""

    seconds: float
    methods: Mapping[str, Histogram]
    """Latency of good answers by method."""
    failing: float = 0.0
    """Share of the calls that failed by a node's fault, 0 to 1."""


class Move(Struct, frozen=True):
    """New weights, and the reason for them in a sentence."""

    weights: dict[str, int]
    why: str
    back: bool = False
    """Is a step taken back?"""
    gain: float = 0.0
    """The share of the mean latency that all of the way was to save."""


class Walk:
    """The way of one network, from the weights in force."""

    def __init__(self, present: Mapping[str, int]) -> None:
        self.weights = dict(present)
        """In force after the last step."""
        self.length = 1.0
        """Of the next step, SHORTEST to 1."""
        self._before = dict(present)
        self._measured: Measured | None = None
        """What was measured before the last step; None once that is judged."""
        self._gain = 0.0
        """What the last step promised."""
        self._failed = 0.0
        """What a step promised that was taken back, until one is kept."""

    def __repr__(self) -> str:
        return f"<Walk at {self.weights}, next step {self.length}>"

    def next(self, tiers: Mapping[str, int], seen: Measured, suggestion: Suggestion, passed: float) -> Move | None:
        """The next move; None where it is too early or nothing is to gain. `made` must be told of it.

        Args:
            tiers: by node, its tier.
            seen: what was measured since the last move.
            suggestion: the weights that follow from that.
            passed: seconds since the last move.
        """
        if self._measured is not None:
            found = _compared(seen, self._measured)
            if (found is None and passed < LATEST) or (found is not None and passed < STEP_EVERY and not _much(found)):
                return None
            if found is not None and found.ratio >= 1.0:
                words = f"calls took {told(found.mean)} after it and {told(found.others)} before"
                return Move(self._before, f"the last step is taken back: {words}", back=True)
            self.length, self._measured, self._failed = min(1.0, 2 * self.length), None, 0.0
        wanted = {id: one.value for id, one in suggestion.weights.items() if self.weights.get(id)}
        changed = bool(self._failed) and suggestion.gain >= FAR_MORE * self._failed
        wait = STEP_EVERY if changed else STEP_EVERY / self.length**2
        if not wanted or suggestion.gain < LEAST_GAIN or passed < wait or seen.seconds < STEP_EVERY:
            return None
        if changed:
            self.length, self._failed = 1.0, 0.0
        elif self._turns(wanted):
            self._shorten()
        weights = {**self.weights, **step(self.weights, wanted, tiers, STEP**self.length)}
        why = f"a step towards the suggested weights: {suggestion.why}"
        return Move(weights, why, gain=suggestion.gain)

    def made(self, move: Move, seen: Measured) -> None:
        """A move was made. `seen`: what was measured before it."""
        self._before, self.weights = self.weights, dict(move.weights)
        if move.back:
            self._before, self._measured, self._failed = self.weights, None, self._gain
            self._shorten()
        else:
            self._measured, self._gain = seen, move.gain

    def _turns(self, wanted: Mapping[str, int]) -> bool:
        """Would a step towards these weights lead back from where the last one led?"""
        had, now = shares_of(self._before), shares_of(self.weights)
        then = shares_of({**self.weights, **wanted})
        return sum((now[id] - had[id]) * (then[id] - now[id]) for id in now) < 0.0

    def _shorten(self) -> None:
        self.length = max(SHORTEST, self.length / 2)


def _much(found: Comparison) -> bool:
    """Did calls become much slower, and not by chance?"""
    return found.ratio >= MUCH and found.low > 1.0


def _compared(after: Measured, before: Measured) -> Comparison | None:
    """The latencies after a step and before it, for the same methods. A call that fails takes the time of another."""
    found = compare(after.methods, before.methods, {name: one.count for name, one in after.methods.items()})
    if found is None:
        return None
    more = max(0.1, 1.0 - before.failing) / max(0.1, 1.0 - after.failing)
    return Comparison(
        found.methods,
        found.calls,
        found.mean * more,
        found.others,
        found.ratio * more,
        found.low * more,
        found.high * more,
        found.error,
    )
