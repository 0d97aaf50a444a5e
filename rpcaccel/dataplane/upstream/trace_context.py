"""The trace that a call belongs to, where it is traced at all: attempts become its parts, nodes are told of them.

Holds nothing of OpenTelemetry, which is loaded only where traces are switched on (dataplane.rpc.tracing).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure


class TracedAttempt(Protocol):
    """An attempt at a node, as a part of a traced call."""

    @property
    def header(self) -> str:
        """What the node is told of it (a traceparent)."""
        ...

    def end(self, reply: Answer | Failure | None) -> None:
        """The attempt is over; None: it was given up, since another was quicker or everybody left."""
        ...


class TracedCall(Protocol):
    """A call that is traced."""

    @property
    def trace(self) -> str:
        """The trace's id, as 32 hex digits."""
        ...

    def attempt(self, method: str, asked: Asked) -> TracedAttempt:
        """A node is asked for this call."""
        ...


CURRENT: ContextVar[TracedCall | None] = ContextVar("traced", default=None)
"""The call being answered. What it begins inherits it, flights among that: a flight's attempts are parts of the call
that began it."""
