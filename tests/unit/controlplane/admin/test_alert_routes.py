"""Alerts over real HTTP: a real receiver is told, tested and muted, and no answer holds its URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.controlplane.alerts.mutes import KeptMutes
from rpcaccel.controlplane.settings.kept_file import KeptFile
from tests.support.described_answers import problems
from tests.support.running_admin import running_admin
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver

DESCRIPTION = describe(ROUTES, lambda _: None)
ALERTS, MUTES, TEST = "/api/v1/alerts", "/api/v1/alerts/mutes", "/api/v1/alerts/test"


@pytest.fixture
def control(receiver: WebhookReceiver) -> SampleControl:
    webhooks = {"ops": {"url": receiver.url}, "chat": {"url": receiver.url + "/2", "format": "slack", "least": "bad"}}
    return SampleControl(sample_settings(alerts={"after": 0, "webhooks": webhooks}))


@pytest.fixture
async def client(control: SampleControl) -> AsyncIterator[aiohttp.ClientSession]:
    async with running_admin(control, interval=3600) as (_, session):
        yield session
    await control.alerts.stop()


async def answer(client: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> Any:
    async with client.request(method, path, json=body) as reply:
        told = await reply.json(content_type=None)
        assert "S3cret" not in str(told)
        assert reply.status >= 400 or problems(DESCRIPTION, method, path, told) == []
        return reply.status, told


async def test_what_the_page_shows_is_what_the_receiver_is_told(
    client: aiohttp.ClientSession, receiver: WebhookReceiver, control: SampleControl
) -> None:
    sent = await receiver.message(0)
    shown = (await answer(client, "GET", "/api/v1/overview"))[1]["attention"]
    assert [(one["id"], one["text"]) for one in sent["alerts"]] == [(one["id"], one["text"]) for one in shown]
    assert len(shown) == 1
    await until(lambda: control.alerts.receivers["ops"].now.taken_at)
    _, told = await answer(client, "GET", ALERTS)
    assert [(one["name"], one["address"], one["state"], one["sent"]) for one in told["webhooks"]] == [
        ("ops", receiver.url.partition("/hooks")[0], "well", {"ok": 1, "failed": 0}),
        ("chat", receiver.url.partition("/hooks")[0], "untried", {"ok": 0, "failed": 0}),
    ]
    assert [(one["id"], one["state"], one["network"], one["node"]) for one in told["alerts"]] == [
        (shown[0]["id"], "firing", "harmony-s0", "c")
    ]


async def test_a_test_waits_for_what_the_receiver_says(
    client: aiohttp.ClientSession, receiver: WebhookReceiver
) -> None:
    status, told = await answer(client, "POST", TEST, {})
    assert status == 200
    found = [(one["webhook"], one["ok"], one["status"]) for one in told["tests"]]
    assert found == [("ops", True, 200), ("chat", True, 200)]
    receiver.status = 403
    (one,) = (await answer(client, "POST", TEST, {"webhook": "chat"}))[1]["tests"]
    assert (one["ok"], one["status"], one["error"]) == (False, 403, "HTTP 403: it does not take the message")
    status, told = await answer(client, "POST", TEST, {"webhook": "nobody"})
    assert (status, told["detail"]) == (404, "no webhook is called 'nobody'; there is: ops, chat")


async def test_a_mute_is_seen_in_attention_and_can_be_ended(client: aiohttp.ClientSession) -> None:
    status, told = await answer(client, "POST", MUTES, {"what": "harmony-s0", "seconds": 60, "reason": "disks\n"})
    assert status == 200
    (mute,) = told["mutes"]
    assert (mute["what"], mute["by"], mute["reason"]) == ("harmony-s0", "local", "disks\\n")
    shown = (await answer(client, "GET", "/api/v1/overview"))[1]["attention"]
    assert [one["muted"] for one in shown] == [mute] == [one["muted"] for one in told["alerts"]]
    status, told = await answer(client, "POST", MUTES, {"what": "harmony-s0", "seconds": 0})
    assert (status, told["mutes"]) == (200, [])
    status, told = await answer(client, "POST", MUTES, {"what": "harmony-s0", "seconds": 0})
    assert (status, told["detail"]) == (404, "harmony-s0 is not muted; what is: nothing")


@pytest.mark.parametrize(
    "asked",
    [
        {"what": "", "seconds": 60},
        {"what": "x" * 401, "seconds": 60},
        {"what": "x", "seconds": -1},
        {"what": "x", "seconds": 2_592_001},
        {"what": "x", "seconds": 60, "reason": "x" * 201},
        {"what": "x"},
        {"what": "x", "seconds": 60, "more": 1},
    ],
)
async def test_a_mute_that_makes_no_sense_is_refused(client: aiohttp.ClientSession, asked: dict[str, Any]) -> None:
    status, told = await answer(client, "POST", MUTES, asked)
    assert status in {400, 422}
    assert told["detail"]


async def test_who_may_only_read_sees_alerts_and_tests_and_mutes_nothing(
    receiver: WebhookReceiver, tmp_path: Path
) -> None:
    account = {"password": hash_password("open sesame", log_n=4).reveal(), "role": "read"}
    control = SampleControl(
        sample_settings(admin={"accounts": {"guest": account}}, alerts={"webhooks": {"ops": {"url": receiver.url}}})
    )
    control.alerts.mutes.open(KeptFile(tmp_path / "s", KeptMutes))
    settings = control.ledger.settings.admin
    headers = {"Authorization": "Bearer guest:open sesame"}
    async with running_admin(control, headers=headers, settings=lambda: settings, interval=3600) as (_, guest):
        assert (await answer(guest, "GET", ALERTS))[1]["kept"] == str(tmp_path / "s")
        assert (await answer(guest, "POST", TEST, {}))[0] == 403
        assert (await answer(guest, "POST", MUTES, {"what": "all", "seconds": 60}))[0] == 403
    assert receiver.bodies == []
    await control.alerts.stop()
