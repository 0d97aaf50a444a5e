"""Nodes that behave as a script says, and calls taken to them by a real fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from rpcaccel import balancers
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.dispatch.dispatch_policy import Hedging
from rpcaccel.core.dispatch.machine import Asked, NodeChooser
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.engine.fetch import Fetch
from rpcaccel.dataplane.networks.network import ChainState, Network
from rpcaccel.dataplane.upstream.chooser import PROXY, CallOrigin, Chooser
from rpcaccel.dataplane.upstream.pool import NodePool
from rpcaccel.stores.base import NoStore
from tests.support.dataplane.fake_client import FakeClient
from tests.support.plans import plan_of

Reply = Answer | Failure
Behaviour = Callable[[float], Awaitable[Reply]]

KIND_OF_MESSAGE = {
    "behind": FailureKind.NODE_BEHIND,
    "pruned": FailureKind.PRUNED,
    "missing": FailureKind.METHOD_MISSING,
    "revert": FailureKind.REVERT,
    "limit": FailureKind.RATE_LIMITED,
}


def classify(code: int, message: str, http_status: int) -> FailureKind:  # noqa: ARG001
    return KIND_OF_MESSAGE.get(message, FailureKind.UNKNOWN)


def says(reply: Reply) -> Behaviour:
    async def behave(timeout: float) -> Reply:  # noqa: ARG001
        return reply

    return behave


def error(message: str) -> Behaviour:
    return says(Answer(error=b'{"code":-32000,"message":"%b"}' % message.encode()))


def breaks(kind: FailureKind, *, sent: bool = True) -> Behaviour:
    return says(Failure(kind, kind.value, sent=sent))


async def hang(timeout: float) -> Reply:
    await asyncio.sleep(timeout)
    return Failure(FailureKind.TIMEOUT, "no reply in time")


WELL = says(Answer(result=b"1"))


def our_tasks() -> set[asyncio.Task[object]]:
    """Every task but those that carry the calls of scripted nodes."""
    return {task for task in asyncio.all_tasks() if "FakeClient._send" not in repr(task.get_coro())}


class Scripted(FakeClient):
    """An upstream that behaves as told, call by call, and as at last thereafter."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)
        self.asked = 0
        self.cancelled = 0
        self.timeouts: list[float] = []

    async def send(self, method: str, params: bytes, *, timeout: float) -> Reply:
        assert (method, params) == ("m", b"[1]")
        behaviour = self.behaviours[min(self.asked, len(self.behaviours) - 1)]
        self.asked += 1
        self.timeouts.append(timeout)
        try:
            return await behaviour(timeout)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def after_a_while(timeout: float) -> Reply:  # noqa: ARG001
    await asyncio.sleep(0.02)
    return Answer(result=b"1")


class Trace:
    """Implements TracedCall: notes which nodes were asked for it, and how that ended."""

    trace = "f" * 32

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ended: list[Reply | None] = []

    def attempt(self, method: str, asked: Asked) -> Trace:
        self.asked.append(asked.node.id)
        return self

    header = "00-" + "f" * 32 + "-" + "e" * 16 + "-01"

    def end(self, reply: Reply | None) -> None:
        self.ended.append(reply)


class Concluding(Engine):
    """Keeps how calls that were taken to the nodes ended, in the place of answers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.said: list[Forwarded] = []

    def conclude(self, network: Network, plan: Plan, forwarded: Forwarded, timed: object) -> Outcome:
        self.said.append(forwarded)
        return Outcome(source=AnswerSource.NODE, result=b"")


async def forward(
    plan: Plan,
    pool: NodePool,
    *,
    deadline: float,
    route_key: bytes = b"",
    chooser: NodeChooser | None = None,
    origin: CallOrigin = PROXY,
) -> Forwarded:
    """How the nodes of a pool answer a call; a caller that is cancelled takes it back."""
    tally, memory, rng = Tally(), MemoryTier(1 << 16, 1 << 12), Random(1)
    means = Concluding(memory, NoStore(), tally, pool.clock, rng)
    network = SimpleNamespace(
        name="n",
        pool=pool,
        sight=ChainState(),
        refreshes=Budget(),
        settings=SimpleNamespace(deadline=deadline - pool.clock()),
    )
    chooser = chooser or Chooser(plan, pool.nodes, pool.balancer, pool.rng, route_key)
    fetch = Fetch(
        flights=means.flights,
        bound=True,
        shared=means,
        network=network,  # type: ignore[arg-type]
        plan=plan,
        origin=origin,
        ends=deadline,
        only=chooser,
    )
    await fetch.outcome()
    (forwarded,) = means.said
    return forwarded


class World:
    """A pool of scripted nodes a, b, c … that are asked in that order."""

    def __init__(self, *scripts: Scripted, **options: object) -> None:
        self.scripts = scripts
        self.nodes = [Node("abcdef"[number], timeout=2.0) for number in range(len(scripts))]
        balancer = balancers.load("smooth_weighted")
        balancer.adopt(self.nodes)
        self.pool = NodePool(
            nodes=self.nodes,
            balancer=balancer,
            upstreams={node.id: script for node, script in zip(self.nodes, scripts, strict=True)},
            classify=classify,
            clock=asyncio.get_running_loop().time,
            rng=Random(1),
            **options,  # type: ignore[arg-type]
        )

    async def call(
        self,
        *,
        repeat: bool = True,
        heavy: bool = False,
        block: int | None = None,
        within: float = 5.0,
        hedge_after: float | None = None,
        origin: CallOrigin = PROXY,
    ) -> Forwarded:
        plan = plan_of(params=b"[1]", repeat=repeat, heavy=heavy, block=block, hedge=True)
        deadline = self.pool.clock() + within
        if hedge_after is not None:
            self.pool.hedging = Hedging(at_least=hedge_after, samples=1)
            for node in self.nodes:
                node.pace.answered("m", 0.001, 0.0)
        return await forward(plan, self.pool, deadline=deadline, origin=origin)

    @property
    def asked(self) -> list[int]:
        return [script.asked for script in self.scripts]

    def assert_nothing_is_left_open(self) -> None:
        assert [node.in_flight for node in self.nodes] == [0] * len(self.nodes)
        assert len(self.pool.hedged) == 0
