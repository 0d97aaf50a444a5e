"""A node's client as tests write one: a coroutine for each request, carried by a task."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any

from rpcaccel import balancers
from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.attempt import Attempt, attempt
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin
from rpcaccel.dataplane.upstream.http_messages import NodeCall
from rpcaccel.dataplane.upstream.pool import NodeClient, NodePool, OnReply

Reply = Answer | Failure


class Carried:
    """A request that a task carries: it begins at once, and tells later what came of it."""

    def __init__(self, calls: Sequence[NodeCall], work: Coroutine[Any, Any, list[Reply]], told: OnReply) -> None:
        self.calls = calls
        self._told: OnReply | None = told
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._tell)

    def cancel(self) -> None:
        self._told = None
        self._task.cancel()

    def _tell(self, task: asyncio.Task[list[Reply]]) -> None:
        if self._told is None or task.cancelled():
            return
        calls, self.calls = self.calls, ()
        if (error := task.exception()) is None:
            self._told(calls, task.result())
        else:  # as the real one does: nobody is left waiting by a bug
            failure = Failure(FailureKind.UNKNOWN, f"the call failed in an unforeseen way: {error!r}")
            self._told(calls, [failure] * len(calls))


class FakeClient:
    """Implements NodeClient, and what a Batcher needs of a client, by `send`, which a test's class has, and by
    `send_batch`."""

    span = ""
    """What the node was told last of the trace that its call belongs to."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> Reply:
        raise NotImplementedError

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Reply]:
        raise NotImplementedError

    def call(self, attempt: Attempt) -> None:
        attempt.request = self.post((attempt,), attempt.asked.timeout, Attempt.settle, attempt.span)

    def leave(self, attempt: Attempt) -> None:
        if attempt.request is not None:
            attempt.request.cancel()

    def post(self, calls: Sequence[NodeCall], timeout: float, told: OnReply, span: str = "") -> Carried:
        self.span = span
        return Carried(calls, self._send(calls, timeout), told)

    async def _send(self, calls: Sequence[NodeCall], timeout: float) -> list[Reply]:
        if len(calls) > 1:
            return await self.send_batch([(call.method, call.params) for call in calls], timeout=timeout)
        return [await self.send(calls[0].method, calls[0].params, timeout=timeout)]


class FakeSpan:
    """Implements TracedCall and TracedAttempt with a header that a test chose."""

    trace = "f" * 32

    def __init__(self, header: str) -> None:
        self.header = header

    def attempt(self, method: str, asked: Asked) -> FakeSpan:
        return self

    def end(self, reply: Reply | None) -> None: ...


def pool_of(client: NodeClient, **options: Any) -> NodePool:
    """A pool of one node "a" behind a client, for attempts that are made one by one."""
    usual: dict[str, Any] = {
        "classify": lambda _code, _message, _status: FailureKind.REVERT,
        "clock": asyncio.get_running_loop().time,
    }
    return NodePool(
        nodes=[Node("a")],
        balancer=balancers.load("smooth_weighted"),
        upstreams={"a": client},
        rng=Random(1),
        **usual | options,
    )


def plan_of(rule: Rule, params: bytes = b"[]", method: str = "") -> Plan:
    """The plan of a call that a rule describes."""
    return Plan(
        network="n",
        method=method or rule.method,
        rule=rule,
        params=params,
        asked=params,
        cache=CacheClass.HEAD,
    )


async def asked(pool: NodePool, plan: Plan, *, timeout: float = 5.0, origin: CallOrigin = PROXY) -> Reply:
    """The reply of the pool's first node to one attempt; a caller that is cancelled leaves."""
    _, reply, _ = await attempt(plan, pool, Asked(1, pool.nodes[0], timeout), origin)
    return reply
