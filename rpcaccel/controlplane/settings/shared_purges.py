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
from typing import TYPE_CHECKING

import msgspec
import structlog
from msgspec import Struct

from rpcaccel.controlplane.settings.heard_file import HeardFile, HeardPlace
from rpcaccel.controlplane.settings.kept_file import LostFileError
from rpcaccel.controlplane.workers.operations import OperationRefused, Reached
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.stores.redis.board_entries import ForeignData, UnreachableError

if TYPE_CHECKING:
    from rpcaccel.stores.redis.board import Board

RESEND_SECONDS = 600.0
"""Seconds for which a purge is sent again when the board lost its words. A host that was cut off for longer purges
everything."""
MAX_WAITING_PURGES = 100
"""Purges that may wait for Redis, or for the disk; more of them become one purge of everything."""
PLACE_SAVE_SECONDS = 60.0
"""Seconds between two writes of the place in the stream while it stays the same."""
PURGE_RETRY_SECONDS, MAX_PURGE_RETRY_SECONDS = 0.5, 300.0
"""Seconds between two attempts to purge a tier that was not reached."""
EVERYTHING = b'{"all":true}'
NOTHING = b'{"key":"-","dry_run":true}'
"""Removes nothing. The disk counts as reached by it only where it owes no purge any more."""

log = structlog.get_logger("rpcaccel.sharing")


class Word(Struct, frozen=True):
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
            body, complete = EVERYTHING, False
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
            await self._carry_out(EVERYTHING)
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
            await self._carry_out(EVERYTHING)
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
            body = EVERYTHING
        self._half_done.append(_HalfDone(body, store, disk=self._file is not None))
        self._pause, self._finish_at = PURGE_RETRY_SECONDS, 0.0

    async def _finish(self) -> None:
        """Repeat purges that did not reach every tier. Workers may reconnect to Redis later than the supervisor does,
        and a disk that was full or gone may be back."""
        if not self._half_done or self._clock() < self._finish_at:
            return
        # A disk may stay full for days, and a repeated purge empties the memory as well: so the disk is asked first.
        disk_is_back = any(one.disk for one in self._half_done) and (await self._purged(NOTHING)).disk
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
                await self._board.say(msgspec.json.encode(Word(self.host, self._unsaid[0])))
                self._said.append((self._clock(), self._unsaid.popleft()))

    async def _hear(self, text: bytes) -> None:
        try:
            word = msgspec.json.decode(text, type=Word)
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
            await self._carry_out(EVERYTHING)

    async def _carry_out(self, body: bytes) -> None:
        """Carry out a purge of another host, which sees to Redis itself. Raises OperationRefused."""
        reached = await self._purged(body)
        if self._file is not None and not reached.disk:
            self._repeat(body, store=False)
