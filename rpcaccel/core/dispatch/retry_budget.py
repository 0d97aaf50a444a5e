"""The retry budget: retries and hedges are limited to a share of the calls, so that an outage cannot multiply load.

`failure.policy` says which retries are paid from the budget. Retries that clients can provoke have a budget of their
own, so that they never use up what a read needs that meets a dying node.
"""

from __future__ import annotations

from rpcaccel.core.memo import Lapsing
from rpcaccel.core.nodes.sliding_window import SlidingCounts
from rpcaccel.core.replies.failure import CONTRADICTABLE, Failure, policy

_CALLS, _RETRIES, _HEDGES, _APART, _IN_VAIN, _FAILED_AGAIN, _DOUBTS = range(7)
"""Columns of the counts: calls, and what was spent on retries, hedges, retries paid apart, searches in vain, retries
paid apart that failed again, and second opinions on results that say that there is nothing."""
HEDGES_LEAVE = 0.5
"""Share of the budget that hedges leave to retries: avoiding failures comes before avoiding delays."""
SEPARATE_SHARE = 0.25
"""Size of the separate budget for retries that clients can provoke, as a share of the whole budget."""
UNPROVEN = 64
"""Retries after errors that a node alone may be at fault for, which may be made in any case while none of the last ones
failed again: so long, such an error is one of a single node. A result returns what its retry cost."""
FOUND_FOR = 86_400.0
"""Seconds for which it is remembered that some node has a method that no table describes."""
NAMES_BYTES = 65_536
"""Bytes for the names of such methods, because clients can invent names."""


def unpaid(after: Failure, *, unknown: str = "") -> str:
    """Which part of the budget was used up when the attempt after a failed one was not paid; arguments as for
    `Budget.retry`."""
    if unknown:
        return "too many methods that no rule names were looked for on every node in vain lately"
    if policy(after.kind).pays == "apart":
        return "the budget for errors that the call may be at fault for was used up"
    return "the budget for retries was used up"


