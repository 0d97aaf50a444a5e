"""The shadow calls of one examination to one node: counted, paced, bounded, and made again where a node was only too
busy.

A shadow call is nobody's: no client waits for its answer, and nothing is kept of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from rpcaccel.chains import Chain
from rpcaccel.config.resilience import QuotaSettings
from rpcaccel.controlplane.nodes.probes import Asker
from rpcaccel.core.nodes.limits import MethodCosts
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.error_rules import ErrorTable, classify
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.wire.printable import printable

_TRIES = 4
"""Times that one call is sent, while its failure is transient."""
_FIRST_PAUSE = 0.25
"""Seconds after a transient failure in which the node gets no shadow call: doubled with each, or what it asks for."""
_SHARE_OF_QUOTA = 100
"""An examination may use one in so many units of a day or a month."""
_MAX_MESSAGE = 120
"""Characters of a node's message that are shown."""
TRANSIENT = frozenset(
    {
        FailureKind.RATE_LIMITED,
        FailureKind.CONNECT,
        FailureKind.TLS,
        FailureKind.DNS,
        FailureKind.RESET_BEFORE_REPLY,
        FailureKind.BROKEN_REPLY,
        FailureKind.TIMEOUT,
        FailureKind.NODE_TIMEOUT,
        FailureKind.HTTP_STATUS,
        FailureKind.NOT_JSON_RPC,
        FailureKind.WRONG_ID,
        FailureKind.BUSY,
        FailureKind.CANCELLED,
    }
)
"""Kinds of failures that say nothing about what a node has: the next answer may be another."""


class ProbeBudget(Struct):
    """What shadow calls may use of one node and have used, whichever examinations they belong to."""

    calls: int = 200
    """The most calls of one examination. Those of a batch count one by one."""
    second: float = 0.0
    """The most units a second, as the node's quota counts them; 0: no limit."""
    cost: float = math.inf
    """The most units, as the node's quota counts them."""
    costs: MethodCosts = MethodCosts()
    """The units of a call of each method."""
    spent: float = 0.0
    """The units of calls that were sent."""
    free_at: float = -math.inf
    """The time of the clock from which the next call may be sent, in seconds."""


def budget_of(quota: QuotaSettings, *, alone: bool) -> ProbeBudget:
    """What one examination may use of a node with this quota: half of its units a second or a tenth, and a hundredth of
    its day and month.

    `alone`: does the node get no other calls meanwhile, but for probes?
    """
    cost = min((limit for limit in (quota.day, quota.month) if limit), default=math.inf) / _SHARE_OF_QUOTA
    return ProbeBudget(second=quota.second / (2 if alone else 10), cost=cost, costs=quota.method_costs)


class Examined(Struct, frozen=True):
    """A node that is examined, or another one whose answers those of the node are compared with."""

    id: str
    asker: Asker
    head: int
    """The last block that it may be asked about."""
    version: str = ""
    budget: ProbeBudget = field(default_factory=ProbeBudget)


class CallTerms(Struct, frozen=True):
    """What holds for all calls of an examination."""

    chain: Chain
    errors: ErrorTable
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    ends: float
    """The time (of `clock`, seconds) after which no call is begun; one under way may end `timeout` later."""
    timeout: float


class ShadowReply(Struct, frozen=True):
    """The end of one shadow call."""

    result: bytes | None = None
    """Raw JSON text; None where the call failed."""
    kind: FailureKind | None = None
    """Why it failed; None where it did not."""
    text: str = ""
    """The node's message, or the failure in words."""
    elapsed: float = 0.0
    """Seconds from sending the call to the last byte of its answer."""
    retry_after: float | None = None

    @property
    def transient(self) -> bool:
        """Does the failure say nothing about what the node has?"""
        return self.kind in TRANSIENT


class ShadowCall(Struct, frozen=True):
    """One of the calls of a batch; `params` are raw JSON text."""

    method: str
    params: bytes


@runtime_checkable
class BatchAsker(Protocol):
    """A session that can send several calls as one batch (dataplane.upstream.node_client.HttpNodeClient)."""

    def post(
        self,
        calls: Sequence[ShadowCall],
        timeout: float,
        told: Callable[[Sequence[ShadowCall], Sequence[Answer | Failure]], None],
    ) -> object:
        """Send calls as one request; `told` is called within `timeout` seconds."""
        ...


