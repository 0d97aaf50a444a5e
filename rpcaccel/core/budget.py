"""One budget for retries and hedges: extra sends are a share of the calls, so that an outage cannot multiply load."""

from __future__ import annotations

from rpcaccel.core.window import SlidingCounts

_CALLS, _EXTRAS = 0, 1


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
        """Extra sends that the budget forbade, ever."""
        self._counts = SlidingCounts(2, span=span, slices=10)

    def call(self, now: float) -> None:
        """A call came: it pays in."""
        self._counts.bump(_CALLS, now)

    def left(self, now: float) -> float:
        """Extra sends still allowed at `now`."""
        calls, extras = self._counts.totals(now)
        return self.share * calls + self.floor * self.span - extras

    def take(self, now: float, keep: float = 0.0) -> bool:
        """Pay for one extra send; False when there is nothing to pay with.

        Args:
            keep: share of the whole budget that has to be left over, 0..1.
        """
        calls, extras = self._counts.totals(now)
        whole = self.share * calls + self.floor * self.span
        if whole * (1.0 - keep) - extras < 1.0:
            self.refused += not keep  # a hedge that is not sent costs nobody an answer
            return False
        self._counts.bump(_EXTRAS, now)
        return True

    def __repr__(self) -> str:
        return f"<budget {self.share:.0%} + {self.floor:g}/s>"