class Budget:
    """Allows extra sends over the last `span` seconds: `share` of the calls, plus `floor` a second.

    The floor lets a quiet proxy retry, and covers the calls in flight at the moment when a node dies.
    """

    __slots__ = ("_counted_at", "_counts", "_found", "_vain", "calls", "floor", "refused", "share", "span")

    def __init__(self, *, share: float = 0.10, floor: float = 3.0, span: float = 10.0) -> None:
        self.share = share
        self.floor = floor
        self.span = span
        self._counted_at = float("-inf")
        self.calls = 0
        """Calls counted since the start."""
        self.refused = 0
        """Retries that the budget forbade since the start, without those of methods that no table describes."""
        self._counts = SlidingCounts(7, span=span, slices=10)
        self._found, self._vain = Lapsing(NAMES_BYTES), Lapsing(NAMES_BYTES)
        """Methods that no table describes: those that a node answered, and those that were searched in vain."""

    def call(self, now: float) -> None:
        """Count a call, which adds to the budget."""
        self.calls += 1
        if now >= self._counts.ends:
            self._counts.turn(now)
        self._counts.current[_CALLS] += 1

    def count_up_to(self, calls: int, now: float) -> None:
        """Count the calls that another budget counted since this was called last.

        Args:
            calls: `calls` of the other budget. When more than `span` seconds have passed, the calls are taken to be
                spread over them evenly, and those of the last `span` seconds are counted.
        """
        new, passed = calls - self.calls, now - self._counted_at
        self.calls, self._counted_at = calls, now
        self._counts.bump(_CALLS, now, int(new * self.span / passed) if passed > self.span else new)

    def left(self, now: float) -> float:
        """Retries that the budget allows at `now`."""
        counts = self._counts.totals(now)
        return self._whole(counts) - counts[_RETRIES] - counts[_HEDGES]

    def take(self, now: float) -> bool:
        """Pay for one extra send; False when the budget is used up."""
        paid = self.left(now) >= 1.0
        if paid:
            self._counts.bump(_RETRIES, now)
        else:
            self.refused += 1
        return paid

    def hedge(self, now: float) -> bool:
        """Pay for one hedge; False when the budget is used up to the share that is left to retries."""
        paid = self.left(now) - HEDGES_LEAVE * self._whole(self._counts.totals(now)) >= 1.0
        if paid:
            self._counts.bump(_HEDGES, now)
        return paid

    def retry(self, after: Failure, now: float, *, unknown: str = "", shut: bool = False, told: bool = False) -> bool:
        """Pay for the attempt after a failed one; False when it may not be made.

        Args:
            told: `answered_elsewhere` or `failed_again` is called once the attempt has ended.
            unknown: the method, if no table describes it.
            shut: the node that failed is now shut out. Its calls go to other nodes for free: their number is bounded
                by the calls in flight, and each moves once.
        """
        if after.sent and unknown:
            return self._searches(unknown, now)
        pays = policy(after.kind).pays if after.sent and not shut else "nothing"
        if pays == "apart":
            return self._apart(now, UNPROVEN if told and after.kind in CONTRADICTABLE else 0)
        return pays == "nothing" or self.take(now)

    def found(self, unknown: str, now: float) -> None:
        """Note that a node has this method, which no table describes. Nodes are then always asked for it."""
        self._found.hold(unknown, now + FOUND_FOR)

    def in_vain(self, unknown: str, now: float) -> None:
        """Note that several nodes were asked for this method, which no table describes, and none of them has it.

        The method counts once within the span, however many of its calls come at once.
        """
        if self._vain.until.get(unknown, now) <= now:
            self._counts.bump(_IN_VAIN, now)
            self._vain.hold(unknown, now + self.span)

    def _searches(self, unknown: str, now: float) -> bool:
        """May one node after the other be asked for this method?

        Clients can invent names, so the number of methods that are searched in vain within the span is bounded. A
        method that some node had is always searched.
        """
        counts = self._counts.totals(now)
        if counts[_IN_VAIN] < self.floor * self.span + SEPARATE_SHARE * self.share * counts[_CALLS]:
            return True
        return self._found.until.get(unknown, now) > now

    def doubt(self, now: float, *, dropped: bool = False, known: bool = False) -> bool:
        """Pay for a second opinion on a result that says that there is nothing; False when these are used up.

        Args:
            dropped: the node is known to have dropped old blocks, so that more may be spent on its word.
            known: what is asked for is known to be there, so that the opinion is always paid for.
        """
        counts = self._counts.totals(now)
        paid = known or (1.0 if dropped else SEPARATE_SHARE) * self._whole(counts) - counts[_DOUBTS] >= 1.0
        if paid:
            self._counts.bump(_DOUBTS, now)
        return paid

    def rightly_doubted(self, now: float) -> None:
        """Return what a second opinion cost: another node had what the first one said was not there, or there was no
        other node."""
        self._counts.bump(_DOUBTS, now, -1)

    def found_again(self, now: float) -> None:
        """Return what it cost to ask an address again that had not had something, as it had it now: and as much again,
        so that it goes on being asked while it has every second one."""
        self._counts.bump(_DOUBTS, now, -2 if self._counts.totals(now)[_DOUBTS] > 1 else -1)

    def answered_elsewhere(self, now: float) -> None:
        """Return what a retry cost that was paid apart: another node had a result for the same call."""
        self._counts.bump(_APART, now, -1)

    def failed_again(self, after: Failure, now: float) -> None:
        """Note that a retry failed like the attempt before, so that the call may be what is wrong."""
        if policy(after.kind).pays == "apart":
            self._counts.bump(_FAILED_AGAIN, now)

    def left_apart(self, now: float, unproven: int = UNPROVEN) -> float:
        """Retries at `now` that are paid apart, because clients can provoke them; `unproven` of them in any case while
        none of the last ones failed again."""
        counts = self._counts.totals(now)
        allowed = SEPARATE_SHARE * self._whole(counts)
        return (max(allowed, unproven) if allowed and not counts[_FAILED_AGAIN] else allowed) - counts[_APART]

    def _apart(self, now: float, unproven: int) -> bool:
        paid = self.left_apart(now, unproven) >= 1.0
        if paid:
            self._counts.bump(_APART, now)
        else:
            self.refused += 1
        return paid

    def _whole(self, counts: list[int]) -> float:
        return self.share * counts[_CALLS] + self.floor * self.span

    def __repr__(self) -> str:
        return f"<budget {self.share:.0%} + {self.floor:g}/s>"
