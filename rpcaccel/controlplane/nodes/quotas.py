"""What is used of nodes' quotas: gathered from the workers, kept over restarts, and given to workers that begin.

Each place of a worker has an equal part of a quota, whoever works in it, so that no worker needs to ask another and the
sum is never exceeded. What counts on a part besides what its worker used itself is told to the worker: its share of
earlier runs, and what others in its place used (one that died, one that still drains). Nothing here is on the way of a
call: workers report once a second, and the file is written by a thread.

The file that keeps what is used of nodes' quotas over a restart, beside the state file.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta, Struct

from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.controlplane.settings.state_file import write_whole
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.core.messages import NodeReport, WorkerReport
from rpcaccel.core.nodes.quota import Brought, QuotaUse, Window, runs_out, window_end
from rpcaccel.core.wire.json_text import UNREADABLE

VERSION = 1


class Kept(Struct, frozen=True, kw_only=True):
    """What was used of one node's quota in one window, all workers together. Times are Unix seconds."""

    network: str
    node: str
    window: Window
    used: Annotated[float, Meta(ge=0)]
    since: float
    renews: float
    """When the window ends, by which it is known."""


class _Content(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    uses: tuple[Kept, ...]


class DamagedError(Exception):
    """The file cannot be used; says why in words that follow its name."""


class QuotaFile:
    """One file, replaced whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, state: Path) -> QuotaFile:
        """The one that belongs to a state file: rpcaccel.state.json -> rpcaccel.quota.json."""
        name = state.name.removesuffix(".json").removesuffix(".state")
        return cls(state.with_name(f"{name}.quota.json"))

    def __repr__(self) -> str:
        return f"<QuotaFile {self.path}>"

    def load(self) -> tuple[Kept, ...]:
        """What was kept; nothing when there is no file. Raises DamagedError."""
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise DamagedError(f"cannot be read: {error.strerror or type(error).__name__}") from None
        except UNREADABLE:
            raise DamagedError("is damaged") from None
        if content.version != VERSION:
            raise DamagedError(f"has version {content.version}, which this rpcaccel does not read")
        return content.uses

    def save(self, uses: Sequence[Kept]) -> None:
        """Write and rename. Raises OSError. Blocks."""
        write_whole(self.path, msgspec.json.encode(_Content(uses=tuple(uses))) + b"\n")


LOOK_EVERY = 1.0
"""Seconds between two looks at what the workers report."""
SAVE_EVERY = 5.0
"""Seconds between two writes at the least: what a power cut costs of the count."""
_LEAST = 1e-6
"""What is less is the same: shares are sums of fractions."""
CANNOT = "cannot be written"
Key = tuple[str, str, Window]
Seen = tuple[Link, WorkerReport]

log = structlog.get_logger("rpcaccel.quotas")


class _Past:
    """What was used in one window by nobody who runs: by earlier runs, and in each place by workers that ended."""

    __slots__ = ("ended", "kept", "renews", "since")

    def __init__(self, renews: float, since: float, kept: float = 0.0) -> None:
        self.renews = renews
        self.since = since
        self.kept = kept
        self.ended: dict[str, float] = {}


class Quotas:
    """The use of all quotas. `links` are the workers that run, those that drain among them."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        links: Sequence[Link],
        places: Callable[[], int],
        wall: Callable[[], float] = time.time,
        every: float = LOOK_EVERY,
    ) -> None:
        """`every`: seconds between two looks."""
        self.note = ""
        """A sentence when what is used will not be known after a restart."""
        self._settings = settings
        self._links = links
        self._places = places
        self._wall = wall
        self._past: dict[Key, _Past] = {}
        self._file: QuotaFile | None = None
        self._saved: tuple[Kept, ...] = ()
        self._every = every
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Quotas {len(self._past)} windows, {self._file!r}>"

    # -- from start to stop --------------------------------------------------------------------------------------

    def open(self, file: QuotaFile | None) -> None:
        """Take up what was kept in the windows that still run. A file that cannot be used is said, and begun anew."""
        self._file = file
        if file is None:
            self.note = "the use of quotas lives until the restart: there is no state file"
            return
        try:
            found = file.load()
        except DamagedError as error:
            self.note = f"{file.path} {error}: the use of quotas was counted from zero at this start"
            log.error("the use of quotas is counted from zero", file=str(file.path), reason=str(error))  # noqa: TRY400
            return
        now = self._wall()
        for one in found:
            if one.renews == window_end(one.window, now):
                self._past[one.network, one.node, one.window] = _Past(one.renews, one.since, one.used)
        self._saved = self._now([])

    def start(self) -> None:
        """Gather, tell and keep from now on."""
        self._task = asyncio.create_task(self._run(), name="quotas")

    async def stop(self) -> None:
        """Keep what was used to the end; to be called when the workers have told it."""
        self._ending.set()
        if self._task is not None:
            await self._task  # not cancelled: what its thread still writes would come after what is written here
        await self.save()

    async def _run(self) -> None:
        saved_at = self._wall()
        while not await self._ended_within(self._every):
            try:
                self.tell()
                if abs(self._wall() - saved_at) >= SAVE_EVERY:
                    saved_at = self._wall()
                    await self.save()
            except Exception:
                log.exception("the use of quotas was not gathered, and is again")

    async def _ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._ending.wait()
        return self._ending.is_set()

    # -- what workers are told -----------------------------------------------------------------------------------

    def brought(self, place: str) -> tuple[Brought, ...]:
        """What a worker that begins in this place finds used of its part."""
        if not self.wanted:
            return ()
        seen = self._seen()
        return tuple(self._brought(place, key, seen) for key in self._keys(seen))

    def tell(self) -> None:
        """Tell the workers what others used of their part, where they have it otherwise."""
        if not self.wanted:
            return
        seen = self._seen()
        for link, report in seen:
            changed = []
            for key, use in _uses(report):
                wanted = self._brought(link.name, key, [one for one in seen if one[0] is not link])
                if wanted.renews == use.renews and abs(wanted.used - use.brought) > _LEAST:
                    changed.append(wanted)
            if changed:
                link.bring(tuple(changed))

    def bury(self, report: WorkerReport) -> None:
        """A worker ended: what it used counts on its place."""
        for key, use in _uses(report):
            past = self._current(key, use.since)
            if past.renews == use.renews:
                past.ended[report.worker] = past.ended.get(report.worker, 0.0) + use.own
                past.since = min(past.since, use.since)

    def _brought(self, place: str, key: Key, others: Sequence[Seen]) -> Brought:
        """What of this place's part was used by nobody, or by these."""
        past = self._current(key, self._wall())
        uses = [use for link, report in others if link.name == place for use in _uses_of(report, key, past.renews)]
        used = past.kept / max(1, self._places()) + past.ended.get(place, 0.0) + sum(use.own for use in uses)
        network, node, window = key
        since = min([past.since, *(use.since for use in uses)])
        return Brought(network=network, node=node, window=window, used=used, since=since, renews=past.renews)

    # -- what is shown and kept ----------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Has any node a quota of a day or a month?"""
        nodes = (node for network in self._settings().networks.values() for node in network.nodes)
        return any(node.quota.day or node.quota.month for node in nodes)

    def of(self, network: str, node: NodeSettings, told: Sequence[NodeReport]) -> tuple[QuotaUse, ...]:
        """What all workers together have used of each quota the node has, and when it will run out. `told`: what they
        report of the node."""
        now, found = self._wall(), []
        limits: tuple[tuple[Window, float], ...] = (("day", node.quota.day), ("month", node.quota.month))
        for window, limit in limits:
            if limit:
                uses = [use for report in told for use in report.quota]
                one = self._together((network, node.id, window), uses)
                out = runs_out(one.used, limit, since=one.since, now=now, renews=one.renews)
                found.append(
                    QuotaUse(
                        window=window, used=one.used, limit=limit, since=one.since, renews=one.renews, runs_out=out
                    )
                )
        return tuple(found)

    def notices(self) -> list[str]:
        """What should be looked at, where there is a quota to be kept."""
        return [self.note] if self.note and self.wanted else []

    async def save(self) -> None:
        """Keep it for the next start, if it has changed."""
        if self._file is None or not (self.wanted or self._past):
            return
        uses = self._now(self._seen())
        if uses == self._saved:
            return
        try:
            await asyncio.to_thread(self._file.save, uses)
        except OSError as error:
            why = error.strerror or type(error).__name__
            self._cannot_keep(f"{self._file.path} {CANNOT} ({why}): the use of quotas lives until the restart")
        else:
            self._saved = uses
            self.note = "" if CANNOT in self.note else self.note

    def _cannot_keep(self, note: str) -> None:
        if note != self.note:
            log.warning(note)
        self.note = note

    def _now(self, seen: Sequence[Seen]) -> tuple[Kept, ...]:
        """All that is used of anything."""
        keys = self._keys(seen)
        uses = {key: [use for _, report in seen for known, use in _uses(report) if known == key] for key in keys}
        return tuple(kept for key in keys if (kept := self._together(key, uses[key])).used)

    def _together(self, key: Key, uses: Sequence[QuotaUse]) -> Kept:
        """The past of a quota, and what workers that run have used of it."""
        past = self._current(key, self._wall())
        now = [use for use in uses if use.window == key[2] and use.renews == past.renews]
        used = past.kept + sum(past.ended.values()) + sum(use.own for use in now)
        since = min([past.since, *(use.since for use in now)])
        return Kept(network=key[0], node=key[1], window=key[2], used=used, since=since, renews=past.renews)

    def _seen(self) -> list[Seen]:
        """What each worker reports; made anew by one that runs in this process, so asked for once."""
        return [(link, report) for link in self._links if (report := link.report()) is not None]

    def _keys(self, seen: Sequence[Seen]) -> list[Key]:
        return sorted({key for _, report in seen for key, _ in _uses(report)} | self._past.keys())

    def _current(self, key: Key, since: float) -> _Past:
        """The past of the window that runs; an older one is forgotten."""
        renews = window_end(key[2], self._wall())
        past = self._past.get(key)
        if past is None or past.renews != renews:
            past = self._past[key] = _Past(renews, since)
        return past


def _uses(report: WorkerReport) -> Iterator[tuple[Key, QuotaUse]]:
    for node in report.nodes:
        for use in node.quota:
            yield (node.network, node.id, use.window), use


def _uses_of(report: WorkerReport, key: Key, renews: float) -> Iterator[QuotaUse]:
    """What a worker used of this quota in this window."""
    return (use for known, use in _uses(report) if known == key and use.renews == renews)
