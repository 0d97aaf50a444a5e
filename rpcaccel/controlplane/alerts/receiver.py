"""What one webhook is told, and when. Pure: the caller says which alerts there are, posts the news, and says what
became of them.

News is how the state of the moment differs from what the webhook was told last. Nothing is queued: a message that
failed is made anew for the next try.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from rpcaccel.config.sections import WebhookSettings
from rpcaccel.controlplane.alerts.alert_book import Alert, Level, alert_id
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.controlplane.stats.summaries import At

WEBHOOK_SUBJECT = "alerts"
"""The subject of notices about webhooks."""
PACE_SECONDS = 5.0
"""Between two messages to one webhook at the least."""
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 2.0, 300.0
"""Until a failed message is tried again: doubled each time, of which chance takes up to a half."""
MAX_RETRY_AFTER_SECONDS = 3600.0
"""How long a receiver may ask to be left alone."""
FAILING_TRIES = 3
"""Failed tries after which the webhook itself needs attention."""


class Delivered(Struct, frozen=True, kw_only=True):
    """What became of a message."""

    webhook: str
    ok: bool
    status: Annotated[int | None, Meta(description="HTTP status of the answer; null where none came.")] = None
    error: Annotated[str, Meta(description="Why it was not taken, without any secret; empty when it was.")] = ""
    seconds: Annotated[float, Meta(description="How long it took.")] = 0.0
    retry_after: Annotated[float, Meta(description="Seconds that the receiver asks to be left alone.")] = 0.0


class WebhookNow(Struct, kw_only=True):
    """A webhook, and how it goes with it."""

    name: str
    address: Annotated[str, Meta(description="Scheme, host and port alone.")]
    format: Literal["json", "slack"]
    least: Level
    networks: Annotated[tuple[str, ...], Meta(description="All of them when empty.")]
    state: Annotated[
        Literal["untried", "well", "retrying", "failing"],
        Meta(description="failing: it has failed several times in a row, and needs attention."),
    ] = "untried"
    error: Annotated[str, Meta(description="Why the last message was not taken; empty when it was.")] = ""
    status: Annotated[int | None, Meta(description="HTTP status of the last answer; null where none came.")] = None
    taken_at: Annotated[At | None, Meta(description="When a message was last taken.")] = None
    next_try: Annotated[At | None, Meta(description="When a failed message is tried again.")] = None
    sent: Annotated[dict[str, int], Meta(description="Messages since the start: ok, failed.")]


class AlertNews(Struct, frozen=True, kw_only=True):
    """What is said of one alert in a message."""

    alert: Alert
    status: Literal["firing", "resolved", "test"] = "firing"
    ended: float | None = None
    """When it was over, in seconds since 1970."""
    reminder: bool = False


class _Known(Struct):
    """An alert as the webhook was told of it."""

    alert: Alert
    told_at: float
    ended: float | None = None


class Receiver:
    """One webhook: its settings, what it was told, and how it goes with it."""

    def __init__(self, name: str, settings: WebhookSettings) -> None:
        self.settings = settings
        self.now = WebhookNow(name=name, sent={"ok": 0, "failed": 0}, **_shown(settings))
        self._known: dict[str, _Known] = {}
        self._failed_tries = 0
        self._not_before = -math.inf
        self._own_alert = alert_id(self.notice)

    def __repr__(self) -> str:
        return f"<Receiver {self.now.name} {self.settings.url} {self.now.state}>"

    def adopt(self, settings: WebhookSettings, now: float) -> None:
        """Follow other settings of the same webhook; a message that failed is tried again at once."""
        self.settings = settings
        self.now = replace(self.now, **_shown(settings))
        self._retry(now)

    @property
    def notice(self) -> Notice:
        """The sentence about a webhook that is failing."""
        text = f"the webhook {self.now.name} is not told of alerts: {self.now.error}"
        return Notice("warn", WEBHOOK_SUBJECT, text, f"webhook {self.now.name}")

    def news(self, alerts: Mapping[str, Alert], now: float, unix: float) -> list[AlertNews]:
        """What is to be told now: nothing while the webhook is left alone.

        Args:
            alerts: all of the moment, by id.
            now: seconds on a clock that is never set.
            unix: the same moment in seconds since 1970.
        """
        firing = {id: one for id, one in alerts.items() if one.state == "firing" and self._wants(one)}
        self._follow_ends(firing, unix)
        news = self._untold(firing, now)
        if not news and self._failed_tries:
            self._give_up()
        return news if now >= self._not_before else []

    def _untold(self, firing: Mapping[str, Alert], now: float) -> list[AlertNews]:
        """How the state of the moment differs from what the webhook knows."""
        repeat = self.settings.repeat or math.inf
        news = []
        for id, alert in firing.items():
            known = self._known.get(id)
            if alert.muted is not None:
                continue
            if known is None or (known.alert.level, alert.level) == ("warn", "bad"):
                news.append(AlertNews(alert=alert))
            elif now - known.told_at >= repeat:
                news.append(AlertNews(alert=alert, reminder=True))
        over = (one for one in self._known.values() if one.ended is not None)
        return [*news, *(AlertNews(alert=one.alert, status="resolved", ended=one.ended) for one in over)]

    def _wants(self, alert: Alert) -> bool:
        """Is the webhook told of this alert? It is never told of its own failures."""
        settings = self.settings
        return (
            alert.id != self._own_alert
            and (settings.least == "warn" or alert.level == "bad")
            and (not settings.networks or alert.network is None or alert.network in settings.networks)
        )

    def _follow_ends(self, firing: Mapping[str, Alert], unix: float) -> None:
        """Note which known alerts are over. Of those that the settings leave out now, not even the end is told."""
        for id, one in list(self._known.items()):
            if id in firing:
                one.ended = None
            elif not self.settings.resolved or not self._wants(one.alert):
                del self._known[id]
            elif one.ended is None:
                one.ended = unix

    def done(self, news: Sequence[AlertNews], outcome: Delivered, now: float, unix: float, rng: Random) -> None:
        """Take in what became of a message with these news. A test that was not taken changes nothing."""
        if not outcome.ok:
            if news[0].status != "test":
                self._failed(outcome, now, unix, rng)
            return
        self.now.sent["ok"] += 1
        self.now.state, self.now.error, self.now.status, self.now.taken_at = "well", "", outcome.status, unix
        self._retry(now + PACE_SECONDS)
        for one in news:
            if one.status == "firing":
                self._known[one.alert.id] = _Known(one.alert, now)
            else:
                self._known.pop(one.alert.id, None)

    def _failed(self, outcome: Delivered, now: float, unix: float, rng: Random) -> None:
        longest = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(self._failed_tries, 30))
        wait = max(longest * (0.5 + 0.5 * rng.random()), min(outcome.retry_after, MAX_RETRY_AFTER_SECONDS))
        self._failed_tries += 1
        self._not_before, self.now.next_try = now + wait, unix + wait
        self.now.sent["failed"] += 1
        self.now.state = "failing" if self._failed_tries >= FAILING_TRIES else "retrying"
        self.now.error, self.now.status = outcome.error, outcome.status

    def _give_up(self) -> None:
        """Forget a failure to tell what is over: nothing is tried again, so nothing would end it."""
        self._retry(self._not_before)
        self.now.state, self.now.error = "untried" if self.now.taken_at is None else "well", ""

    def _retry(self, not_before: float) -> None:
        self._failed_tries, self._not_before, self.now.next_try = 0, not_before, None


def _shown(settings: WebhookSettings) -> dict[str, Any]:
    """What the settings say of a webhook; no part of its URL but the host."""
    about = {name: getattr(settings, name) for name in ("format", "least", "networks")}
    return {"address": settings.url.shown, **about}
