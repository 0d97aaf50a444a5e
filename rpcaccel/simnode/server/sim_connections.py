"""Connections of a simulated node: opened as a far node opens them, with TLS, and closed without leaving one behind."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from rpcaccel.simnode.chain.sim_chain import Clock

_OPENSSL = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"),
    *("-subj", "/CN=rpcaccel simulated node", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"),
    *("-addext", "keyUsage=critical,digitalSignature,keyCertSign", "-keyout", "-"),
)
"""Makes a P-256 key and its certificate for localhost, 127.0.0.1 and ::1, for ten years, in PEM."""


def server_context(file: Path) -> ssl.SSLContext:
    """The TLS side of a server whose key and certificate stand in `file`; the file is made where there is none.

    Clients trust the node when the same file is named by SSL_CERT_FILE. Raises OSError.
    """
    if not file.exists():
        try:
            made = subprocess.run(_OPENSSL, capture_output=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise OSError("there is no such file, and openssl did not make one") from error
        _write_once(file, made)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _write_once(file: Path, content: bytes) -> None:
    """Write the file whole; where another process wrote one meanwhile, that one stays."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        written.write(content)
    with suppress(FileExistsError):
        file.hardlink_to(draft)
    draft.unlink()


async def close_listener(server: asyncio.Server) -> None:
    """Close a server's listening sockets once every connection it has accepted has its protocol.

    asyncio accepts in one turn of the loop and makes the transport in the next. A server that is closed in between
    leaves a connection that nobody owns: it is neither served nor closed, and its client waits.
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    try:
        for _ in range(3):  # the transport is made, it gets its protocol, and the protocol gets its transport
            await asyncio.sleep(0)
    finally:
        server.close()


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


class CutAtOnce(asyncio.Protocol):
    """A connection that is cut at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).abort()  # uvloop's transports are no subclass
