"""One budget for retries and hedges: extra sends are a share of the calls, so that an outage cannot multiply load.

`failure.policy` says which retries are paid at all. Those that clients can bring about at will are paid apart: whatever
they spend, a read that meets a dying node finds the budget as if they had never been.
"""

from __future__ import annotations

from rpcaccel.core.memo import Lapsing
from rpcaccel.core.nodes.sliding_window import SlidingCounts
from rpcaccel.core.replies.failure import Failure, policy

_CALLS, _RETRIES, _HEDGES, _APART, _IN_VAIN = range(5)
"""Columns: what came, and what was spent on what."""
HEDGES_LEAVE = 0.5
"""Share of the budget that hedges leave to retries: what would fail comes before what would be late."""
APART = 0.25
"""Share of the budget, beside the whole, for retries that are paid apart."""
FOUND_FOR = 86_400.0
"""Seconds for which it is remembered that some node has a method that no table describes,"""
NAMES_BYTES = 65_536
"""as far as the names of such methods take no more bytes."""


class Budget:
    """Extra sends allowed over the last `span` seconds: `share` of the calls, and `floor` of them a second in any case.

    The floor lets a quiet proxy retry, and covers the calls in flight at the moment a node dies.
    """

    __slots__ = ("_counts", "_found", "_vain", "floor", "refused", "share", "span")

    def __init__(self, *, share: float = 0.10, floor: float = 3.0, span: float = 10.0) -> None:
        self.share = share
        self.floor = floor
        self.span = span
        self.refused = 0
        """Retries that the budget forbade, ever; those of methods that no table knows are not counted."""
        self._counts = SlidingCounts(5, span=span, slices=10)
        self._found, self._vain = Lapsing(NAMES_BYTES), Lapsing(NAMES_BYTES)
        """Methods that no table describes: those that a node answered, and those counted as looked for in vain."""

    def call(self, now: float) -> None:
        """A call came: it pays in."""
        self._counts.bump(_CALLS, now)

    def left(self, now: float) -> float:
        """Retries still allowed at `now`, beside those that are paid apart or not at all."""
        counts = self._counts.totals(now)
        return self._whole(counts) - counts[_RETRIES] - counts[_HEDGES]

    def take(self, now: float) -> bool:
        """Pay for one extra send; False when there is nothing to pay with."""
        paid = self.left(now) >= 1.0
        if paid:
            self._counts.bump(_RETRIES, now)
        else:
            self.refused += 1
        return paid

    def hedge(self, now: float) -> bool:
        """Pay for one hedge; one that is not sent costs nobody an answer."""
        paid = self.left(now) - HEDGES_LEAVE * self._whole(self._counts.totals(now)) >= 1.0
        if paid:
            self._counts.bump(_HEDGES, now)
        return paid

    def retry(self, after: Failure, now: float, *, unknown: str = "", shut: bool = False) -> bool:
        """Pay for the attempt that follows a failed one; False when it may not be made.

        Args:
            unknown: the method, where no table describes it.
            shut: is the node that failed asked no more? What it had under way goes elsewhere for free: that is a
                bounded number of calls, once each, and none of them is repeated where no node is left.
        """
        if after.sent and unknown:
            return self._searches(unknown, now)
        pays = policy(after.kind).pays if after.sent and not shut else "nothing"
        if pays == "apart":
            return self._apart(now)
        return pays == "nothing" or self.take(now)

    def found(self, unknown: str, now: float) -> None:
        """A node has this method, which no table describes: whatever else clients invent, nodes are asked for it."""
        self._found.hold(unknown, now + FOUND_FOR)

    def in_vain(self, unknown: str, now: float) -> None:
        """Several nodes were asked for this method, which no table describes, and none of them has it. However many
        calls of it come at once, it counts once within the span."""
        if self._vain.until.get(unknown, now) <= now:
            self._counts.bump(_IN_VAIN, now)
            self._vain.hold(unknown, now + self.span)

    def _searches(self, unknown: str, now: float) -> bool:
        """May node after node be asked for this method? Clients can invent names without end: of those that no
        node had, only so many may have been looked for within the span. What was found before is always looked for."""
        counts = self._counts.totals(now)
        if counts[_IN_VAIN] < self.floor * self.span + APART * self.share * counts[_CALLS]:
            return True
        return self._found.until.get(unknown, now) > now

    def _apart(self, now: float) -> bool:
        counts = self._counts.totals(now)
        paid = APART * self._whole(counts) - counts[_APART] >= 1.0
        if paid:
            self._counts.bump(_APART, now)
        else:
            self.refused += 1
        return paid

    def _whole(self, counts: list[int]) -> float:
        return self.share * counts[_CALLS] + self.floor * self.span

    def __repr__(self) -> str:
        return f"<budget {self.share:.0%} + {self.floor:g}/s>"
