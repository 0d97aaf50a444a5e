"""One node's sockets: aiohttp's TCPConnector, counting what it does, and knowing whether a socket was used before.

An attempt follows how far it came by being what aiohttp calls the trace of a connection.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import ClientRequest, ClientTimeout, TCPConnector
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

_clock = time.perf_counter


class Counters:
    """What one node's sockets have done: plain numbers that only go up, except `open` and `in_use`."""

    __slots__ = (
        "batches",
        "bytes_in",
        "bytes_out",
        "connect_seconds",
        "connects",
        "dns_cached",
        "dns_lookups",
        "dns_seconds",
        "gathered",
        "in_use",
        "open",
        "queue_seconds",
        "queued",
        "read_seconds",
        "replies",
        "requests",
        "reused",
        "tls",
        "wait_seconds",
    )

    def __init__(self) -> None:
        self.requests = 0
        """HTTP requests begun."""
        self.batches = 0
        """Of them, those that carried several calls,"""
        self.gathered = 0
        """and the calls they carried."""
        self.replies = 0
        """HTTP replies read to their end, whatever they said."""
        self.bytes_out = 0
        """Bytes of request bodies."""
        self.bytes_in = 0
        """Bytes of reply bodies, after decompression."""
        self.wait_seconds = 0.0
        """From having a socket to the reply's headers."""
        self.read_seconds = 0.0
        """From the reply's headers to its end."""
        self.dns_lookups = 0
        self.dns_cached = 0
        """New connections whose name was known already, or being looked up."""
        self.dns_seconds = 0.0
        self.connects = 0
        self.connect_seconds = 0.0
        """TCP and TLS together, without DNS."""
        self.tls = 0
        """Connects that were TLS handshakes too."""
        self.reused = 0
        """Requests that found an open socket."""
        self.queued = 0
        """Requests that waited because all connections were in use."""
        self.queue_seconds = 0.0
        self.open = 0
        """Sockets open now."""
        self.in_use = 0
        """Sockets that a request holds now."""

    def count_reply(self, connected: float, headed: float, done: float, size: int) -> None:
        """One reply read: when its socket was there, its headers came and its end, and its size in bytes."""
        self.wait_seconds += headed - connected
        self.read_seconds += done - headed
        self.replies += 1
        self.bytes_in += size

    @property
    def idle(self) -> int:
        """Sockets open now that no request holds."""
        return max(0, self.open - self.in_use)

    def snapshot(self) -> dict[str, float]:
        """All numbers by name, `idle` included."""
        return {name: getattr(self, name) for name in (*self.__slots__, "idle")}

    def __repr__(self) -> str:
        return f"<Counters {self.requests} requests, {self.open} open, {self.idle} idle, {self.reused} reused>"


class Attempt(Trace):
    """How far one request came: what its failure means depends on it. It is the trace of its own connection, told by
    the connector without the detour over signals; the methods are aiohttp's, and coroutines because it awaits them."""

    __slots__ = ("_counters", "_dns", "_since", "connected", "phase", "reused", "started")

    def __init__(self, counters: Counters) -> None:  # Trace's own would want a session and signals
        self._counters = counters
        self._since = 0.0
        self._dns = 0.0
        self.phase = "start"
        """start, queued, dns, connect, sent (a socket is there: bytes may leave), replying (headers came)."""
        self.reused = False
        self.started = _clock()
        self.connected = 0.0
        """When there was a socket, new or old."""

    async def send_connection_reuseconn(self) -> None:
        self.reused = True

    async def send_connection_queued_start(self) -> None:
        self._counters.queued += 1
        self.phase, self._since = "queued", _clock()

    async def send_connection_queued_end(self) -> None:
        self._counters.queue_seconds += _clock() - self._since

    async def send_connection_create_start(self) -> None:
        self.phase, self._since, self._dns = "connect", _clock(), 0.0

    async def send_connection_create_end(self) -> None:
        self._counters.connect_seconds += _clock() - self._since - self._dns

    async def send_dns_resolvehost_start(self, host: str) -> None:  # noqa: ARG002 -- aiohttp's signature
        self._counters.dns_lookups += 1
        self.phase, self._dns = "dns", _clock()

    async def send_dns_resolvehost_end(self, host: str) -> None:  # noqa: ARG002
        self.phase, self._dns = "connect", _clock() - self._dns
        self._counters.dns_seconds += self._dns

    async def send_dns_cache_hit(self, host: str) -> None:  # noqa: ARG002
        self._counters.dns_cached += 1

    async def send_dns_cache_miss(self, host: str) -> None:
        """Told by the lookup that follows."""


class CountingConnector(TCPConnector):
    """A TCPConnector that counts, and lets an Attempt follow how far it came."""

    def __init__(self, counters: Counters, **options: Any) -> None:
        super().__init__(**options)
        self._counters = counters

    async def take(self, request: ClientRequest, attempt: Attempt, limits: ClientTimeout) -> Connection:
        """A connection of the pool, or a new one; raises what `connect` raises."""
        connection = await self.connect(request, [attempt], limits)
        # No await from here on: a connection that was made must be counted even when the caller is cancelled.
        if attempt.reused:
            self._counters.reused += 1
        else:
            self._count_new(connection, tls=request.is_ssl())
        self._counters.in_use += 1
        connection.add_callback(self._count_released)
        attempt.phase, attempt.connected = "sent", _clock()
        return connection

    def _count_new(self, connection: Connection, *, tls: bool) -> None:
        self._counters.connects += 1
        self._counters.tls += tls
        protocol = connection.protocol
        closed = None if protocol is None else protocol.closed
        if closed is not None:
            self._counters.open += 1
            closed.add_done_callback(self._count_closed)

    def _count_released(self) -> None:
        self._counters.in_use -= 1

    def _count_closed(self, closed: asyncio.Future[None]) -> None:
        self._counters.open -= 1
        if not closed.cancelled():
            closed.exception()  # looked at, so that asyncio does not complain that nobody did
