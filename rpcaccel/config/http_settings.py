"""The settings of the HTTP front and of the WebSockets of clients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rpcaccel.config.sections import Section
from rpcaccel.config.value_types import Duration, MethodPatterns, Origins, Size, Whole

MIB = 1 << 20


class WebSocketSettings(Section):
    """WebSockets of clients: calls and subscriptions."""

    enabled: bool = Field(default=True, description="If false, clients cannot open WebSockets.")
    connections: Whole = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="Each worker holds at most this many open WebSockets. Further ones get 503.",
    )
    per_client: Whole = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="One key or address may have at most this many of them at each worker. Further ones get 429.",
    )
    subscriptions: Whole = Field(
        default=200,
        ge=1,
        le=100_000,
        description="One WebSocket may have at most this many subscriptions. Further ones get an error.",
    )
    at_once: Whole = Field(
        default=100,
        ge=1,
        le=100_000,
        description="At most this many calls of one WebSocket are answered at once. Further ones wait unread.",
    )
    queue: Size = Field(
        default=4 * MIB,
        ge=64 * 1024,
        description="A client that leaves more bytes than this unread is told so and closed (1013).",
    )
    ping: Duration = Field(
        default=30.0, gt=0, le=3600, description="A client that is silent for this long is sent a ping."
    )
    idle: Duration = Field(
        default=3600.0,
        gt=0,
        le=86_400,
        description="A WebSocket that has had no subscription and no call for this long is closed.",
    )
    replay: Whole = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description="A subscription may ask for at most this many past blocks to be sent again.",
    )


class HttpSettings(Section):
    """The HTTP front: limits and what answers say about themselves."""

    max_body: Size = Field(
        default=5 * MIB,
        gt=0,
        le=1 << 30,
        description="The body of a request may have this many bytes, also after it is unpacked (gzip).",
    )
    max_batch: Whole = Field(default=1000, ge=1, le=100_000, description="A batch may have this many calls.")
    max_batch_answer: Size = Field(
        default=25_000_000,
        gt=0,
        description="The answer to a batch may have this many bytes. Calls whose answers find no room get an error.",
    )
    max_in_flight: Whole = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="A worker serves at most this many calls at once. Further ones get 503.",
    )
    max_header: Size = Field(
        default=16 * 1024, ge=1024, le=MIB, description="The header of a request may have this many bytes."
    )
    read_timeout: Duration = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="A client may take this long to send the head of a request, and as long to send its body.",
    )
    write_timeout: Duration = Field(
        default=30.0, gt=0, le=3600, description="A client must take 64 KiB of its answer within this time."
    )
    max_unsent: Size = Field(
        default=256 * MIB,
        ge=MIB,
        description="Slow clients may leave this many bytes of answers waiting together, for each worker. The "
        "largest answer does not count.",
    )
    batch_at_once: Whole = Field(
        default=64, ge=1, le=10_000, description="At most this many calls of one batch wait for nodes at the same time."
    )
    keepalive: Duration = Field(
        default=75.0, le=86400, description="An idle connection of a client is kept for this long."
    )
    gzip_from: Size = Field(
        default=1024, description="Answers of this many bytes or more are compressed for clients that accept gzip."
    )
    cors_origins: Origins = Field(
        default=("*",),
        description='Web pages of these origins may call. "*" means every origin, and an empty list means none.',
    )
    headers: Literal["all", "cache", "none"] = Field(
        default="all",
        description='What the headers of an answer say about nodes and cache: "all" (X-Rpcaccel-* and '
        'Server-Timing), "cache" (X-Rpcaccel-Cache alone) or "none".',
    )
    websocket: WebSocketSettings = Field(default=WebSocketSettings(), description="WebSockets of clients.")
    deny: MethodPatterns = Field(
        default=(),
        description='These methods are refused for every client. They are names or patterns ("debug_*").',
        examples=[["debug_*"]],
    )
    expose: MethodPatterns = Field(
        default=(),
        description="Clients may call these methods although they are for a node's operator. They are names or "
        "patterns.",
        examples=[["evm_mine"]],
    )
