"""The attempts of one call as they are really made, each with what it costs and teaches booked on its node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Literal

from rpcaccel.core.cache.retention import is_empty
from rpcaccel.core.dispatch.commands import StartAttempt
from rpcaccel.core.dispatch.outcome import Leg
from rpcaccel.core.nodes.breaker import Verdict
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.replies.result_check import judge_result
from rpcaccel.dataplane.upstream.pool import NodeClient, NodePool
from rpcaccel.dataplane.upstream.trace_context import CURRENT as TRACED
from rpcaccel.dataplane.upstream.trace_context import FORWARDED

Reply = tuple[Answer | Failure, FailureKind | None]
"""What came back, and how it was judged; None: well."""

CutAs = Literal["cancelled", "overtaken", "hung"]
"""Why an attempt is given up before a reply: nobody wants one, another was quicker, or the node said nothing at all."""


class Booking:
    """One attempt on the books of its node, from `__init__` until `close`, which must come exactly once."""

    __slots__ = ("_bulkhead", "_cell", "_permit", "_plan", "_pool", "_verdict", "began", "end", "ended", "head", "node",
                 "start")  # fmt: skip

    def __init__(self, plan: Plan, pool: NodePool, start: StartAttempt, began: float) -> None:
        node = start.node
        self.start = start
        self.node = node
        self.head = node.head
        """The node's head at the moment it was asked."""
        self._plan = plan
        self._pool = pool
        self.began = began
        self.ended: float | None = None
        """When it was over; None: it is under way."""
        self.end = "cancelled"
        """How, in the words of `Leg`."""
        self._verdict: Verdict = "ignore"  # what a cancelled attempt teaches
        self._bulkhead = bulkhead = plan.rule.bulkhead
        self._permit = node.begin(began, bulkhead)
        if node.quota is not None:
            node.quota.spend(plan.rule.heavy, began)
        self._cell = cell = pool.cells.get(node.id)
        if cell is not None:
            cell.sent(start.attempt > 1 and not start.hedge, start.hedge)

    def replied(self, reply: Answer | Failure) -> FailureKind | None:
        """Take in what came back: how it is judged; None: well."""
        node, now = self.node, self._pool.clock()
        kind = self._judge(reply)
        self.end = "answered" if kind is None else kind.value
        if isinstance(reply, Answer):
            node.replied(now)
        self._verdict = self._learn(reply, kind, now)
        cell = self._cell
        if cell is not None:
            if kind is not None:
                cell.failed(kind)
            if isinstance(reply, Answer):
                cell.answered(reply.elapsed, 0 if reply.result is None else len(reply.result))
        return kind

    def cut(self, how: CutAs) -> None:
        """It was given up before a reply."""
        now = self._pool.clock()
        if how == "overtaken":
            self.node.overtaken(self._plan.method, now - self.began, now)
        elif how == "hung":
            self._verdict = "failure"
            self._pool.balancer.failed(self.node)
        self.end = FailureKind.TIMEOUT.value if how == "hung" else how
        if self._cell is not None:
            self._cell.failed(self.end)

    def close(self) -> None:
        """It is over: the permit goes back, and who waits for room may have it."""
        self.ended = now = self._pool.clock()
        bulkhead, node, rooms = self._bulkhead, self.node, self._pool.rooms
        full = node.in_flight >= node.limit.most
        node.finish(self._permit, self._verdict, now, bulkhead)
        if full or bulkhead is not Bulkhead.LIGHT:  # then it held a place that calls of any bulkhead may have
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
        node, balancer = self.node, self._pool.balancer
        if kind is None:
            node.succeeded(now - self.began, now, self._plan.rule.method, self._bulkhead)
            balancer.succeeded(node)
            return "success"
        start = self.start
        if kind is FailureKind.TIMEOUT and start.attempt > 1 and start.timeout < node.timeout:
            return "ignore"  # it only got what other nodes had left of the call's time
        if kind is FailureKind.TIMEOUT and self._bulkhead is not Bulkhead.LIGHT:
            return "ignore"  # who asks for more than can be done in time must not shut the node for light reads
        node.learn(kind, self._plan, now, retry_after=reply.retry_after)
        verdict = policy(kind).breaker
        if verdict == "failure":
            balancer.failed(node)
        elif verdict == "success":
            balancer.succeeded(node)
        return verdict


class Attempts:
    """The attempts of one call, as coroutines."""

    __slots__ = ("_bookings", "_plan", "clock", "cut_as", "heads", "made", "pool")

    def __init__(self, plan: Plan, pool: NodePool) -> None:
        self._plan = plan
        self.pool = pool
        self.clock = pool.clock
        self.heads: dict[str, int] = {}
        """The head of each node at the moment it was asked."""
        self._bookings: list[Booking] = []
        self.made = 0
        """Attempts begun."""
        self.cut_as: CutAs = "cancelled"
        """How one that is cancelled now is given up."""

    def book(self, start: StartAttempt) -> Booking:
        """Begin an attempt on the books."""
        return self.take(Booking(self._plan, self.pool, start, self.clock()))

    def take(self, booking: Booking) -> Booking:
        """An attempt that is on the books already is one of this call's."""
        self._bookings.append(booking)
        self.made += 1
        self.heads[booking.node.id] = booking.head
        return booking

    async def send(self, start: StartAttempt) -> Reply:
        """One attempt, with what it costs and teaches booked on the node."""
        plan, booking = self._plan, self.book(start)
        try:
            reply = await ask(self.pool.upstreams[start.node.id], plan, start)
            return reply, booking.replied(reply)
        except asyncio.CancelledError:
            booking.cut(self.cut_as)
            raise
        finally:
            booking.close()

    def compare(self, answer: Answer, behind: Collection[str]) -> None:
        """Nodes said that they have not got the block of this call, and another machine answered: what they said is
        shown to be a lag by that alone, since a client can bring such words about."""
        block = self._plan.block
        if block is None or answer.result is None or is_empty(bytes(answer.result)):
            return
        for node in self.pool.nodes:
            if node.id in behind:
                node.lacked(block, self.pool.most_lag, self.clock())

    def legs(self) -> tuple[Leg, ...]:
        """The attempts in the order they began, where there were several."""
        if len(self._bookings) < 2:
            return ()
        began = self._bookings[0].began
        return tuple(
            Leg(made.node.id, made.began - began, made.ended - made.began, made.end)
            for made in self._bookings
            if made.ended is not None
        )


async def ask(upstream: NodeClient, plan: Plan, start: StartAttempt) -> Answer | Failure:
    """Send a call to a node and wait for its reply; noted in the trace that the call belongs to, if it does."""
    reply, traced = _wait(upstream, plan, start), TRACED.get()
    return await (reply if traced is None else traced.attempt(plan.method, start, reply))


async def _wait(client: NodeClient, plan: Plan, start: StartAttempt) -> Answer | Failure:
    reply: asyncio.Future[Answer | Failure] = asyncio.get_running_loop().create_future()

    def done(told: Answer | Failure) -> None:
        if not reply.done():
            reply.set_result(told)

    under_way = client.call(plan.method, plan.params, timeout=start.timeout, done=done, span=FORWARDED.get())
    try:
        return await reply
    except asyncio.CancelledError:
        under_way.cancel()
        raise
