"""One node as a worker sees it: what the operator said of it, what was measured, and what it has taught.

Identity is the id alone: a changed weight or role keeps health, latency and lessons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rpcaccel.core.memo import Lapsing
from rpcaccel.core.nodes.breaker import CLOSED, Breaker, Permit, Verdict
from rpcaccel.core.nodes.concurrency_limit import Limit
from rpcaccel.core.nodes.latency import LatencyAverage, MethodLatencies
from rpcaccel.core.nodes.parking import Parking
from rpcaccel.core.nodes.sliding_window import SlidingCounts
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.failure import BARRING, FailureKind

if TYPE_CHECKING:
    from rpcaccel.core.nodes.quota import Quota
    from rpcaccel.core.plan.plan import Plan

LACKS_FOR = 300.0
"""Seconds for which a missing method, role or old state is believed: nodes are upgraded and re-synced."""
UNKNOWN_LACKS_BYTES = 65_536
"""Bytes for the names of methods that no table describes and a node has not: clients can invent such names."""
HIDDEN_FOR = 3600.0
"""Seconds for which it is believed that the URL hides a machine as far behind as one was seen to be."""
REPLIED, OVERTAKEN = 0, 1
"""Columns of `Node.attempts`."""
OVERLOAD = frozenset({FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.NODE_TIMEOUT})
"""What a node has too much to do fails with."""
MAX_HEAVY = 16
"""Heavy calls at once on a node, unless the operator says otherwise."""
_HEAVY_SHARE = 4
"""One in so many of a node's connections may carry heavy calls, and as many those of unknown methods."""
_EXECUTION_SHARE = 2
"""One in so many of the calls that a node may have at once may run code that its caller chose."""
COLDEST = 0.1
"""Share of its calls that a node gets the moment it returns."""
OLD_STATE = "archive-for-old-state"
"""The need of calls that read the state of an old block."""
ROLE_OF_NEED = {
    "beacon-shard": "beacon",
    "explorer": "explorer",
    "auth-port": "auth",
    "flag": "debug",
}
"""Which role gives a node what a rule needs. A need that is not here is met by every node until one denies it."""
_SHARD_ROLES = frozenset({"beacon"})
"""Facts of the network, not statements of the operator about a node."""

_LIGHT, _EXECUTION = Bulkhead.LIGHT, Bulkhead.EXECUTION


