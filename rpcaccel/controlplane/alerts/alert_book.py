"""Which alerts there are. A notice becomes an alert that fires once it has lasted, and the alert is over once the
notice has been away as long. Pure: the caller says what needs attention and what time it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rpcaccel.controlplane.alerts.mutes import Mute
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.controlplane.stats.summaries import At

Level = Literal["warn", "bad"]
MAX_ALERTS = 5000
"""Alerts that are followed at once; further notices are on the page alone."""
MAX_SENTENCE_CHARACTERS = 500
_NUMBER = re.compile(r"(?<![\w.:/-])\d[\d,]*(?:\.\d+)?(?![\w.:/-]*\w)")
"""A number by itself; the digits of a name ("w1") and of an address belong to it."""


class Alert(Struct, frozen=True, kw_only=True):
    """Something that needs attention."""

    id: str
    state: Annotated[Literal["waiting", "firing"], Meta(description="waiting: it has not lasted long enough yet.")]
    level: Level
    subject: str
    network: str | None = None
    node: str | None = None
    text: str
    since: At
    muted: Annotated[Mute | None, Meta(description="The mute that keeps it from webhooks for the longest.")] = None


def alert_id(notice: Notice) -> str:
    """The id of the alert that a notice belongs to: the same while numbers in its sentence change, over restarts, and
    on every host."""
    return _id_of(notice.subject, notice.kind or _NUMBER.sub("#", notice.text))


@lru_cache(maxsize=MAX_ALERTS)
def _id_of(subject: str, kind: str) -> str:
    return blake2b(f"{subject}\0{kind}".encode("utf-8", "replace"), digest_size=6).hexdigest()


class _Steady:
    """A yes or no that turns only once the opposite has been seen for a while."""

    __slots__ = ("on", "turning")

    def __init__(self) -> None:
        self.on = False
        self.turning: float | None = None
        """Since when the opposite is seen."""

    def see(self, present: bool, now: float, after: float) -> None:
        if present == self.on:
            self.turning = None
            return
        if self.turning is None:
            self.turning = now
        if now - self.turning >= after:
            self.on, self.turning = present, None


class _Followed:
    """A notice that may become an alert, or has: whether it lasts, and whether it is bad."""

    __slots__ = ("bad", "lasts", "notice", "since")

    def __init__(self, notice: Notice, since: float) -> None:
        self.notice = notice
        self.since = since
        self.lasts, self.bad = _Steady(), _Steady()


class AlertBook:
    """All alerts of the moment, and what may become one."""

    def __init__(self) -> None:
        self._followed: dict[str, _Followed] = {}

    def __repr__(self) -> str:
        return f"<AlertBook of {len(self._followed)}>"

    def look(self, notices: Iterable[Notice], now: float, unix: float, after: float) -> None:
        """Take in everything that needs attention at this moment; of notices with one id the worst counts.

        Args:
            now: seconds on a clock that is never set.
            unix: the same moment in seconds since 1970.
            after: seconds that something must hold to be believed.
        """
        seen: dict[str, Notice] = {}
        for notice in notices:
            id = alert_id(notice)
            if id not in seen or (notice.level == "bad" and seen[id].level != "bad"):
                seen[id] = notice
        for id, notice in seen.items():
            if id in self._followed:
                self._followed[id].notice = notice
            elif len(self._followed) < MAX_ALERTS:
                self._followed[id] = _Followed(notice, unix)
        for id, one in list(self._followed.items()):
            fired, bad = one.lasts.on, id in seen and seen[id].level == "bad"
            one.lasts.see(id in seen, now, after)
            one.bad.see(bad, now, after if fired else 0.0)  # an alert begins with the level of that moment
            if not one.lasts.on and one.lasts.turning is None:
                del self._followed[id]

    def levels(self) -> Counter[Level]:
        """The number of alerts that fire, by level."""
        return Counter("bad" if one.bad.on else "warn" for one in self._followed.values() if one.lasts.on)

    def alerts(self, networks: Collection[str], mute: Callable[[str, str], Mute | None]) -> dict[str, Alert]:
        """The alerts that fire, and those that will if they last, by id.

        Args:
            networks: the names of those that are served: an alert says which of them it is about.
            mute: the mute that covers an alert, by its id and subject.
        """
        return {id: _alert(id, one, networks, mute) for id, one in self._followed.items()}


def _alert(id: str, one: _Followed, networks: Collection[str], mute: Callable[[str, str], Mute | None]) -> Alert:
    notice = one.notice
    steady: Level = "bad" if one.bad.on else "warn"
    network, _, node = notice.subject.partition("/")
    about_network = network in networks and notice.kind != "tier"  # a tier may be called like a network
    text = notice.text
    return Alert(
        id=id,
        state="firing" if one.lasts.on else "waiting",
        level=steady if one.lasts.on else notice.level,
        subject=notice.subject[:MAX_SENTENCE_CHARACTERS],
        network=network if about_network else None,
        node=node if about_network and node else None,
        text=text if len(text) <= MAX_SENTENCE_CHARACTERS else f"{text[: MAX_SENTENCE_CHARACTERS - 1]}…",
        since=one.since,
        muted=mute(id, notice.subject),
    )
