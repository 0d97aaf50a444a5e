"""A circuit breaker keeps calls away from a node that fails, and lets a few trials through to see if it recovered.

    closed     Every call passes. A run of failures, or too large a share of failures, opens the breaker.
    open       No call passes until the rest is over (each rest is longer than the last) or a probe is answered. While
               probes go unanswered the breaker stays open, because a trial is a client's call.
    half-open  A bounded number of trials passes at a time. Light calls and calls whose cost a client chooses (which may
               hang) are counted apart. One failure opens the breaker again, enough successes close it.

Each call holds a permit, a number, and gives it back exactly once (core.nodes.node). The verdict `ignore` (a rate
limit, a cancel) gives a trial back unused; a trial that is never given back would shut the node for ever. A permit from
before the last move has no effect.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from rpcaccel.core.nodes.sliding_window import SlidingCounts

Verdict = Literal["failure", "ignore", "success"]


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


CLOSED, _OPEN, _HALF_OPEN = BreakerState  # looked up once (core.plan.planner)


class BreakerEvent(StrEnum):
    """An event that moves a breaker to another state."""

    TRIPPED = "tripped"
    RESTED = "rested"
    INVITED = "invited"
    TRIAL_FAILED = "trial-failed"
    TRIALS_PASSED = "trials-passed"


MOVES: dict[tuple[BreakerState, BreakerEvent], BreakerState] = {
    (BreakerState.CLOSED, BreakerEvent.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerEvent.RESTED): BreakerState.HALF_OPEN,
    (BreakerState.OPEN, BreakerEvent.INVITED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.TRIAL_FAILED): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.TRIALS_PASSED): BreakerState.CLOSED,
}
"""Every legal move. Any other raises KeyError."""


class BreakerPolicy(Struct, frozen=True, kw_only=True):
    """When a breaker opens, and how it closes again."""

    failures: int = 5
    """Consecutive failures that open the breaker."""
    ratio: float = 0.5
    """Share of failures within `span` that opens the breaker."""
    volume: int = 20
    """Calls within `span` that are needed before `ratio` applies."""
    span: float = 10.0
    """Seconds over which the share of failures is counted."""
    rest: float = 1.0
    """Seconds of the first rest; each further rest is twice as long, up to `rest_max`."""
    rest_max: float = 15.0
    trials: int = 1
    """Trials under way at once while the breaker is half-open."""
    passes: int = 2
    """Successful trials that close the breaker."""


SUCCESS, FAILURE = 0, 1
"""Columns of `Breaker.counts`."""


class Breaker:
    __slots__ = ("_passed", "_trials_out", "changed_at", "counts", "held", "in_row", "permit", "rest_until", "rests",
                 "settings", "state")  # fmt: skip

    def __init__(self, settings: BreakerPolicy | None = None) -> None:
        self.settings = settings or BreakerPolicy()
        self.state = BreakerState.CLOSED
        self.changed_at = float("-inf")
        """Monotonic time of the last move (seconds)."""
        self.rest_until = float("-inf")
        self.rests = 0
        """Rests since the breaker was last closed for longer than `rest_max`."""
        self.in_row = 0
        """Consecutive failures."""
        self.held = False
        """The last probe went unanswered, so the breaker stays open."""
        self.permit = 0
        """The permit of a call that is no trial; the permit of a trial is one more. Each move makes new permits."""
        self._trials_out = [0, 0]
        """Trials under way: at index 0 by other calls, at index 1 by light calls."""
        self._passed = 0
        self.counts = SlidingCounts(2, span=self.settings.span, slices=10)
        """Recent verdicts while the breaker is closed (columns SUCCESS and FAILURE)."""

    def allows(self, now: float, *, light: bool = True) -> bool:
        """May a call pass at `now`? Changes nothing."""
        if self.state is CLOSED:
            return True
        if self.state is _OPEN:
            return now >= self.rest_until and not self.held
        return self._trials_out[light] < self.settings.trials

    def force(self, now: float, *, light: bool = True) -> int:
        """A permit in any state, for a call that must be sent to this node.

        Without a free trial, the call may end the rest early by succeeding, but its failure never lengthens the rest.
        """
        if self.state is _OPEN and now >= self.rest_until:
            self._move(BreakerEvent.RESTED, now)
        trial = self.state is _HALF_OPEN and self._trials_out[light] < self.settings.trials
        self._trials_out[light] += trial
        return self.permit + trial

    def probed(self, now: float, *, answered: bool) -> None:
        """Report a probe of the node: an answered probe makes an open breaker half-open."""
        self.held = not answered
        if answered and self.state is _OPEN:
            self._move(BreakerEvent.INVITED, now)

    def learn(self, permit: int, verdict: Verdict, now: float, *, light: bool = True) -> None:
        """Take a permit back with the verdict on its call. Raises RuntimeError for a trial that was given back
        before."""
        trial = permit - self.permit
        if trial not in (0, 1):
            return
        if trial:
            if not self._trials_out[light]:
                raise RuntimeError("this trial was given back before")
            self._trials_out[light] -= 1
        if verdict == "success" and self.state is CLOSED:
            self.in_row = 0
            self.counts.bump(SUCCESS, now)
        elif verdict == "success":
            self._learn_success(now)
        elif verdict == "failure":
            self._learn_failure(now, trial=bool(trial))

    def _learn_success(self, now: float) -> None:
        self.in_row = 0
        if self.state is _OPEN:
            self._move(BreakerEvent.INVITED, now)
        self._passed += 1
        if self._passed >= self.settings.passes:
            self._move(BreakerEvent.TRIALS_PASSED, now)

    def _learn_failure(self, now: float, *, trial: bool) -> None:
        self.in_row += 1
        if self.state is _HALF_OPEN and trial:
            self._move(BreakerEvent.TRIAL_FAILED, now)
        elif self.state is CLOSED:
            self.counts.bump(FAILURE, now)
            if self._sick(now):
                self._move(BreakerEvent.TRIPPED, now)

    def _sick(self, now: float) -> bool:
        if self.in_row >= self.settings.failures:
            return True
        good, bad = self.counts.totals(now)
        return good + bad >= self.settings.volume and bad >= self.settings.ratio * (good + bad)

    def _move(self, event: BreakerEvent, now: float) -> None:
        state = MOVES[self.state, event]
        if state is _OPEN:
            well_for = now - self.changed_at if self.state is CLOSED else 0.0
            self.rests = 1 if well_for > self.settings.rest_max else self.rests + 1
            self.rest_until = now + min(
                self.settings.rest * 2.0 ** min(self.rests - 1, 20),
                self.settings.rest_max,
            )
        self.counts.clear()
        self._trials_out = [0, 0]
        self._passed = self.in_row = 0
        self.permit += 2
        self.state = state
        self.changed_at = now

    def __repr__(self) -> str:
        return f"<breaker {self.state.value}>"
