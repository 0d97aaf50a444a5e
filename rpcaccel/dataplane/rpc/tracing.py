"""OpenTelemetry traces: a span for each call, and below it one for each attempt at a node; a thread sends them.

A worker makes a Tracing, and loads OpenTelemetry, only where the settings ask for traces.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rpcaccel import __version__
from rpcaccel.config.sections import TracingSettings
from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure
from rpcaccel.core.wire.traceparent import TRACEPARENT, TraceParent, read
from rpcaccel.dataplane.rpc.access_log import shown
from rpcaccel.dataplane.rpc.admission import Caller

LAST_SPANS_THREAD = "end of tracing"
"""Name of the thread that sends the last spans."""
LAST_SPANS_SECONDS = 3.0
"""Seconds in which the last spans may still be sent when tracing ends."""


class Tracing:
    """Makes spans of the requests that are sampled. Implements Observer."""

    def __init__(self, settings: TracingSettings) -> None:
        # Loaded only where traces are wanted: it takes 0.1 s and 9 MB.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

        self.settings = settings
        named = {"service.name": settings.service, "service.version": __version__}
        instance = {"service.instance.id": f"{socket.gethostname()}-{os.getpid()}"}
        # `arrived` decides what is sampled, before a span is made: the SDK sees nothing else.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create(named | instance), shutdown_on_exit=False
        )
        self._exporter: Any = OTLPSpanExporter(endpoint=settings.endpoint)  # parts of it have no types
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("rpcaccel", __version__)

    def arrived(self, caller: Caller) -> Caller:
        """Begin the span of a request that its client traces, or that is sampled by chance. It gives no name."""
        given = "" if caller.headers is None else caller.headers.get(TRACEPARENT, "")
        parent = read(given) if given else None
        wanted = random.random() < self.settings.sample if parent is None else parent.sampled
        return replace(caller, trace=Traced(self._tracer, parent, caller.address)) if wanted else caller

    def another(self, caller: Caller) -> Caller:
        """Begin the span of a further call of the same request."""
        call = caller.trace
        return replace(caller, trace=call.sibling()) if isinstance(call, Traced) else caller

    def answered(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float) -> None:
        """End the span of a call that was answered."""
        if isinstance(caller.trace, Traced):
            caller.trace.answered(plan.network, plan.method, outcome, seconds)

    async def close(self) -> None:
        """Send the last spans, for LAST_SPANS_SECONDS seconds at the most."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(over.set)

        threading.Thread(target=end, name=LAST_SPANS_THREAD, daemon=True).start()
        try:
            await asyncio.wait_for(over.wait(), LAST_SPANS_SECONDS)
        except TimeoutError:
            self._exporter.shutdown()  # else a receiver that is not there is tried again and again


class Traced:
    """Implements TracedCall: one call and its span."""

    __slots__ = ("_address", "_ended", "_parent", "_span", "_tracer")

    def __init__(self, tracer: Any, parent: TraceParent | None, address: str, began: int | None = None) -> None:
        """`began`: when the span begins, in nanoseconds since 1970; None: now."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 -- loaded long since, where this is made

        self._tracer = tracer
        self._parent = parent
        self._address = address
        self._ended = False
        context = _under(parent.trace, parent.span, remote=True) if parent is not None else _nothing()
        self._span = tracer.start_span("call", context, SpanKind.SERVER, start_time=began)

    @property
    def trace(self) -> str:
        """The trace's id, as 32 hex digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def sibling(self, seconds: float = 0.0) -> Traced:
        """The span of another call of the same request, begun `seconds` ago."""
        return Traced(self._tracer, self._parent, self._address, time.time_ns() - int(seconds * 1e9))

    def answered(self, network: str, method: str, outcome: Outcome, seconds: float) -> None:
        """End the span with the outcome of a call, or a sibling where another call of the batch has ended it."""
        if self._ended:
            self.sibling(seconds).answered(network, method, outcome, seconds)
            return
        self._ended = True
        span = self._span
        span.update_name(shown(method))
        span.set_attributes(_told(network, method, self._address, outcome, seconds))
        if outcome.error is not None:
            _failed(span, str(error_parts(outcome.error)[0]))
        span.end()

    def attempt(self, method: str, asked: Asked) -> SpanOfAttempt:
        """Begin the span of an attempt at a node. The node gets the id of that span in a header."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        own = self._span.get_span_context()
        told = {"rpcaccel.node": asked.node.id, "rpcaccel.attempt": asked.number, "rpcaccel.hedge": asked.hedge}
        context = _under(own.trace_id, own.span_id)
        return SpanOfAttempt(own.trace_id, self._tracer.start_span(shown(method), context, SpanKind.CLIENT, told))


class SpanOfAttempt:
    """Implements TracedAttempt."""

    __slots__ = ("_span", "header")

    def __init__(self, trace_id: int, span: Any) -> None:
        self.header = str(TraceParent(trace_id, span.get_span_context().span_id))
        self._span = span

    def end(self, reply: Answer | Failure | None) -> None:
        """End the span with the reply of the node; None: the attempt was given up."""
        span = self._span
        if reply is None:
            span.set_attribute("rpcaccel.cancelled", True)  # no error of the node: another was quicker, or all left
        elif isinstance(reply, Failure):
            _failed(span, str(reply.kind))
        elif reply.error is not None:
            _failed(span, str(error_parts(reply.error)[0]))
        span.end()


def _told(network: str, method: str, address: str, outcome: Outcome, seconds: float) -> dict[str, str | int | float]:
    """The attributes of a call's span, by the names of the OpenTelemetry conventions for RPC where there are any."""
    told: dict[str, str | int | float] = {
        "rpc.system": "jsonrpc",
        "rpc.method": shown(method),
        "client.address": address,
        "rpcaccel.network": network,
        "rpcaccel.source": outcome.source.label,
        "rpcaccel.attempts": outcome.attempts,
        "rpcaccel.bytes": len(outcome.result) if outcome.result is not None else 0,
        "rpcaccel.seconds": seconds,
    }
    if outcome.node:
        told["rpcaccel.node"] = outcome.node
    told |= {f"rpcaccel.step.{step}": taken for step, taken in outcome.steps}
    return told


def _failed(span: Any, kind: str) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _nothing() -> Any:
    from opentelemetry.context import Context  # noqa: PLC0415

    return Context()


def _under(trace: int, span: int, *, remote: bool = False) -> Any:
    from opentelemetry.trace import (  # noqa: PLC0415
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        set_span_in_context,
    )

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return set_span_in_context(NonRecordingSpan(SpanContext(trace, span, remote, sampled)), _nothing())
