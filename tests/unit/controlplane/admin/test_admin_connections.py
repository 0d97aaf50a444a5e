"""Connections of the admin side that send nothing, half a head, or nothing more, and a great many of them."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from aiohttp import web

from rpcaccel.controlplane.admin.admin_connections import MAX_CONNECTIONS, listen, most_connections

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


@asynccontextmanager
async def listening(**bounds: Any) -> AsyncIterator[Callable[[], Awaitable[Connection]]]:
    server = await listen(web.Server(_answer), ("127.0.0.1", 0), None, **bounds)
    port = server.sockets[0].getsockname()[1]
    opened: list[Connection] = []

    async def connect() -> Connection:
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        return opened[-1]

    async with server, asyncio.timeout(30):
        yield connect
        for _, writer in opened:
            writer.close()


async def ended(connection: Connection) -> bytes:
    """What came until the connection ended."""
    try:
        return await connection[0].read()
    except ConnectionError:
        return b""


async def ask(connection: Connection) -> bytes:
    connection[1].write(REQUEST)
    return await connection[0].readuntil(b"here")


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n"])
async def test_a_connection_ends_when_no_head_comes(sent: bytes) -> None:
    async with listening(head_within=0.1) as connect:
        connection = await connect()
        connection[1].write(sent)
        assert b"here" not in await ended(connection)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_connection_ends_when_no_further_request_comes(sent: bytes) -> None:
    async with listening(idle_within=0.1) as connect:
        connection = await connect()
        assert b"200 OK" in await ask(connection)
        connection[1].write(sent)
        assert await ended(connection) == b""


async def of_too_many_the_silent_end() -> None:
    async with listening(most=4) as connect:
        used = await connect()
        await ask(used)
        silent = [await connect() for _ in range(20)]
        newest = await connect()
        assert b"200 OK" in await ask(newest)
        assert b"200 OK" in await ask(used)
        for connection in silent[:18]:
            assert await ended(connection) == b""


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_of_too_many_connections_those_without_a_request_end_and_the_newest_is_served(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(of_too_many_the_silent_end())


async def test_of_too_many_connections_that_wait_for_the_next_request_one_ends_and_not_the_newest() -> None:
    async with listening(most=4) as connect:
        waiting = [await connect() for _ in range(4)]
        for connection in waiting:
            await ask(connection)
        assert b"200 OK" in await ask(await connect())
        assert sum([connection[0].at_eof() for connection in waiting]) <= 1


def test_where_few_files_may_be_open_the_admin_side_takes_a_part_of_them() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
        assert most_connections() == 25
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert 1 <= most_connections() <= MAX_CONNECTIONS
