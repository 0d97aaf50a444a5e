"""Settings and purges shared by the hosts that use one Redis under one prefix.

What is shared is what was changed at run time, as a merge patch over each host's own config file, and not what belongs
to one host (LOCAL). A change is in force here first and then posted, unless somebody was quicker; it waits for Redis no
longer than its write timeout. While Redis is away changes are collected, and on its return they are laid over what the
others made meanwhile: where two changed the same setting, the one who comes back last has it.

The hosts that share one Redis: begins and ends the sharing with them, and tells how it goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import structlog
from msgspec import Struct

from rpcaccel.config.model import RedisSettings
from rpcaccel.controlplane.settings.audit import Author
from rpcaccel.controlplane.settings.ledger import InvalidSettingsError, Ledger, RefusedError
from rpcaccel.controlplane.settings.shared_purges import Purges, WordsPort
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.controlplane.workers.operations import swept
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.stores.redis.board import Posted, UnreachableError
from rpcaccel.stores.tasks import cancel_and_wait

LOCAL = ("listen", "admin", "workers", "redis", "log", "tracing")
"""Sections that each host has for itself."""
EVERY = 0.2
"""Seconds between two looks at the board."""
AGAIN = 5.0
"""Seconds after which something that could not be adopted is tried again,"""
LONGEST_PAUSE = 300.0
"""and at the most, doubled each time a worker refuses it: each of its refusals is a line of the audit."""

log = structlog.get_logger("rpcaccel.sharing")


class BoardPort(WordsPort, Protocol):
    """What is needed of stores.redis.board.Board. Everything but `open` and `close` raises UnreachableError."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def mark(self) -> str: ...
    async def read(self) -> Posted | None: ...
    async def post(self, before: str, mark: str, document: bytes) -> bool: ...


class Sheet(Struct, frozen=True):
    """The document on the board."""

    overlay: dict[str, Any]
    by: str
    host: str


class _OvertakenError(Exception):
    """What was read is older than what was posted from here meanwhile."""


def compose(first: Any, second: Any) -> Any:
    """The merge patch that does what two do one after the other, but for a table that the first removes and the second
    makes again: it keeps what the second does not name."""
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    return {**first, **{key: compose(first.get(key), value) for key, value in second.items()}}


def shared_part(overlay: Mapping[str, Any]) -> dict[str, Any]:
    """What of an overlay concerns every host."""
    return {key: value for key, value in overlay.items() if key not in LOCAL}


def own_part(overlay: Mapping[str, Any]) -> dict[str, Any]:
    """What of an overlay concerns this host alone."""
    return {key: value for key, value in overlay.items() if key in LOCAL}


