"""Purges shared by the hosts of one Redis, through the stream of words on the shared board.

A purge made here while Redis is away is sent when Redis is back; a host that was cut off catches up with the purges of
the others. One whose cache outlives a restart on disk goes on from the place in the stream up to which an earlier run
carried everything out. Where words of the stream may be lost, every kept answer is purged, since a purged answer must
not be served.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, Struct

from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.controlplane.workers.operations import OperationRefused, Reached
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.stores.job_thread import JobThread
from rpcaccel.stores.shared_board import Board, ForeignData, UnreachableError

RESEND_SECONDS = 600.0
"""Seconds for which a purge is sent again when the board lost its words. A host that was cut off for longer purges
everything."""
MAX_WAITING_PURGES = 100
"""Purges that may wait for Redis, or for the disk; more of them become one purge of everything."""
PLACE_SAVE_SECONDS = 60.0
"""Seconds between two writes of the place in the stream while it stays the same."""
PURGE_RETRY_SECONDS, MAX_PURGE_RETRY_SECONDS = 0.5, 300.0
"""Seconds between two attempts to purge a tier that was not reached."""
MAX_HEARD_BYTES = 4096
"""Bytes of the file that keeps the place in the stream."""
HEARD_LOAD_SECONDS = 30.0
"""Seconds that reading this file may take. They are many, because everything is purged where it takes longer."""
HEARD_SAVE_SECONDS = 2.0
"""Seconds that a write of this file is waited for."""
PURGE_EVERYTHING = b'{"all":true}'
PURGE_NOTHING = b'{"key":"-","dry_run":true}'
"""Removes nothing. The disk counts as reached by it only where it owes no purge any more."""

log = structlog.get_logger("rpcaccel.sharing")


class HeardPlace(Struct, frozen=True, kw_only=True):
    """How far this host has heard the purges of others: up to this place in the stream, they are carried out in every
    tier of this host."""

    version: int = 1
    word: Annotated[str, Meta(pattern=r"^[0-9]{1,19}-[0-9]{1,19}$")]
    """The id of a message. Redis answers anything else with an error, which would be taken for a Redis that is away."""
    until: Annotated[float, Meta(ge=0)]
    """The time until which nothing was said that this host has not heard (seconds since 1970)."""


class HeardFile:
    """The file that keeps, beside the answers on disk, how far this host has heard the purges of others.

    Answers of another version's cache stay in the folder, and what this version hears is not carried out in them: so
    each version of the cache has a file of its own, `heard-VERSION.json`, which stays where that cache was left. The
    file is read and written by a thread that nobody waits for beyond a bound: a disk that hangs delays the sharing with
    other hosts for a moment and stops nothing.
    """

    def __init__(
        self,
        folder: Path,
        cache_version: int,
        load_within: float = HEARD_LOAD_SECONDS,
        save_within: float = HEARD_SAVE_SECONDS,
    ) -> None:
        """`load_within`, `save_within`: seconds that reading and writing may take."""
        self.path = folder / f"heard-{cache_version}.json"
        self._file = KeptFile(self.path, HeardPlace, largest=MAX_HEARD_BYTES)
        self._load_within = load_within
        self._save_within = save_within
        self._busy = False
        """Has a thread not come back yet from the disk?"""
        self._fault = ""
        """Why the file was not written lately; empty when it was."""

    async def load(self) -> HeardPlace | None:
        """What was kept; None without a file. Raises LostFileError."""
        try:
            found: HeardPlace | None = await self._done(self._file.load, self._load_within)
        except TimeoutError:
            raise LostFileError("cannot be read: the disk does not answer") from None
        return found

    async def save(self, place: HeardPlace) -> None:
        """Replace the file. A failure is logged, once until a write succeeds. No write is begun while another hangs."""
        if self._busy:
            return
        try:
            await self._done(lambda: self._write(place), self._save_within)
        except OSError as error:
            reason = "the disk does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            if not self._fault:
                log.warning("purges will be heard again after a restart", file=str(self.path), reason=reason)
            self._fault = reason
        else:
            self._fault = ""

    def _write(self, place: HeardPlace) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file.save(place)

    async def _done(self, job: Callable[[], Any], within: float) -> Any:
        """The result of a job in a thread. Raises what the job raises, and TimeoutError, which is an OSError."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Any] = loop.create_future()

        def done(result: Any) -> None:
            self._busy = False
            if not told.done():
                told.set_result(result)

        self._busy = True
        # A thread of an executor would keep the program from ending for as long as the disk hangs.
        thread = JobThread("disk-heard", loop)
        thread.submit(job, done)
        thread.stop()
        result = await asyncio.wait_for(told, within)
        if isinstance(result, Exception):
            raise result
        return result


