"""The edge of alerts: webhooks that come, go and change, silences over restarts, what is shown and logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any, Literal

import orjson
import pytest
from structlog.testing import capture_logs

from rpcaccel.config.alert_settings import WebhookSettings
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.alerts.alerting import Alerting, TooManySilencesError
from rpcaccel.controlplane.alerts.delivery import PACE, Delivered
from rpcaccel.controlplane.alerts.silences import MOST, KeptSilences
from rpcaccel.controlplane.settings.kept_file import KeptFile
from rpcaccel.controlplane.stats.snapshot import Notice
from tests.support.manual_clock import ManualClock
from tests.support.sample_control import sample_settings
from tests.support.waiting import until
from tests.support.webhook_receiver import receiving_webhooks

NODE = Notice("bad", "harmony-s0/a", "node harmony-s0/a: no connection", "node")
OTHER = Notice("warn", "harmony-s0/b", "node harmony-s0/b: 3 blocks behind", "node")
OPS = {"url": "https://hooks.example/T0S3cretPath"}


class Posted:
    """Implements WebhookPost: keeps what is sent, by host, and answers with `outcome`."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, Any]] = []
        self.outcome = Delivered("ok", status=200)
        self.closed = False
        self.answers = asyncio.Event()
        """Set while messages are answered at once."""
        self.answers.set()

    async def post(self, webhook: WebhookSettings, body: bytes) -> Delivered:
        self.bodies.append((webhook.url.host, orjson.loads(body)))
        outcome = self.outcome
        await self.answers.wait()
        return outcome

    async def close(self) -> None:
        self.closed = True

    def told(self, host: str = "hooks.example") -> list[list[tuple[str, str]]]:
        """The alerts of each message: subject and status."""
        return [
            [(one["subject"], one["status"]) for one in body["alerts"]] for name, body in self.bodies if name == host
        ]


def settings(**webhooks: Any) -> Settings:
    return sample_settings(alerts={"after": 0, "host": "edge-1", "webhooks": webhooks})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
async def make(clock: ManualClock, posted: Posted) -> AsyncIterator[Callable[..., Alerting]]:
    """`make(ops={...})`: alerts that are told by a clock moved by hand."""
    made: list[Alerting] = []

    def made_of(file: KeptFile[KeptSilences] | None = None, **webhooks: Any) -> Alerting:
        alerting = Alerting(
            settings(**webhooks),
            clock=clock.now,
            wall=lambda: 1_790_000_000 + clock.now(),
            rng=Random(1),
            connect=lambda: posted,
        )
        alerting.open(file)
        alerting.start()
        made.append(alerting)
        return alerting

    yield made_of
    for one in made:
        await one.stop()


async def look(alerting: Alerting, clock: ManualClock, *notices: Notice, after: float = PACE) -> None:
    """Let time pass, look, and let every task say what it has to say."""
    clock.advance(after)
    alerting.look(notices)
    await until(lambda: not any(one.looked.is_set() for one in alerting.receivers.values()))
    await asyncio.sleep(0)


