"""Who may open a WebSocket, and what is kept of its handshake."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rpcaccel.core.client_limits import hashed, make
from rpcaccel.dataplane.http.connections import READ_LATER
from rpcaccel.dataplane.rpc.admission import Headers
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.raw_socket import CHAIN, RawSocket, frame, handshake, sockets, tally, web_socket
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until


async def refused(proxy: Proxy, path: str = "/", **fields: str | None) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a handshake; the connection ends with it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
    client = RawSocket(reader, writer)
    client.send(handshake(path, **fields))
    status, headers = await client.head()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    assert await client.ended()
    writer.close()
    return status, headers, body


OFF = {"websocket": {"enabled": False}}
ORIGINS = {"cors_origins": ["https://dapp.example"]}
KEY_WANTED = b"the header Sec-WebSocket-Key must be 16 bytes in base64"


@pytest.mark.parametrize(
    ("http", "fields", "status", "words", "reason"),
    [
        ({}, {"Sec_WebSocket_Version": "8"}, 426, b"the header Sec-WebSocket-Version must be 13", "websocket"),
        ({}, {"Sec_WebSocket_Key": "abc"}, 400, KEY_WANTED, "websocket"),
        ({}, {"Sec_WebSocket_Key": None}, 400, KEY_WANTED, "websocket"),
        ({}, {"Connection": "close"}, 400, b"the header Connection must name upgrade", "websocket"),
        ({}, {"Content_Length": "0,0"}, 400, b"", "malformed-http"),
        ({}, {"X_Rpcaccel_Timeout": "soon"}, 400, b"X-Rpcaccel-Timeout", "malformed"),
        (OFF, {}, 403, b"there are no WebSockets here", "websocket-off"),
        (OFF, {"Sec_WebSocket_Version": "8"}, 403, b"there are no WebSockets here", "websocket-off"),
        (ORIGINS, {"Origin": "https://evil.example"}, 403, b"this origin", "websocket-origin"),
        (ORIGINS, {"Origin": "null"}, 403, b"this origin", "websocket-origin"),
    ],
)
async def test_a_handshake_that_is_turned_away_is_told_why_and_counted(
    http: dict[str, Any], fields: dict[str, str | None], status: int, words: bytes, reason: str
) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http=http) as proxy:
        told, headers, body = await refused(proxy, **fields)
        assert (told, words in body, tally(proxy).refusals) == (status, True, {reason: 1})
        assert reason != "websocket" or headers["sec-websocket-version"] == "13"


async def test_an_origin_that_is_allowed_and_a_client_without_one_are_let_in() -> None:
    for origin in ("https://dapp.example", None):
        async with web_socket(Origin=origin, http=ORIGINS) as (_, client):
            assert (await client.call(CHAIN))["id"] == 7


@pytest.mark.parametrize("first", [b"", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
async def test_a_handshake_where_none_can_be_taken_is_told_so(first: bytes) -> None:
    """A path that is not plain, or a connection that aiohttp has for good."""
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
        client = RawSocket(reader, writer)
        if first:
            client.send(first)
            _, headers = await client.head()
            await reader.readexactly(int(headers["content-length"]))
        client.send(handshake("/" if first else "/%2F"))
        assert (await client.head())[0] == 400
        words = await reader.read()
        assert b"on a connection of its own; its path may have no percent sign" in words
        writer.close()


async def test_an_unknown_path_and_an_unknown_key_are_refused_as_for_post() -> None:
    keys = {"keys": {"shop": {"hashes": [hashed(make(b"\x07" * 32))]}}, "require_key": True}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=keys) as proxy:
        assert (await refused(proxy, "/nowhere"))[0] == 404
        for path in ("/", "/key/wrong/"):
            status, headers, body = await refused(proxy, path)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert body == (await proxy.post(CHAIN, path)).body


async def test_there_may_be_so_many_and_so_many_of_one_client() -> None:
    limits = {"websocket": {"connections": 3, "per_client": 2}}
    trusting = {"trusted_proxies": ["127.0.0.1"]}
    async with harmony_nodes(1) as nodes, proxying(nodes, http=limits, clients=trusting) as proxy:
        port = proxy.worker.port
        async with RawSocket.open(port, X_Forwarded_For="1.1.1.1"), RawSocket.open(port, X_Forwarded_For="1.1.1.1"):
            status, headers, _ = await refused(proxy, X_Forwarded_For="1.1.1.1")
            assert (status, headers["retry-after"]) == (429, "1")
            async with RawSocket.open(port, X_Forwarded_For="2001:db8::1"):
                assert "address:2001:db8::/64" in proxy.worker._lanes.websockets.by_holder
                assert (await refused(proxy, X_Forwarded_For="3.3.3.3"))[0] == 503
        await until(lambda: not sockets(proxy))
        assert proxy.worker._lanes.websockets.by_holder == {}
        assert tally(proxy).refusals == {"websocket-client": 1, "websocket-full": 1}


async def test_nobody_opens_a_websocket_while_the_worker_drains() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        proxy.worker._front.draining = True
        status, headers, _ = await refused(proxy)
        assert (status, headers["retry-after"]) == (503, "1")


class Asked:
    """Headers that note which of them are read."""

    def __init__(self, headers: Headers) -> None:
        self.names: set[str] = set()
        self._headers = headers

    def get(self, key: str, default: str) -> str:
        self.names.add(key)
        return self._headers.get(key, default)

    def getall(self, key: str, default: list[str]) -> list[str]:
        self.names.add(key)
        return self._headers.getall(key, default)


def junk(lines: int) -> dict[str, str | None]:
    """Headers of 500 bytes each that nobody reads."""
    return {f"X_{number}": "y" * 500 for number in range(lines)}


async def status_of(proxy: Proxy, *pieces: bytes) -> int:
    """The status of the answer to a head that comes in these pieces."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
    lanes = proxy.worker._lanes
    await until(lambda: lanes.open)
    (lane,) = lanes.open
    for piece in pieces:
        lane.data_received(piece)
    status, _ = await RawSocket(reader, writer).head()
    writer.close()
    await until(lambda: not (lanes.open or lanes.websockets.open))
    return status


