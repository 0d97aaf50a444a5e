"""One client as the proxy holds it to its limits: what it may call, how fast, how much at once.

A limit of 0 is no limit. Refusals are values; the code for "too much" is EIP-1474's.

A token bucket: so many tokens a second, and a store of them for those who come in bursts.

API keys: long random texts, of which only the hash is kept.

A key has 256 random bits, so that its hash cannot be searched for and a fast one is right (a slow one would only be a
way to keep the proxy busy). Keys are looked up by their hash: what a lookup's time tells about hashes tells nothing
about keys.
"""

from __future__ import annotations

import base64
import hashlib

from msgspec import Struct

from rpcaccel.core.plan.permission import Permission
from rpcaccel.core.stats.counters import ClientCell
from rpcaccel.core.wire import jsonrpc


class TokenBucket:
    """Starts full. Times are seconds on the caller's clock."""

    __slots__ = ("_at", "burst", "level", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """`rate`: tokens a second, above 0; `burst`: tokens it holds at the most."""
        self.rate = rate
        self.burst = burst
        self.level = burst
        self._at = now

    def __repr__(self) -> str:
        return f"<bucket {self.level:g} of {self.burst:g}, {self.rate:g}/s>"

    def take(self, cost: float, now: float) -> float:
        """Take `cost` tokens: 0.0 when they were taken, else the seconds after which they may be, and nothing taken.

        What costs more than the bucket holds is let through when it is full, and paid off afterwards.
        """
        level = self._fill(now)
        wanted = min(cost, self.burst)
        if level >= wanted:
            self.level = level - cost
            return 0.0
        return (wanted - level) / self.rate

    def charge(self, cost: float, now: float) -> None:
        """Take what was spent elsewhere. It may leave a debt of one full bucket, and never more."""
        self.level = max(self._fill(now) - cost, -self.burst)

    def adopt(self, rate: float, burst: float, now: float) -> None:
        """New settings; what is left stays, within the new size."""
        self._fill(now)
        self.rate = rate
        self.burst = burst
        self.level = min(self.level, burst)

    def _fill(self, now: float) -> float:
        if now > self._at:
            self.level = min(self.burst, self.level + (now - self._at) * self.rate)
            self._at = now
        return self.level


ANONYMOUS = "anonymous"
"""The name under which callers without a key are counted, all together."""


class Limits(Struct, frozen=True, kw_only=True):
    """What a client may do."""

    rate: float = 0.0
    """Tokens a second; a call costs one, a heavy one more."""
    burst: float = 0.0
    """Tokens it may save up; 0: those of one second."""
    heavy_cost: int = 10
    """Tokens of a method whose rule calls it heavy."""
    concurrency: int = 0
    """Requests answered at once, a batch being one."""
    batch: int = 0
    """Calls in one batch."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Is anything limited?"""
        return bool(self.rate or self.concurrency or self.batch or self.allow or self.deny)


class LimitRefusal(Struct, frozen=True):
    """Why a client does not get what it asked for."""

    reason: str
    """A word from a fixed set: a metric label."""
    message: str
    code: int = jsonrpc.LIMIT_EXCEEDED
    http: int = 429
    retry_after: float | None = None
    """Seconds."""

    @property
    def error(self) -> bytes:
        """The raw error object."""
        return jsonrpc.error_object(self.code, self.message)


NO_KEY = LimitRefusal("no-key", "an API key is needed: send it as X-Api-Key", jsonrpc.INVALID_REQUEST, 401)
UNKNOWN_KEY = LimitRefusal("unknown-key", "the API key is not known", jsonrpc.INVALID_REQUEST, 401)


class Client:
    """Its state in one worker; limits are changed in place, so that nobody gets a new burst by a change of settings."""

    __slots__ = ("_bucket", "_permission", "cell", "in_flight", "limits", "name", "seen_at", "spent")

    def __init__(self, name: str, limits: Limits, cell: ClientCell, now: float) -> None:
        self.name = name
        self.cell = cell
        self.in_flight = 0
        self.seen_at = now
        self.spent = 0
        """Tokens taken since `settle` was last called."""
        self._bucket: TokenBucket | None = None
        self.adopt(limits, now)

    def __repr__(self) -> str:
        return f"<client {self.name} {self._bucket!r} {self.in_flight} in flight>"

    def adopt(self, limits: Limits, now: float) -> None:
        """New limits."""
        self.limits = limits
        self._permission = Permission(limits.allow, limits.deny) if limits.allow or limits.deny else None
        burst = limits.burst or max(limits.rate, 1.0)
        if not limits.rate:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(limits.rate, burst, now)
        else:
            self._bucket.adopt(limits.rate, burst, now)

    def enter(self, now: float) -> LimitRefusal | None:
        """A request begins; `leave` ends it, unless it was refused."""
        self.seen_at = self.cell.seen_at = now
        most = self.limits.concurrency
        if most and self.in_flight >= most:
            message = f"too many requests at once: {most} are answered at the same time"
            return self._refused(LimitRefusal("concurrency", message, retry_after=1.0))
        self.in_flight += 1
        self.cell.in_flight += 1
        return None

    def leave(self) -> None:
        """A request that was let in has ended."""
        self.in_flight -= 1
        self.cell.in_flight -= 1

    def batch(self, size: int) -> LimitRefusal | None:
        """May a batch have so many calls?"""
        most = self.limits.batch
        if not most or size <= most:
            return None
        message = f"batch too long: {size} calls, at most {most} are taken from you"
        return self._refused(LimitRefusal("batch", message, jsonrpc.INVALID_REQUEST, 200))

    def call(self, method: str, heavy: bool, now: float) -> LimitRefusal | None:
        """May this method be called now? Takes what it costs."""
        self.cell.calls += 1
        if self._permission is not None and not self._permission.allows(method):
            message = f"the method {method} is not allowed for you"
            return self._refused(LimitRefusal("method", message, jsonrpc.METHOD_NOT_FOUND, 200))
        bucket = self._bucket
        if bucket is None:
            return None
        tokens = self.limits.heavy_cost if heavy else 1
        wait = bucket.take(tokens, now)
        if not wait:
            self.spent += tokens
            return None
        message = f"too many calls: {bucket.rate:g} a second are taken"
        return self._refused(LimitRefusal("rate", message, retry_after=wait))

    def passes(self, method: str, heavy: bool, now: float) -> bool:
        """A request of one call that is answered at once: `enter`, `call` and `leave` together, where none of them
        refuses. Where one would, nothing is taken and nothing counted."""
        limits, bucket = self.limits, self._bucket
        if limits.concurrency and self.in_flight >= limits.concurrency:
            return False
        if self._permission is not None and not self._permission.allows(method):
            return False
        if bucket is not None:
            tokens = limits.heavy_cost if heavy else 1
            if bucket.take(tokens, now):
                return False
            self.spent += tokens
        self.cell.calls += 1
        self.seen_at = self.cell.seen_at = now
        return True

    @property
    def shares(self) -> bool:
        """Is there something to settle with other workers?"""
        return self._bucket is not None

    def settle(self) -> int:
        """The tokens taken since the last time."""
        spent, self.spent = self.spent, 0
        return spent

    def charge(self, tokens: float, now: float) -> None:
        """The same client spent these tokens at another worker."""
        if self._bucket is not None:
            self._bucket.charge(tokens, now)

    def _refused(self, refusal: LimitRefusal) -> LimitRefusal:
        self.cell.refused(refusal.reason)
        return refusal


BEGINNING = "rpcaccel_"
"""So that a key found in a log or a repository is recognised for what it is."""
RANDOM_BYTES = 32
LONGEST = 256
"""Characters: longer texts are no keys and not hashed."""


def make(chance: bytes) -> str:
    """A key of RANDOM_BYTES random bytes, in letters that are safe in a path and a header."""
    return BEGINNING + base64.urlsafe_b64encode(chance).decode().rstrip("=")


def hashed(key: str) -> str:
    """What the settings hold of a key."""
    return f"sha256:{hashlib.sha256(key.encode(errors='backslashreplace')).hexdigest()}"
