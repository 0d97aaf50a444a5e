"""Parks a node, or one of its methods, after the node refused calls because of their rate.

A refusal parks its method first: providers count some methods apart, and exclude others from a plan. The whole node is
parked when several methods were refused and none was answered meanwhile, and at most until a probe is answered. A rest
lasts some minutes at the most, whatever the node says; the next call after it shows whether the limit still holds.
"""

from __future__ import annotations

FIRST, MOST = 1.0, 60.0
"""Seconds of the first and the longest rest for which the node named no time; each rest doubles the one before."""
LONGEST = 300.0
"""Seconds of the longest rest. When a daily quota is used up, a refused call every five minutes costs little; when the
node was wrong, it must not be parked for a day."""
SEVERAL = 3
"""Refused methods, with no answer between, after which the whole node is parked."""
TOGETHER = 60.0
"""Seconds within which the methods must be refused."""
_NEVER = float("-inf")


class Rest:
    """The rest of one method or of the whole node. Times are monotonic seconds."""

    __slots__ = ("refused_at", "step", "until")

    def __init__(self) -> None:
        self.until = _NEVER
        self.step = 0.0
        """Seconds of the last rest for which the node named no time."""
        self.refused_at = _NEVER

    def begin(self, now: float, retry_after: float | None) -> None:
        """Begin or extend the rest after a refusal; calls that meet the same limit at once count as one step."""
        self.refused_at = now
        if retry_after is not None:
            self.until = max(self.until, now + min(retry_after, LONGEST))
        elif now >= self.until:
            self.step = min(self.step * 2 or FIRST, MOST)
            self.until = now + self.step


class Parking:
    """The rests of one node. Methods are the names of rules, and all methods without a rule share one name, so the
    number of rests is bounded by the chain's table."""

    __slots__ = ("_looks", "_node", "_seen_at", "answered_at", "methods", "troubled")

    def __init__(self) -> None:
        self.methods: dict[str, Rest] = {}
        """The rests of methods that were refused since they were last answered."""
        self._node = Rest()
        self.answered_at = _NEVER
        """The time of the last answered call."""
        self.troubled = False
        """Is anything left of a refusal? While it is False, neither the node nor a method is parked, and an answered
        call changes nothing but `answered_at`."""
        self._looks = 0
        """Answered probes reported since the node's rest began."""
        self._seen_at: object = None
        """Names the last answered probe."""

    def __repr__(self) -> str:
        return f"<parking, {len(self.methods)} methods refused>"

    @property
    def until(self) -> float:
        """The time until which the whole node is parked."""
        return self._node.until

    def of(self, method: str) -> float:
        """The time until which a method is parked, apart from the whole node."""
        rest = self.methods.get(method)
        return _NEVER if rest is None else rest.until

    def resting(self, now: float) -> dict[str, float]:
        """The methods that are parked now, and the time until which they are."""
        return {method: rest.until for method, rest in self.methods.items() if now < rest.until}

    def refused(self, method: str, now: float, retry_after: float | None, *, own_limiter: bool = False) -> None:
        """Note that the node refused a call because of the rate.

        Args:
            retry_after: the seconds that the node named, if any.
            own_limiter: the node limits this method by itself (`Rule.limiter`), which says nothing about others.
        """
        self.troubled = True
        rest = self.methods.setdefault(method, Rest())
        if own_limiter:
            rest.begin(now, FIRST if retry_after is None else retry_after)
            rest.refused_at = _NEVER
            return
        rest.begin(now, retry_after)
        since = max(self.answered_at, now - TOGETHER)
        if sum(rest.refused_at > since for rest in self.methods.values()) >= SEVERAL:
            self._node.begin(now, retry_after)
            self._looks = 0

    def answered(self, method: str, now: float) -> None:
        """Note that the node answered a call."""
        self.answered_at = now
        rest = self.methods.get(method)
        if rest is not None and now >= rest.until:  # a call sent before the refusal does not count
            del self.methods[method]
        if now >= self._node.until:
            self._node.step = 0.0
            self.troubled = bool(self.methods)

    def probed(self, seen_at: object) -> None:
        """Note an answered probe, named by `seen_at`. A probe answered after the node's rest began ends that rest.

        The first probe that is reported after the rest began may be older than the rest. The second one, which was not
        over when the first was reported, cannot be.
        """
        if seen_at == self._seen_at:
            return
        self._seen_at = seen_at
        self._looks += 1
        if self._looks > 1:
            self._node.until = _NEVER
