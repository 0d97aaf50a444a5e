"""Silences: alerts that webhooks are not told of for a while."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

MOST = 200
"""Silences at one time."""
LONGEST = 2_592_000.0
"""Seconds of a silence at the most: 30 days."""
EVERYTHING = "all"
"""Stands for all alerts."""

Unix = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since 1970, up to the year 5138: a time that Python and browsers can write as a date."""


class AlertSilence(Struct, frozen=True, kw_only=True):
    """One silence. Times are seconds since 1970."""

    id: str
    what: str
    """The subject or the id of alerts, or a network, which stands for its nodes as well; "all" for everything."""
    until: Unix
    by: str
    reason: str = ""
    at: Unix

    def covers(self, alert_id: str, subject: str) -> bool:
        """Is it about this alert?"""
        return self.what in (EVERYTHING, alert_id, subject) or subject.startswith(f"{self.what}/")


class KeptSilences(Struct, frozen=True, kw_only=True):
    """The silences as they are kept in a file beside the state file."""

    version: int = 1
    silences: Annotated[tuple[AlertSilence, ...], Meta(max_length=MOST)]


def in_force(silences: Iterable[AlertSilence], unix: float) -> tuple[AlertSilence, ...]:
    """Those that have not ended."""
    return tuple(one for one in silences if one.until > unix)


def silenced_by(silences: Iterable[AlertSilence], alert_id: str, subject: str) -> AlertSilence | None:
    """The silence that covers an alert for the longest; None when none does."""
    return max((one for one in silences if one.covers(alert_id, subject)), key=lambda one: one.until, default=None)
