"""A node that misbehaves, and upstreams that call it; what depends on the event loop runs on the program's own, uvloop,
or on both: they differ."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from aiohttp.abc import AbstractResolver

from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from tests.support.dataplane.raw_node import Connect, RawNode, node_settings


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001 -- the hook's signature
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    name = item.path.name
    if name.startswith(("test_drain", "test_half_closed", "test_websocket")):
        return {"uvloop": uvloop.new_event_loop}
    if name.startswith(("test_upstream", "test_node_connection", "test_exchange", "test_unsent")):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
async def node() -> AsyncIterator[RawNode]:
    server = RawNode()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def connect(node: RawNode) -> AsyncIterator[Connect]:
    made: list[HttpNodeClient] = []

    def build(url: str | None = None, *, resolver: AbstractResolver | None = None, **options: object) -> HttpNodeClient:
        where = url or f"http://127.0.0.1:{node.port}/"
        made.append(HttpNodeClient(node_settings(where, **options), resolver=resolver))
        return made[-1]

    yield build
    for upstream in made:
        await upstream.close()
