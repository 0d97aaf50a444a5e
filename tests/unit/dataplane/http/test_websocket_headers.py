"""The headers of a handshake: how many bytes they may have, and what is kept of them."""

from __future__ import annotations

import asyncio
from typing import cast

from rpcaccel.core.client_limits import hashed
from rpcaccel.dataplane.http.connections import READ_LATER
from rpcaccel.dataplane.rpc.admission import Headers
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.raw_socket import RawSocket, frame, handshake, web_socket
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

CHAIN = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}'


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
