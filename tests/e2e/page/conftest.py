"""A browser that looks at the page of an admin side over made-up figures."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.browser import Visitor, browsing, visiting
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView

Start = Callable[..., Awaitable[Admin]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    """One Chromium for all tests of a process."""
    async with browsing(chromium) as browser:
        yield browser


@pytest.fixture
def control() -> SampleControl:
    """Settings that can be changed."""
    return SampleControl()


@pytest.fixture
def view() -> SampleView:
    """Figures that can be moved on."""
    return SampleView()


@shared
async def start() -> AsyncIterator[Start]:
    """`await start(view, control, seconds=30)`: an admin side after so many seconds of traffic, whose figures move when
    the test samples them; its clock is a second on whenever it is read."""
    async with AsyncExitStack() as started:

        async def admin(
            view: SampleView, control: SampleControl, seconds: int = 0, load: float = 0.02, **how: Any
        ) -> Admin:
            ticks = count(1000)
            admin = Admin(
                view, "127.0.0.1:0", control=control, **{"interval": 3600, "clock": lambda: float(next(ticks)), **how}
            )
            await admin.start()
            started.push_async_callback(admin.close)
            for _ in range(seconds):
                view.advance(1.0, load=load)
                admin.sample()
            return admin

        yield admin


@shared
async def admin(start: Start, view: SampleView, control: SampleControl) -> Admin:
    """An admin side over both by the clock of the machine, after a second of traffic."""
    admin = await start(view, control, interval=0.2, clock=time.monotonic)
    view.advance(1.0, load=0.2)
    return admin


@shared
async def visitor(browser: Browser, start: Start) -> AsyncIterator[Visitor]:  # noqa: ARG001 -- closed before it
    """Somebody who looks; the test fails when anything was said on the console that was not expected."""
    async with visiting(browser) as visitor:
        yield visitor
