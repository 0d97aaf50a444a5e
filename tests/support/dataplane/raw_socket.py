"""A client's end of a WebSocket, byte by byte: what is sent may be as wrong as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import orjson

from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.live.live_session import LiveSession, MessageTurn
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import gated_nodes
from tests.support.proxy import Proxy, proxying

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MASK = b"\x01\x7f\x00\xf3"
CHAIN = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}'
BLOCK = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
FIELDS = {
    "Host": "x",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def tally(proxy: Proxy) -> Any:
    """What the proxy has counted."""
    return proxy.worker.report().tally


class Got(NamedTuple):
    """A frame that came."""

    opcode: int
    payload: bytes
    compressed: bool = False

    @property
    def json(self) -> Any:
        return orjson.loads(self.payload)

    @property
    def closed(self) -> tuple[int, str]:
        """Code and reason of a close frame."""
        assert self.opcode == CLOSE, self
        return int.from_bytes(self.payload[:2], "big"), self.payload[2:].decode()


def handshake(path: str = "/", **fields: str | None) -> bytes:
    """A handshake; `fields` are added or, where they are None, left out. Underscores stand for hyphens."""
    named: dict[str, str | None] = dict(FIELDS)
    for name, value in fields.items():
        given = name.replace("_", "-").lower()
        known = next((known for known in named if known.lower() == given), given)
        named[known] = value
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value is not None)
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def frame(payload: bytes, opcode: int = TEXT, *, fin: bool = True, bits: int = 0, mask: bytes | None = MASK) -> bytes:
    """A frame as a client sends it; `bits`: the reserved bits (0x40, 0x20, 0x10)."""
    size, masked = len(payload), 0 if mask is None else 0x80
    if size < 126:
        head = bytes((masked | size,))
    elif size < 1 << 16:
        head = bytes((masked | 126,)) + size.to_bytes(2, "big")
    else:
        head = bytes((masked | 127,)) + size.to_bytes(8, "big")
    if mask is not None:
        payload = mask + bytes(byte ^ mask[at & 3] for at, byte in enumerate(payload))
    return bytes(((0x80 if fin else 0) | bits | opcode,)) + head + payload


def squeezed(payload: bytes) -> bytes:
    """A compressed text message."""
    stream = zlib.compressobj(wbits=-15)
    return frame((stream.compress(payload) + stream.flush(zlib.Z_SYNC_FLUSH))[:-4], bits=0x40)


class RawSocket:
    """One connection; open once the handshake is accepted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def open(
        cls, port: int, path: str = "/", *, receives: int = 0, **fields: str | None
    ) -> AsyncIterator[RawSocket]:
        """`receives`: bytes that the system takes for a client that does not read; 0: as many as usual."""
        sock = socket.socket()
        sock.setblocking(False)
        if receives:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=receives or 1 << 16)
        try:
            made = cls(reader, writer)
            made.send(handshake(path, **fields))
            status, _ = await made.head()
            assert status == 101, status
            yield made
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next HTTP answer."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text[:-4].split("\r\n")
        return int(first.split(" ")[1]), {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def call(self, body: bytes) -> Any:
        """Send a message; the document that comes next."""
        self.send(frame(body))
        return (await self.got()).json

    async def got(self, within: float = 60.0) -> Got:
        """The next frame."""
        async with asyncio.timeout(within):
            first, size = await self.reader.readexactly(2)
            assert size < 128, "a server does not mask"
            if size == 126:
                size = int.from_bytes(await self.reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await self.reader.readexactly(8), "big")
            payload = await self.reader.readexactly(size)
        compressed = bool(first & 0x40)
        if compressed:
            payload = zlib.decompressobj(-15).decompress(payload + b"\x00\x00\xff\xff")
        return Got(first & 0x0F, payload, compressed)

    async def ended(self, within: float = 60.0) -> bool:
        """Wait for the end of the connection; False when more came before it."""
        async with asyncio.timeout(within):
            try:
                return not await self.reader.read(1)
            except ConnectionError:
                return True


@asynccontextmanager
async def web_socket(
    path: str = "/", *, gated: bool = False, receives: int = 0, **more: Any
) -> AsyncIterator[tuple[Proxy, RawSocket]]:
    """A proxy over one node, and a WebSocket to it. `gated`: the node can hold calls back. `more`: headers of the
    handshake by capitalised names, and settings of the proxy."""
    fields = {name: value for name, value in more.items() if name[0].isupper()}
    settings = {name: value for name, value in more.items() if name not in fields}
    async with (
        gated_nodes() if gated else harmony_nodes(1) as nodes,
        proxying(nodes, **settings) as proxy,
        RawSocket.open(proxy.worker.port, path, receives=receives, **fields) as client,
    ):
        yield proxy, client


def sockets(proxy: Proxy) -> list[WebSocket]:
    """The worker's ends of all WebSockets."""
    return list(proxy.worker._lanes.websockets.open)


class Subscribed(LiveSession):
    """A session that has some subscriptions, and notes what it is told."""

    def __init__(self, socket: WebSocket, count: int = 1) -> None:
        super().__init__(socket, 200)
        self.subscriptions = count
        self.heard: list[str] = []
        socket.session = self

    @property
    def count(self) -> int:
        return self.subscriptions

    def turn(self) -> MessageTurn:
        return NotedTurn(self)

    def close(self) -> None:
        self.heard.append("closed")


class NotedTurn(MessageTurn):
    def drop(self) -> None:
        cast(Subscribed, self.session).heard.append("dropped")

    def settle(self) -> None:
        session = cast(Subscribed, self.session)
        session.heard.append("settled")
        session.sink.notify(b'"first', b' notification"')
