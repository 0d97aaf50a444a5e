"""The connections of the admin side: how long one may send nothing, and how many there may be.

With one worker both ports are of one process. What strangers hold open here must not take the file descriptors of
those who call there.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from aiohttp import web

from rpcaccel.dataplane.certificate import ServedCertificate
from rpcaccel.dataplane.http.aiohttp_server import Quiet
from rpcaccel.dataplane.http.tls_transport import TlsTransport

HEAD_TIMEOUT_SECONDS = 10.0
"""Seconds from the beginning of a connection, TLS included, until the head of its first request is there."""
IDLE_TIMEOUT_SECONDS = 75.0
"""Seconds for which a connection may wait for its next request."""
MAX_CONNECTIONS = 256
_SHARE_OF_DESCRIPTORS = 4
"""One part in so many of the file descriptors of this process may be connections of the admin side."""


def most_connections() -> int:
    """Connections that may be open at once."""
    granted, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if granted < 0 else max(1, min(MAX_CONNECTIONS, granted // _SHARE_OF_DESCRIPTORS))


class AdminConnection(web.RequestHandler):
    """A connection that ends when no head comes. Of too many, the one ends that waits longest for a request."""

    __slots__ = ("_head_within", "_most", "_no_head")

    def __init__(self, server: web.Server, *, head_within: float, most: int, **options: Any) -> None:
        super().__init__(server, **options)
        self._head_within = head_within
        self._most = most
        self._no_head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._no_head = self._loop.call_later(self._head_within, self._give_up)
        known = self._manager.connections if self._manager is not None else []
        here = [one for one in known if isinstance(one, AdminConnection) and one.is_open]
        if len(here) > self._most:
            # A connection that never sent a request goes before one that waits for the next.
            others = (one for one in here if one is not self and not one.serves)
            min(others, key=lambda one: one.requests > 0, default=self).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._no_head is not None:
            self._no_head.cancel()
        super().connection_lost(exc)

    @property
    def is_open(self) -> bool:
        """Whether the connection is neither closed nor about to be."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def serves(self) -> bool:
        """Whether a request is being answered."""
        return self._request_in_progress

    @property
    def requests(self) -> int:
        """The number of requests whose heads have come."""
        return self._request_count

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _give_up(self) -> None:
        if not self._request_count:
            self.abort()


async def listen(
    server: web.Server,
    place: tuple[str, int],
    certificate: ServedCertificate | None,
    *,
    head_within: float = HEAD_TIMEOUT_SECONDS,
    idle_within: float = IDLE_TIMEOUT_SECONDS,
    most: int | None = None,
) -> asyncio.Server:
    """Listen for the requests of an aiohttp server. Raises OSError."""
    loop, bound = asyncio.get_running_loop(), most or most_connections()
    options = {"keepalive_timeout": idle_within, "access_log": None, "logger": Quiet()}

    def connection() -> AdminConnection:
        return AdminConnection(server, loop=loop, head_within=head_within, most=bound, **options)

    def secured() -> asyncio.Protocol:
        return connection() if certificate is None else TlsTransport(certificate.context, connection())

    return await loop.create_server(secured, *place, backlog=128)
