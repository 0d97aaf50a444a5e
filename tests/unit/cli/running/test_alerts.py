"""Alerts from the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.support.sample_control import SampleControl, sample_settings
from tests.support.webhook_receiver import WebhookReceiver
from tests.unit.cli.conftest import Ask


@pytest.fixture
async def control(receiver: WebhookReceiver) -> AsyncIterator[SampleControl]:
    control = SampleControl(sample_settings(alerts={"after": "1h", "webhooks": {"ops": {"url": receiver.url}}}))
    yield control
    await control.alerts.stop()


async def test_webhooks_alerts_and_mutes_are_listed(ask: Ask) -> None:
    said = await ask("alerts")
    assert said.code == 0
    for text in ("ops", "http://127.0.0.1:", "warn", "untried", "waiting", "harmony-s0/c", "14 blocks behind"):
        assert text in said.out
    assert "S3cret" not in said.out
    assert json.loads((await ask("alerts", "--json")).out)["webhooks"][0]["name"] == "ops"


async def test_a_test_says_what_the_receiver_answered_and_fails_where_it_did_not_take_it(
    ask: Ask, receiver: WebhookReceiver
) -> None:
    said = await ask("alerts", "test", "ops")
    assert said.code == 0
    assert said.out.startswith("ops: taken (HTTP 200) after ")
    assert receiver.bodies[0]["status"] == "test"
    receiver.status = 404
    said = await ask("alerts", "test")
    assert said.code == 1
    assert "ops: not taken: HTTP 404: it does not take the message after " in said.out
    assert "no webhook is called 'chat'; there is: ops" in (await ask("alerts", "test", "chat")).err


async def test_a_mute_is_begun_seen_and_ended(ask: Ask) -> None:
    said = await ask("alerts", "mute", "harmony-s0", "--for", "2h", "--reason", "new disks")
    assert said.code == 0
    assert "\nharmony-s0 is muted until " in f"\n{said.out}"
    assert "no state file" in said.out
    listed = (await ask("alerts")).out
    assert [line.split()[0] for line in listed.splitlines() if "new disks" in line] == ["harmony-s0"]
    assert "harmony-s0 is not muted any more\n" in (await ask("alerts", "unmute", "harmony-s0")).out
    assert "harmony-s0 is not muted; what is: nothing" in (await ask("alerts", "unmute", "harmony-s0")).err


async def test_what_cannot_be_printed_is_muted_and_unmuted_all_the_same(ask: Ask) -> None:
    said = await ask("alerts", "mute", "a\tb", "--for", "2h")
    assert (said.code, "\na\\tb is muted until " in f"\n{said.out}") == (0, True)
    assert "a\\tb is not muted any more\n" in (await ask("alerts", "unmute", "a\tb")).out


@pytest.mark.parametrize("duration", ["soon", "0s", "31d", "-1"])
async def test_a_duration_that_is_none_is_said(ask: Ask, duration: str) -> None:
    said = await ask("alerts", "mute", "all", f"--for={duration}")
    assert said.code == 2
    assert "--for: found " in said.err


async def test_an_address_before_the_subcommand_is_not_passed_over_in_silence(ask: Ask) -> None:
    said = await ask("alerts", "--admin", "127.0.0.1:1", "test")
    assert said.code == 2
    assert "expected --admin, --cacert and --json behind test" in said.err


async def test_without_a_webhook_it_is_said_how_to_set_one(ask: Ask, control: SampleControl) -> None:
    control.alerts.adopt(sample_settings())
    assert "rpcaccel settings set alerts.webhooks.NAME.url=" in (await ask("alerts")).out
    said = await ask("alerts", "test")
    assert (said.code, "there is no webhook" in said.out) == (0, True)
