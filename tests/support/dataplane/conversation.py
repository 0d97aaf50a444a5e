"""Raw bytes to a worker, and the answers taken apart again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tests.support.proxy import Reply

BODY = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


class Left(Exception):
    """The other side ended the connection."""


class Conversation:
    """One connection: what is sent, and the answers in their order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator[Conversation]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, within: float = 60.0) -> Reply:
        """The next answer. Raises Left when the connection ends instead."""
        async with asyncio.timeout(within):
            try:
                head = await self._reader.readuntil(b"\r\n\r\n")
                status, *lines = head[:-4].decode("latin-1").split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines)
                number = int(status.split(" ", 2)[1])
                size = 0 if number in (100, 204) else int(headers["Content-Length"])
                return Reply(number, headers, await self._reader.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionError) as end:
                raise Left(repr(end)) from None

    async def ended(self, within: float = 60.0) -> bool:
        """Wait for the end of the connection; False when more came before it."""
        async with asyncio.timeout(within):
            try:
                return not await self._reader.read(1)
            except ConnectionError:
                return True

    def close(self) -> None:
        """Leave: to the other side this looks as if no more is sent."""
        self.writer.close()

    def reset(self) -> None:
        """Break the connection off, as a client does that is killed with something unread."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def talk(port: int, data: bytes, answers: int, *, ends: bool) -> list[Reply]:
    """Send bytes at once; exactly so many answers come, and the connection ends or is good for another call."""
    async with Conversation.open(port) as conversation:
        conversation.send(data)
        told = [await conversation.answer() for _ in range(answers)]
        if ends:
            assert await conversation.ended()
            return told
        conversation.send(call(99))
        assert (await conversation.answer()).json["id"] == 99
        return told


def call(number: int = 1, method: str = "eth_chainId", *headers: bytes, params: Any = ()) -> bytes:
    """One well-formed request."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    return HEAD + b"".join(line + b"\r\n" for line in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body
