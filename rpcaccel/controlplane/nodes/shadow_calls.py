"""The shadow calls of one proof to one node: counted, paced, bounded, and asked again where a node was only too busy.

A shadow call is nobody's: no client waits for its answer, and nothing is kept of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from msgspec import Struct

from rpcaccel.config.resilience import QuotaSettings
from rpcaccel.controlplane.nodes.probes import Asker
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.error_rules import ErrorTable, classify
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.wire.printable import printable

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
TRIES = 4
"""Times that one call is sent, while its failure is transient."""
_FIRST_PAUSE = 0.25
"""Seconds after a transient failure in which the node gets no shadow call: doubled with each, or what it asks for."""
_SHARE_OF_PROOFS = 100
"""A proof may use one in so many calls of a day or a month."""
_SHOWN = 120
"""Characters of a node's message that are shown."""


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
    """One of the calls of a batch."""

    method: str
    params: bytes
    """Raw JSON text."""


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


class Allowance(Struct, frozen=True):
    """What a node may be asked in one proof."""

    calls: int = 200
    """The most calls. Those of a batch count one by one."""
    second: float = 0.0
    """The most calls a second, as the node's quota counts them; 0: no limit."""
    cost: float = math.inf
    """The most calls, as the node's quota counts them."""
    heavy: float = 1.0
    """What a call of a heavy method counts as in the quota."""


class Account:
    """What shadow calls may use of one node and have used, whichever proofs they belong to. Times are those of the
    clock."""

    __slots__ = ("allowance", "cost", "free_at")

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self.cost = 0.0
        """Calls, as the node's quota counts them."""
        self.free_at = -math.inf
        """The time from which the next call may be sent."""

    def __repr__(self) -> str:
        return f"<Account {self.cost} of {self.allowance.cost}>"


def allowed(quota: QuotaSettings, *, alone: bool) -> Allowance:
    """What one proof may use of a node with this quota: half of its calls a second or a tenth, and a hundredth of its
    day and month.

    `alone`: does the node get no other calls meanwhile, but for probes?
    """
    cost = min((limit for limit in (quota.day, quota.month) if limit), default=math.inf) / _SHARE_OF_PROOFS
    return Allowance(second=quota.second / (2 if alone else 10), cost=cost, heavy=quota.heavy)


class ShadowCalls:
    """The calls of one proof to one node. Calls may be made side by side."""

    def __init__(
        self,
        asker: Asker,
        errors: ErrorTable,
        account: Account,
        *,
        ends: float,
        patience: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        heavy: Callable[[str], bool],
    ) -> None:
        """
        Args:
            errors: the meaning of the errors of nodes.
            account: what may be used of the node; other proofs may use it at the same time.
            ends: the time (of `clock`, seconds) after which no call is begun; one under way may end `patience` later.
            patience: seconds that one call may take.
            heavy: does a method count as heavy in quotas?
        """
        self.sent = 0
        """Calls that the node was sent."""
        self.cost = 0.0
        """These calls, as the node's quota counts them."""
        self.latencies: dict[str, list[float]] = {}
        """Seconds of the calls that were answered well, by method."""
        self._asker = asker
        self._errors = errors
        self._ends = ends
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._account = account
        self._heavy = heavy

    def __repr__(self) -> str:
        return f"<ShadowCalls {self.sent} of {self._account.allowance.calls}>"

    @property
    def over(self) -> bool:
        """Is no time or no call left?"""
        account = self._account
        used_up = self.sent >= account.allowance.calls or account.cost >= account.allowance.cost
        return used_up or max(self._clock(), account.free_at) >= self._ends

    @property
    def longest_batch(self) -> float:
        """The most calls of a light method that may be sent at once."""
        return self._account.allowance.second or math.inf

    async def ask(self, method: str, params: str) -> ShadowReply | None:
        """The end of one call, sent again while its failure is transient; None when no time or no call is left."""
        reply = None
        for attempt in range(TRIES):
            if not await self._may_send(method, 1):
                return reply
            reply = self._read(await self._asker.send(method, params.encode(), timeout=self._patience))
            if not reply.transient:
                if reply.result is not None:
                    self.latencies.setdefault(method, []).append(reply.elapsed)
                return reply
            self._pause(reply, attempt)
        return reply

    async def ask_together(self, method: str, params: str, count: int) -> Sequence[ShadowReply] | None:
        """The ends of `count` equal calls in one batch; None when no time or no call is left, or batches cannot be
        sent."""
        replies = None
        for attempt in range(TRIES):
            if not isinstance(self._asker, BatchAsker) or not await self._may_send(method, count):
                return replies
            done: asyncio.Future[Sequence[Answer | Failure]] = asyncio.get_running_loop().create_future()
            calls = [ShadowCall(method, params.encode())] * count
            self._asker.post(calls, self._patience, partial(_told, done))
            replies = [self._read(answer) for answer in await done]
            worst = next((reply for reply in replies if reply.transient), None)
            if worst is None:
                return replies
            self._pause(worst, attempt)
        return replies

    async def _may_send(self, method: str, count: int) -> bool:
        """Wait until the calls may be sent, and count them; False when no time or no call is left."""
        account, allowance = self._account, self._account.allowance
        cost = count * (allowance.heavy if self._heavy(method) else 1.0)
        if self.sent + count > allowance.calls or account.cost + cost > allowance.cost:
            return False
        self._count(count, cost)
        while (now := self._clock()) < account.free_at < self._ends:
            await self._sleep(account.free_at - now)
        if max(now, account.free_at) >= self._ends:
            self._count(-count, -cost)
            return False
        account.free_at = now + (cost / allowance.second if allowance.second else 0.0)
        return True

    def _count(self, calls: int, cost: float) -> None:
        self.sent += calls
        self.cost += cost
        self._account.cost += cost

    def _pause(self, reply: ShadowReply, attempt: int) -> None:
        """Leave the node alone for a while, as it asks; for good when it asks for more than the time that is left."""
        asked = reply.retry_after if reply.retry_after is not None else _FIRST_PAUSE * 2.0**attempt
        self._account.free_at = max(self._account.free_at, self._clock() + asked)

    def _read(self, answer: Answer | Failure) -> ShadowReply:
        if isinstance(answer, Failure):
            return ShadowReply(kind=answer.kind, text=_line(answer.text), retry_after=answer.retry_after)
        if answer.result is not None:
            return ShadowReply(bytes(answer.result), elapsed=answer.elapsed)
        code, message = error_parts(answer.error or b"")
        kind = classify(self._errors, code, message, answer.http_status).kind
        return ShadowReply(kind=kind, text=_line(message), retry_after=answer.retry_after)


def _told(done: asyncio.Future[Sequence[Answer | Failure]], _calls: object, told: Sequence[Answer | Failure]) -> None:
    if not done.done():
        done.set_result(told)


def _line(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
