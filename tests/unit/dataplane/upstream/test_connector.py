import asyncio

from aiohttp import ClientRequest, ClientTimeout
from yarl import URL

from rpcaccel.dataplane.upstream.connector import ConnectTrace, Counters, CountingConnector


async def test_a_connection_is_counted_from_its_making_to_its_end() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    counters = Counters()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connector = CountingConnector(counters)
    request = ClientRequest("POST", url, loop=asyncio.get_running_loop())

    first = await connector.take(request, ConnectTrace(counters), ClientTimeout())
    assert (counters.connects, counters.open) == (1, 1)
    first.release()
    assert (counters.open, counters.idle) == (1, 1)

    attempt = ConnectTrace(counters)
    second = await connector.take(request, attempt, ClientTimeout())
    assert attempt.reused
    assert attempt.phase == "sent"
    assert attempt.connected >= attempt.started
    assert (counters.connects, counters.reused) == (1, 1)

    protocol = second.protocol
    assert protocol is not None
    closed = protocol.closed
    assert closed is not None
    second.close()
    await closed
    await asyncio.sleep(0)  # the counter's own callback runs in the turn after
    assert (counters.open, counters.idle) == (0, 0)
    await connector.close()
    server.close()
    await server.wait_closed()


def test_a_snapshot_holds_every_number() -> None:
    counters = Counters()
    counters.wait_seconds, counters.open, counters.in_use = 0.5, 3, 1
    numbers = counters.snapshot()
    assert (numbers["wait_seconds"], numbers["open"], numbers["idle"]) == (0.5, 3, 2)
    assert {"open", "idle", "in_use", "dns_lookups", "queued"} <= numbers.keys()
