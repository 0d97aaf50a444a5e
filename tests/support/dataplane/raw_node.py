"""A bare HTTP server on loopback that misbehaves on purpose, and what is needed to call it."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp.abc import AbstractResolver, ResolveResult

from rpcaccel.config.model import NodeSettings
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.simnode.server.sim_connections import close_listener

OK = b'{"jsonrpc":"2.0","id":%d,"result":"0x1"}\n'
LONG = 5.0


def node_settings(url: str, **options: object) -> NodeSettings:
    """The settings of a node at an address; options that no operator may choose are taken as well."""
    usual = {"id": "a", "url": url, "max_connections": 8, "timeout": LONG, "warm": 0}
    return NodeSettings.model_validate(usual).model_copy(update=options)


@dataclass
class Call:
    """One HTTP request as it reached the node."""

    connection: int
    head: bytes
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def id(self) -> int:
        return int(json.loads(self.body)["id"])

    def header(self, name: str) -> str | None:
        for line in self.head.decode().split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None

    def reply(self, body: bytes, *, status: int = 200, headers: str = "", length: int | None = None) -> None:
        size = len(body) if length is None else length
        self.writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, size, headers.encode(), body))

    def ok(self) -> None:
        self.reply(OK % self.id)

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.close()


Script = Callable[[Call], Awaitable[None]]


class RawNode:
    """A bare HTTP server that does whatever its script says, and remembers what it was sent."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.connections = 0
        self.port = 0
        self.script: Script = self._answer
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        await close_listener(self._server)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _answer(self, call: Call) -> None:
        call.ok()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self.connections
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                call = Call(connection, head, b"", writer)
                call.body = await reader.readexactly(int(call.header("content-length") or 0))
                self.calls.append(call)
                await self.script(call)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            writer.close()


def says(*parts: bytes, close: bool = False) -> Script:
    """A node that answers these bytes, %d being the call's id, and may close then."""

    async def script(call: Call) -> None:
        for part in parts:
            call.writer.write(part.replace(b"%d", b"%d" % call.id))
        if close:
            call.close()

    return script


Connect = Callable[..., HttpNodeClient]


class Resolver(AbstractResolver):
    """A name service that says what a test wants."""

    def __init__(self, port: int, trouble: Exception | None = None, *, hang: bool = False) -> None:
        self._port = port
        self._trouble = trouble
        self._hang = hang

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if self._hang:
            await asyncio.Event().wait()
        if self._trouble is not None:
            raise self._trouble
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": port or self._port,
                "family": family,
                "proto": 0,
                "flags": 0,
            }
        ]

    async def close(self) -> None:
        return None


async def ask(upstream: HttpNodeClient, timeout: float = LONG) -> Answer | Failure:
    async with asyncio.timeout(timeout + LONG):  # a deadline that is not met fails a test instead of hanging it
        return await upstream.send("eth_blockNumber", b"[]", timeout=timeout)


async def failure(upstream: HttpNodeClient, timeout: float = LONG) -> Failure:
    got = await ask(upstream, timeout)
    assert isinstance(got, Failure), got
    assert got.node == upstream.id
    return got


@dataclass
class One:
    """Implements NodeCall."""

    method: str = "eth_blockNumber"
    params: bytes = b"[]"


async def together(upstream: HttpNodeClient, count: int, timeout: float = LONG) -> list[Answer | Failure]:
    """What one request says to several calls."""
    got: asyncio.Future[list[Answer | Failure]] = asyncio.get_running_loop().create_future()
    post = upstream.post([One() for _ in range(count)], timeout, lambda _calls, replies: got.set_result([*replies]))
    assert len(post.calls) == count
    replies = await got
    assert post.calls == ()
    return replies
