"""What tests of stores share: real redis-servers, stores over them, and entries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from rpcaccel.stores.redis.store import RedisStore
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """A running server, empty; not to be killed or frozen."""
    return redis_server


@pytest.fixture
def own_server(new_redis: Callable[..., RedisServer]) -> RedisServer:
    """A server for one test, to be killed and frozen."""
    return new_redis()


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


@pytest.fixture
async def other(open_store: Opener, server: RedisServer) -> RedisStore:
    """The store of another process, or another host."""
    return await open_store(server.url)