async def test_each_webhook_is_told_what_it_wants_to_know(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    alerting = make(
        all=OPS,
        red={"url": "https://red.example", "least": "bad"},
        elsewhere={"url": "https://elsewhere.example", "networks": ["harmony-s0"]},
    )
    await look(alerting, clock, NODE, OTHER, Notice("warn", "rpcaccel", "waits for a restart"))
    assert posted.told("red.example") == [[("harmony-s0/a", "firing")]]
    assert [len(posted.told(name)[0]) for name in ("hooks.example", "elsewhere.example")] == [3, 3]
    await look(alerting, clock)
    assert posted.told("red.example")[1:] == [[("harmony-s0/a", "resolved")]]
    assert {body["host"] for _, body in posted.bodies} == {"edge-1"}


async def test_a_network_that_a_webhook_is_not_about_is_not_told_there(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    two = {"harmony-s0": {"nodes": ["http://a"]}, "x": {"nodes": ["http://b"]}}
    alerting = make()
    alerting.adopt(sample_settings(networks=two, alerts={"after": 0, "webhooks": {"ops": {**OPS, "networks": ["x"]}}}))
    await look(alerting, clock, NODE, Notice("warn", "x", "x has seen no new block for 60 s", "no block"))
    assert posted.told() == [[("x", "firing")]]


async def test_a_webhook_that_is_added_hears_what_lasts_and_one_that_is_removed_nothing_more(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    alerting = make()
    await look(alerting, clock, NODE)
    alerting.adopt(settings(ops=OPS))
    await look(alerting, clock, NODE)
    alerting.adopt(settings())
    await look(alerting, clock)
    assert posted.told() == [[("harmony-s0/a", "firing")]]


async def test_other_settings_of_a_webhook_do_not_make_it_ring_again_and_another_url_does(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    alerting = make(ops=OPS)
    await look(alerting, clock, NODE, OTHER)
    alerting.adopt(settings(ops={**OPS, "timeout": 5, "least": "bad"}))
    await look(alerting, clock, NODE, OTHER)
    assert len(posted.told()) == 1
    alerting.adopt(settings(ops={"url": "https://new.example"}))
    await look(alerting, clock, NODE, OTHER)
    assert [len(one) for one in posted.told("new.example")] == [2]


async def test_a_refused_webhook_is_tried_again_once_its_settings_have_changed(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    posted.outcome = Delivered("refused", "HTTP 401: it does not take the message", 401)
    alerting = make(ops=OPS)
    await look(alerting, clock, NODE)
    await look(alerting, clock, NODE, after=600)
    assert len(posted.bodies) == 1
    posted.outcome = Delivered("ok")
    alerting.adopt(settings(ops={**OPS, "headers": {"Authorization": "Bearer x"}}))
    await look(alerting, clock, NODE, after=1)
    assert posted.told() == [[("harmony-s0/a", "firing")]] * 2


@pytest.mark.parametrize("end", ["refused", "again"])
async def test_a_failure_under_settings_that_have_changed_meanwhile_does_not_put_off_the_next_try(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted, end: Literal["refused", "again"]
) -> None:
    posted.outcome, posted.answers = Delivered(end, "HTTP 401: it does not take the message", 401), asyncio.Event()
    alerting = make(ops=OPS)
    await look(alerting, clock, NODE)
    assert len(posted.bodies) == 1
    alerting.adopt(settings(ops={**OPS, "headers": {"Authorization": "Bearer x"}}))
    posted.answers.set()
    posted.outcome = Delivered("ok")
    await look(alerting, clock, NODE, after=1)
    assert posted.told() == [[("harmony-s0/a", "firing")]] * 2


async def test_a_webhook_that_fails_needs_attention_and_tells_it_to_the_others_alone(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    posted.outcome = Delivered("refused", "HTTP 404: it does not take the message", 404)
    alerting = make(ops=OPS)
    await look(alerting, clock, NODE)
    (said,) = alerting.notices()
    assert said.text == "the webhook ops is not told of alerts: HTTP 404: it does not take the message"
    alerting.adopt(settings(ops=OPS, other={"url": "https://other.example"}))
    posted.outcome = Delivered("ok")
    await look(alerting, clock, said)
    assert posted.told("other.example") == [[("alerts", "firing")]]
    assert len(posted.told()) == 1


async def test_the_log_has_a_line_for_each_change_and_none_for_each_try(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    alerting = make(ops=OPS)
    with capture_logs() as lines:
        for outcome in (*[Delivered("again", "HTTP 503")] * 5, *[Delivered("again", "HTTP 500")] * 3, Delivered("ok")):
            posted.outcome = outcome
            await look(alerting, clock, NODE, after=400)
    assert len(posted.bodies) == 9
    said = [(line["log_level"], line.get("reason")) for line in lines]
    assert said == [("warning", "HTTP 503"), ("warning", "HTTP 500"), ("info", None)]
    assert "S3cret" not in str(lines)


async def test_a_silenced_alert_stays_one_and_nobody_is_told(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    alerting = make(ops=OPS)
    made = await alerting.silence("harmony-s0", 3600, "ann", "new disks")
    await look(alerting, clock, NODE)
    assert posted.bodies == []
    assert len(alerting.book.firing()) == 1
    assert await alerting.unsilence(made.id, "ann")
    assert not await alerting.unsilence(made.id, "ann")
    await look(alerting, clock, NODE)
    assert posted.told() == [[("harmony-s0/a", "firing")]]


async def test_a_silence_ends_by_itself(make: Callable[..., Alerting], clock: ManualClock, posted: Posted) -> None:
    alerting = make(ops=OPS)
    await alerting.silence("all", 60, "ann", "")
    await look(alerting, clock, NODE, after=59)
    assert posted.bodies == []
    await look(alerting, clock, NODE, after=2)
    assert len(posted.bodies) == 1
    assert alerting.silences == ()


async def test_silences_are_kept_over_a_restart_and_one_of_the_same_replaces_another(
    make: Callable[..., Alerting], tmp_path: Path
) -> None:
    file = KeptFile(tmp_path / "rpcaccel.silences.json", KeptSilences)
    alerting = make(file)
    await alerting.silence("harmony-s0", 60, "ann", "a")
    await alerting.silence("harmony-s0", 3600, "bob", "b")
    assert [(one.by, one.reason) for one in make(file).silences] == [("bob", "b")]


async def test_silences_are_bounded_in_number(make: Callable[..., Alerting]) -> None:
    alerting = make()
    for number in range(MOST):
        await alerting.silence(f"s0/{number}", 60, "ann", "")
    await alerting.silence("s0/1", 60, "ann", "again")
    with pytest.raises(TooManySilencesError):
        await alerting.silence("one more", 60, "ann", "")


async def test_a_file_of_silences_that_cannot_be_used_or_written_is_said_in_attention(
    make: Callable[..., Alerting], tmp_path: Path
) -> None:
    (tmp_path / "s").write_text("no JSON")
    assert "is damaged" in make(KeptFile(tmp_path / "s", KeptSilences)).notices()[0].text
    alerting = make(KeptFile(tmp_path / "nowhere" / "s", KeptSilences))
    await alerting.silence("all", 60, "ann", "")
    assert "silences live until a restart" in alerting.notices()[0].text
    assert alerting.silences


async def test_a_test_tells_the_outcome_and_lets_what_was_lost_be_told(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    posted.outcome = Delivered("refused", "HTTP 404: it does not take the message", 404)
    alerting = make(ops=OPS)
    await look(alerting, clock, NODE)
    assert (await alerting.test("ops", "ann")).status == 404
    posted.outcome = Delivered("ok")
    assert (await alerting.test("ops", "ann")).end == "ok"
    assert alerting.notices() == []
    await look(alerting, clock, NODE)
    assert posted.told()[-2:] == [[("test", "test")], [("harmony-s0/a", "firing")]]
    with pytest.raises(KeyError):
        await alerting.test("nobody", "ann")


async def test_metrics_count_messages_by_what_became_of_them_and_alerts_by_level(
    make: Callable[..., Alerting], clock: ManualClock, posted: Posted
) -> None:
    alerting = make(ops=OPS)
    await look(alerting, clock, NODE, OTHER)
    posted.outcome = Delivered("again", "HTTP 503")
    await look(alerting, clock, OTHER)
    figures = alerting.figures()
    assert figures.sent == {("ops", "ok"): 1, ("ops", "retried"): 1, ("ops", "lost"): 0}
    assert figures.firing == {"warn": 1, "bad": 0}


async def test_a_message_on_its_way_does_not_hold_up_the_end(clock: ManualClock) -> None:
    async with receiving_webhooks() as receiver:

        async def silent(_request: object) -> Any:
            await asyncio.sleep(3600)

        receiver.answer = silent
        alerting = Alerting(settings(ops={"url": receiver.url}), clock=clock.now)
        alerting.start()
        alerting.look([NODE])
        await receiver.message(0)
        async with asyncio.timeout(30):
            await alerting.stop()
