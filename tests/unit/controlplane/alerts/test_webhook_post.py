"""What becomes of a message at receivers of every kind, over sockets."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

from rpcaccel.config.sections import WebhookSettings
from rpcaccel.controlplane.alerts.alerting import post_to_webhook
from rpcaccel.controlplane.alerts.receiver import Delivered
from tests.support.webhook_receiver import WebhookReceiver


async def sent(url: str, body: bytes = b"{}", **more: Any) -> Delivered:
    return await post_to_webhook("ops", WebhookSettings.model_validate({"url": url, **more}), body)


async def test_a_message_is_posted_as_json_with_the_headers_of_the_settings(receiver: WebhookReceiver) -> None:
    outcome = await sent(receiver.url, b'{"a":1}', headers={"Authorization": "Bearer abc"})
    assert (outcome.webhook, outcome.ok, outcome.status, outcome.error) == ("ops", True, 200, "")
    assert receiver.bodies == [{"a": 1}]
    (headers,) = receiver.headers
    assert (headers["Content-Type"], headers["Authorization"]) == ("application/json", "Bearer abc")
    assert headers["User-Agent"].startswith("rpcaccel/")


@pytest.mark.parametrize(
    ("status", "error"),
    [(204, ""), (404, "HTTP 404: it does not take the message"), (503, "HTTP 503")],
)
async def test_a_status_says_whether_the_message_was_taken(receiver: WebhookReceiver, status: int, error: str) -> None:
    receiver.status = status
    outcome = await sent(receiver.url)
    assert (outcome.ok, outcome.status, outcome.error) == (not error, status, error)


async def test_the_receiver_may_ask_to_be_left_alone(receiver: WebhookReceiver) -> None:
    async def busy(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "3600"})

    receiver.answer = busy
    assert (await sent(receiver.url)).retry_after == 3600


async def test_an_endless_answer_is_not_read(receiver: WebhookReceiver) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        while True:
            await reply.write(b"x\x1b\n" * 10_000)

    receiver.answer = endless
    outcome = await sent(receiver.url)
    assert outcome.ok


async def test_a_receiver_that_does_not_answer_is_given_up_after_the_timeout(receiver: WebhookReceiver) -> None:
    async def silent(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    receiver.answer = silent
    assert (await sent(receiver.url, timeout=0.1)).error == "no answer within 0.1 s"


async def test_an_answer_that_breaks_off_counts_by_its_status(receiver: WebhookReceiver) -> None:
    async def breaks(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Length": "100"})
        await reply.prepare(request)
        await reply.write(b"half")
        request.transport.abort()
        return reply

    receiver.answer = breaks
    assert (await sent(receiver.url)).ok


@pytest.mark.parametrize("status", [200, 204, 307, 404, 500])
async def test_nothing_that_a_receiver_writes_is_shown_since_it_may_be_the_key_and_no_redirect_is_followed(
    receiver: WebhookReceiver, status: int
) -> None:
    key = "mysecrettopic1234567"

    async def echoes(_request: web.BaseRequest) -> web.StreamResponse:
        place = {"Location": f"http://{key}.invalid/"}
        return web.Response(status=status, reason=key, text=key, headers=place)

    receiver.answer = echoes
    shown = repr(await sent(f"{receiver.url.rpartition('/')[0]}/{key}", headers={"X-Token": key}))
    assert f"status={status}" in shown
    assert ("redirects are not followed" in shown) is (status == 307)
    assert key not in shown


async def test_no_connection_is_said_in_words_without_the_url() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        refused = await sent(f"http://127.0.0.1:{taken.getsockname()[1]}/T0S3cretPath")
    unknown = await sent("http://nowhere.invalid/T0S3cretPath")
    assert not refused.ok
    assert not unknown.ok
    assert refused.error == "no connection: connection refused"
    assert unknown.error == "the name of its host is not found"
    assert "S3cret" not in f"{refused}{unknown}"
