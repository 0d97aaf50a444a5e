"""The purges of the last minute, so that a purged answer that another process still held does not come back.

Workers are purged one after the other. What one of them writes to a shared tier before its turn may be read there by
another one that was purged already. Such an answer was stored before the purge, and is not accepted.
"""

from __future__ import annotations

from collections import deque

from rpcaccel.core.cache.entry import Selection

PURGE_SECONDS = 60.0
"""Seconds for which a purge is remembered: longer than one takes in all workers."""
MAX_PURGES = 100
"""Purges that are remembered; more of them within that time become one of everything."""


class RecentPurges:
    """The purges that one worker has begun lately. Times are monotonic seconds."""

    __slots__ = ("_purges",)

    def __init__(self) -> None:
        self._purges: deque[tuple[float, Selection]] = deque()

    def add(self, selection: Selection, now: float) -> None:
        """Remember a purge that begins now."""
        self._forget(now)
        if len(self._purges) >= MAX_PURGES:
            self._purges.clear()
            selection = Selection()
        self._purges.append((now, selection))

    def cover(self, key: bytes, stored_at: float, now: float) -> bool:
        """Was the entry with this key purged since it was stored?"""
        if not self._purges:
            return False
        self._forget(now)
        return any(stored_at <= at and selection.matches(key) for at, selection in self._purges)

    def _forget(self, now: float) -> None:
        while self._purges and now - self._purges[0][0] > PURGE_SECONDS:
            self._purges.popleft()
