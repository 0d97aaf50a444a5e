"""The answers that wait to be written, bounded in bytes. They can be read while they wait."""

from __future__ import annotations

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.stores.disk.writing import Batch

BATCH, BATCH_BYTES = 64, 2 << 20
"""Answers, and bytes of their results, that are written at once. They take about a millisecond of a processor, so that
calls do not wait behind long bursts of writing where there is no other processor."""
ENTRY_BYTES = 400
"""Memory that an answer takes beside its key and its result while it waits (bytes)."""
NOTES_MOST = 10_000
"""Names of entries to be moved or removed that wait at the most."""


class WriteQueue:
    """What waits to be written, and what is being written."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of everything in the queue."""
        self._limit = limit
        self._waiting: dict[bytes, Entry] = {}
        self._under_way: dict[bytes, Entry] = {}
        self._bytes = 0
        self._used: set[bytes] = set()
        self._damaged: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def __bool__(self) -> bool:
        """Does anything wait?"""
        return bool(self._waiting or self._used or self._damaged)

    @property
    def full_batch(self) -> bool:
        """Do enough answers wait for a batch?"""
        return len(self._waiting) >= BATCH or self._bytes >= BATCH_BYTES

    def put(self, key: bytes, entry: Entry) -> bool:
        """Queue an answer, in place of one with the same key; False when there is no room."""
        before = self._waiting.get(key)
        added = _weight(key, entry) - (0 if before is None else _weight(key, before))
        if self._bytes + added > self._limit:
            return False
        self._bytes += added
        self._waiting[key] = entry
        return True

    def get(self, key: bytes) -> Entry | None:
        """The answer with this key that is not written yet."""
        return self._waiting.get(key) or self._under_way.get(key)

    def note(self, used: list[bytes], damaged: list[bytes]) -> None:
        """Queue names of entries that are to be moved to the young end, and of entries that are to be removed."""
        self._used.update(used[: NOTES_MOST - len(self._used)])
        self._damaged.update(damaged[: NOTES_MOST - len(self._damaged)])

    def take(self) -> Batch:
        """The next batch. Call `landed` when it was written, or not."""
        size = 0
        while self._waiting and len(self._under_way) < BATCH and size < BATCH_BYTES:
            key = next(iter(self._waiting))
            entry = self._under_way[key] = self._waiting.pop(key)
            size += len(entry.result)
        batch = Batch(self._under_way, self._used, self._damaged)
        self._used, self._damaged = set(), set()
        return batch

    def landed(self) -> int:
        """Forget the batch; returns the number of its answers."""
        under_way, self._under_way = self._under_way, {}
        self._bytes -= sum(_weight(key, entry) for key, entry in under_way.items())
        return len(under_way)

    def forget(self, selection: Selection) -> None:
        """Drop the selected answers that wait."""
        for key in [key for key in self._waiting if selection.matches(key)]:
            self._bytes -= _weight(key, self._waiting.pop(key))

    def clear(self) -> int:
        """Drop everything that waits, names of another file included; returns the number of answers."""
        count = len(self._waiting)
        self._used, self._damaged = set(), set()
        self.forget(Selection())
        return count


def _weight(key: bytes, entry: Entry) -> int:
    return ENTRY_BYTES + len(key) + len(entry.result)
