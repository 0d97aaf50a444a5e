"""Which alerts there are: something that needs attention becomes an alert once it has lasted, and ends once it has been
away as long. Pure: the caller says what needs attention and what time it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from rpcaccel.controlplane.stats.snapshot import Notice

Level = Literal["warn", "bad"]
MOST = 5000
"""Alerts that are followed at once; what goes beyond them is on the page alone."""
LONGEST_TEXT = 500
"""Characters of a sentence that is told."""
_NUMBER = re.compile(r"(?<![\w.:/-])\d[\d,]*(?:\.\d+)?(?![\w.:/-]*\w)")
"""A number by itself; the digits of a name ("w1") and of an address belong to it."""


class Alert(Struct, frozen=True, kw_only=True):
    """Something that has needed attention for long enough to be told. Times are on the clock of the caller."""

    id: str
    level: Level
    subject: str
    kind: str
    text: str
    since: float
    """When it was first seen."""
    ended: float | None = None
    """When it was first missed; None while it lasts."""


def matter(notice: Notice) -> str:
    """The kind of a notice: what stays the same while the numbers in its sentence change."""
    return notice.kind or _NUMBER.sub("#", notice.text)


def alert_id(notice: Notice) -> str:
    """The id of the alert that a notice belongs to, the same over restarts and on every host."""
    return _digest(notice.subject, matter(notice))


@lru_cache(maxsize=MOST)
def _digest(subject: str, kind: str) -> str:
    return blake2b(f"{subject}\0{kind}".encode("utf-8", "replace"), digest_size=6).hexdigest()


class _Steady:
    """A yes or no that follows what is seen only once that has held for a while."""

    __slots__ = ("on", "since", "turning")

    def __init__(self) -> None:
        self.on = False
        self.since = 0.0
        """When what it says now was first seen."""
        self.turning: float | None = None
        """Since when the opposite is seen."""

    def see(self, present: bool, now: float, after: float) -> None:
        if present == self.on:
            self.turning = None
            return
        if self.turning is None:
            self.turning = now
        if now - self.turning >= after:
            self.on, self.since, self.turning = present, self.turning, None

    @property
    def idle(self) -> bool:
        """Is it off, and nothing else seen?"""
        return not self.on and self.turning is None


class _Followed:
    """One alert to be, or that is: whether it lasts, and whether it is bad."""

    __slots__ = ("any", "bad", "notice")

    def __init__(self, notice: Notice) -> None:
        self.notice = notice
        self.any, self.bad = _Steady(), _Steady()


class AlertBook:
    """All alerts of the moment, and what may become one."""

    def __init__(self) -> None:
        self._followed: dict[str, _Followed] = {}

    def __repr__(self) -> str:
        return f"<AlertBook {len(self.firing())} of {len(self._followed)}>"

    def look(self, notices: Iterable[Notice], now: float, after: float) -> None:
        """Take in everything that needs attention at this moment; of notices with one id the worst counts.

        Args:
            after: seconds that something must hold to be believed.
        """
        seen: dict[str, Notice] = {}
        for notice in notices:
            id = alert_id(notice)
            if id not in seen or (notice.level == "bad" and seen[id].level != "bad"):
                seen[id] = notice
        for id, notice in seen.items():
            one = self._followed.get(id)
            if one is not None:
                one.notice = notice
            elif len(self._followed) < MOST:
                self._followed[id] = _Followed(notice)
        for id, one in list(self._followed.items()):
            one.any.see(id in seen, now, after)
            one.bad.see(id in seen and seen[id].level == "bad", now, after)
            if one.any.idle:
                del self._followed[id]

    def firing(self) -> dict[str, Alert]:
        """The alerts that last, by id."""
        return {id: _alert(id, one, one.any.since) for id, one in self._followed.items() if one.any.on}

    def waiting(self) -> dict[str, Alert]:
        """What becomes an alert if it lasts, by id."""
        return {id: _alert(id, one, one.any.turning or 0.0) for id, one in self._followed.items() if not one.any.on}


def _alert(id: str, one: _Followed, since: float) -> Alert:
    notice = one.notice
    level: Level = ("bad" if one.bad.on else "warn") if one.any.on else notice.level
    return Alert(
        id=id,
        level=level,
        subject=notice.subject[:LONGEST_TEXT],
        kind=matter(notice),
        text=notice.text if len(notice.text) <= LONGEST_TEXT else f"{notice.text[: LONGEST_TEXT - 1]}…",
        since=since,
    )


def place_of(alert: Alert, networks: Collection[str]) -> tuple[str | None, str | None]:
    """The network and the node that an alert is about; None for what it is not about."""
    network, _, node = alert.subject.partition("/")
    if alert.kind == "tier" or network not in networks:
        return None, None
    return network, node or None