class ShadowCalls:
    """The calls of one examination to one node: counted, paced, bounded, and made again where the node was only too
    busy. They may be made side by side."""

    def __init__(self, node: Examined, terms: CallTerms) -> None:
        self.head = node.head
        self.sent = 0
        """Calls that the node was sent."""
        self.latencies: dict[str, list[float]] = {}
        """Seconds of the calls that were answered well, by method."""
        self._asker = node.asker
        self._budget = node.budget
        self._terms = terms

    def __repr__(self) -> str:
        return f"<shadow calls {self.sent} of {self._budget.calls}>"

    @property
    def over(self) -> bool:
        """Is no time or no call left?"""
        budget = self._budget
        used_up = self.sent >= budget.calls or budget.spent >= budget.cost
        return used_up or max(self._terms.clock(), budget.free_at) >= self._terms.ends

    def longest_batch(self, method: str) -> float:
        """The most calls of a light method that may be sent at once."""
        return (self._budget.second or math.inf) / max(1.0, self._budget.costs.of(method, heavy=False))

    async def ask(self, method: str, params: str) -> ShadowReply | None:
        """The end of one call; None when no time or no call is left."""

        async def send() -> Sequence[Answer | Failure]:
            return [await self._asker.send(method, params.encode(), timeout=self._terms.timeout)]

        replies = await self._ask(method, 1, send)
        if replies is None:
            return None
        if replies[0].result is not None:
            self.latencies.setdefault(method, []).append(replies[0].elapsed)
        return replies[0]

    async def ask_together(self, method: str, params: str, count: int) -> Sequence[ShadowReply] | None:
        """The ends of `count` equal calls in one batch; None when no time or no call is left, or batches cannot be
        sent."""
        asker = self._asker
        if not isinstance(asker, BatchAsker):
            return None

        def send() -> Awaitable[Sequence[Answer | Failure]]:
            done: asyncio.Future[Sequence[Answer | Failure]] = asyncio.get_running_loop().create_future()
            asker.post([ShadowCall(method, params.encode())] * count, self._terms.timeout, partial(_settle, done))
            return done

        return await self._ask(method, count, send)

    async def _ask(
        self, method: str, count: int, send: Callable[[], Awaitable[Sequence[Answer | Failure]]]
    ) -> Sequence[ShadowReply] | None:
        """The ends of the calls of one request, which is sent again while a failure is transient."""
        replies = None
        for attempt in range(_TRIES):
            if not await self._may_send(method, count):
                return replies
            replies = [self._read(answer) for answer in await send()]
            worst = next((reply for reply in replies if reply.transient), None)
            if worst is None:
                return replies
            # The node is left alone as it asks, and for good when it asks for more than the time that is left.
            pause = worst.retry_after if worst.retry_after is not None else _FIRST_PAUSE * 2.0**attempt
            self._budget.free_at = max(self._budget.free_at, self._terms.clock() + pause)
        return replies

    async def _may_send(self, method: str, count: int) -> bool:
        """Wait until the calls may be sent, and count them; False when no time or no call is left."""
        budget, clock, ends = self._budget, self._terms.clock, self._terms.ends
        cost = count * budget.costs.of(method, self._terms.chain.rules.get(method).heavy)
        if self.sent + count > budget.calls or budget.spent + cost > budget.cost:
            return False
        self._count(count, cost)
        while (now := clock()) < budget.free_at < ends:
            await self._terms.sleep(budget.free_at - now)
        if max(now, budget.free_at) >= ends:
            self._count(-count, -cost)
            return False
        budget.free_at = now + (cost / budget.second if budget.second else 0.0)
        return True

    def _count(self, calls: int, cost: float) -> None:
        self.sent += calls
        self._budget.spent += cost

    def _read(self, answer: Answer | Failure) -> ShadowReply:
        if isinstance(answer, Failure):
            return ShadowReply(kind=answer.kind, text=_line(answer.text), retry_after=answer.retry_after)
        if answer.result is not None:
            return ShadowReply(bytes(answer.result), elapsed=answer.elapsed)
        code, message = error_parts(answer.error or b"")
        kind = classify(self._terms.errors, code, message, answer.http_status).kind
        return ShadowReply(kind=kind, text=_line(message), retry_after=answer.retry_after)


def _settle(done: asyncio.Future[Sequence[Answer | Failure]], _calls: object, told: Sequence[Answer | Failure]) -> None:
    if not done.done():
        done.set_result(told)


def _line(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]}…"
