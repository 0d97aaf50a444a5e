"""The trace that a call belongs to, if the call is traced: each attempt is a part of it, and the node learns its span.

OpenTelemetry is not imported here: it is loaded only where traces are switched on (dataplane.rpc.tracing).
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
        """The header that names the attempt to the node (a traceparent)."""
        ...

    def end(self, reply: Answer | Failure | None) -> None:
        """End the attempt's span with its reply; None: the attempt was given up."""
        ...


class TracedCall(Protocol):
    """A call that is traced."""

    @property
    def trace(self) -> str:
        """The id of the trace, 32 hex digits."""
        ...

    def attempt(self, method: str, asked: Asked) -> TracedAttempt:
        """Begin the span of an attempt at a node."""
        ...


CURRENT: ContextVar[TracedCall | None] = ContextVar("traced", default=None)
"""The traced call that is being answered. Tasks and callbacks that the call begins inherit the value, so the attempts
of a flight are parts of the call that began the flight."""
