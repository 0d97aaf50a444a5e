"""One attempt at a node as it is really made, with what it costs and teaches booked on the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from rpcaccel.core.dispatch.dispatch_policy import Settle
from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.dispatch.outcome import Forwarded, Leg
from rpcaccel.core.nodes.breaker import Verdict
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.replies.result_check import judge_result
from rpcaccel.dataplane.upstream.pool import NodePool, UnderWay
from rpcaccel.dataplane.upstream.trace_context import CURRENT as TRACED
from rpcaccel.dataplane.upstream.trace_context import TracedAttempt

CutAs = Literal["cancelled", "overtaken", "hung"]
"""Why an attempt is given up before a reply: nobody wants one, another was quicker, or the node said nothing at all."""
_LIGHT = Bulkhead.LIGHT  # looked up once (core.plan.planner)


Over = Callable[["Attempt", Answer | Failure, FailureKind | None], None]


class Attempt:
    """A call that is on its way to a node, from `__init__` until its reply, or until it is `cut`."""

    __slots__ = ("_over", "_permit", "_plan", "_pool", "_span", "_under_way", "_verdict", "asked", "began", "end",
                 "ended", "head", "node")  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        pool: NodePool,
        asked: Asked,
        began: float,
        over: Over,
    ) -> None:
        """Ask the node. `over` is told the reply, once, and how it was judged (None: well), when it is booked; not
        before this has returned. It must not raise."""
        node = asked.node
        self.asked = asked
        self.node = node
        self.head = node.head
        """The node's head at the moment it was asked."""
        self.began = began
        self.ended: float | None = None
        """When it was over; None: it is under way."""
        self.end = "cancelled"
        """How, in the words of `Leg`."""
        self._plan = plan
        self._pool = pool
        self._over: Over | None = over  # None once it was told: a ring of objects is left to the garbage collector
        self._verdict: Verdict = "ignore"  # what a cancelled attempt teaches
        bulkhead = plan.rule.bulkhead
        self._permit = node.begin(began, bulkhead)
        if node.quota is not None:
            node.quota.spend(plan.rule.heavy, began)
        if (cell := pool.cells.get(node.id)) is not None:
            cell.sent(asked.number > 1 and not asked.hedge, asked.hedge)
        self._span: TracedAttempt | None = None
        self._under_way: UnderWay | None = None
        try:
            traced = TRACED.get()
            self._span = None if traced is None else traced.attempt(plan.method, asked)
            self._under_way = pool.upstreams[node.id].call(
                plan.method,
                plan.params,
                timeout=asked.timeout,
                done=self._replied,
                span="" if self._span is None else self._span.header,
            )
        except BaseException:
            self._close(began)
            raise

    def __repr__(self) -> str:
        return f"<attempt {self.asked.number} of {self._plan.method} at {self.node.id}>"

    def cut(self, how: CutAs) -> None:
        """Give it up; nothing when it is over."""
        under_way, self._under_way, self._over = self._under_way, None, None
        if under_way is None:
            return
        under_way.cancel()
        now = self._pool.clock()
        if how == "overtaken":
            self.node.overtaken(self._plan.method, now - self.began, now)
        elif how == "hung":
            self._verdict = "failure"
            self._pool.balancer.failed(self.node)
        self.end = FailureKind.TIMEOUT.value if how == "hung" else how
        if (cell := self._pool.cells.get(self.node.id)) is not None:
            cell.failed(self.end)
        if self._span is not None:
            self._span.end(None)
        self._close(now)

    def leg(self, since: float) -> Leg:
        """What became of it, counted from a moment. It is over."""
        ended = self.began if self.ended is None else self.ended
        return Leg(self.node.id, self.began - since, ended - self.began, self.end)

    def _replied(self, reply: Answer | Failure) -> None:
        """Take in what came back."""
        self._under_way = None
        node, now = self.node, self._pool.clock()
        kind: FailureKind | None
        try:
            kind = self._judge(reply)
            if isinstance(reply, Answer):
                node.replied(now)
            self._verdict = self._learn(reply, kind, now)
        except Exception as error:  # a call that waits must be told, whatever went wrong with its reply
            asyncio.get_running_loop().call_exception_handler({"message": f"judging {self!r}", "exception": error})
            kind = FailureKind.UNKNOWN
            reply = Failure(kind, "the call failed in an unforeseen way", node=node.id)
        self.end = "answered" if kind is None else kind.value
        if (cell := self._pool.cells.get(node.id)) is not None:
            if kind is not None:
                cell.failed(kind)
            if isinstance(reply, Answer):
                cell.answered(reply.elapsed, 0 if reply.result is None else len(reply.result))
        if self._span is not None:
            self._span.end(reply)
        self._close(now)
        over, self._over = self._over, None
        if over is not None:
            over(self, reply, kind)

    def _close(self, now: float) -> None:
        """The permit goes back, and who waits for room may have it."""
        self.ended = now
        bulkhead, node, rooms = self._plan.rule.bulkhead, self.node, self._pool.rooms
        full = node.in_flight >= node.limit.most
        node.finish(self._permit, self._verdict, now, bulkhead)
        if full or bulkhead is not _LIGHT:  # then it held a place that calls of any bulkhead may have
            for room in rooms:
                room.free()
        else:
            rooms[bulkhead].free()

    def _judge(self, reply: Answer | Failure) -> FailureKind | None:
        if isinstance(reply, Failure):
            return reply.kind
        if reply.error is None:
            return None if reply.result is None else judge_result(self._plan.rule, reply.result)
        code, message = error_parts(reply.error)
        kind = self._pool.classify(code, message, reply.http_status)
        if kind is FailureKind.UNKNOWN and self._pool.unclassed is not None:
            self._pool.unclassed(self.node.id, self._plan.method, code, message, reply.http_status)
        return kind

    def _learn(self, reply: Answer | Failure, kind: FailureKind | None, now: float) -> Verdict:
        node, balancer, bulkhead = self.node, self._pool.balancer, self._plan.rule.bulkhead
        if kind is None:
            node.succeeded(now - self.began, now, self._plan.rule.method, bulkhead)
            balancer.succeeded(node)
            return "success"
        asked = self.asked
        if kind is FailureKind.TIMEOUT and asked.number > 1 and asked.timeout < node.timeout:
            return "ignore"  # it only got what other nodes had left of the call's time
        if kind is FailureKind.TIMEOUT and bulkhead is not _LIGHT:
            return "ignore"  # who asks for more than can be done in time must not shut the node for light reads
        node.learn(kind, self._plan, now, retry_after=reply.retry_after)
        verdict = policy(kind).breaker
        if verdict == "failure":
            balancer.failed(node)
        elif verdict == "success":
            balancer.succeeded(node)
        return verdict


