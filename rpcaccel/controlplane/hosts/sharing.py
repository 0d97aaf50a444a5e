"""Settings shared by the hosts that use one Redis under one prefix.

Shared is what was changed at run time, as a merge patch over each host's own config file, without the sections that
belong to one host (LOCAL_SECTIONS). A change is first in force here and then posted; it is taken back when another
host posted one in the same moment. While Redis is away changes reach this host alone; on its return they are laid over
what is posted there, so that of two changes of one setting the last that was posted holds. A host that cannot adopt
what is posted says so and keeps the settings it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from rpcaccel import stores
from rpcaccel.config.model import RedisSettings
from rpcaccel.config.patch import compose
from rpcaccel.controlplane.hosts.shared_purges import HeardFile, Purges
from rpcaccel.controlplane.settings.ledger import Author, InvalidSettingsError, Ledger, RefusedError
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.controlplane.workers.operations import Reached, swept
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.stores.shared_board import Board, SharedDocument, UnreachableError
from rpcaccel.stores.tasks import cancel_and_wait

LOCAL_SECTIONS = ("listen", "tls_cert", "tls_key", "admin", "workers", "disk", "redis", "log", "tracing")
"""Sections that each host has for itself. `alerts.host`, the name of a host in its alerts, is its own as well."""
BOARD_LOOK_SECONDS = 0.2
"""Seconds between two looks at the board."""
ADOPT_RETRY_SECONDS = 5.0
"""Seconds after which something that could not be adopted is tried again; doubled each time."""
MAX_ADOPT_RETRY_SECONDS = 300.0
"""Seconds between two such attempts at the most."""

_MAX_NUMBER_DIGITS = 19
"""Digits of a number of 64 bits."""

log = structlog.get_logger("rpcaccel.sharing")


class Sheet(Struct, frozen=True):
    """The document on the board."""

    overlay: dict[str, Any]
    by: str
    host: str


class ReplicationState(Struct, frozen=True):
    """How far a host has followed the others."""

    revision: int = 0
    """The number of the posted settings that it saw last; 0 without any."""
    refusal: str = ""
    """Why these are not in force; empty when they are."""
    purges_late: float = 0.0
    """Seconds since it heard every purge of other hosts."""


class Sharing:
    """This host's part in the sharing. `purges` is its part in the purges, on the same board; `told` hears when Redis
    goes and comes."""

    def __init__(
        self,
        board: Board,
        ledger: Ledger,
        purges: Purges,
        *,
        told: Callable[[bool], None] = lambda _up: None,
        every: float = BOARD_LOOK_SECONDS,
        again: float = ADOPT_RETRY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = purges.host
        self.up = False
        self.mark = ""
        """The mark of what was last adopted or posted: its number, and something that no other has."""
        self.refusal = ""
        """Why what other hosts posted is not in force here; empty when it is."""
        self._board = board
        self._ledger = ledger
        self._purges = purges
        self._told = told
        self._every = every
        self._again = self._pause = again
        self._clock = clock
        self._retry_at = 0.0
        """When a posted document that could not be adopted is tried again (seconds of `clock`)."""
        self._overlay: dict[str, Any] = {}
        """The overlay that is posted; before the first look, the one that an earlier run left here."""
        self._unposted: dict[str, Any] = {}
        """Changes that wait for Redis, as one merge patch."""
        self._unposted_by = ""
        self._look_now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Sharing {self.host} r{self.revision} {'up' if self.up else 'down'}>"

    @property
    def revision(self) -> int:
        """The number of what was last seen on the board."""
        return _number(self.mark)

    @property
    def note(self) -> str:
        """A sentence when what other hosts posted is not in force here."""
        return f"what other hosts changed is not in force here: {self.refusal}" if self.refusal else ""

    def notices(self) -> list[str]:
        """Sentences about what should be looked at."""
        return [*filter(None, [self.note]), *self._board.notices(), *self._purges.foreign.notices()]

    def standing(self) -> ReplicationState:
        """How far this host has followed the others."""
        return ReplicationState(self.revision, self.refusal, self._purges.late)

    async def start(self) -> None:
        """Adopt what is shared as soon as Redis answers, and follow it from then on."""
        await self._board.open()
        self.begin()
        self._task = asyncio.create_task(self._follow(), name="sharing")

    def begin(self) -> None:
        """Begin to offer changes to other hosts. Changes of an earlier run are posted to an empty board only."""
        self._overlay = _shared(self._ledger.overlay())
        self._ledger.offer = self.offer

    async def stop(self) -> None:
        self._ledger.offer = None
        if self._task is not None:
            async with self._ledger.changing:  # a half adopted revision would be in force in workers, not in the ledger
                await cancel_and_wait(self._task)
        await self._board.close()

    async def offer(self, patch: Mapping[str, Any], author: str) -> bool:
        """Post a change that is in force here; False when another host posted first. Called under `ledger.changing`."""
        change = _shared(patch)
        if not change:
            return True
        if self.up and not self._unposted:
            try:
                if not await self._post(compose(self._overlay, change), author, self.mark):
                    self._look_now.set()
                    return False
            except UnreachableError:
                self._is(False)
            else:
                return True
        self._unposted, self._unposted_by = compose(self._unposted, change), author
        self._look_now.set()
        return True

    async def tell_purge(self, body: bytes, *, complete: bool = True) -> None:
        """Have the other hosts carry out a purge; those that are cut off do it when they are back. One that is not
        `complete` here is repeated here."""
        await self._purges.tell(body, complete=complete)

    async def look(self) -> None:
        """Post what waits, adopt what others posted, and carry out their purges."""
        try:
            mark = await self._board.mark()
            if mark != self.mark or self._unposted or (not mark and self._overlay) or self._is_due:
                async with self._ledger.changing:
                    await self._meet()
            await self._purges.catch_up()
        except UnreachableError:
            self._is(False)
            return
        self._is(True)

    async def _follow(self) -> None:
        while True:
            wait = self._every
            try:
                await self.look()
            except Exception:
                log.exception("sharing failed and is tried again")
                wait = self._again
            self._look_now.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._look_now.wait()

    async def _meet(self) -> None:
        posted = await self._board.read()
        if posted is None:  # an empty board, also one that was emptied, gets everything that is in force here
            by = self._unposted_by or self._ledger.audit[-1].by
            if overlay := compose(self._overlay, self._unposted):
                await self._post(overlay, by, "")
            else:
                self.mark = ""
            return
        if posted.mark != self.mark or self._is_due:
            await self._adopt(posted)
        if self._unposted:
            await self._post(compose(self._overlay, self._unposted), self._unposted_by, self.mark)

    async def _post(self, overlay: dict[str, Any], author: str, before: str) -> bool:
        """Replace what has the mark `before`; False when something else is posted. Raises UnreachableError."""
        mark = f"{_number(before or self.mark) + 1}-{secrets.token_hex(4)}"
        if not await self._board.post(before, mark, msgspec.json.encode(Sheet(overlay, author, self.host))):
            return False
        self.mark, self._overlay = mark, overlay
        self._unposted, self._unposted_by = {}, ""
        return True

    async def _adopt(self, posted: SharedDocument) -> None:
        """Take over what is posted, with the changes that wait on top of it, or say why that cannot be done."""
        if posted.mark != self.mark:
            self._pause = self._again
        try:
            sheet = msgspec.json.decode(posted.document, type=Sheet)
        except UNREADABLE:  # the next change here goes on top of what is in force
            self.mark = posted.mark
            self._refuse("what is posted are no settings of rpcaccel")
            return
        # What cannot be adopted counts as seen all the same: the next change here goes on top of it.
        self.mark, self._overlay = posted.mark, sheet.overlay
        wanted = compose(compose(_shared(sheet.overlay), self._unposted), _own(self._ledger.overlay()))
        try:
            await self._ledger.take_over(wanted, Author(f"{sheet.by} at {sheet.host}", "shared"))
            self.refusal = ""
        except (InvalidSettingsError, RefusedError) as error:
            self._refuse(str(error))

    def _refuse(self, why: str) -> None:
        """Say why what is posted is not in force here, and try again later."""
        if why != self.refusal:
            log.error("settings of other hosts are not adopted", reason=why)
        self.refusal = why
        self._retry_at = self._clock() + self._pause
        self._pause = min(MAX_ADOPT_RETRY_SECONDS, 2 * self._pause)

    @property
    def _is_due(self) -> bool:
        """Whether a posted document that could not be adopted is to be tried again now."""
        return bool(self.refusal) and self._clock() >= self._retry_at

    def _is(self, up: bool) -> None:
        if up != self.up:
            self.up = up
            self._told(up)


def _number(mark: str) -> int:
    """The number that a mark begins with; 0 of none."""
    number = mark.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < _MAX_NUMBER_DIGITS else 0


def _shared(overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an overlay that concerns every host."""
    parts = {key: value for key, value in overlay.items() if key not in LOCAL_SECTIONS}
    alerts = parts.get("alerts")
    if isinstance(alerts, Mapping) and "host" in alerts:
        del parts["alerts"]
        if others := {key: value for key, value in alerts.items() if key != "host"}:
            parts["alerts"] = others
    return parts


