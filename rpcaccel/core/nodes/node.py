"""The state of one node in a worker: its settings, what was measured, and what was learnt from its failures.

A node is identified by its id alone: with a changed weight or role, health, latency and lessons stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rpcaccel.core.memo import Lapsing
from rpcaccel.core.nodes.breaker import CLOSED, SUCCESS, Breaker, Verdict
from rpcaccel.core.nodes.examined_bounds import ExaminedBounds
from rpcaccel.core.nodes.latency import LatencyAverage, MethodLatencies
from rpcaccel.core.nodes.limits import Limit
from rpcaccel.core.nodes.parking import Contradictions, Parking
from rpcaccel.core.nodes.sliding_window import SlidingCounts
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.failure import BARRING, FailureKind

if TYPE_CHECKING:
    from rpcaccel.core.heads.examination import Examination
    from rpcaccel.core.nodes.limits import Quota
    from rpcaccel.core.plan.plan import Plan

LACKS_FOR = 300.0
"""Seconds for which a missing method, role or old state is remembered: nodes are upgraded and synced again."""
MANY_CALLS = 16
"""Different calls, refused with no answer between as if the node lacked their method, after which a method that the
node has answered is believed to be missing. Fewer may have been refused for what they hold."""
NEW_BLOCKS = 16
"""Blocks below the head of whose state every node has some: a refusal of one as too old is about a single call."""
MOST_METHODS, LONGEST_METHOD = 1_000, 100
"""Methods that are known to be answered beside those of the chain's table: how many, and characters of the longest."""
UNKNOWN_LACKS_BYTES = 65_536
"""Bytes for the names of missing methods that no table describes: clients can invent such names."""
HIDDEN_FOR = 3600.0
"""Seconds for which the lag of a hidden machine (architecture section 5) is remembered."""
PAUSE = 1.0
"""Seconds without a call after which a node is idle, where its last call was overtaken; else it is idle at once."""
REPLIED, OVERTAKEN = 0, 1
"""Columns of `Node.attempts`."""
_BELOW_A_BOUND = frozenset({FailureKind.PRUNED, FailureKind.BEYOND_WINDOW})
OVERLOAD_KINDS = frozenset({FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.NODE_TIMEOUT})
"""Kinds of failures that show that a node is overloaded."""
MAX_HEAVY = 16
"""Heavy calls in flight on a node, unless the settings say otherwise."""
_HEAVY_SHARE = 4
"""Heavy calls get one in `_HEAVY_SHARE` of a node's connections, and so do calls of unknown methods."""
_EXECUTION_SHARE = 2
"""Calls that run code chosen by the caller get one in `_EXECUTION_SHARE` of the limit of calls in flight."""
COLDEST = 0.1
"""Share of its calls that a node gets right after its return."""
ROLE_OF_NEED = {
    "beacon-shard": "beacon",
    "explorer": "explorer",
    "auth-port": "auth",
    "flag": "debug",
}
"""The role that provides a capability. Every node is expected to have the other capabilities until it denies one."""
_SHARD_ROLES = frozenset({"beacon"})
"""Roles that follow from the network and are no statement of the operator about a node."""

_Bounds = dict[str, tuple[int, float]]
"""By method: a number of blocks, and the time until which it is remembered."""
_LIGHT, _EXECUTION = Bulkhead.LIGHT, Bulkhead.EXECUTION


class CallInFlight(Protocol):
    """A call in flight, as `Node.answered` counts it out."""

    @property
    def permit(self) -> int:
        """What `Node.begin` returned for the call."""
        ...

    @property
    def began(self) -> float:
        """The time at which the call was counted in."""
        ...

    @property
    def plan(self) -> Plan:
        """The call's plan."""
        ...


