"""What becomes of a message at receivers of every kind, over sockets."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from rpcaccel.config.alert_settings import WebhookSettings
from rpcaccel.controlplane.alerts.delivery import Delivered
from rpcaccel.controlplane.alerts.webhook_client import WebhookClient
from tests.support.webhook_receiver import WebhookReceiver, receiving_webhooks


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with receiving_webhooks() as receiver:
        yield receiver


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    client = WebhookClient()
    yield client
    await client.close()


def webhook(url: str, **more: Any) -> WebhookSettings:
    return WebhookSettings.model_validate({"url": url, **more})


async def test_a_message_is_posted_as_json_with_the_headers_of_the_settings(
    client: WebhookClient, receiver: WebhookReceiver
) -> None:
    outcome = await client.post(webhook(receiver.url, headers={"Authorization": "Bearer abc"}), b'{"a":1}')
    assert (outcome.end, outcome.status, outcome.why) == ("ok", 200, "")
    assert receiver.bodies == [{"a": 1}]
    (sent,) = receiver.headers
    assert (sent["Content-Type"], sent["Authorization"]) == ("application/json", "Bearer abc")
    assert sent["User-Agent"].startswith("rpcaccel/")


@pytest.mark.parametrize(
    ("status", "end"),
    [(204, "ok"), (408, "again"), (429, "again"), (500, "again"), (503, "again"), (400, "refused"), (404, "refused")],
)
async def test_a_status_says_whether_another_try_is_of_use(
    client: WebhookClient, receiver: WebhookReceiver, status: int, end: str
) -> None:
    receiver.status = status
    outcome = await client.post(webhook(receiver.url), b"{}")
    assert (outcome.end, outcome.status) == (end, status)
    assert bool(outcome.why) is (end != "ok")


@pytest.mark.parametrize("dated", [False, True])
async def test_the_receiver_may_ask_to_be_left_alone(
    client: WebhookClient, receiver: WebhookReceiver, dated: bool
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True) if dated else "100"

    async def busy(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": later})

    receiver.answer = busy
    outcome = await client.post(webhook(receiver.url), b"{}")
    assert outcome.retry_after == pytest.approx(100, abs=30)


@pytest.mark.parametrize(
    "nonsense",
    ["soon", "-5", "9" * 40, "Mon, 99 Foo", f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT", f"1 Jan 2024 00:00:00 +{'9' * 30}"],
)
async def test_a_retry_after_that_nobody_can_read_is_none(
    client: WebhookClient, receiver: WebhookReceiver, nonsense: str
) -> None:
    async def busy(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=503, headers={"Retry-After": nonsense})

    receiver.answer = busy
    assert (await client.post(webhook(receiver.url), b"{}")).retry_after == 0


async def test_a_redirect_is_not_followed(client: WebhookClient, receiver: WebhookReceiver) -> None:
    async def elsewhere(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "https://other.example/secret-path-1234"})

    receiver.answer = elsewhere
    outcome = await client.post(webhook(receiver.url), b"{}")
    assert (outcome.end, outcome.why) == ("refused", "HTTP 307: redirects are not followed")
    assert len(receiver.bodies) == 1


async def test_an_endless_answer_is_not_read(client: WebhookClient, receiver: WebhookReceiver) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        while True:
            await reply.write(b"x\x1b\n" * 10_000)

    receiver.answer = endless
    outcome = await client.post(webhook(receiver.url), b"{}")
    assert outcome.end == "ok"


async def test_a_receiver_that_does_not_answer_is_given_up_after_the_timeout(
    client: WebhookClient, receiver: WebhookReceiver
) -> None:
    async def silent(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    receiver.answer = silent
    assert (await client.post(webhook(receiver.url, timeout=0.1), b"{}")).why == "no answer within 0.1 s"


async def test_an_answer_that_breaks_off_counts_by_its_status(client: WebhookClient, receiver: WebhookReceiver) -> None:
    async def breaks(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Length": "100"})
        await reply.prepare(request)
        await reply.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return reply

    receiver.answer = breaks
    assert (await client.post(webhook(receiver.url), b"{}")).end == "ok"


ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": lambda key: key,
    "percent": lambda key: "".join(f"%{ord(char):02x}" for char in key),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "backwards": lambda key: key[::-1],
    "over two lines": lambda key: f"{key[:5]}\n{key[5:]}",
    "in capitals": lambda key: key.upper(),
    "in JSON": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
}


@pytest.mark.parametrize("form", ECHOES)
@pytest.mark.parametrize("status", [200, 204, 307, 404, 500])
async def test_nothing_that_a_receiver_writes_is_shown_since_it_may_be_the_key_in_any_form(
    client: WebhookClient, receiver: WebhookReceiver, form: str, status: int
) -> None:
    key = "mysecrettopic1234567"
    written = ECHOES[form](key)

    async def echoes(_request: web.BaseRequest) -> web.StreamResponse:
        place = {"Location": f"https://{''.join(written.split())}.example/"}
        return web.Response(status=status, reason="".join(written.split()), text=written, headers=place)

    receiver.answer = echoes
    settings = webhook(f"{receiver.url.rpartition('/')[0]}/{key}", headers={"X-Token": key})
    shown = repr(await client.post(settings, b"{}")).lower()
    assert f"status={status}" in shown
    assert not any(part.lower() in shown for part in written.split())


async def test_no_connection_is_said_in_words_without_the_url(client: WebhookClient) -> None:
    async def said(url: str) -> Delivered:
        return await client.post(webhook(url), b"{}")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        refused = await said(f"http://127.0.0.1:{taken.getsockname()[1]}/T0S3cretPath")
    unknown = await said("http://nowhere.invalid/T0S3cretPath")
    assert (refused.end, unknown.end) == ("again", "again")
    assert refused.why == "no connection: connection refused"
    assert unknown.why == "the name of its host is not found"
    assert "S3cret" not in f"{refused}{unknown}"
