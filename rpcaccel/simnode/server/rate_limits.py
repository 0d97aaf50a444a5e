"""The rate limiters of a Harmony node (docs/harmony.md section 3).

Each call asks `Allow()` and then `Wait()`, so a call on an idle node takes two tokens; a call that would wait longer
than five seconds is refused at once.
"""

from __future__ import annotations

from rpcaccel.simnode.methods.registry import RpcError

WAIT = 5.0
"""Seconds a call may wait."""
SMALL: dict[str, tuple[float, float]] = {
    "staking_network_info": (5.0, 10.0),
    "super_committees": (5.0, 10.0),
    "utility_metrics": (5.0, 10.0),
    "all_validators": (1.0, 3.0),
    "all_delegations": (1.0, 3.0),
    "delegations": (5.0, 20.0),
}
"""Tokens a second and burst of the six limiters that a node always has."""
REFUSED = "rate: Wait(n=1) would exceed context deadline"


class GoTokenBucket:
    """A token bucket as in Go's x/time/rate."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = 0.0

    def __repr__(self) -> str:
        return f"<GoTokenBucket {self._tokens:g}/{self._burst:g}>"

    def take(self, now: float) -> float:
        """Seconds that the call has to wait. Raises RpcError when that is more than WAIT."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
        wait = max(0.0, (1 - self._tokens) / self._rate)
        if wait > WAIT:
            raise RpcError(-32000, REFUSED)
        self._tokens -= 1
        return wait


class Limiters:
    """The buckets of one node: one for each limiter and namespace."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str, float], GoTokenBucket] = {}

    def wait(self, name: str, space: str, now: float, *, small: bool, rate: float) -> float:
        """Seconds that a call of a method with limiter `name` waits. Raises RpcError when the call is refused."""
        known = SMALL.get(name)
        if known is None:
            known = (rate, rate)
        elif not small:
            return 0.0
        if known[0] <= 0:
            return 0.0
        key = (name, space, known[0])
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = GoTokenBucket(*known)
        return bucket.take(now)
