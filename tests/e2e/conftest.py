"""The real program over simulated nodes, which run in the test's own loop so that what they were asked can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.testing.simnode import SimNode
from tests.e2e.running import LOCAL, Running, found
from tests.services import Program

Serve = Callable[..., Awaitable[Running]]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


@pytest.fixture
def serve(new_program: Callable[..., Program], http: aiohttp.ClientSession) -> Serve:
    """`await serve(nodes, "--flag", ...)`: the program over nodes (simulated, or URLs), ready unless `ready=False`."""

    async def start(nodes: Any, *flags: str | Path, ready: bool = True, **options: Any) -> Running:
        urls = [f"{node.url},id={node.name}" if isinstance(node, SimNode) else node for node in nodes]
        running = await found(new_program("serve", *urls, *LOCAL, *flags, **options), http)
        if ready:
            await running.ready()
        return running

    return start
