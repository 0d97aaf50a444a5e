"""Endpoints to measure in tests: the responder in this loop, or in a thread of its own for commands that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from benchmarks.responder import Protocol, Responder
from rpcaccel.simnode.server.sim_connections import close_listener

Make = Callable[[], Any]
"""Makes a protocol that has its `transport`."""


async def turns() -> None:
    """Let the loop run for some turns."""
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def serving(make: Make) -> AsyncIterator[str]:
    """Serve a protocol; the URL."""
    made: list[Any] = []

    def accept() -> Any:
        made.append(make())
        return made[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await close_listener(server)
        for protocol in made:
            if protocol.transport is not None:
                protocol.transport.abort()
        await turns()  # their sockets are closed in the loop's next turn


@asynccontextmanager
async def responding(responder: Responder | None = None) -> AsyncIterator[str]:
    """A responder; the URL."""
    made = responder or Responder()
    async with serving(lambda: Protocol(made)) as url:
        yield url


@contextmanager
def responding_apart(responder: Responder | None = None) -> Iterator[str]:
    """The same, in a thread."""
    started, ended = threading.Event(), asyncio.Event()
    said: list[str] = []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with responding(responder) as url:
            said.append(url)
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    started.wait()
    try:
        yield said[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


class Scripted(asyncio.Protocol):
    """Answers each piece of bytes that comes with the next of `replies`: bytes to send, None to hang up."""

    def __init__(self, replies: list[bytes | None]) -> None:
        self._replies = replies
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, _data: bytes) -> None:
        assert self.transport is not None
        reply = self._replies.pop(0) if self._replies else b""
        if reply is None:
            self.transport.close()
        elif reply:
            self.transport.write(reply)


def http(body: bytes, status: int = 200, more: bytes = b"") -> bytes:
    """A reply as a server sends it."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), more, body)
