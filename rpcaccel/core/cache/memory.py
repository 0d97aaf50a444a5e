"""The memory tier: entries by key, bounded in bytes, which include the keys and Python's overheads.

A hit is a dict lookup and a counter. Everything here is synchronous and belongs to one event loop.
"""

from __future__ import annotations

from itertools import islice
from math import inf

from msgspec import Struct

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.cache.eviction import USES_CAP, CacheSlot, S3Fifo
from rpcaccel.core.stepwise import Steps, at_once
from rpcaccel.core.wire import http_reply

ENTRY_BYTES = 512
"""Overhead of an entry beside its key and result (bytes): two bytes objects, entry, slot, numbers, its share of the
dict and of a queue, and the allocator's rounding. Measured in tests/unit/core/cache/test_memory.py."""


_STEP = 256
"""Entries that are looked at in one step."""


class MemoryStats(Struct, frozen=True, kw_only=True):
    """The tier's state and counters at one moment."""

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    expired: int
    """Misses whose entry was there but had expired."""
    puts: int
    evictions: int
    rejected: int
    """Entries that were too large to be kept."""
    purged: int


class MemoryTier:
    """A byte-bounded map from key to entry: `max_bytes` bounds everything in it, `max_entry` one entry (bytes)."""

    __slots__ = (
        "_bytes",
        "_eviction",
        "_evictions",
        "_expired",
        "_misses",
        "_purged",
        "_puts",
        "_rejected",
        "_slots",
        "hits",
        "max_bytes",
        "max_entry",
    )

    def __init__(self, max_bytes: int, max_entry: int) -> None:
        self.max_bytes = max_bytes
        self.max_entry = max_entry
        self._slots: dict[bytes, CacheSlot] = {}
        self._eviction = S3Fifo()
        self._bytes = 0
        self._misses = self._expired = self._puts = 0
        self.hits = 0
        """Hits since the start. Who uses a slot that `find` gave counts it here, and in `CacheSlot.uses`."""
        self._evictions = self._rejected = self._purged = 0

    def __repr__(self) -> str:
        return f"<MemoryTier {len(self._slots)} entries {self.size}/{self.max_bytes} B>"

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size(self) -> int:
        """Bytes held, ghosts included."""
        return self._bytes + self._eviction.overhead

    def get(self, key: bytes, now: float) -> Entry | None:
        """The entry of `key`; None when there is none or it has expired. Counts a hit or a miss."""
        found = self.first(now, key)
        return None if found is None else found[1]

    def first(self, now: float, *keys: bytes | None) -> tuple[bytes, Entry] | None:
        """The first of these keys that has an entry, and that entry; expired entries are removed. Counts one hit or
        one miss, however many keys a call has."""
        expired = 0
        for key in keys:
            slot = None if key is None else self._slots.get(key)
            if slot is None or slot.entry is None:
                continue
            if slot.entry.expires > now:
                self.hits += 1
                if slot.uses < USES_CAP:
                    slot.uses += 1
                return slot.key, slot.entry
            self._remove(slot)
            expired = 1
        self._misses += 1
        self._expired += expired
        return None

    def find(self, key: bytes, now: float) -> CacheSlot | None:
        """The slot of an entry that has not expired. Counts nothing: who uses the entry counts that."""
        slot = self._slots.get(key)
        return slot if slot is not None and slot.entry is not None and slot.entry.expires > now else None

    def squeeze(self, slot: CacheSlot, rest: bytes, now: float) -> bytes:
        """The gzip form of `rest`, the part of a reply from this slot's result on (core.wire.http_reply).

        It is made once and kept with the entry as long as there is room for both.
        """
        squeezed = slot.squeezed
        if not squeezed:
            squeezed = http_reply.squeeze(rest)
            slot.squeezed = squeezed
            self._grow(slot, len(squeezed))
            self._shrink(self.max_bytes, now)
        return squeezed

    def peek(self, key: bytes, now: float) -> Entry | None:
        """The entry of `key` as `get` would return it, without counting anything (for `explain`)."""
        slot = self.find(key, now)
        return None if slot is None else slot.entry

    def put(self, key: bytes, entry: Entry, now: float) -> bool:
        """Keep an entry and evict others for room; False when it is too large or has expired already."""
        size = len(key) + len(entry.result)
        weight = ENTRY_BYTES + size
        if size > self.max_entry or weight > self.max_bytes:
            self._rejected += 1
            self.discard(key)
            return False
        if entry.expires <= now:
            self.discard(key)
            return False
        self._puts += 1
        slot = self._slots.get(key)
        if slot is not None:
            return self._replace(slot, entry, weight, now)
        if self._bytes + self._eviction.overhead > self.max_bytes - weight:
            self._shrink(self.max_bytes - weight, now)
        slot = CacheSlot(key, entry, weight)
        self._slots[key] = slot
        self._bytes += weight
        self._eviction.admit(slot)
        return True

    def used(self, start: int, count: int) -> dict[bytes, Entry]:
        """Those of `count` entries, from the one in place `start` on, that were hits lately and never expire."""
        slots = islice(self._slots.values(), start, start + count)
        return {slot.key: entry for slot in slots if slot.uses and (entry := slot.entry) and entry.expires == inf}

    def purge(self, selection: Selection) -> int:
        """Remove the selected entries and return their number. Reads every key, unless one key is selected."""
        return at_once(self.purge_steps(selection))

    def purge_steps(self, selection: Selection) -> Steps[int]:
        """As `purge`. An entry that comes meanwhile is kept where all entries are selected, and may be removed
        otherwise."""
        count = 0
        if selection.key is not None:
            count = int(selection.matches(selection.key) and self.discard(selection.key))
        elif selection.everything:
            slots = self._slots
            count = self._clear()
            while slots:  # to let go of a million entries at once takes a third of a second
                for _ in range(min(_STEP, len(slots))):
                    _, slot = slots.popitem()
                    slot.entry, slot.squeezed = None, b""
                yield
        else:
            for number, key in enumerate([*self._slots]):
                if not number % _STEP:
                    yield
                count += selection.matches(key) and self.discard(key)
        self._purged += count
        return count

    def count_steps(self, selection: Selection) -> Steps[int]:
        """The number of selected entries."""
        if selection.key is not None:
            return int(selection.matches(selection.key) and selection.key in self._slots)
        count = 0
        for number, key in enumerate([*self._slots]):
            if not number % _STEP:
                yield
            count += selection.matches(key)
        return count

    def resize(self, max_bytes: int, max_entry: int, now: float) -> None:
        """Apply new bounds (bytes) at once, and evict what no longer fits."""
        self.max_bytes = max_bytes
        self.max_entry = max_entry
        self._shrink(max_bytes, now)

    def stats(self) -> MemoryStats:
        """The tier's state and counters now."""
        return MemoryStats(
            entries=len(self._slots),
            bytes=self.size,
            max_bytes=self.max_bytes,
            hits=self.hits,
            misses=self._misses,
            expired=self._expired,
            puts=self._puts,
            evictions=self._evictions,
            rejected=self._rejected,
            purged=self._purged,
        )

    def _replace(self, slot: CacheSlot, entry: Entry, weight: int, now: float) -> bool:
        self._grow(slot, weight - slot.weight)
        slot.entry, slot.squeezed = entry, b""
        self._shrink(self.max_bytes, now)
        return slot.entry is not None

    def _grow(self, slot: CacheSlot, by: int) -> None:
        slot.weight += by
        self._bytes += by
        self._eviction.grew(slot, by)

    def _shrink(self, limit: int, now: float) -> None:
        while self.size > limit:
            slot = self._eviction.victim(now)
            if slot is None:
                return
            del self._slots[slot.key]
            self._bytes -= slot.weight
            self._evictions += 1
            slot.entry, slot.squeezed = None, b""

    def discard(self, key: bytes) -> bool:
        """Remove one entry; return whether it was there."""
        slot = self._slots.get(key)
        if slot is None:
            return False
        self._remove(slot)
        return True

    def _remove(self, slot: CacheSlot) -> None:
        self._eviction.forget(slot)
        del self._slots[slot.key]
        self._bytes -= slot.weight
        slot.entry, slot.squeezed = None, b""

    def _clear(self) -> int:
        count = len(self._slots)
        self._slots = {}
        self._eviction = S3Fifo()
        self._bytes = 0
        return count
