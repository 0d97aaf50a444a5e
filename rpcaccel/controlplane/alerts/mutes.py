"""Mutes: webhooks are not told of something for a while, which goes on being shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

import structlog
from msgspec import Meta, Struct, field

from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.controlplane.workers.operations import OperationRefused

MAX_MUTES = 200
"""Mutes at one time."""
MAX_MUTE_SECONDS = 2_592_000.0
ALL_ALERTS = "all"
"""Stands for everything that can be muted."""

UnixTime = Annotated[float, Meta(ge=0, le=1e11, description="Seconds since 1970.")]
"""Up to the year 5138: a time that Python and browsers can write as a date."""

Subject = Annotated[
    str, Meta(description='A subject, the id of an alert, a network, which stands for its nodes as well, or "all".')
]

log = structlog.get_logger("rpcaccel.alerts")


class Mute(Struct, frozen=True, kw_only=True):
    """One mute."""

    what: Subject
    until: UnixTime
    by: str
    reason: str = ""
    at: UnixTime


class MuteRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be muted, and for how long."""

    what: Annotated[Subject, Meta(min_length=1, max_length=400)]
    seconds: Annotated[float, Meta(ge=0, le=MAX_MUTE_SECONDS, description="0 ends the mute.")]
    reason: Annotated[str, Meta(max_length=200)] = ""


class KeptMutes(Struct, frozen=True, kw_only=True):
    """The mutes as they are kept in a file beside the state file, which has a name and a form of 0.2.0."""

    version: int = 1
    mutes: Annotated[tuple[Mute, ...], Meta(max_length=MAX_MUTES)] = field(name="silences")


class Mutes:
    """The mutes in force. Each is known by what it is about."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.note = ""
        """A sentence when mutes were lost, or will be."""
        self._wall = wall
        self._mutes: dict[str, Mute] = {}
        self._file: KeptFile[KeptMutes] | None = None
        self._saving = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Mutes {', '.join(self._mutes)}>"

    def open(self, file: KeptFile[KeptMutes]) -> None:
        """Take up the mutes of the last run, and keep them in this file. One that cannot be used is named in a note.
        Blocks."""
        self._file = file
        try:
            kept = file.load()
        except LostFileError as error:
            self.note = f"{file.path} {error}: nothing is muted"
            log.error("mutes are lost", file=str(file.path), reason=str(error))  # noqa: TRY400 -- the reason is all there is
        else:
            self._mutes = {one.what: one for one in kept.mutes} if kept is not None else {}

    @property
    def kept(self) -> str | None:
        """The file of the mutes; None where they live until a restart."""
        return None if self._file is None else str(self._file.path)

    def in_force(self) -> list[Mute]:
        """Those that have not ended, the newest last."""
        now = self._wall()
        return [one for one in self._mutes.values() if one.until > now]

    def covering(self, alert_id: str, subject: str) -> Mute | None:
        """The mute that covers an alert for the longest; None when none does."""
        if not self._mutes:
            return None
        now = self._wall()
        names = (ALL_ALERTS, alert_id, subject, subject.partition("/")[0])
        found = (self._mutes[name] for name in names if name in self._mutes)
        return max((one for one in found if one.until > now), key=lambda one: one.until, default=None)

    async def mute(self, what: str, seconds: float, by: str, reason: str = "") -> None:
        """Mute something, in place of an earlier mute of the same; 0 seconds end that. Raises OperationRefused."""
        left = {one.what: one for one in self.in_force()}
        before = left.pop(what, None)
        at = self._wall()
        if seconds:
            if len(left) >= MAX_MUTES:
                raise OperationRefused(409, "refused", f"there are {MAX_MUTES} mutes already; end one first")
            left[what] = Mute(what=what, until=at + seconds, by=by, reason=reason, at=at)
        elif before is None:
            muted = ", ".join(left) or "nothing"
            raise OperationRefused(404, "not-found", f"{what} is not muted; what is: {muted}")
        self._mutes = left
        if seconds:
            log.info("alerts are muted", what=what, seconds=seconds, by=by, reason=reason)
        else:
            log.info("a mute is ended", what=what, by=by)
        await self._save()

    async def _save(self) -> None:
        if self._file is None:
            return
        async with self._saving:  # one after the other, each with the newest
            try:
                await asyncio.to_thread(self._file.save, KeptMutes(mutes=tuple(self._mutes.values())))
            except OSError as error:
                why = error.strerror or type(error).__name__
                self.note = f"{self._file.path} cannot be written ({why}): mutes live until a restart"
                log.warning(self.note)
            else:
                self.note = ""
