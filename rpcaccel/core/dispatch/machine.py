"""The attempts of one call, as a state machine: events in, what is to be done out, no clock and no sockets.

    ready    --start-->    running, or settled when there is nobody to ask
    running  --answered, failed-->  running (next attempt), pausing (not there yet), settled
    running  --tick, abandoned-->  running, with a second attempt beside the first, or settled
    pausing  --tick-->     running or settled
    nothing leaves settled

Every event returns the attempt that is to be made, the end of the call, or None: nothing is to be done. After any of
them `due` says when a tick is wanted.

Rules (architecture section 6):
- `failure.policy` says what a failure allows. Nothing is sent again that may not be repeated once bytes may have left,
  unless the node itself said that it did nothing.
- A node not yet tried comes first. A tried one is asked again only after a reset of a reused connection (the same node,
  once), after a rate limit, when it is no longer parked, or when it lacks old state or an old block: one address may
  hide several machines, of which others may have it. That is paid like a second opinion.
- A send beyond the first is paid as `failure.policy` says of the failure before it: what cost no node any work is free,
  and is bounded by the attempts and the deadline. Free too is the send to another node when one is found to hang, or
  its breaker opens, of a call that may take long only when the node replies to nothing: rescues from a node are bounded
  by its number of calls in flight, and where every node hangs there is none to be rescued to. "Not there yet" has its
  own small count instead of the attempts. A node that cannot be reached, or lacks the method or the role, is no
  attempt: each of the others is asked once before a client gets an error.
- An attempt may take what its node allows, and never more than what is left of the call. A further one is not begun
  when next to nothing is left.
- A result that says that there is nothing (`result_check.is_unsure`) is one of a good node or of one that dropped old
  blocks. One other node is asked, for a second at the most, within a small budget, which is returned when that node has
  something. Otherwise the first result is the answer.
- When nobody answers well, the most telling answer is given: a node's own words before a broken transport.

An event that is illegal in the present state raises IllegalEvent and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from math import inf
from typing import Protocol

from msgspec import Struct

from rpcaccel.core.dispatch.dispatch_policy import NO_RANK, DispatchSettings, Settle, dispatch_settings, error_rank
from rpcaccel.core.dispatch.retry_budget import Budget, unpaid
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import LACKING, NOT_OF_READS, UNREACHED, Failure, FailureKind, policy
from rpcaccel.core.replies.result_check import SHORTEST_VALUE, is_unsure


class CallState(StrEnum):
    """Where a call stands."""

    READY = "ready"
    RUNNING = "running"
    PAUSING = "pausing"
    SETTLED = "settled"


LEGAL_EVENTS: dict[CallState, frozenset[str]] = {
    CallState.READY: frozenset({"start"}),
    CallState.RUNNING: frozenset({"answered", "failed", "tick", "abandoned"}),
    CallState.PAUSING: frozenset({"tick"}),
    CallState.SETTLED: frozenset(),
}
"""Which events are legal in which state; `answered` and `failed` also need a running attempt, `tick` a finite `due`."""
_READY, _RUNNING, _PAUSING, _SETTLED = CallState  # looked up once (core.plan.planner)


EVERYWHERE = "every node would say the same"
ONCE = "the call may have had an effect, and is not sent twice"
SECONDED = "a second node said the same"
NO_OTHER = "no other node could be asked"
NO_TIME = "no time was left for another node"
"""Why no further node is asked after an attempt that failed."""


class IllegalEvent(Exception):
    """The driver sent what cannot happen now."""


_NO_ATTEMPT = LACKING | UNREACHED
"""Kinds of failures that do not count against the attempts of a call."""
_SOON = 0.01
"""Seconds that a timer may be early by, and that are too few to begin another attempt with."""
_SECOND_LOOK = 1.0
"""Seconds that a second node has for its opinion on a result that says that there is nothing."""
HedgeAfter = Callable[[str, Node], float | None]
"""By method and node: seconds after which the node is slow with the call, so that another is asked as well; None: it is
waited for."""


class NodeChooser(Protocol):
    """Who is asked next, by eligibility and balancer."""

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked and whose id is not among `avoid`."""
        ...

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        """A node that may be asked beside another: one that need alone would not have us ask."""
        ...

    def behind(self, now: float) -> bool:
        """Is there a node that nothing but its head keeps from being asked?"""
        ...

    def nobody(self, now: float) -> Failure:
        """Why there is nobody at all."""
        ...

    @property
    def forced(self) -> bool:
        """Was a node given that is not eligible, for want of a better one?"""
        ...


