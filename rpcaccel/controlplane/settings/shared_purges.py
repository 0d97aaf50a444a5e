"""Purges shared by the hosts of one Redis, through the stream of words on the shared board.

A purge made here while Redis is away is sent when Redis is back; a host that was cut off catches up with the purges of
the others. Where words of the stream may be lost, the whole memory is purged, since a purged answer must not be served.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import structlog
from msgspec import Struct

from rpcaccel.controlplane.workers.operations import OperationRefused, Reached
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.stores.redis.board import BoardCursor, Heard, UnreachableError

AGAIN_FOR = 600.0
"""Seconds for which a purge is sent again when the board lost its words. A host that was cut off for longer purges
everything."""
MOST = 100
"""Purges that may wait for Redis; more of them become one purge of everything."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 300.0
"""Seconds between two attempts to purge a second tier that no worker reaches."""
EVERYTHING = b'{"all":true}'

log = structlog.get_logger("rpcaccel.sharing")


class Word(Struct, frozen=True):
    """A purge that a host carried out, as the others are told of it."""

    host: str
    purge: bytes
    """The body of the request for the purge."""


class WordsPort(Protocol):
    """The part of stores.redis.board.Board used here. Every method raises UnreachableError."""

    async def say(self, word: bytes) -> None: ...
    async def last(self) -> BoardCursor: ...
    async def heard(self, place: BoardCursor) -> Heard: ...


class Purges:
    """This host's part in the stream. `purged` carries out a purge, and returns the tiers that it reached."""

    def __init__(
        self,
        board: WordsPort,
        host: str,
        purged: Callable[[bytes], Awaitable[Reached]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board = board
        self._host = host
        self._purged = purged
        self._clock = clock
        self._place: BoardCursor | None = None
        self._heard_at = clock()
        self._unsaid: deque[bytes] = deque()
        self._said: deque[tuple[float, bytes]] = deque(maxlen=MOST)
        self._half_done: list[bytes] = []
        """Purges made while Redis was away, whose entries are still in Redis."""
        self._pause = FIRST_PAUSE
        self._finish_at = 0.0
        self._saying = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Purges of {self._host}, {len(self._unsaid)} to be told>"

    async def tell(self, body: bytes) -> None:
        """Send a purge to the other hosts: now, or once Redis is back."""
        if len(self._unsaid) >= MOST:
            self._unsaid.clear()
            self._half_done.clear()
            body = EVERYTHING
        self._unsaid.append(body)
        try:
            await self._say()
        except UnreachableError:
            self._half_done.append(body)
            self._pause, self._finish_at = FIRST_PAUSE, 0.0
            if len(self._unsaid) == 1:
                log.warning("a purge reaches the other hosts when Redis is back")

    async def catch_up(self) -> None:
        """Carry out the purges of other hosts, and send those that wait. Raises UnreachableError."""
        if self._place is None:
            self._place = await self._board.last()
        heard = await self._board.heard(self._place)
        now = self._clock()
        away, self._heard_at = now - self._heard_at, now
        if heard.lost == "older" or (heard.lost and away > AGAIN_FOR):
            log.warning("purges of other hosts may have been missed: the memory of this one is purged")
            await self._purged(EVERYTHING)
        for text in heard.words:
            await self._hear(text)
        self._place = heard.place  # not before: what could not be carried out is heard again
        if heard.lost == "all":  # hosts that were cut off when a purge was sent did not get it
            self._unsaid.extendleft(body for at, body in reversed(self._said) if now - at < AGAIN_FOR)
            self._said.clear()
        await self._say()
        await self._finish()

    async def _finish(self) -> None:
        """Repeat purges that did not reach Redis while it was away. Workers may reconnect later than the supervisor
        does."""
        if not self._half_done or self._clock() < self._finish_at:
            return
        half_done, self._half_done = self._half_done, []
        for body in half_done:
            if not (await self._purged(body)).store:
                self._half_done.append(body)
        self._pause = min(LONGEST_PAUSE, 2 * self._pause) if self._half_done else FIRST_PAUSE
        self._finish_at = self._clock() + (self._pause if self._half_done else 0.0)

    async def _say(self) -> None:
        async with self._saying:
            while self._unsaid:
                await self._board.say(msgspec.json.encode(Word(self._host, self._unsaid[0])))
                self._said.append((self._clock(), self._unsaid.popleft()))

    async def _hear(self, text: bytes) -> None:
        try:
            word = msgspec.json.decode(text, type=Word)
        except UNREADABLE:
            return
        if word.host == self._host:
            return
        try:
            await self._purged(word.purge)
        except (
            OperationRefused
        ) as refusal:  # a host of another version sent it: what it selects is unknown, and must not be served
            log.warning("another host's purge is not understood: the memory is purged", reason=refusal.detail)
            await self._purged(EVERYTHING)
