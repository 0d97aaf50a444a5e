"""Carries what is hot in memory over a restart, by way of the disk.

Answers that are hits in memory are not looked up on the disk, so that they would look unused there. A part of memory is
therefore looked through at a time, and what was a hit is named to the disk tier. After a start those are read ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.recent_purges import RecentPurges

if TYPE_CHECKING:
    from rpcaccel.stores.disk.disk_store import DiskStore

EVERY = 5.0
"""Seconds between two looks."""
AT_ONCE = 2000
"""Entries that one look covers; it takes less than a millisecond."""
SHARE = 0.5
"""Part of the memory tier that is read ahead at the most."""


class HotAnswers:
    """Names what is hot in the memory tier of one worker to the disk tier, and fetches it from there after a start."""

    def __init__(self, memory: MemoryTier, disk: DiskStore, purges: RecentPurges, clock: Callable[[], float]) -> None:
        self._memory = memory
        self._disk = disk
        self._purges = purges
        self._clock = clock
        self._place = 0

    async def run(self) -> None:
        """Read ahead, then name what is hot for ever."""
        room = int(self._memory.max_bytes * SHARE)
        ahead: int | None = None
        while True:
            if ahead is None:  # not as long as the file cannot be read
                ahead = await self._disk.read_ahead(room, self._keep)
            await asyncio.sleep(EVERY)
            self.look()

    def _keep(self, key: bytes, entry: Entry) -> None:
        now = self._clock()
        if not self._purges.cover(key, entry.stored_at, now):
            self._memory.put(key, entry, now)

    def look(self) -> None:
        """Name the hot entries of the next part of memory."""
        if self._place >= len(self._memory):
            self._place = 0
        hot = self._memory.used(self._place, AT_ONCE)
        self._place += AT_ONCE
        if hot:
            self._disk.notice(hot)
