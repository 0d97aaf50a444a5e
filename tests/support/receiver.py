"""A receiver of traces: OTLP over HTTP on loopback, what comes decoded as the protocol says."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import RawTestServer
from google.protobuf.message import Message
from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span(Struct):
    """A span that came."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    """Empty when it has none."""
    seconds: float
    told: dict[str, Any]
    service: dict[str, Any]
    failed: bool


class Receiver:
    """Takes what is sent to /v1/traces."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.requests = 0
        self.url = ""

    def named(self, name: str, kind: str = "SERVER") -> list[Span]:
        """The spans of this name and kind, in the order they came."""
        return [span for span in self.spans if (span.name, span.kind) == (name, kind)]

    async def take(self, request: web.BaseRequest) -> web.Response:
        """One export."""
        assert (request.method, request.path, request.content_type) == ("POST", "/v1/traces", "application/x-protobuf")
        body = await request.read()
        self._decode(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)
        self.requests += 1
        return web.Response(content_type="application/x-protobuf")

    def _decode(self, body: bytes) -> None:
        sent = ExportTraceServiceRequest()
        sent.ParseFromString(body)
        for resource in sent.resource_spans:
            service = _attributes(resource.resource)
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                self.spans.append(
                    Span(
                        name=span.name,
                        kind=span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                        told=_attributes(span),
                        service=service,
                        failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    )
                )


def _attributes(message: Message) -> dict[str, Any]:
    pairs: Any = message
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs.attributes}


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that serves."""
    receiver = Receiver()
    async with RawTestServer(receiver.take) as server:
        receiver.url = str(server.make_url("")).rstrip("/")
        yield receiver
