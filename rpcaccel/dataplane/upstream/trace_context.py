"""The trace that a call belongs to, where it is traced at all: attempts become its parts, nodes are told of them.

Holds nothing of OpenTelemetry, which is loaded only where traces are switched on (dataplane.rpc.tracing).
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Protocol

from rpcaccel.core.dispatch.commands import StartAttempt
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure


class TracedCall(Protocol):
    """A call that is traced."""

    @property
    def trace(self) -> str:
        """The trace's id, as 32 hex digits."""
        ...

    async def attempt(self, method: str, start: StartAttempt, reply: Awaitable[Answer | Failure]) -> Answer | Failure:
        """Wait for the reply of a node, and note how long it took."""
        ...


CURRENT: ContextVar[TracedCall | None] = ContextVar("traced", default=None)
"""The call being answered. Tasks that it begins inherit it, flights among them: a flight's attempts are parts of the
call that began it."""
FORWARDED: ContextVar[str] = ContextVar("traceparent", default="")
"""What the node that is being asked is told of its span; empty: nothing."""
