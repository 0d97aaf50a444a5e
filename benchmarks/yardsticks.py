"""LRU and SIEVE, bounded in bytes like the memory tier: what its S3-FIFO eviction is measured against.

Source of SIEVE: NSDI 2024. The classes have no expiry and no purge, which the traces do not need.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import ENTRY_BYTES


def weigh(key: bytes, entry: Entry) -> int:
    """Bytes counted for an entry, as the memory tier does."""
    return ENTRY_BYTES + len(key) + len(entry.result)


class Lru:
    """Evicts the least recently used entry."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._bytes = 0

    def get(self, key: bytes) -> Entry | None:
        """The entry of `key`, which becomes the most recently used one."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: Entry) -> None:
        """Keep an entry that is not there yet."""
        self._entries[key] = entry
        self._bytes += weigh(key, entry)
        while self._bytes > self._max_bytes:
            self._bytes -= weigh(*self._entries.popitem(last=False))

    def __len__(self) -> int:
        return len(self._entries)


class Sieve:
    """One queue and a hand that moves from the oldest entry to the newest and evicts the first unused one.

    The hand cuts the queue in two: `_ahead` holds the keys it has not reached (new keys join there), `_spared` the
    keys it skipped because they were used since its last visit.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[bytes, Entry] = {}
        self._used: set[bytes] = set()
        self._ahead: deque[bytes] = deque()
        self._spared: deque[bytes] = deque()
        self._bytes = 0

    def get(self, key: bytes) -> Entry | None:
        """The entry of `key`, which is marked as used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._used.add(key)
        return entry

    def put(self, key: bytes, entry: Entry) -> None:
        """Keep an entry that is not there yet."""
        self._bytes += weigh(key, entry)
        while self._bytes > self._max_bytes and self._entries:
            victim = self._victim()
            self._bytes -= weigh(victim, self._entries.pop(victim))
        self._entries[key] = entry
        self._ahead.append(key)

    def __len__(self) -> int:
        return len(self._entries)

    def _victim(self) -> bytes:
        while True:
            if not self._ahead:
                self._ahead, self._spared = self._spared, self._ahead
            key = self._ahead.popleft()
            if key not in self._used:
                return key
            self._used.discard(key)
            self._spared.append(key)
