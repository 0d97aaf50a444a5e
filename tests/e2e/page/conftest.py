"""A browser that looks at the page of an admin side over made-up figures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.browser import Visitor, browsing, visiting
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView


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
async def admin(view: SampleView, control: SampleControl) -> AsyncIterator[Admin]:
    """An admin side over both, after a second of traffic."""
    admin = Admin(view, "127.0.0.1:0", control=control, interval=0.2)
    await admin.start()
    view.advance(1.0, load=0.2)
    yield admin
    await admin.close()


@shared
async def visitor(browser: Browser, admin: Admin) -> AsyncIterator[Visitor]:  # noqa: ARG001 -- closed before it
    """Somebody who looks; the test fails when anything was said on the console that was not expected."""
    async with visiting(browser) as visitor:
        yield visitor
