"""Opens connections as a far node does: round trips that take their time, then the TLS handshake, then HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from rpcaccel.simnode.chain.clock import Clock


class Opening(asyncio.Protocol):
    """An accepted connection until it carries HTTP.

    The kernel has accepted the connection already, so the round trips of TCP and of TLS are spent in one wait before
    the node reads the first byte: a client's handshake, or its first request without TLS, takes that much longer.
    """

    def __init__(
        self,
        serve: Callable[[], asyncio.Protocol],
        waited: Callable[[], float],
        clock: Clock,
        tls: ssl.SSLContext | None,
    ) -> None:
        """`serve` makes the protocol that takes over; `waited` gives the seconds of the round trips."""
        self._serve = serve
        self._waited = waited
        self._clock = clock
        self._tls = tls
        self._early: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pause reading, and begin to wait."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are no subclass
        self._transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._open(self._transport))

    def data_received(self, data: bytes) -> None:
        """Keep data that came with the end of the handshake for the protocol that takes over."""
        self._early.append(data)

    def connection_lost(self, _error: Exception | None) -> None:
        """Give up: the client left, or the node was stopped."""
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """Cut the connection, wherever its opening is."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _open(self, transport: asyncio.Transport) -> None:
        if seconds := self._waited():
            await self._clock.sleep(seconds)
        if self._tls is not None:
            with suppress(OSError):  # a client that leaves, or does not trust the certificate (ssl.SSLError)
                secured = await asyncio.get_running_loop().start_tls(transport, self, self._tls, server_side=True)
                if secured is not None:
                    self._hand_over(secured)
            return
        self._hand_over(transport)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        self._transport = None  # the connection belongs to HTTP from now on
        protocol = self._serve()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(b"".join(self._early))
        transport.resume_reading()
