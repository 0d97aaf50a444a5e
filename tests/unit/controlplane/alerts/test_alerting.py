"""The edge of alerts: webhooks that come, go and change, what is muted, shown and logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import orjson
from structlog.testing import capture_logs

from rpcaccel.config.model import Settings
from rpcaccel.config.sections import WebhookSettings
from rpcaccel.controlplane.alerts.alerting import Alerting
from rpcaccel.controlplane.alerts.receiver import FAILING_TRIES, PACE_SECONDS, Delivered
from rpcaccel.controlplane.stats.snapshot import Notice
from tests.support.manual_clock import ManualClock
from tests.support.sample_control import sample_settings
from tests.support.webhook_receiver import receiving_webhooks

NODE = Notice("bad", "harmony-s0/a", "node harmony-s0/a: no connection", "node")
OTHER = Notice("warn", "harmony-s0/b", "node harmony-s0/b: 3 blocks behind", "node")
OPS = {"url": "https://hooks.example/T0S3cretPath"}
REFUSED = "HTTP 404: it does not take the message"


def settings(**webhooks: Any) -> Settings:
    return sample_settings(alerts={"after": 0, "host": "edge-1", "webhooks": webhooks})


class Told:
    """Alerts that are told by a clock moved by hand; a post that answers with `error` and keeps what is posted."""

    def __init__(self, **webhooks: Any) -> None:
        self.clock = ManualClock()
        self.bodies: list[tuple[str, Any]] = []
        self.error: str | Exception = ""
        """Why a message is not taken; empty when it is."""
        self.retry_after = 0.0
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while a message is on its way."""
        self.alerting = Alerting(clock=self.clock.now, wall=self.clock.now, rng=Random(1), post=self._post)
        self.alerting.adopt(settings(**webhooks))

    async def _post(self, name: str, webhook: WebhookSettings, body: bytes) -> Delivered:
        self.bodies.append((webhook.url.host, orjson.loads(body)))
        if isinstance(self.error, Exception):
            raise self.error
        self.meanwhile()
        return Delivered(webhook=name, ok=not self.error, error=self.error, retry_after=self.retry_after)

    async def look(self, *notices: Notice, after: float = PACE_SECONDS) -> None:
        """Let time pass, look, and let every task say what it has to say."""
        self.clock.advance(after)
        self.alerting.look(notices)
        await asyncio.sleep(0)

    def messages(self, host: str = "hooks.example") -> list[list[tuple[str, str]]]:
        """The alerts of each message: subject and status."""
        return [
            [(one["subject"], one["status"]) for one in body["alerts"]] for name, body in self.bodies if name == host
        ]


async def test_a_webhook_that_is_added_hears_what_lasts_and_one_that_is_removed_nothing_more() -> None:
    told = Told()
    await told.look(NODE)
    told.alerting.adopt(settings(ops=OPS))
    await told.look(NODE)
    told.alerting.adopt(settings())
    await told.look()
    assert told.messages() == [[("harmony-s0/a", "firing")]]


async def test_other_settings_of_a_webhook_do_not_make_it_ring_again_and_another_url_does() -> None:
    told = Told(ops=OPS)
    await told.look(NODE, OTHER)
    told.alerting.adopt(settings(ops={**OPS, "timeout": 5, "least": "bad"}))
    await told.look(NODE, OTHER)
    assert len(told.messages()) == 1
    told.alerting.adopt(settings(ops={"url": "https://new.example"}))
    await told.look(NODE, OTHER)
    assert [len(one) for one in told.messages("new.example")] == [2]


async def test_settings_that_change_while_a_message_is_on_its_way_are_tried_at_once() -> None:
    told = Told(ops=OPS)
    told.error, told.retry_after = REFUSED, 3600.0
    told.meanwhile = lambda: told.alerting.adopt(settings(ops={**OPS, "timeout": 5}))
    await told.look(NODE)
    told.meanwhile = lambda: None
    await told.look(NODE)
    await told.look(NODE)
    assert len(told.messages()) == 2


async def test_a_webhook_that_fails_needs_attention_and_tells_it_to_the_others_alone() -> None:
    told = Told(ops=OPS)
    told.error = REFUSED
    for _ in range(FAILING_TRIES):
        await told.look(NODE)
    (said,) = told.alerting.notices()
    assert said.text == f"the webhook ops is not told of alerts: {REFUSED}"
    told.alerting.adopt(settings(ops=OPS, other={"url": "https://other.example"}))
    told.error = ""
    await told.look(said, after=60)
    assert told.messages("other.example") == [[("alerts", "firing")]]
    assert len(told.messages()) == FAILING_TRIES


async def test_the_log_has_a_line_for_each_change_and_none_for_each_try() -> None:
    told = Told(ops=OPS)
    with capture_logs() as lines:
        for told.error in (*["HTTP 503"] * 5, *["HTTP 500"] * 3, ""):
            await told.look(NODE, after=400)
    assert len(told.bodies) == 9
    said = [(line["log_level"], line.get("reason")) for line in lines]
    assert said == [("warning", "HTTP 503"), ("warning", "HTTP 500"), ("info", None)]
    assert "S3cret" not in str(lines)


async def test_a_message_that_a_bug_keeps_from_being_sent_is_logged_and_made_again_later() -> None:
    told = Told(ops=OPS)
    with capture_logs() as lines:
        for told.error in (RuntimeError("a bug"), "", ""):
            await told.look(NODE)
    assert [line["log_level"] for line in lines] == ["error", "warning", "info"]
    assert len(told.bodies) == 2


async def test_a_muted_alert_stays_one_and_nobody_is_told_until_the_mute_ends() -> None:
    told = Told(ops=OPS)
    await told.alerting.mutes.mute("harmony-s0", 3600, "ann", "new disks")
    await told.look(NODE)
    assert told.bodies == []
    (alert,) = told.alerting.document().alerts
    assert (alert.state, alert.muted) == ("firing", *told.alerting.mutes.in_force())
    await told.look(NODE, after=3600)
    assert told.messages() == [[("harmony-s0/a", "firing")]]


async def test_a_test_tells_the_outcome_and_lets_what_failed_be_told() -> None:
    told = Told(ops=OPS)
    told.error = REFUSED
    await told.look(NODE)
    assert [one.error for one in (await told.alerting.test("ops", "ann")).tests] == [REFUSED]
    told.error = ""
    assert [one.ok for one in (await told.alerting.test("", "ann")).tests] == [True]
    await told.look(NODE)
    assert told.messages()[-2:] == [[("test", "test")], [("harmony-s0/a", "firing")]]


async def test_metrics_count_messages_by_what_became_of_them_and_alerts_by_level() -> None:
    told = Told(ops=OPS)
    await told.look(NODE, OTHER)
    told.error = REFUSED
    await told.look(OTHER)
    figures = told.alerting.figures()
    assert figures.sent == {("ops", "ok"): 1, ("ops", "failed"): 1}
    assert figures.firing == {"warn": 1, "bad": 0}


async def test_a_message_on_its_way_is_the_only_one_and_does_not_hold_up_the_end() -> None:
    async with receiving_webhooks() as receiver:

        async def silent(_request: object) -> Any:
            await asyncio.sleep(3600)

        receiver.answer = silent
        alerting = Alerting()
        alerting.adopt(settings(ops={"url": receiver.url}))
        alerting.look([NODE])
        await receiver.message(0)
        alerting.look([NODE, OTHER])
        async with asyncio.timeout(30):
            await alerting.stop()
        assert len(receiver.bodies) == 1