class Node:
    """The mutable state of one node. Times are monotonic seconds, heads are block numbers."""

    __slots__ = ("_lag", "_lag_until", "able", "answering", "attempts", "barred", "breaker", "busy_since", "chain_ok",
                 "contradictions", "cordoned", "distrusted", "drained", "ejected_until", "ejections", "examined",
                 "head", "held", "id", "in_flight", "lacks", "lacks_unknown", "latency", "limit", "max_heavy",
                 "overtaken_at", "pace", "parking", "probed", "pruned_below", "pruned_until", "quota", "range_limits",
                 "replied_at", "returned_at", "roles", "says", "slow_start", "tags", "tier", "timeout", "weight",
                 "windows")  # fmt: skip

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
        """Roles that the node reports to have or not to have; `roles` are those that the operator states."""
        self.examined = ExaminedBounds()
        self.timeout, self.slow_start = timeout, 0.0
        """Seconds that one attempt may take, and in which a node that returned gets back to its full share."""
        self.tier, self.tags = tier, tags
        """Nodes of a higher tier are asked only when no node of a lower tier is eligible. Routes select nodes by
        tags."""
        self.quota: Quota | None = None
        self.limit = limit or Limit(512)
        """The adaptive limit of light calls in flight."""
        self.max_heavy = MAX_HEAVY
        """The limit of heavy calls in flight, and that of calls of unknown methods."""
        self.drained = drained
        """The node finishes its calls and takes no new ones."""
        self.cordoned = False
        """The node takes no calls but is still probed."""
        self.chain_ok: bool | None = None
        """Does the node serve the right chain and shard? None until a probe has asked."""
        self.barred, self.head, self.ejections = "", -1, 0
        self.in_flight, self.held = 0, [0] * len(Bulkhead)
        """Calls in flight: in total, and by bulkhead."""
        self.breaker, self.latency, self.pace = Breaker(), LatencyAverage(), MethodLatencies()
        self.attempts = SlidingCounts(2, span=10.0, slices=10)
        """Recent attempts: replied to, and overtaken by another node (columns REPLIED and OVERTAKEN)."""
        self.busy_since = self.replied_at = self.overtaken_at = float("-inf")
        """Since when light calls are in flight without a `PAUSE`, and when the last was answered, and overtaken."""
        self.answering: bool | None = None
        """Did the node answer the last probe? None until the first probe has ended."""
        self.probed: float | None = None
        """Seconds that the last probe took; None when it was not answered."""
        self.returned_at = self.ejected_until = float("-inf")
        """The time of the last return from a rest, and the time until which the node is ejected as too slow."""
        self.parking, self.contradictions = Parking(), Contradictions()
        self.distrusted: frozenset[str] = frozenset()
        """Methods to which answers of the node were disproved, or contradicted by others more often than by chance."""
        self.able: dict[str, set[int]] = {}
        """By method that the node answered: the calls that it refused since as if it lacked the method."""
        self.lacks: dict[str, float] = {}
        """Expiry by method or capability that the node said it lacks; only names of the chain's table."""
        self.lacks_unknown = Lapsing(UNKNOWN_LACKS_BYTES)
        """Missing methods that no table describes, kept apart so that invented names displace no others."""
        self.pruned_below, self.pruned_until = 0, float("-inf")
        """The node lacks the state of blocks below this one, and the time until which that is remembered."""
        self.windows, self.range_limits = _Bounds(), _Bounds()
        """The lowest block that the node can answer about, and the most blocks that it takes at once."""
        self._lag, self._lag_until = 0, float("-inf")

    def adopt(self, other: Node) -> None:
        """Copy the settings from `other`; everything measured and learnt stays."""
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
        """Has the node this role? None when neither the operator nor the node has said so.

        The operator's statement comes before what the examination shows, and that before the node's own word. If the
        operator states any role of a node, the node has no other roles. A role that follows from the network (the
        beacon shard) is no such statement, and an explorer is an observer.
        """
        if role == "observer":
            return not self.roles.isdisjoint(("observer", "explorer")) or self.says.get(role)
        if role in self.roles:
            return True
        stated = self.roles if role in _SHARD_ROLES else self.roles - _SHARD_ROLES
        return False if stated else self.examined.roles.get(role, self.says.get(role))

    def hear(self, says: Mapping[str, bool]) -> None:
        """Take the roles that the node reports now.

        A change shows that the node was restarted with another configuration, so what it lacked is forgotten.
        """
        if says != self.says:
            self.says = says
            self._forget_lacks()

    def take_examination(self, examination: Examination | None, untraced: frozenset[str]) -> None:
        """Take the node's examination. A new one ends what failures taught about methods and roles that it lacks."""
        if self.examined.take(examination, untraced, self.head):
            self._forget_lacks()

    def _forget_lacks(self) -> None:
        self.lacks.clear()
        self.lacks_unknown.clear()
        self.able.clear()

    def begin(self, now: float, bulkhead: Bulkhead = _LIGHT) -> int:
        """Count one call in and return its permit, which `finish` or `answered` takes back.

        Whether the node may be asked is decided before (core.nodes.eligibility).
        """
        breaker = self.breaker
        permit = breaker.permit if breaker.state is CLOSED else breaker.force(now, light=bulkhead is _LIGHT)
        if bulkhead is _LIGHT and not self.held[_LIGHT] and now - self.overtaken_at > PAUSE:
            self.busy_since = now
        self.in_flight += 1
        self.held[bulkhead] += 1
        return permit

    def finish(self, permit: int, verdict: Verdict, now: float, bulkhead: Bulkhead = _LIGHT) -> None:
        """Count one call out. Raises RuntimeError when no call of its bulkhead is in flight."""
        if not self.held[bulkhead]:
            raise RuntimeError("this call was counted out before")
        self.in_flight -= 1
        self.held[bulkhead] -= 1
        before = self.breaker.state
        self.breaker.learn(permit, verdict, now, light=bulkhead is _LIGHT)
        if before is not CLOSED and self.breaker.state is CLOSED:
            self.returned_at = now

    def answered(self, calls: Sequence[CallInFlight], now: float) -> None:  # noqa: PLR0912 -- more functions, more calls
        """Count calls of one bulkhead out that one reply answered well, and note what the reply shows of the node.

        The average latency takes one sample for all of them, since samples of one instant add nothing. Heavy calls do
        not count for the latency: their duration depends on the params more than on the node. Raises RuntimeError when
        fewer calls of the bulkhead are in flight.
        """
        count, breaker, limit, parking, passed = len(calls), self.breaker, self.limit, self.parking, 0
        able, bulkhead = self.able, calls[0].plan.rule.bulkhead
        if self.held[bulkhead] < count:
            raise RuntimeError("one of these calls was counted out before")
        timed = bulkhead is _LIGHT or bulkhead is _EXECUTION
        if timed:
            self.latency.add(now - calls[0].began, now)
            if limit.value < limit.most:
                limit.answered(self.held[bulkhead], count)
        for call in calls:
            method = call.plan.rule.method
            if timed and method:
                self.pace.answered(method, now - call.began, now)
            if able.get(call.plan.method, True):  # not answered before, or refused since
                self._answers(call.plan)
            if parking.troubled:
                parking.answered(method, now, call.plan.content)
            if self.contradictions.methods:
                self.contradictions.answered(method)
            passed += call.permit == breaker.permit
        parking.answered_at = self.replied_at = now
        if now >= self.attempts.ends:
            self.attempts.turn(now)
        self.attempts.current[REPLIED] += count
        self.in_flight -= count
        self.held[bulkhead] -= count
        if breaker.state is CLOSED:
            if passed:
                breaker.in_row = 0
                if now >= breaker.counts.ends:
                    breaker.counts.turn(now)
                breaker.counts.current[SUCCESS] += passed
            return
        for call in calls:
            breaker.learn(call.permit, "success", now, light=bulkhead is _LIGHT)
        if breaker.state is CLOSED:
            self.returned_at = now

    def has_room(self, now: float, bulkhead: Bulkhead = _LIGHT) -> bool:
        """May the node take one more call of this bulkhead now?"""
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
        """Would one more call that is not light leave a connection for light calls? A single connection serves all
        calls."""
        most = self.limit.most
        return most == 1 or self.in_flight - self.held[_LIGHT] < most - 1

    def warmth(self, now: float) -> float:
        """Share of its calls (0..1) that the node gets: one that returned starts with few, so that it is not
        overloaded."""
        if now - self.returned_at >= self.slow_start:
            return 1.0
        return max(COLDEST, (now - self.returned_at) / self.slow_start)

    def told_head(self, head: int, now: float) -> None:
        """Set the head that the control plane reports.

        A head that goes back shows a hidden machine, or a machine that lost some blocks, which is treated alike.
        """
        if head < self.head:
            self._lags(self.head - head, now)
        self.head = head

    def lacked(self, block: int, most: int, now: float) -> None:
        """Note that the node denied a block that another machine has, which shows a hidden machine that lags.

        A block more than `most` blocks below the head shows something else: a node without old blocks.
        """
        if 0 < self.head - block <= most:
            self._lags(self.head - block, now)

    def hidden_lag(self, now: float) -> int:
        """Blocks by which a hidden machine of the node was seen to lag; 0 when none was seen."""
        return self._lag if now < self._lag_until else 0

    def _lags(self, blocks: int, now: float) -> None:
        self._lag, self._lag_until = max(self.hidden_lag(now), blocks), now + HIDDEN_FOR

    def bar(self, why: str) -> None:
        """Shut the node out because its probes are refused or find no JSON-RPC; an empty `why` lets it in again."""
        if self.barred and not why:
            self._forget_lacks()
        self.barred = why

    def replied(self, now: float) -> None:
        """Note that the node replied with an error or with a result that is wrong."""
        self.replied_at = now
        self.attempts.bump(REPLIED, now)

    def overtaken(self, method: str, seconds: float, now: float) -> None:
        """Note that an attempt was given up after `seconds` because another node answered first."""
        if self.pace.overtaken(method, seconds):
            self.overtaken_at = now
            self.attempts.bump(OVERTAKEN, now)

    def learn(
        self,
        kind: FailureKind,
        plan: Plan,
        now: float,
        *,
        retry_after: float | None = None,
        content: Plan | None = None,
        longest: int | None = None,
    ) -> None:
        """Remember for some time what a failure says about the node, so that it is not asked in vain again.

        A caller may provoke any failure by what a call holds, so that one call proves little of others.

        Args:
            content: the call whose content may have caused the failure, if that is another one.
            longest: the most blocks that the node says to take at once.
        """
        if kind is FailureKind.TOO_LARGE and longest is not None:
            self.takes_at_once(plan.method, longest, now)
        call = (content or plan).content
        if kind is FailureKind.RATE_LIMITED:
            self.parking.refused(plan.rule.method, now, retry_after, call=call, own_limiter=bool(plan.rule.limiter))
        elif kind is FailureKind.METHOD_MISSING or kind in BARRING:
            if not self._answers_others(plan, call):
                self._lack(plan.method, plan, now)
        elif kind is FailureKind.ROLE_MISSING and not self._answers_others(plan, call):
            for need in plan.rule.roles or (plan.method,):
                if not self.has(ROLE_OF_NEED.get(need, "")):
                    self._lack(need, plan, now)
        elif kind in OVERLOAD_KINDS and plan.rule.bulkhead is _LIGHT:
            self.limit.overloaded(self.held[_LIGHT], now)
        elif plan.oldest is None or self.head - NEW_BLOCKS < plan.oldest <= self.head:
            return
        elif kind in _BELOW_A_BOUND:
            self.dropped(plan.oldest, plan, now, state=kind is FailureKind.PRUNED and plan.rule.old_state)

    def dropped(self, block: int, plan: Plan, now: float, *, state: bool) -> None:
        """Note that the node does not answer about this block: with `state`, no call about old state, else none of the
        plan's method."""
        if state:
            current = self.pruned_below if now < self.pruned_until else 0
            self.pruned_below, self.pruned_until = max(current, block + 1), now + LACKS_FOR
        else:
            below, until = self.windows.get(plan.method, (0, now))
            self.windows[plan.method] = max(below if now < until else 0, block + 1), now + LACKS_FOR

    def _answers(self, plan: Plan) -> None:
        """Note that the node answers a method."""
        if plan.rule.known or (len(self.able) < MOST_METHODS and len(plan.method) <= LONGEST_METHOD):
            self.able[plan.method] = set()

    def _answers_others(self, plan: Plan, call: int) -> bool:
        """Note a call that was refused as if the node lacked its method; does the node answer other calls of it, as far
        as is known?"""
        refused = self.able.get(plan.method)
        if refused is None:
            return False
        refused.add(call)
        if len(refused) >= MANY_CALLS:
            del self.able[plan.method]
        return len(refused) < MANY_CALLS

    def takes_at_once(self, method: str, blocks: int, now: float) -> None:
        """Note that the node takes so many blocks at once and no more: what it said, or what showed."""
        before, until = self.range_limits.get(method, (blocks, now))
        limit = min(before, blocks) if now < until else blocks
        self.range_limits[method] = limit, now + LACKS_FOR  # bounded by the methods that can be split

    @property
    def limits_ranges(self) -> bool:
        """Is a limit of ranges known, or was one?"""
        return bool(self.range_limits) or self.examined.range_most is not None

    def longest_range(self, plan: Plan, now: float) -> int | None:
        """The most blocks that the node takes at once in calls of this method; None where no limit is known."""
        stated, until = self.range_limits.get(plan.method, (0, now))
        examined = self.examined.range_most if plan.rule.split == "logs" else None
        limits = [limit for limit in (stated if now < until else None, examined and examined + 1) if limit]
        return min(limits, default=None)

    def said_to_lack(self, plan: Plan, now: float) -> bool:
        """Did the node say recently that it lacks the method of this call?"""
        lacks = self.lacks if plan.rule.known else self.lacks_unknown.until
        return now < lacks.get(plan.method, now)

    def _lack(self, what: str, plan: Plan, now: float) -> None:
        if plan.rule.known:
            self.lacks[what] = now + LACKS_FOR  # bounded by the names in the chain's table
        else:
            self.lacks_unknown.hold(what, now + LACKS_FOR)

    def __repr__(self) -> str:
        state = self.breaker.state.value
        return f"<node {self.id} weight {self.weight} head {self.head} in flight {self.in_flight} {state}>"
