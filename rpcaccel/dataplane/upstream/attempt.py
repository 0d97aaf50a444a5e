"""One attempt at a node: sends the call, and books on the node what the attempt costs and what its reply shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from rpcaccel.core.dispatch.broadcast import Broadcast
from rpcaccel.core.dispatch.dispatch_policy import Settle
from rpcaccel.core.dispatch.machine import Asked, Dispatch
from rpcaccel.core.dispatch.outcome import Forwarded, Leg
from rpcaccel.core.nodes.breaker import Verdict
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.replies.range_limit import stated_limit
from rpcaccel.core.replies.result_check import judge_result
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin, TracedAttempt
from rpcaccel.dataplane.upstream.pool import NodePool, UnderWay

CutAs = Literal["cancelled", "overtaken", "hung"]
"""Why an attempt is given up before its reply: the call ended, another attempt was quicker, or the node hangs."""
LONGEST_SAID = 200
"""Characters kept of the words of a node that failed."""
_LIGHT = Bulkhead.LIGHT  # looked up once (core.plan.planner)


OnAttemptEnd = Callable[["Attempt", Answer | Failure, FailureKind | None], None]
"""Called with an attempt, its reply, and what is wrong with the reply (None: nothing)."""


class Attempt:
    """A call on its way to a node, from `__init__` until its reply or until `cut`: what batches gather, and what a
    request carries."""

    __slots__ = ("_over", "_span", "asked", "began", "cell", "end", "ended", "head", "method", "node", "params",
                 "permit", "plan", "pool", "request", "said", "span")  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        pool: NodePool,
        asked: Asked,
        began: float,
        over: OnAttemptEnd,
        origin: CallOrigin = PROXY,
    ) -> None:
        """Ask the node. `over` is called once, after the reply was booked, and not before `__init__` has returned."""
        node, bulkhead = asked.node, plan.rule.bulkhead
        self.asked = asked
        self.node = node
        self.plan = plan
        self.pool = pool
        self.method = plan.method
        self.params = plan.params
        self.head = node.head
        """The node's head at the moment of asking."""
        self.began = began
        self.ended: float | None = None
        """When the attempt was over; None while it is under way."""
        self.end = "cancelled"
        """How the attempt ended, in the words of `Leg`."""
        self.said = ""
        """The words of the node, or of the failure on the way to it; empty unless the attempt failed."""
        self.span = ""
        """The header that names the attempt to the node (a traceparent); empty when the call is not traced."""
        self.request: UnderWay | None = None
        """The HTTP request that carries the attempt, or did last; None as long as the attempt waits for a batch."""
        self._over = over  # let go once called: a ring of objects would be left to the garbage collector
        self._span: TracedAttempt | None = None
        self.permit = node.begin(began, bulkhead)
        if node.contradictions.methods:
            node.contradictions.asked(plan.rule.method, began)
        self.cell = cell = pool.cells.get(node.id) or NodeCell("", node.id)
        cell.calls += 1
        if (quota := node.quota) is not None:
            cost = quota.spend(plan.method, plan.rule.heavy, began)
            if quota.settings.costs.billed:
                cell.credits += cost
                cell.credited += 1
        if asked.number > 1:
            cell.hedges += asked.hedge
            cell.retries += not asked.hedge
        try:
            if origin.trace is not None:
                self._span = origin.trace.attempt(plan.method, asked)
                self.span = self._span.header
            pool.upstreams[node.id].call(self)
        except BaseException:
            self._finish("ignore", began)
            raise

    def __repr__(self) -> str:
        return f"<attempt {self.asked.number} of {self.method} at {self.node.id}>"

    def cut(self, how: CutAs) -> None:
        """Give the attempt up; nothing when it is over."""
        self._over = _nobody
        if self.ended is not None:
            return
        pool, node = self.pool, self.node
        self.ended = now = pool.clock()
        pool.upstreams[node.id].leave(self)
        if how == "overtaken":
            node.overtaken(self.method, now - self.began, now)
        elif how == "hung":
            pool.balancer.failed(node)
        self.end = FailureKind.TIMEOUT.value if how == "hung" else how
        self.cell.failed(self.end)
        if self._span is not None:
            self._span.end(None)
        self._finish("failure" if how == "hung" else "ignore", now)

    def leg(self, since: float) -> Leg:
        """How an attempt that is over went, in seconds from the moment `since`."""
        ended = self.began if self.ended is None else self.ended
        return Leg(self.node.id, self.began - since, ended - self.began, self.end, self.said)

    @staticmethod
    def settle(attempts: Sequence[Attempt], replies: Sequence[Answer | Failure]) -> None:  # noqa: PLR0912 -- more functions, more calls
        """Take in the replies to attempts that one request carried: judge each, book all, then call each `over`.

        All attempts belong to one pool, node and bulkhead; an attempt that is over is passed over. What is booked for
        good answers together is in `Node.answered`. What goes wrong with one attempt keeps no other waiting.
        """
        pool, node, bulkhead = attempts[0].pool, attempts[0].node, attempts[0].plan.rule.bulkhead
        now, full = pool.clock(), node.in_flight >= node.limit.most
        judged: list[tuple[Attempt, Answer | Failure, FailureKind | None]] = []
        good: list[Attempt] = []
        methods: list[str] = []
        elapsed, size = 0.0, 0
        for attempt, reply in zip(attempts, replies, strict=True):
            if attempt.ended is not None:
                continue
            told, kind = reply, None
            try:
                if isinstance(reply, Failure) or reply.result is None:
                    told, kind = attempt._classify(reply)
                elif (kind := judge_result(attempt.plan, reply.result, attempt.head)) is None:
                    attempt.ended, attempt.end = now, "answered"
                    elapsed, size = reply.elapsed, size + len(reply.result)
                    good.append(attempt)
                    methods.append(attempt.plan.rule.method)
                if kind is not None:
                    # A failure of a whole request is one refusal, however many calls the request carried.
                    attempt._learn(reply, kind, now, (attempts[0] if isinstance(reply, Failure) else attempt).plan)
            except Exception as error:  # a call that waits must be told, whatever went wrong with its reply
                told, kind = attempt._stumble(error, now)
            judged.append((attempt, told, kind))
        try:
            if good:
                node.answered(good, now)
                attempts[0].cell.answered(elapsed, size, len(good), methods)
                if node.id in pool.balancer.penalised:
                    pool.balancer.succeeded(node)
                if full or bulkhead is not _LIGHT or pool.rooms[bulkhead].waiting:
                    pool.free(bulkhead, len(good), full=full)
        finally:  # a bug in booking keeps no caller waiting
            for attempt, told, kind in judged:
                over, attempt._over = attempt._over, _nobody
                try:
                    if attempt._span is not None:
                        attempt._span.end(told)
                    over(attempt, told, kind)
                except Exception as error:  # or the attempts behind this one would never be told
                    attempt._report(error)

    def _classify(self, reply: Answer | Failure) -> tuple[Answer | Failure, FailureKind]:
        """The reply and its kind, which the words of the node decide if there are any."""
        if isinstance(reply, Failure):
            kind = self.pool.classify(0, reply.said, 200) if reply.said else FailureKind.UNKNOWN
            return (reply, reply.kind) if kind is FailureKind.UNKNOWN else (replace(reply, kind=kind), kind)
        assert reply.error is not None
        code, message = error_parts(reply.error)
        kind = self.pool.classify(code, message, reply.http_status)
        if kind is FailureKind.UNKNOWN and self.pool.unclassed is not None:
            self.pool.unclassed(self.node.id, self.method, code, message, reply.http_status)
        return reply, kind

    def _learn(self, reply: Answer | Failure, kind: FailureKind, now: float, content: Plan) -> None:
        """Book an attempt whose reply is not good. `content`: the call that the reply may be about."""
        node, pool = self.node, self.pool
        if isinstance(reply, Answer):
            node.replied(now)
        verdict: Verdict = "ignore"
        if not self._is_no_fault(kind):
            stated = kind is FailureKind.TOO_LARGE and self.plan.range is not None and reply.error is not None
            longest = stated_limit(error_parts(reply.error)[1]) if stated and reply.error else None
            said = isinstance(reply, Failure) or reply.error is not None
            if said or kind is not FailureKind.PRUNED:  # a result counts once another node has more
                node.learn(kind, self.plan, now, retry_after=reply.retry_after, content=content, longest=longest)
            verdict = policy(kind).breaker
            if verdict == "failure":
                pool.balancer.failed(node)
            elif verdict == "success":
                pool.balancer.succeeded(node)
        self.end = kind.value
        self.said = _words(reply)
        self.cell.failed(kind)
        if isinstance(reply, Answer):
            self.cell.answered(reply.elapsed, 0 if reply.result is None else len(reply.result))
        self._finish(verdict, now)

    def _is_no_fault(self, kind: FailureKind) -> bool:
        """Did the call take too long through no fault of the node?"""
        if kind is not FailureKind.TIMEOUT:
            return False
        if self.asked.number > 1 and self.asked.timeout < self.node.timeout:
            return True  # the attempt only got what other nodes had left of the call's time
        # A client that asks for more than can be done in time must not shut the node for light reads.
        return self.plan.rule.bulkhead is not _LIGHT

    def _stumble(self, error: Exception, now: float) -> tuple[Failure, FailureKind]:
        """Book an attempt whose reply met a bug; returns the failure that stands for the reply, and its kind."""
        self._report(error)
        kind = FailureKind.UNKNOWN
        self.end = kind.value
        self.cell.failed(kind)
        if self.ended is None:
            self._finish("ignore", now)
        return Failure(kind, "the call failed in an unforeseen way", node=self.node.id), kind

    def _report(self, error: Exception) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": f"the reply to {self!r}", "exception": error})

    def _finish(self, verdict: Verdict, now: float) -> None:
        """Give the permit back, and let calls that wait for room have it."""
        self.ended = now
        bulkhead, node = self.plan.rule.bulkhead, self.node
        full = node.in_flight >= node.limit.most
        node.finish(self.permit, verdict, now, bulkhead)
        self.pool.free(bulkhead, 1, full=full)


