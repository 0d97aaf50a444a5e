"""A server at the address of a Redis that answers each command with the bytes that the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

CONNECTING = {b"CLIENT", b"SELECT", b"PING"}
"""Commands of the client when it connects."""

Answer = Callable[[list[bytes]], bytes]
"""From the words of a command to the bytes of the reply."""


def resp(value: object) -> bytes:
    """A value as Redis sends it."""
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if isinstance(value, str):
        return value.encode() + b"\r\n"
    assert isinstance(value, Iterable)
    parts = [resp(one) for one in value]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


@asynccontextmanager
async def any_redis(answer: Answer, *, connects: bool = True) -> AsyncIterator[str]:
    """The URL of the server. With `connects` a client gets the usual replies while it connects, and to INFO."""

    async def command(reader: asyncio.StreamReader) -> list[bytes]:
        words = []
        for _ in range(int((await reader.readuntil(b"\r\n"))[1:])):
            size = int((await reader.readuntil(b"\r\n"))[1:])
            words.append((await reader.readexactly(size + 2))[:-2])
        return words

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                words = await command(reader)
                if connects and words[0] in CONNECTING:
                    writer.write(b"+OK\r\n")
                elif connects and words[0] == b"INFO":
                    writer.write(resp(b"maxmemory:1000000\r\nmaxmemory_policy:allkeys-lru\r\n"))
                else:
                    writer.write(answer(words))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