class Node:
    """Mutable state of one node. Times are monotonic seconds, heads are block numbers."""

    __slots__ = ("_lag", "_lag_until", "answering", "attempts", "barred", "breaker", "busy_since", "chain_ok",
                 "cordoned", "drained", "ejected_until", "ejections", "head", "held", "id",
                 "in_flight", "lacks", "lacks_unknown", "latency", "limit", "max_heavy", "pace", "parking", "probed",
                 "pruned_below", "pruned_until", "quota", "replied_at", "returned_at", "roles", "says", "slow_start",
                 "tags", "tier", "timeout", "weight", "windows")  # fmt: skip

    def __init__(
        self,
        id: str,
        *,
        weight: int = 1,
        roles: frozenset[str] = frozenset(),
        tier: int = 0,
        tags: frozenset[str] = frozenset(),
        timeout: float = 10.0,
        limit: Limit | None = None,
        drained: bool = False,
    ) -> None:
        self.id, self.weight, self.roles = id, weight, roles
        self.says: Mapping[str, bool] = {}
        """Which roles the node has by its own word, as far as it speaks of them; `roles` is the operator's word."""
        self.timeout = timeout
        """Seconds one attempt may take."""
        self.tier, self.tags = tier, tags
        """Nodes of a higher tier are asked when no node of a lower one can be; routes call nodes by their tags."""
        self.slow_start = 0.0
        """Seconds in which a node that returns comes back to its full share."""
        self.quota: Quota | None = None
        self.limit = limit or Limit(512)
        """Of light calls."""
        self.max_heavy = MAX_HEAVY
        """Heavy calls it is given at once, and as many of unknown methods."""
        self.drained = drained
        """Finishes what it has, takes nothing new."""
        self.cordoned = False
        """Takes nothing, still probed."""
        self.chain_ok: bool | None = None
        """Does it serve the right chain and shard? None until asked."""
        self.barred = ""
        self.head = -1
        self.in_flight, self.held = 0, [0] * len(Bulkhead)
        """Calls that wait for it, and those of each bulkhead among them."""
        self.breaker, self.latency, self.pace = Breaker(), LatencyAverage(), MethodLatencies()
        self.attempts = SlidingCounts(2, span=10.0, slices=10)
        """Attempts lately that it replied to, and those that another node overtook."""
        self.busy_since = self.replied_at = float("-inf")
        """Since when light calls have been in flight without a pause, and when it last replied to anything."""
        self.answering: bool | None = None
        """Did it answer the prober's last look? None until a first look has ended."""
        self.probed: float | None = None
        """Seconds that the prober's last look took; None when it got no answer."""
        self.returned_at = self.ejected_until = float("-inf")
        """When it last came back from being left alone, and until when it is, as one much slower than the others."""
        self.ejections = 0
        self.parking = Parking()
        self.lacks: dict[str, float] = {}
        """Methods and needs of the chain's table that the node said it has not, and until when that is believed."""
        self.lacks_unknown = Lapsing(UNKNOWN_LACKS_BYTES)
        """The same of methods that no table describes: kept apart, so that invented names displace nothing."""
        self.pruned_below, self.pruned_until = 0, float("-inf")
        """State of blocks under this one is gone, and until when that is believed."""
        self.windows: dict[str, tuple[int, float]] = {}
        """The same of methods that reach back less far than the state."""
        self._lag, self._lag_until = 0, float("-inf")

    def adopt(self, other: Node) -> None:
        """Take over the operator's settings from `other`; everything measured and learnt stays."""
        self.weight = other.weight
        self.roles = other.roles
        self.timeout = other.timeout
        self.tier = other.tier
        self.tags = other.tags
        self.slow_start = other.slow_start
        self.limit.adopt(other.limit.most, other.limit.settings)
        self.max_heavy = other.max_heavy
        self.drained = other.drained
        self.breaker.settings = other.breaker.settings
        self.pace.share = other.pace.share

    def has(self, role: str) -> bool | None:
        """Has the node this role? The operator's word comes before the node's own; None: nobody has said.

        Where the operator states any role of a node, those not stated are those it has not. That a network is the
        beacon shard is no such statement.
        """
        if role in self.roles:
            return True
        stated = self.roles if role in _SHARD_ROLES else self.roles - _SHARD_ROLES
        return False if stated else self.says.get(role)

    def hear(self, says: Mapping[str, bool]) -> None:
        """What the node says of itself now. When that changes, the node was restarted as something else, and what it
        lacked before it may have now."""
        if says != self.says:
            self.says = says
            self.lacks.clear()
            self.lacks_unknown.clear()

    def begin(self, now: float, bulkhead: Bulkhead = _LIGHT) -> Permit:
        """Count one call in, under a permit of the breaker. Whether the node should be asked was decided before
        (core.nodes.eligibility); close the permit with `finish`."""
        permit = self.breaker.force(now, light=bulkhead is _LIGHT)
        if bulkhead is _LIGHT and not self.held[_LIGHT]:
            self.busy_since = now
        self.in_flight += 1
        self.held[bulkhead] += 1
        return permit

    def finish(self, permit: Permit, verdict: Verdict, now: float, bulkhead: Bulkhead = _LIGHT) -> None:
        """Count the call out. Raises RuntimeError when it was counted out before."""
        before = self.breaker.state
        permit.close(verdict, now)
        self.in_flight -= 1
        self.held[bulkhead] -= 1
        if before is not CLOSED and self.breaker.state is CLOSED:
            self.returned_at = now

    def has_room(self, now: float, bulkhead: Bulkhead = _LIGHT) -> bool:
        """May it take one more call of a bulkhead at this moment?"""
        most = self.limit.most
        if bulkhead is _LIGHT:
            places = self.limit.value
        elif not self.leaves_a_connection():
            return False
        elif bulkhead is _EXECUTION:
            places = max(1.0, self.limit.value / _EXECUTION_SHARE)
        else:
            places = min(self.max_heavy, max(1, most // _HEAVY_SHARE))
        if self.held[bulkhead] >= places or self.in_flight >= most:
            return False
        return self.quota is None or self.quota.has_room(now)

    def leaves_a_connection(self) -> bool:
        """Would one more call of another bulkhead leave a connection to light ones? A lone one is everybody's."""
        most = self.limit.most
        return most == 1 or self.in_flight - self.held[_LIGHT] < most - 1

    def warmth(self, now: float) -> float:
        """Share of its calls that it gets, 0..1: a node that returns begins with few, lest it fall over again."""
        if now - self.returned_at >= self.slow_start:
            return 1.0
        return max(COLDEST, (now - self.returned_at) / self.slow_start)

    def told_head(self, head: int, now: float) -> None:
        """The control plane tells its head. One that goes back is another machine behind the same URL, or the same one
        after it lost some blocks, which is as good a reason to doubt."""
        if head < self.head:
            self._lags(self.head - head, now)
        self.head = head

    def lacked(self, block: int, most: int, now: float) -> None:
        """It said that it has not got a block that another machine has. More than `most` blocks under its head that is
        no machine which lags, but one that no longer has old blocks."""
        if 0 < self.head - block <= most:
            self._lags(self.head - block, now)

    def hidden_lag(self, now: float) -> int:
        """Blocks by which what answers for the node was seen to be behind its head; 0 as long as it never was."""
        return self._lag if now < self._lag_until else 0

    def _lags(self, blocks: int, now: float) -> None:
        self._lag, self._lag_until = max(self.hidden_lag(now), blocks), now + HIDDEN_FOR

    def bar(self, why: str) -> None:
        """Its probes are not let in or find no JSON-RPC, or (empty) no longer so: then calls may find out again."""
        if self.barred and not why:
            self.lacks.clear()
            self.lacks_unknown.clear()
        self.barred = why

    def replied(self, now: float) -> None:
        """It said something, whatever it was."""
        self.replied_at = now
        self.attempts.bump(REPLIED, now)

    def overtaken(self, method: str, seconds: float, now: float) -> None:
        """An attempt was given up after `seconds`, since another node answered first."""
        if self.pace.overtaken(method, seconds):
            self.attempts.bump(OVERTAKEN, now)

    def succeeded(self, seconds: float, now: float, method: str = "", bulkhead: Bulkhead = _LIGHT) -> None:
        """A call was answered in `seconds`. How long a heavy one takes tells more of its params than of the node, and
        an execution is mostly as quick as a lookup.

        Args:
            method: as its rule names it; empty where no rule describes it.
        """
        if bulkhead is _LIGHT or bulkhead is _EXECUTION:
            self.latency.add(seconds, now)
            if method:
                self.pace.answered(method, seconds, now)
            self.limit.answered(self.held[bulkhead])
        self.parking.answered(method, now)

    def learn(
        self,
        kind: FailureKind,
        plan: Plan,
        now: float,
        *,
        retry_after: float | None = None,
    ) -> None:
        """Remember for a while what a failure says about this node, so that it is not asked in vain again."""
        if kind is FailureKind.RATE_LIMITED:
            self.parking.refused(plan.rule.method, now, retry_after, own_limiter=bool(plan.rule.limiter))
        elif kind is FailureKind.METHOD_MISSING or kind in BARRING:
            self._lack(plan.method, plan, now)
        elif kind is FailureKind.ROLE_MISSING:
            needs: list[str] = [need for need in plan.rule.needs if need != OLD_STATE]
            for need in needs or [plan.method]:
                if not self.has(ROLE_OF_NEED.get(need, "")):
                    self._lack(need, plan, now)
        elif kind in OVERLOAD and plan.rule.bulkhead is _LIGHT:
            self.limit.overloaded(self.held[_LIGHT], now)
        elif kind is FailureKind.PRUNED and plan.block is not None:
            current = self.pruned_below if now < self.pruned_until else 0
            self.pruned_below = max(current, plan.block + 1)
            self.pruned_until = now + LACKS_FOR
        elif kind is FailureKind.BEYOND_WINDOW and plan.block is not None:
            below, until = self.windows.get(plan.method, (0, now))
            self.windows[plan.method] = max(below if now < until else 0, plan.block + 1), now + LACKS_FOR

    def said_to_lack(self, plan: Plan, now: float) -> bool:
        """Did the node say lately that it has not the method of this call?"""
        lacks = self.lacks if plan.rule.known else self.lacks_unknown.until
        return now < lacks.get(plan.method, now)

    def _lack(self, what: str, plan: Plan, now: float) -> None:
        if plan.rule.known:
            self.lacks[what] = now + LACKS_FOR  # as many as the chain's table has names
        else:
            self.lacks_unknown.hold(what, now + LACKS_FOR)

    def __repr__(self) -> str:
        state = self.breaker.state.value
        return f"<node {self.id} weight {self.weight} head {self.head} in flight {self.in_flight} {state}>"
