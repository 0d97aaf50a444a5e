"""A node's client as tests write one: a coroutine for each call, carried by a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.pool import Done, NodeClient

T = TypeVar("T")


class Carried(Generic[T]):
    """A call that a task carries: it begins at once, and tells later what came of it."""

    def __init__(self, work: Coroutine[Any, Any, T], done: Callable[[T], None]) -> None:
        self._done: Callable[[T], None] | None = done
        self._task = asyncio.get_running_loop().create_task(work, context=copy_context())
        self._task.add_done_callback(self._tell)

    def cancel(self) -> None:
        self._done = None
        self._task.cancel()

    def _tell(self, task: asyncio.Task[T]) -> None:
        if self._done is None or task.cancelled():
            return
        if (error := task.exception()) is None:
            self._done(task.result())
        else:  # as the real one does: nobody is left waiting by a bug
            self._done(Failure(FailureKind.UNKNOWN, f"the call failed in an unforeseen way: {error!r}"))  # type: ignore[arg-type]


class FakeClient:
    """Implements NodeClient by `send`, which a test's class has, and batches by `send_batch`."""

    span = ""
    """What the node was told last of the trace that its call belongs to."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        raise NotImplementedError

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        raise NotImplementedError

    def call(
        self, method: str, params: bytes, *, timeout: float, done: Done, span: str = ""
    ) -> Carried[Answer | Failure]:
        self.span = span
        return Carried(self.send(method, params, timeout=timeout), done)

    def batch(
        self, calls: Sequence[tuple[str, bytes]], *, timeout: float, done: Callable[[list[Answer | Failure]], None]
    ) -> Carried[list[Answer | Failure]]:
        self.span = ""
        return Carried(self.send_batch(calls, timeout=timeout), done)


async def asked(client: NodeClient, method: str, params: bytes, *, timeout: float, span: str = "") -> Answer | Failure:
    """The reply to one call; a caller that is cancelled leaves."""
    reply: asyncio.Future[Answer | Failure] = asyncio.get_running_loop().create_future()

    def done(told: Answer | Failure) -> None:
        if not reply.done():
            reply.set_result(told)

    under_way = client.call(method, params, timeout=timeout, done=done, span=span)
    try:
        return await reply
    except asyncio.CancelledError:
        under_way.cancel()
        raise
