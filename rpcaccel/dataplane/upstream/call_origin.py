"""Where a call comes from: the client's address, by which a network may route, and the trace that it is a part of.

Each attempt at a node is a part of the trace, and the node learns its span.

OpenTelemetry is not imported here: it is loaded only where traces are switched on (dataplane.rpc.tracing).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

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


class CallOrigin(Protocol):
    """Where a call comes from. Everything that is asked of nodes for the call carries its origin; a flight that several
    callers share is a part of the call that began it."""

    @property
    def address(self) -> str:
        """The address of the client, trusted proxies looked through; empty for the proxy itself."""
        ...

    @property
    def trace(self) -> TracedCall | None:
        """The traced call; None: the call is not traced."""
        ...


class _Proxy(NamedTuple):
    address: str = ""
    trace: TracedCall | None = None


PROXY: CallOrigin = _Proxy()
"""The origin of the calls that the proxy makes by itself."""
