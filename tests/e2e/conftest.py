"""The real program over simulated nodes, which run in the test's own loop so that what they were asked can be read;
and for the page, an admin side over made-up figures with a browser that looks at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.controlplane.admin import Admin
from rpcaccel.testing.simnode import SimNode
from tests.browser import Visitor, visiting
from tests.e2e.running import LOCAL, Running, found
from tests.sample_control import SampleControl
from tests.sample_view import SampleView
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


@pytest.fixture
def control() -> SampleControl:
    """Settings that can be changed."""
    return SampleControl()


@pytest.fixture
def view() -> SampleView:
    """Figures that can be moved on."""
    return SampleView()


@pytest.fixture
async def admin(view: SampleView, control: SampleControl) -> AsyncIterator[Admin]:
    """An admin side over both, after a second of traffic."""
    admin = Admin(view, "127.0.0.1:0", control=control, interval=0.2)
    await admin.start()
    view.advance(1.0, load=0.2)
    yield admin
    await admin.close()


@pytest.fixture
async def visitor(chromium: Path, admin: Admin) -> AsyncIterator[Visitor]:  # noqa: ARG001 -- closed before it
    """A browser; the test fails when anything was said on its console that was not expected."""
    async with visiting(chromium) as visitor:
        yield visitor
