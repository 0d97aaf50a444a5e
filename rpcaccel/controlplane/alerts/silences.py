"""Silences: alerts that webhooks are not told of for a while, kept in a file beside the state file.

The file is never the reason why a start fails: one that cannot be used means that nothing is silenced.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rpcaccel.controlplane.settings.state_file import write_whole
from rpcaccel.core.wire.json_text import UNREADABLE

MOST = 200
"""Silences at one time."""
LONGEST = 2_592_000.0
"""Seconds of a silence at the most: 30 days."""
LONGEST_FILE = 1 << 20
VERSION = 1
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


class _Content(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    silences: tuple[AlertSilence, ...]


class LostSilencesError(Exception):
    """The file cannot be used. Its text says why, in words that follow the file's name."""


class SilenceFile:
    """The file, which is replaced whole at each write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, state: Path) -> SilenceFile:
        """The file that belongs to a state file: rpcaccel.state.json -> rpcaccel.silences.json."""
        name = state.name.removesuffix(".json").removesuffix(".state")
        return cls(state.with_name(f"{name}.silences.json"))

    def __repr__(self) -> str:
        return f"<SilenceFile {self.path}>"

    def load(self) -> tuple[AlertSilence, ...]:
        """What was saved; nothing without a file. Raises LostSilencesError. Blocks."""
        try:
            with self.path.open("rb") as opened:
                content = opened.read(LONGEST_FILE + 1)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise LostSilencesError(f"cannot be read: {error.strerror or type(error).__name__}") from None
        if len(content) > LONGEST_FILE:
            raise LostSilencesError("is damaged")
        try:
            saved = msgspec.json.decode(content, type=_Content)
        except UNREADABLE:
            raise LostSilencesError("is damaged") from None
        if saved.version != VERSION:
            raise LostSilencesError(f"has version {saved.version}, which this rpcaccel does not read")
        return saved.silences[-MOST:]

    def save(self, silences: Iterable[AlertSilence]) -> None:
        """Write and rename. Raises OSError. Blocks."""
        write_whole(self.path, msgspec.json.encode(_Content(silences=tuple(silences))) + b"\n")


def in_force(silences: Iterable[AlertSilence], unix: float) -> tuple[AlertSilence, ...]:
    """Those that have not ended."""
    return tuple(one for one in silences if one.until > unix)


def silenced_by(silences: Iterable[AlertSilence], alert_id: str, subject: str) -> AlertSilence | None:
    """The silence that covers an alert for the longest; None when none does."""
    return max((one for one in silences if one.covers(alert_id, subject)), key=lambda one: one.until, default=None)
