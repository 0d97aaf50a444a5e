import asyncio

from aiohttp import ClientRequest, ClientTimeout
from yarl import URL

from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.dataplane.upstream.connector import ConnectTrace, CountingConnector


async def test_a_connection_is_counted_from_its_making_to_its_end() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    cell = NodeCell("n", "a")
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connector = CountingConnector(cell)
    request = ClientRequest("POST", url, loop=asyncio.get_running_loop())

    first = await connector.take(request, ConnectTrace(cell), ClientTimeout())
    assert (cell.connects, cell.connections_open) == (1, 1)
    first.release()
    assert (cell.connections_open, cell.connections_idle) == (1, 1)

    attempt = ConnectTrace(cell)
    second = await connector.take(request, attempt, ClientTimeout())
    assert attempt.reused
    assert attempt.phase == "sent"
    assert (cell.connects, cell.reused) == (1, 1)

    protocol = second.protocol
    assert protocol is not None
    closed = protocol.closed
    assert closed is not None
    second.close()
    await closed
    await asyncio.sleep(0)  # the counter's own callback runs in the turn after
    assert (cell.connections_open, cell.connections_idle) == (0, 0)
    await connector.close()
    server.close()
    await server.wait_closed()
