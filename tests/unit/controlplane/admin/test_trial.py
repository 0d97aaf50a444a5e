import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import Raw

from rpcaccel.controlplane.admin import diagnostics
from tests.support.described_answers import sent

ANSWER = {
    "X-Rpcaccel-Cache": "miss",
    "X-Rpcaccel-Attempts": "2",
    "Server-Timing": "forward;dur=12.5",
    "Set-Cookie": "not=ours",
}


async def front(request: web.Request) -> web.Response:
    return web.Response(body=request.path.encode() + b" " + await request.read(), headers=ANSWER)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_post("/{network}", front)
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[int]:
    """The port of a server that says this to everybody, and closes."""

    said = asyncio.Event()

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(answer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        said.set()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await said.wait()


async def test_a_call_goes_through_the_front_as_it_was_written(server: TestServer) -> None:
    asked = diagnostics.CallRequest(Raw(b'{"id":1.50, "method":"x"}'), "s0")
    ran = sent(await diagnostics.run(asked, ("0.0.0.0", int(server.port or 0))))
    assert (ran["status"], ran["body"]) == (200, '/s0 {"id":1.50, "method":"x"}')
    assert ran["size"] == len(ran["body"])
    assert ran["seconds"] > 0
    assert ran["headers"]["x-rpcaccel-attempts"] == "2"
    assert ran["headers"]["server-timing"] == "forward;dur=12.5"
    assert "set-cookie" not in ran["headers"]


async def test_a_front_that_is_not_there_is_said() -> None:
    with pytest.raises(OSError, match="Cannot connect"):
        await diagnostics.run(diagnostics.CallRequest(Raw(b"{}")), ("127.0.0.1", 1))


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1\r\n\r\n", b"no http\r\n\r\n", b"a" * 100_000, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"],
)
async def test_what_is_no_whole_answer_is_said(said: bytes) -> None:
    async with saying(said) as port:
        with pytest.raises(ConnectionError):
            await diagnostics.run(diagnostics.CallRequest(Raw(b"{}")), ("127.0.0.1", port))


async def test_a_front_that_takes_too_long_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match=r"not within 0\.01 s"):
        await diagnostics.run(diagnostics.CallRequest(Raw(b"{}")), silent.getsockname(), 0.01)


@pytest.mark.parametrize("length", [b"", b"Content-Length: 500000\r\n"])
async def test_of_a_long_answer_the_beginning_is_shown_and_all_is_counted(length: bytes) -> None:
    async with saying(b"HTTP/1.1 503 Busy\r\n" + length + b"X-Rpcaccel-Cache: hit\r\n\r\n" + b"x" * 500_000) as port:
        ran = sent(await diagnostics.run(diagnostics.CallRequest(Raw(b"{}")), ("127.0.0.1", port)))
    assert (ran["status"], ran["size"], ran["body"]) == (503, 500_000, "x" * diagnostics.MAX_SHOWN_BYTES)
    assert ran["headers"] == {"x-rpcaccel-cache": "hit"}


async def test_a_network_is_named_whatever_its_letters(server: TestServer) -> None:
    ran = sent(await diagnostics.run(diagnostics.CallRequest(Raw(b"{}"), "é x"), ("127.0.0.1", int(server.port or 0))))
    assert ran["body"] == "/é x {}"
