"""What tests of stores share: real redis-servers, stores over them, and entries."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from rpcaccel.stores.redis import RedisStore
from tests.stores.redisserver import RedisServer, binary
from tests.stores.settings import Settings, Url


@pytest.fixture(scope="session")
def _redis_here() -> None:
    if binary() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no redis-server on this machine")


@pytest.fixture(scope="session")
def shared_server(_redis_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """A running server, empty; not to be killed or frozen."""
    assert shared_server.command("FLUSHALL") == b"+OK"
    assert shared_server.command("CONFIG", "RESETSTAT") == b"+OK"
    return shared_server


@pytest.fixture
def own_server(_redis_here: None, tmp_path: Path) -> Iterator[RedisServer]:
    """A server for one test, to be killed and frozen."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis(port=server.port, protocol=2) as plain:
        yield plain


Opener = Callable[..., Awaitable[RedisStore]]


@pytest.fixture
async def open_store() -> AsyncIterator[Opener]:
    """Starts stores, and closes them at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(url: str, *, replicas: tuple[str, ...] = (), **others: Any) -> RedisStore:
            store = RedisStore(Settings(url=Url(url), replicas=tuple(map(Url, replicas)), **others))
            await store.start()
            stack.push_async_callback(store.close)
            return store

        yield start


@pytest.fixture
async def store(open_store: Opener, server: RedisServer) -> RedisStore:
    return await open_store(server.url)
