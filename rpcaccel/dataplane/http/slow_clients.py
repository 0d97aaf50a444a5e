"""Limits for clients that do not take their answers, in time and in memory.

Once a second connections are closed that take their answers too slowly: nothing is spent on that for each call. The
bytes that wait for all clients together are bounded at the moment in which an answer is written that its client does
not take at once. Heads and bodies are read under time limits of their own (dataplane.http.fast_protocol and
aiohttp_server). A WebSocket has no time for its answers, because its pings tell whether its client reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

LEAST_TAKEN_BYTES = 64 * 1024
"""Bytes that a client must take of its answer within the write timeout, to be given as long again."""
READS_SECONDS = 1.0
"""Seconds for which a client that took LEAST_TAKEN_BYTES counts as one that reads."""
FREED_PART = 8
"""When too much waits, connections are closed until one part in FREED_PART of the bound is free: otherwise all
connections would be compared for each further answer."""


class Watched(Protocol):
    """A connection that is watched."""

    @property
    def transport(self) -> asyncio.WriteTransport | None:
        """The transport of the connection; None once it is closed."""
        ...


class _Taking:
    """A client that has more to take than its connection holds. Times in seconds, sizes in bytes."""

    __slots__ = ("held", "left", "moved", "since", "timed", "transport")

    def __init__(self, transport: asyncio.WriteTransport, held: int, now: float, *, timed: bool) -> None:
        self.transport = transport
        self.timed = timed
        """Does the write timeout hold for it?"""
        self.held = held
        """Bytes that are held for the client until it has taken all: a part of an answer cannot be freed alone."""
        self.left = held
        """Bytes that the client had still to take at `since`."""
        self.since = now
        """When the client last took LEAST_TAKEN_BYTES, or began to take its answer."""
        self.moved = False
        """Did the client ever take LEAST_TAKEN_BYTES?"""

    def look(self, now: float) -> None:
        """Note how much the client took since the last look."""
        left = self.transport.get_write_buffer_size()
        if self.left - left >= LEAST_TAKEN_BYTES:
            self.since, self.left, self.moved = now, left, True
        elif left > self.left:
            self.left = left

    def patience(self, now: float) -> tuple[bool, float]:
        """The order in which clients are given up, the least value first: those that take nothing, the one that has
        waited longest first; then those that read, the one that holds most first."""
        reads = self.moved and now - self.since < READS_SECONDS
        return reads, -self.held if reads else self.since


class SlowClients:
    """The watch over the connections of one worker. Times are seconds of time.monotonic, sizes are bytes."""

    def __init__(self, on_lost: Callable[[str, Watched], None]) -> None:
        """`on_lost` is called with the reason, in a word, when a connection is given up. It is broken off then, unless
        it is told why and `leaves`."""
        self._on_lost = on_lost
        self._taking: dict[Watched, _Taking] = {}
        self._held = 0
        self._leaving: dict[Watched, int] = {}
        """The bytes that are held for connections whose clients were told that they are given up, the first one told
        first."""
        self._parting = 0
        """The sum of these."""
        self._spared: _Taking | None = None
        """The client that held most when all were compared last; None once it has taken everything, or left."""

    def waits(self, connection: Watched, now: float, max_unsent: int, *, timed: bool = True) -> None:
        """Watch a connection to which more was written than its client takes at once. Others are closed where that
        makes too much for all together. `timed`: does the write timeout hold for it?"""
        transport = connection.transport
        if transport is None:
            return
        self.no_longer(connection)
        taking = self._taking[connection] = _Taking(transport, transport.get_write_buffer_size(), now, timed=timed)
        self._held += taking.held
        if self._too_much(max_unsent):
            self._make_room(now, max_unsent, newest=taking)

    def grew(self, connection: Watched, size: int, now: float, max_unsent: int) -> None:
        """Note that `size` more bytes were written to a connection that is watched. Of messages that follow one another
        each is freed by itself, so only what its client has not taken is held."""
        taking = self._taking.get(connection)
        if taking is None:
            return
        held = taking.transport.get_write_buffer_size()
        taking.left += size
        self._held += held - taking.held
        taking.held = held
        if self._too_much(max_unsent):
            self._make_room(now, max_unsent, newest=taking)

    def no_longer(self, connection: Watched) -> None:
        """Watch a connection no longer: its client has taken everything, or left."""
        taking = self._taking.pop(connection, None)
        if taking is not None:
            self._held -= taking.held
            if taking is self._spared:
                self._spared = None
        self._parting -= self._leaving.pop(connection, 0)

    def leaves(self, connection: Watched, max_unsent: int) -> None:
        """Note that the client of a connection was told that it is given up. What is held for it stays for as long as
        the connection lets it, so that the client may read why. For all of these together one part in FREED_PART of the
        bound is held, or one connection: beyond that those are broken off that were told first."""
        taking = self._taking.get(connection)
        if taking is None:
            return
        self.no_longer(connection)
        self._leaving[connection] = taking.held
        self._parting += taking.held
        while self._parting > max_unsent // FREED_PART and len(self._leaving) > 1:
            first = next(iter(self._leaving))
            self.no_longer(first)
            if first.transport is not None:
                first.transport.abort()

    def look(self, now: float, *, write_timeout: float, max_unsent: int) -> None:
        """Close the connections of clients that had time enough, and of the slowest when too much is held for all."""
        for connection, taking in list(self._taking.items()):
            taking.look(now)
            if taking.timed and now - taking.since > write_timeout:
                self._let_go(connection, taking.transport, "slow-reader")
        if self._too_much(max_unsent):
            self._make_room(now, max_unsent)

    def _too_much(self, max_unsent: int) -> bool:
        """Is more held than the bound allows? That is said without a look at every connection.

        The largest answer does not count: it may be larger than the bound, and is let through while its client takes
        it in time. Here it is the client that held most when all were compared last: where another one holds more by
        now, too much is found too early, and the next comparison corrects that. Clients that were told to leave count
        for one part in FREED_PART of the bound at the most: closing others does not make their share smaller.
        """
        spared = 0 if self._spared is None else self._spared.held
        return self._held + min(self._parting, max_unsent // FREED_PART) - spared > max_unsent

    def _make_room(self, now: float, max_unsent: int, newest: _Taking | None = None) -> None:
        """Compare all connections, and close some until a part of the bound is free, where there is still too much. The
        newest goes last, because its client had no time yet."""
        for taking in self._taking.values():
            taking.look(now)
        spared = self._spared = max(self._taking.values(), key=lambda one: (one.held, one.moved, one.since))
        if not self._too_much(max_unsent):
            return
        order = sorted(self._taking.items(), key=lambda item: (item[1] is newest, *item[1].patience(now)))
        for connection, taking in order:
            if self._held - spared.held <= max_unsent - max_unsent // FREED_PART:
                return
            if taking is not spared:
                self._let_go(connection, taking.transport, "unsent-too-much")

    def _let_go(self, connection: Watched, transport: asyncio.WriteTransport, why: str) -> None:
        self._on_lost(why, connection)
        if connection not in self._leaving:
            self.no_longer(connection)
            transport.abort()
