"""The headers of a handshake: how many bytes they may have."""

from __future__ import annotations

import asyncio

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.raw_socket import RawSocket, handshake
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until


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
