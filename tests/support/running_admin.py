"""An admin side that listens on loopback, over the sample view and control, and a client of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.admin_routes import AdminRoute
from tests.support.sample_control import SampleControl
from tests.support.sample_errors import TIMEOUT
from tests.support.sample_view import SampleView

FROM_PAGE = {"X-Rpcaccel-Request": "page"}
"""The headers by which a change proves that it comes from the page."""


@asynccontextmanager
async def running_admin(
    control: SampleControl | None = None,
    view: SampleView | None = None,
    *,
    headers: Mapping[str, str] = FROM_PAGE,
    **options: Any,
) -> AsyncIterator[tuple[Admin, aiohttp.ClientSession]]:
    """The admin side, without files unless `options` has some, and a client that sends these headers."""
    control = control or SampleControl()
    admin = Admin(view or SampleView(), "127.0.0.1:0", control=control, **{"files": {}, **options})
    await admin.start()
    try:
        async with aiohttp.ClientSession(f"http://{admin.address}", headers=headers) as session:
            yield admin, session
    finally:
        await admin.close()


def path_of(route: AdminRoute) -> str:
    """A path that this route serves."""
    return re.sub(r"\{file.*", "", route.path).format(
        network="harmony-s0", name="dapp", id=TIMEOUT.id if "errors" in route.path else "a"
    )