class Asked(Struct, frozen=True, gc=False):
    """An attempt that is to be made."""

    number: int
    """Of the call's attempts, from 1."""
    node: Node
    timeout: float
    """Seconds the attempt may take."""
    hedge: bool = False
    """Is it made beside another?"""


NextStep = Asked | Settle | None
"""What follows an event: an attempt that is to be made, the end of the call, or nothing."""


def failure_of(answer: Answer, kind: FailureKind, node: Node) -> Failure:
    """A node's reply that was judged to be of `kind`, as the failure it is."""
    said = f"the node's answer was judged {kind.value}" if answer.error is None else error_parts(answer.error)[1]
    return Failure(kind, said, error=answer.error, retry_after=answer.retry_after, node=node.id)


def _out_of_time() -> Settle:
    return Settle(None, Failure(FailureKind.TIMEOUT, "the time for the whole call has run out", sent=False), None)


class Dispatch(Struct, eq=False):
    """The machine of one call."""

    plan: Plan
    chooser: NodeChooser
    budget: Budget
    settings: DispatchSettings
    nodes: Sequence[Node] = ()
    """All nodes of the network, whose heads say whether a block that one of them does not have is worth a wait. Without
    any, the settings alone say it."""
    ends: float = inf
    """When the whole call must be over (monotonic seconds)."""
    hedge_after: HedgeAfter | None = None
    """When a second node is asked as well; None: no hedging."""
    known: Callable[[bytes], bool] | None = None
    """Do params name something by a hash that is known to be there? None: that is not known."""
    state: CallState = _READY
    attempts: int = 0
    """Attempts started."""
    tried: tuple[str, ...] = ()
    """Ids of the nodes asked, in order, each once."""
    steps: tuple[tuple[str, FailureKind], ...] = ()
    """The attempts that failed: who, and how."""
    due: float = inf
    """When a tick is wanted (monotonic seconds); infinite: never."""
    stopped: str = ""
    """Why no further node was asked after an attempt that failed; empty before that, and after a success."""
    doubted: Settle | None = None
    """The result that says that there is nothing, once another node was asked about it as well."""
    hedged: bool = False
    """May another node be asked beside one that is slow, or that hangs?"""
    _began: float = 0.0
    _silent_since: float | None = None
    """Since when the node that is waited for is known to hang, with nobody else to ask."""
    _running: dict[int, Node] = {}
    _again: str | None = None
    _behind: int = 0
    _in_vain: int = 0
    _pauses: int = 0
    _best: Settle | None = None
    _best_rank: int = NO_RANK

    def start(self, now: float) -> NextStep:
        if self.state is not _READY:
            self._expect("start")
        self._began, plan = now, self.plan
        may = self.hedge_after is not None and plan.repeat and self.settings.attempts > 1
        self.hedged = may and (plan.hedge or plan.rule.kind == "read")
        node = self.chooser.next((), now)
        if node is None:
            return self._settle(Settle(None, self.chooser.nobody(now), None))
        self.budget.call(now)
        if now >= self.ends:
            return self._settle(_out_of_time())
        if self.hedged and plan.hedge and self.hedge_after is not None:
            delay = self.hedge_after(plan.method, node)
            if delay is not None and now + delay < self.ends:
                self.due = now + delay
        return self._attempt(node, now)

    def answered(self, attempt: int, answer: Answer, kind: FailureKind | None, now: float) -> NextStep:
        """A node replied. `kind` is how its reply was judged; None: it is good."""
        node = self._running.get(attempt)
        if node is None:
            node = self._expect_attempt("answered", attempt)
        if kind is None:
            if not self.plan.rule.known:
                self.budget.found(self.plan.method, now)
            result = answer.result
            if result is not None and len(result) < SHORTEST_VALUE and is_unsure(self.plan, result):
                return self._nothing_there(attempt, answer, node, now)
            return self._settle(Settle(answer, None, node))
        return self._disappointed(attempt, failure_of(answer, kind, node), answer, now)

    def failed(self, attempt: int, failure: Failure, now: float) -> NextStep:
        """An attempt brought no reply."""
        self._expect_attempt("failed", attempt)
        return self._disappointed(attempt, failure, None, now)

    def tick(self, now: float) -> NextStep:
        """The time has come that `due` told."""
        self._expect("tick")
        if self.due == inf:
            raise IllegalEvent("no tick is due")
        self.due = inf
        if self.state is _PAUSING:
            node = self.chooser.next((), now) if now < self.ends else None
            return self._give_up(now, NO_OTHER) if node is None else self._attempt(node, now)  # its own count has paid
        if self.doubted is not None:
            return self._settle(self.doubted)
        if self._silent_since is not None:
            return self.abandoned(now)
        return self._beside(now, free=False)

    def abandoned(self, now: float, *, silent: bool = True) -> NextStep:
        """The node that is waited for was left alone: the retry that is to come need not wait for the timeout. A call
        that may take long is taken from a `silent` node only, which replies to nothing."""
        self._expect("abandoned")
        if not self.hedged or len(self._running) > 1 or not (silent or self.plan.hedge):
            return None
        self.due = inf
        done = self._beside(now, free=True)
        return done or self._lose_patience(now)

    def _beside(self, now: float, *, free: bool) -> NextStep:
        """Ask another node beside the one that is waited for, if there is one."""
        if len(self._running) > 1 or self._counted() >= self.settings.attempts or now >= self.ends:
            return None
        slow = next(iter(self._running.values()))
        node = self.chooser.spare(slow, self.tried, now)
        if node is None or not (free or self.budget.hedge(now)):
            return None
        return self._attempt(node, now, hedge=True)

    def _lose_patience(self, now: float) -> NextStep:
        """Nobody else may be asked. Where that is because others are behind, the node is given up in time for them to
        be followed, unless it says something meanwhile."""
        (slow,) = self._running.values()
        since = self._silent_since
        if not self.chooser.behind(now) or (since is not None and slow.replied_at > since):
            self._silent_since = None
            return None
        until = self._began + self.settings.patience
        if until - now > _SOON:
            self._silent_since = now if since is None else since
            self.due = until
            return None
        failure = Failure(FailureKind.TIMEOUT, f"the node said nothing for {now - self._began:.3g} s", node=slow.id)
        self.steps += ((slow.id, failure.kind),)
        return self._settle(Settle(None, failure, slow))

    def _nothing_there(self, attempt: int, answer: Answer, node: Node, now: float) -> NextStep:
        """Another node may have what this one says is not there."""
        if self.doubted is not None:
            return self._settle(self.doubted)
        end, plan = Settle(answer, None, node), self.plan
        if not plan.repeat or plan.terms is not None or len(self._running) > 1 or self.ends - now <= _SECOND_LOOK:
            return self._settle(end)
        known = self.known is not None and self.known(plan.params)
        if not self.budget.doubt(now, dropped=bool(node.windows or node.pruned_below), known=known):
            return self._settle(end)
        other = self.chooser.spare(node, self.tried, now)  # after the budget: the balancer counts whom it names
        if other is None:
            self.budget.rightly_doubted(now)
            return self._settle(end)
        del self._running[attempt]
        self.doubted, self.hedged, self.due = end, False, now + _SECOND_LOOK
        return self._attempt(other, now)

    def _disappointed(self, attempt: int, failure: Failure, answer: Answer | None, now: float) -> NextStep:
        """Decide what follows an attempt that brought no good reply."""
        node = self._running.pop(attempt)
        self.steps += ((node.id, failure.kind),)
        # 1. The attempt was to give a second opinion: the result that it was asked about is the answer.
        if self.doubted is not None:
            return self._settle(self.doubted)
        self._remember(Settle(answer, failure, node))
        row = policy(failure.kind)
        if self.plan.rule.kind == "read" and (failure.kind in NOT_OF_READS or self._is_undivided(failure.kind)):
            row = policy(FailureKind.INVALID_PARAMS)
        # 2. Nothing may be sent again: this failure ends the call, and no better one, since it may have had an effect.
        if row.retry == "never" or not (row.retry == "always" or self.plan.repeat or not failure.sent):
            if row.breaker == "success" and not self.plan.rule.known:
                self.budget.found(self.plan.method, now)
            self.stopped = EVERYWHERE if row.retry == "never" else ONCE
            return self._settle(Settle(answer, failure, node))
        # 3. Another attempt is under way, which may still do better.
        if self._running:
            return None
        # 4. A second node said the same, and a third one is not to be asked.
        if row.retry == "one-other" and len(self.tried) > 1:
            return self._give_up(now, SECONDED)
        # 5. The block is not there yet: other nodes have a count of their own, and then there are pauses.
        if failure.kind is FailureKind.NODE_BEHIND:
            return self._look_further(node, failure, now)
        # 6. The attempts or the time are used up, or there is nobody to be asked.
        self._in_vain += failure.kind in _NO_ATTEMPT
        if self._counted() >= self.settings.attempts:
            return self._give_up(now, f"the attempts of a call were used up (attempts = {self.settings.attempts})")
        successor = None if self.ends - now <= _SOON else self._successor(node, failure.kind, now)
        if successor is None:
            return self._give_up(now, NO_TIME if self.ends - now <= _SOON else NO_OTHER)
        # 7. The successor is asked, if the budget pays for that.
        return self._pay_and_start(successor, node, failure, now)

    def _is_undivided(self, kind: FailureKind) -> bool:
        """Did a node find a call too large that cannot be asked for in smaller parts?"""
        span = self.plan.range
        return kind is FailureKind.TOO_LARGE and (span is None or span.length == 1)

    def _look_further(self, behind: Node, failure: Failure, now: float) -> NextStep:
        """Somebody may have by now what this node has not yet."""
        settings = self.settings
        if self.nodes:
            settings = dispatch_settings(settings, self.plan, self.nodes)
        self._behind += 1
        if self.ends - now <= _SOON:
            return self._give_up(now, NO_TIME)
        node = self.chooser.next(self.tried, now) if self._behind <= settings.behind_attempts else None
        if node is not None:
            return self._pay_and_start(node, behind, failure, now)
        self._pauses += 1
        pause = settings.pause(self._pauses)
        if pause is None or now + pause >= self.ends:
            return self._give_up(now, NO_OTHER if pause is None else NO_TIME)
        self.state = _PAUSING
        self.due = now + pause
        return None

    def _successor(self, node: Node, kind: FailureKind, now: float) -> Node | None:
        if policy(kind).retry == "same-node" and self._again is None:
            self._again = node.id
            return node
        fresh = self.chooser.next(self.tried, now)
        if fresh is not None:
            return fresh
        again = kind is FailureKind.RATE_LIMITED or (kind is FailureKind.PRUNED and self.budget.doubt(now))
        return self.chooser.next((), now) if again else None

    def _counted(self) -> int:
        """Attempts that count against the limit."""
        return self.attempts - self._behind - self._in_vain

    def _attempt(self, node: Node, now: float, *, hedge: bool = False) -> Asked:
        self.attempts += 1
        self._running[self.attempts] = node
        if node.id not in self.tried:
            self.tried += (node.id,)
        self.state = _RUNNING
        return Asked(self.attempts, node, min(node.timeout, self.ends - now), hedge)

    def _pay_and_start(self, node: Node, failed: Node, after: Failure, now: float) -> NextStep:
        unknown = "" if self.plan.rule.known else self.plan.method
        if not self.budget.retry(after, now, unknown=unknown, shut=not failed.breaker.allows(now), told=True):
            return self._give_up(now, unpaid(after, unknown=unknown))
        self.due = inf  # a hedge beside an attempt that is itself a second one would be a third
        return self._attempt(node, now)

    def _remember(self, end: Settle) -> None:
        rank = error_rank(end)
        if rank > self._best_rank:
            self._best, self._best_rank = end, rank

    def _give_up(self, now: float, why: str) -> NextStep:
        self.stopped = why
        if len(self.tried) > 1 and not self.plan.rule.known:
            self.budget.in_vain(self.plan.method, now)
        elif len(self.tried) > 1 and self._best is not None and self._best.failure is not None:
            self.budget.failed_again(self._best.failure, now)
        return self._settle(self._best or _out_of_time())

    def _settle(self, end: Settle) -> Settle:
        self._running.clear()
        self.due = inf
        self.state = _SETTLED
        return end

    def _expect(self, event: str) -> None:
        if event not in LEGAL_EVENTS[self.state]:
            raise IllegalEvent(f"{event} while {self.state.value}")

    def _expect_attempt(self, event: str, attempt: int) -> Node:
        node = self._running.get(attempt)
        if node is None or self.state is not _RUNNING:
            self._expect(event)
            raise IllegalEvent(f"{event}: attempt {attempt} is not running")
        return node