def _nobody(_attempt: Attempt, _reply: Answer | Failure, _kind: FailureKind | None) -> None:
    """Stands for the `over` of an attempt that was given up or is over."""


async def attempt(
    plan: Plan, pool: NodePool, asked: Asked, origin: CallOrigin = PROXY
) -> tuple[Attempt, Answer | Failure, FailureKind | None]:
    """Make one attempt and wait for it; returns the attempt, its reply, and what is wrong with the reply (None:
    nothing). The attempt is given up when the caller is cancelled."""
    came: asyncio.Future[tuple[Answer | Failure, FailureKind | None]] = asyncio.get_running_loop().create_future()

    def over(_attempt: Attempt, reply: Answer | Failure, kind: FailureKind | None) -> None:
        if not came.done():
            came.set_result((reply, kind))

    made = Attempt(plan, pool, asked, pool.clock(), over, origin)
    try:
        return made, *await came
    except asyncio.CancelledError:
        made.cut("cancelled")
        raise


def concluded(
    end: Settle, machine: Dispatch | Broadcast, attempts: Sequence[Attempt], *, count: int, forced: bool
) -> Forwarded:
    """How a call ended that was taken to the nodes as the machine decided. `attempts`: those of it that are over."""
    failure, node = end.failure, end.node
    made = sorted(attempts, key=_began) if len(attempts) > 1 else attempts
    head = -1
    for one in made:
        if one.node is node:
            head = one.head  # of the last attempt at that node
    return Forwarded(
        answer=None if failure is not None and policy(failure.kind).client == "own-error" else end.answer,
        failure=failure,
        node_id="" if node is None else node.id,
        node_head=head,
        attempts=count,
        tried=machine.tried,
        steps=machine.steps,
        legs=tuple([one.leg(made[0].began) for one in made]) if len(made) > 1 or (made and made[0].said) else (),
        stopped=machine.stopped,
        forced=forced,
    )


def _words(reply: Answer | Failure) -> str:
    """The words of a reply that is not good."""
    error, text = reply.error, "" if isinstance(reply, Answer) else reply.text
    if error is not None:
        text = error_parts(error)[1]
    return printable((text or "a result that cannot be")[:LONGEST_SAID])[:LONGEST_SAID]


def _began(attempt: Attempt) -> float:
    return attempt.began