async def attempt(plan: Plan, pool: NodePool, asked: Asked) -> tuple[Attempt, Answer | Failure, FailureKind | None]:
    """One attempt, waited for: the reply, and how it was judged; None: well. It is given up when its caller leaves."""
    came: asyncio.Future[tuple[Answer | Failure, FailureKind | None]] = asyncio.get_running_loop().create_future()

    def over(_attempt: Attempt, reply: Answer | Failure, kind: FailureKind | None) -> None:
        if not came.done():
            came.set_result((reply, kind))

    made = Attempt(plan, pool, asked, pool.clock(), over)
    try:
        return made, *await came
    except asyncio.CancelledError:
        made.cut("cancelled")
        raise


class Machine(Protocol):
    """What has decided which nodes are asked: core.dispatch.machine or core.dispatch.broadcast."""

    tried: list[str]
    """Ids of the nodes asked, each once, in order."""
    steps: list[tuple[str, FailureKind]]
    """The attempts that failed: the node's id, and how."""


def concluded(end: Settle, machine: Machine, attempts: Sequence[Attempt], *, count: int, forced: bool) -> Forwarded:
    """How a call ended that was taken to the nodes. `attempts`: those of it that are over."""
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
        tried=tuple(machine.tried),
        steps=tuple(machine.steps),
        legs=tuple([one.leg(made[0].began) for one in made]) if len(made) > 1 else (),
        forced=forced,
    )


def _began(attempt: Attempt) -> float:
    return attempt.began
