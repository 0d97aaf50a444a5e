"""Patience with slow clients, in time and in memory.

Once a second it is looked which connections have been sending the head of a request for too long, and which take their
answers too slowly: nothing is spent on that for each call. Bodies are read under a time limit of their own (server).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Protocol

LEAST_TAKEN = 64 * 1024
"""Bytes a client must take of its answer within the write timeout, to be given as long again."""


class Transport(Protocol):
    """What is asked of a connection's transport."""

    def get_write_buffer_size(self) -> int:
        """Bytes not taken yet."""
        ...

    def abort(self) -> None:
        """Let go of the client, and of what it has not taken."""
        ...


class Watched(Protocol):
    """One connection."""

    head_since: float

    @property
    def writing_paused(self) -> bool:
        """Is there more to send than the client takes?"""
        ...

    @property
    def transport(self) -> Transport | None:
        """None once it is closed."""
        ...


class SlowClients:
    """The watch over the connections of one worker. Times in seconds on the loop's clock, sizes in bytes."""

    def __init__(self, connections: Callable[[], Iterable[Watched]], on_lost: Callable[[str], None]) -> None:
        """`on_lost` is told, in a word, why a client was let go of."""
        self._connections = connections
        self._on_lost = on_lost
        self._slow: dict[Watched, tuple[float, int]] = {}
        """Who takes its answer slowly: since when, and how much there was to take then."""

    def look(self, now: float, *, read_timeout: float, write_timeout: float, max_unsent: int) -> None:
        """Let go of those who were given long enough, and of the slowest when they hold too much together."""
        slow: dict[Watched, tuple[float, int]] = {}
        for connection in self._connections():
            transport = connection.transport
            if transport is None:
                continue
            if connection.head_since and now - connection.head_since > read_timeout:
                self._let_go(transport, "slow-head")
            elif connection.writing_paused:
                left = transport.get_write_buffer_size()
                since, before = self._slow.get(connection, (now, left))
                if before - left >= LEAST_TAKEN or left > before:
                    since, before = now, left
                if now - since > write_timeout:
                    self._let_go(transport, "slow-reader")
                else:
                    slow[connection] = (since, before)
        self._slow = slow
        self._make_room(max_unsent)

    def _make_room(self, max_unsent: int) -> None:
        held = {
            connection: connection.transport.get_write_buffer_size()
            for connection in self._slow
            if connection.transport is not None
        }
        total = sum(held.values())
        for connection in sorted(held, key=lambda one: self._slow[one][0]):
            if total <= max_unsent:
                return
            transport = connection.transport
            if transport is not None:
                self._let_go(transport, "unsent-too-much")
            total -= held[connection]
            del self._slow[connection]

    def _let_go(self, transport: Transport, why: str) -> None:
        self._on_lost(why)
        transport.abort()


LOOK_EVERY = 1.0
"""Seconds, or a quarter of the shortest limit."""


async def keep_watch(slow: SlowClients, limits: Callable[[], tuple[float, float, int]]) -> None:
    """Look until cancelled; `limits` are the read timeout, the write timeout and the most that may be unsent."""
    while True:
        read_timeout, write_timeout, max_unsent = limits()
        await asyncio.sleep(min(LOOK_EVERY, read_timeout / 4, write_timeout / 4))
        slow.look(monotonic(), read_timeout=read_timeout, write_timeout=write_timeout, max_unsent=max_unsent)
