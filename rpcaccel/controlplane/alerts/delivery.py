"""What one webhook is told, and when: news is what it has not heard of the present state. Pure: the caller says which
alerts there are, posts the message that is due, and says what became of it.

- Nothing is queued. A message is made of the state at the moment of a try, so that a receiver that was away for an hour
  gets one message about what is so now.
- Between two messages there are at least PACE seconds, and between two tries of one the backoff or what the receiver
  asked for.
- News that could not be told within GIVE_UP seconds, or that the receiver refuses, is lost: it causes no further try,
  and goes with the next message if it is still true.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.controlplane.alerts.alert_book import Alert, Level

PACE = 5.0
"""Seconds between two messages to one webhook at the least."""
FIRST_BACKOFF, LONGEST_BACKOFF = 2.0, 300.0
"""Seconds until a failed message is tried again: doubled each time, of which chance takes up to a half."""
GIVE_UP = 3600.0
"""Seconds after which news that could not be told is lost."""
TOGETHER = 0.9
"""Share of the time between two reminders after which an alert is told again together with others."""
PATIENT_FROM = 3
"""Failed tries after which the webhook itself needs attention."""

End = Literal["ok", "again", "refused"]
"""Taken; may be tried again; the receiver or the configuration says no, and would say so again."""


class Delivered(Struct, frozen=True):
    """What became of a try."""

    end: End
    why: str = ""
    """In words, without any secret; empty when it was taken."""
    status: int | None = None
    """The HTTP status; None when no answer came."""
    retry_after: float = 0.0
    """Seconds that the receiver asks to be left alone."""
    seconds: float = 0.0
    """How long it took."""


class News(Struct, frozen=True):
    """One alert in a message. `ended` of the alert says whether it lasts."""

    alert: Alert
    reminder: bool = False


class AlertMessage(Struct, frozen=True):
    """Everything that a webhook has not heard: what began or became worse, what is over, what is told again."""

    news: tuple[News, ...]

    @property
    def firing(self) -> bool:
        """Does any of it last?"""
        return any(one.alert.ended is None for one in self.news)


class _Entry:
    """What the webhook knows of one alert."""

    __slots__ = ("alert", "lost", "quiet", "told", "told_at")

    def __init__(self, alert: Alert) -> None:
        self.alert = alert
        self.told: Level | None = None
        """The worst level that it was told; None: it has not heard of the alert."""
        self.told_at = 0.0
        self.quiet = False
        """Is the alert silenced?"""
        self.lost = False
        """Was telling it given up?"""


class Delivery:
    """The state of one webhook."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = dict.fromkeys(("ok", "retried", "lost"), 0)
        self.last: Delivered | None = None
        """What became of the last try."""
        self.last_at = 0.0
        self.taken_at: float | None = None
        """When a message was last taken."""
        self.not_before = 0.0
        """The earliest time of the next try."""
        self._entries: dict[str, _Entry] = {}
        self._tries = 0
        self._failing_since: float | None = None

    def __repr__(self) -> str:
        return f"<Delivery {len(self._entries)} alerts, {self.trouble or 'well'}>"

    @property
    def trouble(self) -> str:
        """Why the last try failed; empty when it did not."""
        return self.last.why if self.last is not None else ""

    @property
    def broken(self) -> bool:
        """Has it failed often enough to need attention itself?"""
        return self.last is not None and (self.last.end == "refused" or self._tries >= PATIENT_FROM or self._gave_up)

    @property
    def _gave_up(self) -> bool:
        return self.last is not None and self.last.end == "again" and not self._tries

    @property
    def retrying(self) -> bool:
        """Is a message to be tried again?"""
        return self._tries > 0

    def see(self, firing: Mapping[str, Alert], silenced: frozenset[str], now: float, *, resolved: bool) -> None:
        """Take in the alerts that the webhook is to know of.

        Args:
            firing: those that last.
            silenced: the ids of those about which nothing is to be said while they last.
            resolved: whether ends are told.
        """
        for id, alert in firing.items():
            entry = self._entries.get(id)
            if entry is None and id not in silenced:
                entry = self._entries[id] = _Entry(alert)
            if entry is not None:
                entry.lost = entry.lost and not (alert.level == "bad" and entry.alert.level == "warn")
                entry.alert = alert
                entry.quiet = id in silenced
        for id, entry in list(self._entries.items()):
            if id in firing:
                continue
            if entry.alert.ended is None:
                entry.alert = replace(entry.alert, ended=now)
            if not resolved or (entry.told is None and (entry.quiet or entry.lost)):
                del self._entries[id]
            elif entry.told is not None:
                entry.lost = False  # the end is news of its own

    def forget(self, ids: Collection[str]) -> None:
        """Say no more about these alerts, not even that they are over: the settings leave them out now."""
        for id in ids:
            self._entries.pop(id, None)

    def message(self, now: float, repeat: float) -> AlertMessage | None:
        """What is to be sent now; None when nothing is, or not yet.

        Args:
            repeat: seconds after which what lasts is told again; 0: never.
        """
        if now < self.not_before:
            return None
        news: list[News] = []
        due = False
        for entry in self._entries.values():
            lasts = entry.alert.ended is None
            if lasts and entry.quiet:
                continue
            fresh = not lasts or entry.told is None or (entry.told == "warn" and entry.alert.level == "bad")
            reminds = lasts and repeat > 0 and (entry.told is not None or entry.lost)
            if fresh or (reminds and now - entry.told_at >= repeat * TOGETHER):
                news.append(News(entry.alert, reminder=not fresh))
                due = due or (fresh and not entry.lost) or (reminds and now - entry.told_at >= repeat)
        return AlertMessage(tuple(news)) if due else None

    def done(self, message: AlertMessage, outcome: Delivered, now: float, rng: Random) -> None:
        """Take in what became of a message."""
        self.last, self.last_at = outcome, now
        if outcome.end == "ok":
            self.sent["ok"] += 1
            self.taken_at = now
            self._settle(now)
            for one in message.news:
                self._heard(one.alert, now)
            return
        self._failing_since = now if self._failing_since is None else self._failing_since
        if outcome.end == "again" and now - self._failing_since < GIVE_UP:
            self._tries += 1
            self.sent["retried"] += 1
            longest = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(self._tries - 1, 30))
            backoff = longest * (0.5 + 0.5 * rng.random())
            self.not_before = now + max(backoff, min(outcome.retry_after, GIVE_UP))
            return
        self.sent["lost"] += 1
        self._settle(now)
        for one in message.news:
            self._lose(one.alert, now)

    def hope(self, outcome: Delivered, now: float) -> None:
        """Take in that a test was taken: what could not be told is tried again at once."""
        self.last, self.last_at, self.taken_at = outcome, now, now
        self.retry(now)

    def retry(self, now: float) -> None:
        """Try at once what could not be told: something has changed."""
        self._settle(now)
        self.not_before = now
        for entry in self._entries.values():
            entry.lost = False

    def _settle(self, now: float) -> None:
        self._tries, self._failing_since, self.not_before = 0, None, now + PACE

    def _heard(self, alert: Alert, now: float) -> None:
        entry = self._entries.get(alert.id)
        if entry is None:
            return
        if alert.ended is None:
            entry.told, entry.told_at, entry.lost = alert.level, now, False
        elif entry.alert.ended == alert.ended:
            del self._entries[alert.id]
        else:  # it began again while the message was on its way
            entry.told = None

    def _lose(self, alert: Alert, now: float) -> None:
        entry = self._entries.get(alert.id)
        if entry is None:
            return
        if entry.alert.ended is not None:
            del self._entries[alert.id]
        else:
            entry.lost, entry.told_at = True, now
