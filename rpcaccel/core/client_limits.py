"""What clients may do: which methods they may call, how fast, and how much at once. API keys tell clients apart.

Methods are allowed and denied by names and fnmatch patterns (case-sensitive): for one client, and for everybody.

The rate is limited by a token bucket, which allows bursts. A limit of 0 is no limit. Refusals are values; their code is
EIP-1474's "limit exceeded".

The settings hold only hashes of API keys. A key has 256 random bits, so a fast hash is safe: it cannot be reversed by
search, and a slow hash would only let strangers keep the proxy busy. Keys are looked up by their hash, so the time of
a lookup tells nothing about a key.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from msgspec import Struct

from rpcaccel.core.directives import NO_DIRECTIVES, DirectiveName, Directives
from rpcaccel.core.plan.rules import any_of
from rpcaccel.core.stats.counters import ClientCell
from rpcaccel.core.wire import jsonrpc


class TokenBucket:
    """A token bucket that starts full. Times are seconds on the caller's clock."""

    __slots__ = ("_at", "burst", "level", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """`rate`: tokens added a second, above 0; `burst`: tokens that the bucket holds at the most."""
        self.rate = rate
        self.burst = burst
        self.level = burst
        self._at = now

    def __repr__(self) -> str:
        return f"<bucket {self.level:g} of {self.burst:g}, {self.rate:g}/s>"

    def take(self, cost: float, now: float) -> float:
        """Take `cost` tokens and return 0.0; without enough tokens, take none and return the seconds to wait.

        A cost above the bucket's size is granted when the bucket is full, and leaves a debt.
        """
        level = self._fill(now)
        wanted = min(cost, self.burst)
        if level >= wanted:
            self.level = level - cost
            return 0.0
        return (wanted - level) / self.rate

    def charge(self, cost: float, now: float) -> None:
        """Take tokens that were spent at another worker. The debt is at most one full bucket."""
        self.level = max(self._fill(now) - cost, -self.burst)

    def adopt(self, rate: float, burst: float, now: float) -> None:
        """Apply a new rate and size; the tokens left stay, up to the new size."""
        self._fill(now)
        self.rate = rate
        self.burst = burst
        self.level = min(self.level, burst)

    def _fill(self, now: float) -> float:
        if now > self._at:
            self.level = min(self.burst, self.level + (now - self._at) * self.rate)
            self._at = now
        return self.level


class Permission:
    """The methods that one client may call. `deny` comes before `allow`."""

    __slots__ = ("_allow", "_deny", "allow", "deny")

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> None:
        """An empty `allow` allows every method that is not denied."""
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self._allow = any_of(allow)
        self._deny = any_of(deny)

    def __repr__(self) -> str:
        return f"<permission allow {','.join(self.allow) or '*'} deny {','.join(self.deny) or '-'}>"

    def allows(self, method: str) -> bool:
        """May this method be called?"""
        if self._deny is not None and self._deny.match(method):
            return False
        return self._allow is None or self._allow.match(method) is not None


class Exposure:
    """The methods that the proxy accepts from anybody."""

    __slots__ = ("_deny", "_expose")

    def __init__(self, deny: Sequence[str] = (), expose: Sequence[str] = ()) -> None:
        """`deny` is always refused; `expose` is accepted although the chain's table denies it."""
        self._deny = any_of(deny)
        self._expose = any_of(expose)

    def refusal(self, method: str, *, denied: bool) -> str:
        """A sentence for the caller saying why a method is refused; empty when it is accepted.

        `denied`: the chain's table denies the method.
        """
        if self._deny is not None and self._deny.match(method):
            return f"the method {method} is refused by this proxy"
        if denied and (self._expose is None or not self._expose.match(method)):
            return (
                f"the method {method} is for a node's operator and refused by this proxy, "
                "unless its setting http.expose names it"
            )
        return ""


ANONYMOUS = "anonymous"
"""The name under which all callers without a key are counted."""


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a client; 0 and empty mean none."""

    rate: float = 0.0
    """Tokens a second. An ordinary call costs one token, a heavy call `heavy_cost`."""
    burst: float = 0.0
    """Size of the token bucket; 0: the tokens of one second."""
    heavy_cost: int = 10
    """Tokens for a call whose rule says that it is heavy."""
    concurrency: int = 0
    """Requests in flight at once; a batch is one request."""
    batch: int = 0
    """Calls in one batch at the most."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    directives: frozenset[DirectiveName] = frozenset()
    """The directives that a call may have."""
    standing: Directives = NO_DIRECTIVES
    """The directives that every call has."""

    @property
    def any(self) -> bool:
        """Is anything limited?"""
        return bool(self.rate or self.concurrency or self.batch or self.allow or self.deny)


class LimitRefusal(Struct, frozen=True):
    """Why a request or a call of a client is refused."""

    reason: str
    """A word from a fixed set, used as a metric label."""
    message: str
    code: int = jsonrpc.LIMIT_EXCEEDED
    http: int = 429
    retry_after: float | None = None
    """Seconds after which the client may try again."""

    @property
    def error(self) -> bytes:
        """The raw JSON text of the error object."""
        return jsonrpc.error_object(self.code, self.message)


NO_KEY = LimitRefusal("no-key", "an API key is needed: send it as X-Api-Key", jsonrpc.INVALID_REQUEST, 401)
UNKNOWN_KEY = LimitRefusal("unknown-key", "the API key is not known", jsonrpc.INVALID_REQUEST, 401)


class Client:
    """A client's state in one worker. Limits change in place, so that new settings grant nobody a new burst."""

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
        """Apply new limits."""
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
        """Count a request in, or refuse it. A request that was not refused ends with `leave`."""
        self.seen_at = self.cell.seen_at = now
        if self.full:
            message = f"too many requests at once: {self.limits.concurrency} are answered at the same time"
            return self._refused(LimitRefusal("concurrency", message, retry_after=1.0))
        self.in_flight += 1
        self.cell.in_flight += 1
        return None

    @property
    def full(self) -> bool:
        """Are as many requests in flight as the client may have?"""
        return 0 < self.limits.concurrency <= self.in_flight

    def leave(self) -> None:
        """Count a request out."""
        self.in_flight -= 1
        self.cell.in_flight -= 1

    def batch(self, size: int) -> LimitRefusal | None:
        """Check the number of calls in a batch."""
        most = self.limits.batch
        if not most or size <= most:
            return None
        message = f"batch too long: {size} calls, at most {most} are taken from you"
        return self._refused(LimitRefusal("batch", message, jsonrpc.INVALID_REQUEST, 200))

    def call(self, method: str, heavy: bool, now: float) -> LimitRefusal | None:
        """Count one call and take its tokens, or refuse it."""
        self.cell.calls += 1
        refusal = self._charged(method, heavy, now)
        return None if refusal is None else self._refused(refusal)

    def pay(self, method: str, heavy: bool, now: float, calls: int) -> LimitRefusal | None:
        """Take the tokens of so many further calls that a counted call stands for, or refuse it.

        The tokens are at most what a full bucket has left after the counted call, so that no client is refused for
        ever, or gets into debt.
        """
        refusal = self._charged(method, heavy, now, calls)
        return None if refusal is None else self._refused(refusal)

    def passes(self, method: str, heavy: bool, now: float) -> bool:
        """Do `enter`, `call` and `leave` in one step, for a request of one call that is answered at once.

        False, with nothing taken and nothing counted, if one of the three would refuse.
        """
        if self.full or self._charged(method, heavy, now) is not None:
            return False
        self.cell.calls += 1
        self.seen_at = self.cell.seen_at = now
        return True

    def _charged(self, method: str, heavy: bool, now: float, further: int = 0) -> LimitRefusal | None:
        """Take the tokens of one call, or of so many `further` ones that it stands for. Returns the refusal, with
        nothing taken, where the client may not make them now."""
        if self._permission is not None and not self._permission.allows(method):
            message = f"the method {method} is not allowed for you"
            return LimitRefusal("method", message, jsonrpc.METHOD_NOT_FOUND, 200)
        bucket = self._bucket
        if bucket is None:
            return None
        tokens = self.limits.heavy_cost if heavy else 1
        if further:
            tokens = min(tokens * further, max(0, int(bucket.burst) - 1))
        wait = bucket.take(tokens, now)
        if not wait:
            self.spent += tokens
            return None
        message = f"too many calls: {bucket.rate:g} a second are taken"
        return LimitRefusal("rate", message, retry_after=wait)

    @property
    def shares(self) -> bool:
        """Is there a rate that must be shared with other workers?"""
        return self._bucket is not None

    def settle(self) -> int:
        """Return and reset the tokens taken since the last call of `settle`."""
        spent, self.spent = self.spent, 0
        return spent

    def charge(self, tokens: float, now: float) -> None:
        """Take tokens that the client spent at another worker."""
        if self._bucket is not None:
            self._bucket.charge(tokens, now)

    def _refused(self, refusal: LimitRefusal) -> LimitRefusal:
        self.cell.refused(refusal.reason)
        return refusal


BEGINNING = "rpcaccel_"
"""Every key begins with this, so that a key found in a log or a repository is recognised."""
RANDOM_BYTES = 32
MAX_KEY_CHARACTERS = 256
"""Characters of the longest text that is taken for a key and hashed."""


def make(chance: bytes) -> str:
    """Make a key of RANDOM_BYTES random bytes, in characters that are safe in paths and headers."""
    return BEGINNING + base64.urlsafe_b64encode(chance).decode().rstrip("=")


def hashed(key: str) -> str:
    """The hash of a key, as the settings hold it."""
    return f"sha256:{hashlib.sha256(key.encode(errors='backslashreplace')).hexdigest()}"
