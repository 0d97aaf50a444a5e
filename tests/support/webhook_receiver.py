"""A receiver of webhooks on loopback that answers as a test says, and keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import RawTestServer

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class WebhookReceiver:
    """Takes every POST; `answer` makes the answers."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        """The address with a path that is a key."""
        self.status = 200
        self.answer: Answer = self._plain
        self._came = asyncio.Event()

    async def _plain(self, _request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=self.status, text="ok")

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        """One message."""
        self.bodies.append(orjson.loads(await request.read()))
        self.headers.append(dict(request.headers))
        self._came.set()
        return await self.answer(request)

    async def message(self, number: int, within: float = 60.0) -> Any:
        """The message of this number, counted from 0, once it has come."""
        async with asyncio.timeout(within):
            while len(self.bodies) <= number:
                self._came.clear()
                await self._came.wait()
        return self.bodies[number]


@asynccontextmanager
async def receiving_webhooks() -> AsyncIterator[WebhookReceiver]:
    """A receiver that serves."""
    receiver = WebhookReceiver()
    async with RawTestServer(receiver.take) as server:
        receiver.url = str(server.make_url("/hooks/T0S3cretPathOfTheHook"))
        yield receiver