async def test_a_handshake_over_the_limit_of_a_header_is_refused_however_it_comes() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"max_header": 2048}) as proxy:
        long, one_line, short = (handshake(**fields) for fields in (junk(5), {"X_Junk": "y" * 2048}, junk(3)))
        assert await status_of(proxy, long) == 431
        assert await status_of(proxy, one_line) == 431
        assert await status_of(proxy, long[:1100], long[1100:2200], long[2200:]) == 431
        assert await status_of(proxy, short) == 101
        assert await status_of(proxy, short[:1500], short[1500:]) == 101
        assert proxy.worker.report().tally.refusals == {"header-too-large": 3}


async def test_of_a_handshake_is_kept_what_its_messages_are_read_by() -> None:
    clients = {"keys": {"shop": {"hashes": [hashed("k" * 20)]}}, "trusted_proxies": ["127.0.0.1"]}
    kept = {"X_Request_ID": "mine", "Forwarded": "for=1.2.3.4"}
    async with web_socket(**kept, Cookie="c", X_Junk="j" * 9000, clients=clients, log={"access": True}) as (
        proxy,
        client,
    ):
        (socket,) = proxy.worker._lanes.websockets.open
        found = {name: socket.head.headers.get(name, "") for name in ("x-request-id", "forwarded", "cookie", "x-junk")}
        assert found == {"x-request-id": "mine", "forwarded": "for=1.2.3.4", "cookie": "", "x-junk": ""}
        socket.head.headers = cast(Headers, asked := Asked(socket.head.headers))
        socket.head.under = None  # as after a change of the settings
        assert (await client.call(CHAIN))["result"]
        client.send(frame(b'{"jsonrpc":"2.0","id":1,"method":"eth_noSuchMethod"}'))
        await client.got()
        assert asked.names - {"accept-encoding"} <= READ_LATER, "what is read must be kept"
        assert asked.names >= READ_LATER - {"traceparent", "forwarded"}, "what nobody reads need not be kept"
