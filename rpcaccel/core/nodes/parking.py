"""What a node that limits our rate is not asked, and for how long.

A refusal speaks of its method first: providers count some methods apart, and leave others out of a plan. The whole node
is left alone when several methods were refused and none was answered meanwhile, and no longer than until a probe is
answered. Every rest is some minutes at the most, whatever the node says: the next call after it finds out.
"""

from __future__ import annotations

FIRST, MOST = 1.0, 60.0
"""Seconds of a rest for which the node named no time: doubled each time, up to the second figure."""
LONGEST = 300.0
"""Seconds of the longest rest. Where a quota of a day is used up, a refused call every five minutes costs little; where
the node was wrong, it must not keep itself away for a day."""
SEVERAL = 3
"""Methods that are refused, with none answered between, before the whole node is left alone."""
TOGETHER = 60.0
"""Seconds within which they must be."""
_NEVER = float("-inf")


class Rest:
    """How long one method, or the whole node, is left alone. Monotonic seconds."""

    __slots__ = ("refused_at", "step", "until")

    def __init__(self) -> None:
        self.until = _NEVER
        self.step = 0.0
        """Seconds of the last rest for which the node named no time."""
        self.refused_at = _NEVER

    def begin(self, now: float, retry_after: float | None) -> None:
        """A call was refused. One step for all calls that meet the same limit at once."""
        self.refused_at = now
        if retry_after is not None:
            self.until = max(self.until, now + min(retry_after, LONGEST))
        elif now >= self.until:
            self.step = min(self.step * 2 or FIRST, MOST)
            self.until = now + self.step


class Parking:
    """The rests of one node. Methods are named by their rules, and all that no rule knows are one: there are no more
    than the chain's table has, whatever names clients invent."""

    __slots__ = ("_answered_at", "_looks", "_node", "_seen_at", "methods")

    def __init__(self) -> None:
        self.methods: dict[str, Rest] = {}
        """Those refused since they were last answered."""
        self._node = Rest()
        self._answered_at = _NEVER
        self._looks = 0
        """Looks of the prober of which we heard since the node's rest began."""
        self._seen_at: object = None
        """The prober's last look that was answered."""

    def __repr__(self) -> str:
        return f"<parking, {len(self.methods)} methods refused>"

    @property
    def until(self) -> float:
        """Until when the whole node is left alone."""
        return self._node.until

    def of(self, method: str) -> float:
        """Until when a method is not asked for, the whole node aside."""
        rest = self.methods.get(method)
        return _NEVER if rest is None else rest.until

    def resting(self, now: float) -> dict[str, float]:
        """The methods that are not asked for now, and until when."""
        return {method: rest.until for method, rest in self.methods.items() if now < rest.until}

    def refused(self, method: str, now: float, retry_after: float | None, *, own_limiter: bool = False) -> None:
        """The node refused a call to keep our rate down.

        Args:
            retry_after: seconds it named, if any.
            own_limiter: the node counts this method by itself (`Rule.limiter`): that says nothing of others.
        """
        rest = self.methods.setdefault(method, Rest())
        if own_limiter:
            rest.begin(now, FIRST if retry_after is None else retry_after)
            rest.refused_at = _NEVER
            return
        rest.begin(now, retry_after)
        since = max(self._answered_at, now - TOGETHER)
        if sum(rest.refused_at > since for rest in self.methods.values()) >= SEVERAL:
            self._node.begin(now, retry_after)
            self._looks = 0

    def answered(self, method: str, now: float) -> None:
        """The node answered a call."""
        self._answered_at = now
        rest = self.methods.get(method)
        if rest is not None and now >= rest.until:  # not one that was sent before the method was refused
            del self.methods[method]
        if now >= self._node.until:
            self._node.step = 0.0

    def probed(self, seen_at: object) -> None:
        """The prober's last look was answered; `seen_at` names it. A look answered after the node's rest began ends
        that: what was refused is not everything. The first look that is told after that may be older; the second, which
        was not yet over when the first was told, is not."""
        if seen_at == self._seen_at:
            return
        self._seen_at = seen_at
        self._looks += 1
        if self._looks > 1:
            self._node.until = _NEVER