class PurgeWord(Struct, frozen=True):
    """A purge that a host carried out, as the others are told of it."""

    host: str
    purge: bytes
    """The body of the request for the purge."""


class _HalfDone(Struct):
    """A purge that has not reached every tier of this host yet."""

    purge: bytes
    store: bool
    """Are its entries still in Redis?"""
    disk: bool
    """Are its entries still on the disk of this host?"""


class Purges:
    """This host's part in the stream. `purged` carries out a purge, and returns the tiers that it reached."""

    def __init__(
        self,
        board: Board,
        host: str,
        purged: Callable[[bytes], Awaitable[Reached]],
        file: HeardFile | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`file` keeps the place in the stream over a restart; None where the cache does not outlive one."""
        self._board = board
        self.host = host
        self._purged = purged
        self._file = file
        self._clock = clock
        self._wall = wall
        self._place: bytes | None = None
        """The id of the last message that was heard."""
        self._heard_at = clock()
        """The time until which every word was heard (seconds of `clock`)."""
        self._unsaid: deque[bytes] = deque()
        self._said: deque[tuple[float, bytes]] = deque(maxlen=MAX_WAITING_PURGES)
        self._until = wall()
        """The same in seconds of `wall`, which goes on while the program does not run."""
        self._kept_place: bytes | None = None
        """The place that was written to the file last, or could not be."""
        self._keep_at = 0.0
        """When the same place is written again (seconds of `clock`)."""
        self._half_done: list[_HalfDone] = []
        self._pause = PURGE_RETRY_SECONDS
        self._finish_at = 0.0
        self._saying = asyncio.Lock()
        self.foreign = ForeignData()
        """Messages that are no purges."""

    def __repr__(self) -> str:
        return f"<Purges of {self.host}, {len(self._unsaid)} to be told>"

    @property
    def late(self) -> float:
        """Seconds since every purge of other hosts was heard."""
        return max(0.0, self._clock() - self._heard_at)

    async def tell(self, body: bytes, *, complete: bool = True) -> None:
        """Send a purge to the other hosts: now, or once Redis is back. One that is not `complete` here is repeated."""
        if len(self._unsaid) >= MAX_WAITING_PURGES:
            self._unsaid.clear()
            self._half_done.clear()
            body, complete = PURGE_EVERYTHING, False
        if not complete:  # before the others hear it: its place in the stream is not kept until it is carried out
            self._repeat(body, store=True)
        self._unsaid.append(body)
        try:
            await self._say()
        except UnreachableError:
            if complete:
                self._repeat(body, store=True)
            if len(self._unsaid) == 1:
                log.warning("a purge reaches the other hosts when Redis is back")

    async def catch_up(self) -> None:
        """Carry out the purges of other hosts, and send those that wait. Raises UnreachableError."""
        if self._place is None:
            self._place = await self._begin()
        now, wall = self._clock(), self._wall()
        heard = await self._board.heard(self._place)
        away = now - self._heard_at
        if heard.lost == "older" or (heard.lost and away > RESEND_SECONDS):
            log.warning("purges of other hosts may have been missed: every kept answer is purged")
            await self._carry_out(PURGE_EVERYTHING)
        for text in heard.words:
            await self._hear(text)
        if heard.place == self._place:  # else there may be more of them
            self._heard_at, self._until = now, wall
        self._place = heard.place  # not before: what could not be carried out is heard again
        if heard.lost == "all":  # hosts that were cut off when a purge was sent did not get it
            self._unsaid.extendleft(body for at, body in reversed(self._said) if now - at < RESEND_SECONDS)
            self._said.clear()
        await self._say()
        await self._finish()
        await self._keep()

    async def _begin(self) -> bytes:
        """The place to go on from: that of an earlier run if one was kept, or the end of the stream. Raises
        UnreachableError."""
        self._until = self._wall()
        end = await self._board.last()
        if self._file is None:
            return end
        try:
            kept = await self._file.load()
        except LostFileError as lost:
            why = f"{self._file.path} {lost}"
            log.warning("purges of other hosts may have been missed: every kept answer is purged", reason=why)
            await self._carry_out(PURGE_EVERYTHING)
            return end
        if kept is None:  # the disk was not shared with other hosts before
            return end
        away = self._wall() - kept.until
        if away < 0:  # the clock was set back, so nobody knows for how long
            away = math.inf
        self._heard_at, self._until = self._clock() - away, kept.until
        return kept.word.encode()

    async def _keep(self) -> None:
        """Keep the place in the stream for the next start, unless the disk has yet to carry out what stands before
        it."""
        if self._file is None or self._place is None or any(one.disk for one in self._half_done):
            return
        if self._place == self._kept_place and self._clock() < self._keep_at:
            return
        self._kept_place, self._keep_at = self._place, self._clock() + PLACE_SAVE_SECONDS
        await self._file.save(HeardPlace(word=self._place.decode(), until=self._until))

    def _repeat(self, body: bytes, *, store: bool) -> None:
        """Repeat a purge that did not reach the disk, if there is one, and with `store` not Redis either."""
        if len(self._half_done) >= MAX_WAITING_PURGES:
            store = any(one.store for one in self._half_done) or store
            self._half_done.clear()
            body = PURGE_EVERYTHING
        self._half_done.append(_HalfDone(body, store, disk=self._file is not None))
        self._pause, self._finish_at = PURGE_RETRY_SECONDS, 0.0

    async def _finish(self) -> None:
        """Repeat purges that did not reach every tier. Workers may reconnect to Redis later than the supervisor does,
        and a disk that was full or gone may be back."""
        if not self._half_done or self._clock() < self._finish_at:
            return
        # A disk may stay full for days, and a repeated purge empties the memory as well: so the disk is asked first.
        disk_is_back = any(one.disk for one in self._half_done) and (await self._purged(PURGE_NOTHING)).disk
        for one in list(self._half_done):
            if one.store or disk_is_back:
                reached = await self._purged(one.purge)
                one.store, one.disk = one.store and not reached.store, one.disk and not reached.disk
        self._half_done = [one for one in self._half_done if one.store or one.disk]
        self._pause = min(MAX_PURGE_RETRY_SECONDS, 2 * self._pause) if self._half_done else PURGE_RETRY_SECONDS
        self._finish_at = self._clock() + (self._pause if self._half_done else 0.0)

    async def _say(self) -> None:
        async with self._saying:
            while self._unsaid:
                await self._board.say(msgspec.json.encode(PurgeWord(self.host, self._unsaid[0])))
                self._said.append((self._clock(), self._unsaid.popleft()))

    async def _hear(self, text: bytes) -> None:
        try:
            word = msgspec.json.decode(text, type=PurgeWord)
        except UNREADABLE:
            self.foreign.note("the stream of purges", int(text != b""))  # a stream begins with an empty message
            return
        if word.host == self.host:
            return
        try:
            await self._carry_out(word.purge)
        except (
            OperationRefused
        ) as refusal:  # a host of another version sent it: what it selects is unknown, and must not be served
            log.warning("another host's purge is not understood: every kept answer is purged", reason=refusal.detail)
            await self._carry_out(PURGE_EVERYTHING)

    async def _carry_out(self, body: bytes) -> None:
        """Carry out a purge of another host, which sees to Redis itself. Raises OperationRefused."""
        reached = await self._purged(body)
        if self._file is not None and not reached.disk:
            self._repeat(body, store=False)