class Sharing:
    """This host's end. `purged` carries out a purge that another host made; `told` hears when Redis goes and comes."""

    def __init__(
        self,
        board: BoardPort,
        ledger: Ledger,
        *,
        purged: Callable[[bytes], Awaitable[bool]],
        told: Callable[[bool], None] = lambda _up: None,
        host: str = "",
        every: float = EVERY,
        again: float = AGAIN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host or f"{socket.gethostname()}-{secrets.token_hex(2)}"
        self.up = False
        self.mark = ""
        """Of what was last seen on the board: its number, and something no other has."""
        self.note = ""
        """A sentence when what others made is not in force here."""
        self._board = board
        self._ledger = ledger
        self._purges = Purges(board, self.host, purged)
        self._told = told
        self._every = every
        self._again = self._pause = again
        self._clock = clock
        self._retry_at = 0.0
        """When what is not in force here is tried again."""
        self._overlay: dict[str, Any] = {}
        self._pending: dict[str, Any] = {}
        self._pending_by = ""
        self._unfit = False
        self._look_now = asyncio.Event()
        self._posting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Sharing {self.host} r{self.revision} {'up' if self.up else 'down'}>"

    @property
    def revision(self) -> int:
        """The number of what was last seen on the board."""
        number = self.mark.partition("-")[0]
        return int(number) if number.isascii() and number.isdigit() else 0

    async def start(self) -> None:
        """Adopt what is shared, as soon as Redis says it, and follow it from then on."""
        await self._board.open()
        self.begin()
        self._task = asyncio.create_task(self._follow(), name="sharing")

    def begin(self) -> None:
        """From here on changes go to the others. What an earlier run left here goes to an empty board only."""
        self._overlay = shared_part(self._ledger.overlay())
        self._ledger.offer = self.offer

    async def stop(self) -> None:
        """Follow no more."""
        self._ledger.offer = None
        if self._task is not None:
            async with self._ledger.changing:  # what is half adopted would be in force at workers and not in the ledger
                await cancel_and_wait(self._task)
        await self._board.close()

    async def offer(self, patch: Mapping[str, Any], author: str) -> bool:
        """A change that is in force here goes to the others; False when one of them was quicker."""
        change = shared_part(patch)
        if not change:
            return True
        async with self._posting:
            if self._pending or not self.up:
                self._wait_to_post(change, author)
                self._look_now.set()
                return True
            try:
                if await self._post(compose(self._overlay, change), author, before=self.mark):
                    return True
            except UnreachableError:
                self._wait_to_post(change, author)
                self._is(False)
                return True
            self._look_now.set()
            return False

    def _wait_to_post(self, change: dict[str, Any], author: str) -> None:
        self._pending, self._pending_by = compose(self._pending, change), author

    async def tell_purge(self, body: bytes) -> None:
        """Have the other hosts carry out a purge; those that are cut off do it when they are back."""
        await self._purges.tell(body)

    async def _post(self, overlay: dict[str, Any], author: str, *, before: str) -> bool:
        """Raises UnreachableError."""
        sheet = msgspec.json.encode(Sheet(overlay, author, self.host))
        mark = f"{self.revision + 1}-{secrets.token_hex(4)}"
        if not await self._board.post(before, mark, sheet):
            return False
        self.mark = mark
        self._overlay = overlay
        return True

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

    async def look(self) -> None:
        """Adopt what is new on the board, post what is not there yet, hear the words."""
        try:
            brought = self._overlay if not self.mark else {}
            if await self._board.mark() != self.mark or self._pending or brought or self._is_due:
                await self._meet()
            await self._purges.catch_up()
        except UnreachableError:
            self._is(False)
            return
        self._is(True)

    async def _meet(self) -> None:
        last = self.mark
        posted = await self._board.read()
        if posted is not None and (posted.mark != self.mark or self._is_due):
            try:
                await self._adopt(posted, last)
            except _OvertakenError:
                return  # the next look reads it anew
        async with self._posting:
            overlay = compose(self._overlay, self._pending)
            # An empty board, also one that was emptied, gets everything that is in force here.
            if self._pending or (posted is None and overlay):
                by = self._pending_by if self._pending else self._ledger.audit.newest(1)[0].by
                if await self._post(overlay, by, before=self.mark if posted is not None else ""):
                    self._pending = {}

    async def _adopt(self, posted: Posted, last: str) -> None:
        """Take over what others made, with what was changed here meanwhile on top. Raises _OvertakenError
        when the board was not read since something was posted from here: `last` is no longer that."""
        try:
            sheet = msgspec.json.decode(posted.document, type=Sheet)
        except UNREADABLE:
            sheet = Sheet({}, "", "")
        author = Author(f"{sheet.by} at {sheet.host}", "shared")

        def with_ours() -> dict[str, Any]:
            if self.mark != last:
                raise _OvertakenError
            return {**compose(sheet.overlay, self._pending), **own_part(self._ledger.overlay())}

        def theirs() -> dict[str, Any]:
            self._pending = {}  # together they make no settings; what was wanted here stands in the audit
            return {**sheet.overlay, **own_part(self._ledger.overlay())}

        try:
            try:
                await self._ledger.take_over(with_ours, author)
            except InvalidSettingsError:
                if not self._pending:
                    raise
                await self._ledger.take_over(theirs, author)
            self._unfit, self.note, self._pause = False, "", self._again
        except (InvalidSettingsError, RefusedError) as error:
            # It is remembered all the same: what is changed here goes on top of it, and nobody's change is lost.
            self._does_not_fit(str(error))
            self._retry_at = self._clock() + self._pause
            if isinstance(error, RefusedError):
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        self.mark, self._overlay = posted.mark, sheet.overlay

    def _does_not_fit(self, why: str) -> None:
        note = f"what other hosts changed is not in force here: {why}"
        if note != self.note:
            log.error("settings of other hosts are not adopted", reason=why)
        self._unfit, self.note = True, note

    @property
    def _is_due(self) -> bool:
        """Is something not in force here, and to be tried again now?"""
        return self._unfit and self._clock() >= self._retry_at

    def _is(self, up: bool) -> None:
        if up != self.up:
            self.up = up
            self._told(up)


class Hosts:
    """The others, when there is a Redis; nobody else."""

    def __init__(self, ledger: Ledger, links: Sequence[Link], events: Events) -> None:
        self._ledger = ledger
        self._links = links
        self._events = events
        self._redis: RedisSettings | None = None
        self._sharing: Sharing | None = None

    def __repr__(self) -> str:
        return f"<Hosts {self._sharing!r}>"

    async def share(self, redis: RedisSettings) -> None:
        """Share settings and purges with the hosts that use this Redis, and with no others any more."""
        if redis == self._redis:
            return
        await self.stop()
        self._redis = redis
        if redis.url:
            # Who has no Redis does without its client: 80 ms of a start.
            from rpcaccel.stores.redis.board import Board  # noqa: PLC0415

            self._sharing = Sharing(Board(redis), self._ledger, purged=self._purge, told=self._hear)
            await self._sharing.start()

    async def stop(self) -> None:
        """Share no more."""
        if self._sharing is not None:
            await self._sharing.stop()
        self._sharing = None

    async def purged(self, body: bytes) -> None:
        """A purge was carried out here by this request; the others are to do the same."""
        if self._sharing is not None:
            await self._sharing.tell_purge(body)

    def shown(self) -> dict[str, Any] | None:
        """How it goes; None where nothing is shared."""
        sharing = self._sharing
        if sharing is None or self._redis is None:
            return None
        about = {"up": sharing.up, "revision": sharing.revision, "note": sharing.note}
        return {"url": self._redis.url.shown, "host": sharing.host, **about}

    @property
    def note(self) -> str:
        """What should be looked at, in a sentence."""
        return self._sharing.note if self._sharing is not None else ""

    async def _purge(self, body: bytes) -> bool:
        return await swept(body, self._links)

    def _hear(self, up: bool) -> None:
        text = "settings and purges are shared by Redis" if up else "Redis is away: changes reach this host alone"
        self._events.tell("shared", {"up": up, "at": time.time(), "text": text})
