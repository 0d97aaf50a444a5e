"""Bounds the bytes of logs that the resuming subscriptions of a network hold while their clients read.

They are sent logs portion by portion. A portion is held from before it is fetched until it is sent, and waits for room
before it is fetched. How much it comes to shows only then: one that is larger than was thought, and finds no room
beside the others, is given up and fetched again in smaller ones. A single block may be larger than all room: it is let
through when there is no other portion.

Bytes are those of the text; in memory it is about twice as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

from rpcaccel.core.live.block import Log

MAX_HELD_BYTES = 16 * 1024 * 1024
"""Bytes of all portions together."""
PORTION_BYTES = 256 * 1024
"""Bytes that a portion should come to: what a client may leave unread, so that few portions wait for their clients. It
is read within two milliseconds, and need not let others in between."""
MAX_OWN_BYTES = 8 * 1024 * 1024
"""Bytes of logs that were sent, and are kept in case that their blocks are abandoned."""


def size_of(logs: Sequence[Log]) -> int:
    """Bytes of the text of logs."""
    return sum(len(log.text) for log in logs)


class HeldLogs:
    """What the resuming subscriptions of one network hold together."""

    def __init__(self, most: int = MAX_HELD_BYTES, portion: int = PORTION_BYTES, own: int = MAX_OWN_BYTES) -> None:
        """
        Args:
            most: bytes of all portions.
            portion: bytes that a portion should come to.
            own: bytes of logs that were sent.
        """
        self.portion = portion
        self._most = most
        self._own = own
        self._bytes = 0
        self._portions = 0
        self._kept = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<HeldLogs {self._bytes} in {self._portions} portions, {self._kept} kept>"

    @property
    def bytes(self) -> int:
        """The bytes that are held now."""
        return self._bytes + self._kept

    async def reserve(self, size: int) -> Portion:
        """Wait, behind those who came before, until there is room for a portion of this size."""
        async with self._turn:
            while not self._fits(size):
                self._freed.clear()
                await self._freed.wait()
            self._portions += 1
            self._bytes += size
            return Portion(self, size)

    def resize(self, old: int, new: int) -> bool:
        """Let a portion take another size; False when there is no room for it beside the others."""
        if new > old and self._portions > 1 and self._bytes - old + new > self._most:
            return False
        self._bytes += new - old
        self._freed.set()
        return True

    def give(self, size: int) -> None:
        """A portion of this size is held no longer."""
        self._portions -= 1
        self._bytes -= size
        self._freed.set()

    def keep(self, size: int) -> bool:
        """Keep so many bytes of logs that were sent; False when there is no room."""
        fits = self._kept + size <= self._own
        self._kept += size if fits else 0
        return fits

    def forget(self, size: int) -> None:
        """Undo one `keep`."""
        self._kept -= size

    def _fits(self, size: int) -> bool:
        return not self._portions or self._bytes + size <= self._most


class Portion:
    """The logs that a subscription is being sent. A context manager: afterwards they are held no longer."""

    def __init__(self, held: HeldLogs, size: int) -> None:
        self._held = held
        self._size = size

    def __repr__(self) -> str:
        return f"<Portion {self._size}>"

    def __enter__(self) -> Portion:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.give(self._size)

    def takes(self, size: int) -> bool:
        """Take the size that was found; False when there is no room for it."""
        taken = self._held.resize(self._size, size)
        self._size = size if taken else self._size
        return taken
