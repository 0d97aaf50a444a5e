"""One budget for retries and hedges: extra sends are a share of the calls, so that an outage cannot multiply load.

`failure.policy` says which retries are paid at all. Those that clients can bring about at will are paid apart: whatever
they spend, a read that meets a dying node finds the budget as if they had never been.
"""

from __future__ import annotations

from rpcaccel.core.failure import Failure, policy
from rpcaccel.core.window import SlidingCounts

_CALLS, _RETRIES, _HEDGES, _APART, _UNKNOWN_METHODS = range(5)
"""Columns: what came, and what was spent on what."""
HEDGES_LEAVE = 0.5
"""Share of the budget that hedges leave to retries: what would fail comes before what would be late."""
APART = 0.25
"""Share of the budget, beside the whole, for each kind of retry that is paid apart."""


class Budget:
    """Extra sends allowed over the last `span` seconds: `share` of the calls, and `floor` of them a second in any case.

    The floor lets a quiet proxy retry, and covers the calls in flight at the moment a node dies.
    """

    __slots__ = ("_counts", "floor", "refused", "share", "span")

    def __init__(self, *, share: float = 0.10, floor: float = 3.0, span: float = 10.0) -> None:
        self.share = share
        self.floor = floor
        self.span = span
        self.refused = 0
        """Retries that the budget forbade, ever; those of methods that no table knows are not counted."""
        self._counts = SlidingCounts(5, span=span, slices=10)

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

    def retry(self, after: Failure, now: float, *, known: bool = True) -> bool:
        """Pay for the attempt that follows a failed one; False when it may not be made.

        Args:
            known: does a table describe the method? Clients can invent the names of others without end, and each of
                them is one that no node has.
        """
        pays = policy(after.kind).pays if after.sent else "nothing"
        if after.sent and not known:
            return self._apart(_UNKNOWN_METHODS, now)
        if pays == "apart":
            paid = self._apart(_APART, now)
            self.refused += not paid
            return paid
        return pays == "nothing" or self.take(now)

    def _apart(self, column: int, now: float) -> bool:
        counts = self._counts.totals(now)
        paid = APART * self._whole(counts) - counts[column] >= 1.0
        if paid:
            self._counts.bump(column, now)
        return paid

    def _whole(self, counts: list[int]) -> float:
        return self.share * counts[_CALLS] + self.floor * self.span

    def __repr__(self) -> str:
        return f"<budget {self.share:.0%} + {self.floor:g}/s>"