def _own(overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an overlay that each host has for itself."""
    parts = {key: value for key, value in overlay.items() if key in LOCAL_SECTIONS}
    alerts = overlay.get("alerts")
    return {**parts, "alerts": {"host": alerts["host"]}} if isinstance(alerts, Mapping) and "host" in alerts else parts


def _heard_file(folder: str) -> HeardFile:
    # A host without a disk tier does not import SQLite.
    from rpcaccel.stores.disk.database import VERSION  # noqa: PLC0415

    return HeardFile(Path(folder), VERSION)


class Hosts:
    """Shares settings and purges with other hosts while the settings name a Redis."""

    def __init__(self, ledger: Ledger, links: Sequence[Link], events: Events) -> None:
        self._ledger = ledger
        self._links = links
        self._events = events
        self._shared_by: tuple[RedisSettings, str] | None = None
        """The Redis, and the folder of the disk tier, that the sharing was begun with."""
        self._sharing: Sharing | None = None

    def __repr__(self) -> str:
        return f"<Hosts {self._sharing!r}>"

    async def share(self, redis: RedisSettings, folder: str = "") -> None:
        """Share settings and purges with the hosts that use this Redis, and with no others any more. `folder` is that
        of the disk tier; empty where there is none."""
        if (redis, folder) == self._shared_by:
            return
        await self.stop()
        self._shared_by = redis, folder
        if (board := stores.driver(redis).board(redis)) is not None:
            host = f"{socket.gethostname()}-{secrets.token_hex(2)}"
            purges = Purges(board, host, self._purge, _heard_file(folder) if folder else None)
            self._sharing = Sharing(board, self._ledger, purges, told=self._hear)
            await self._sharing.start()

    async def stop(self) -> None:
        if self._sharing is not None:
            await self._sharing.stop()
        self._sharing = None

    async def purged(self, body: bytes, *, complete: bool = True) -> None:
        """Send a purge that was carried out here to the other hosts. One that is not `complete` here is repeated."""
        if self._sharing is not None:
            await self._sharing.tell_purge(body, complete=complete)

    def shown(self) -> dict[str, Any] | None:
        """The state of the sharing, for the admin API; None where nothing is shared."""
        sharing = self._sharing
        if sharing is None or self._shared_by is None:
            return None
        about = {"up": sharing.up, "revision": sharing.revision, "note": sharing.note}
        return {"url": self._shared_by[0].url.shown, "host": sharing.host, **about}

    def standing(self) -> ReplicationState:
        """How far this host has followed the others."""
        return ReplicationState() if self._sharing is None else self._sharing.standing()

    def notices(self) -> list[str]:
        """Sentences about what should be looked at."""
        return self._sharing.notices() if self._sharing is not None else []

    async def _purge(self, body: bytes) -> Reached:
        return await swept(body, self._links)

    def _hear(self, up: bool) -> None:
        text = "settings and purges are shared by Redis" if up else "Redis is away: changes reach this host alone"
        self._events.tell("shared", {"up": up, "at": time.time(), "text": text})
