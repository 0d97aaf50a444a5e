"""What becomes of a message at receivers of every kind, over sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from rpcaccel.config.alert_settings import WebhookSettings
from rpcaccel.controlplane.alerts.delivery import Delivered
from rpcaccel.controlplane.alerts.webhook_client import LONGEST_ANSWER, WebhookClient
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
    assert (outcome.end, outcome.status, outcome.why, outcome.said) == ("ok", 200, "", "ok")
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
    assert (outcome.end, outcome.why) == (
        "refused",
        "HTTP 307: redirects are not followed (to https://other.example)",
    )
    assert len(receiver.bodies) == 1


async def test_of_an_endless_answer_only_the_beginning_is_read(
    client: WebhookClient, receiver: WebhookReceiver
) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        while True:
            await reply.write(b"x\x1b\n" * 10_000)

    receiver.answer = endless
    outcome = await client.post(webhook(receiver.url), b"{}")
    assert outcome.end == "ok"
    assert len(outcome.said) == 200
    assert "\x1b" not in outcome.said


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


async def test_a_receiver_that_echoes_the_key_in_its_path_does_not_give_it_away(
    client: WebhookClient, receiver: WebhookReceiver
) -> None:
    async def echoes(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=404, text=f"no hook at {request.path} for {request.headers['X-Token']}")

    receiver.answer = echoes
    settings = webhook(receiver.url, headers={"X-Token": "t0ps3cret-t0ken"})
    outcome = await client.post(settings, b"{}")
    assert outcome.said == "no hook at *** for ***"
    assert "S3cret" not in repr(outcome)
    assert "S3cret" not in repr(settings)


@pytest.mark.parametrize(
    "address", ["mysecrettopic", "hook/1234567", "in?room=mysecretroom", "in/mysecrettopic?a=b%0Acdef"]
)
async def test_a_key_that_looks_like_a_word_or_a_number_is_not_given_away_either(
    client: WebhookClient, receiver: WebhookReceiver, address: str
) -> None:
    async def echoes(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"parts": request.path.split("/"), "room": request.query.get("room")})

    receiver.answer = echoes
    url = f"{receiver.url.rpartition('/')[0]}/{address}"
    said = (await client.post(webhook(url), b"{}")).said
    assert "***" in said
    assert not any(key in said for key in ("mysecret", "1234567"))


async def test_a_key_at_which_the_reading_of_an_answer_ends_is_not_given_away_by_half(
    client: WebhookClient, receiver: WebhookReceiver
) -> None:
    async def echoes(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"{' ' * (LONGEST_ANSWER - 10)}t0ps3cret-t0ken")

    receiver.answer = echoes
    outcome = await client.post(webhook(receiver.url, headers={"X-Token": "t0ps3cret-t0ken"}), b"{}")
    assert outcome.said == "***…"


async def test_an_endless_host_in_a_redirect_makes_no_endless_sentence(
    client: WebhookClient, receiver: WebhookReceiver
) -> None:
    async def elsewhere(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"https://{'a' * 7000}.example/"})

    receiver.answer = elsewhere
    assert len((await client.post(webhook(receiver.url), b"{}")).why) < 300


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
