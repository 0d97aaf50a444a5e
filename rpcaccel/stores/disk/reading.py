"""What the reading thread does: looks up entries by key, and reads ahead what was hot before a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from rpcaccel.core.cache.entry import Damage, Damaged, Entry
from rpcaccel.stores.disk.database import Database
from rpcaccel.stores.disk.dictionaries import Expander, unsealed
from rpcaccel.stores.disk.entry_names import name_of, prefix_of
from rpcaccel.stores.disk.values import decode

MOST_BYTES = 2 << 20
"""Bytes of results after which one job ends, so that no other lookup waits for long."""
PREFIXES_EVERY = 1.0
"""Seconds after which prefixes are read again: another process may have given out or buried some."""


class ReadResult(Struct):
    """What was found of some keys."""

    entries: dict[bytes, Entry]
    complete: bool = True
    """Were all keys looked up? Otherwise the bound of bytes was reached before."""
    used: list[bytes] = []
    """The names of entries that stand before the middle of the file, and are to be moved."""
    damaged: list[bytes] = []
    """The names of entries that could not be read, and are to be removed."""
    reasons: list[Damage] = []


class Reading:
    """Reads one file. Everything here blocks and may raise what `disk_fault.fault_of` explains."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._database = database = Database(file, reads_only=True)
        self._expander = Expander(lambda number: _dictionary(database, number))
        self._numbers: dict[bytes, int] = {}
        self._known_at = -PREFIXES_EVERY

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def forget(self) -> None:
        """Read the numbers of prefixes anew before the next lookup: some were given out or buried."""
        self._known_at = -PREFIXES_EVERY

    def read(self, keys: Sequence[bytes], middle: int) -> ReadResult:
        """The entries of these keys, of which there must be few, up to MOST_BYTES of results. Entries that stand before
        `middle` in the file are named as used."""
        result = ReadResult({})
        now, wall = self._clock(), time.time()
        if now - self._known_at >= PREFIXES_EVERY:
            self._known_at = now
            self._numbers = {known: row[0] for known, row in self._database.prefixes().items()}
        asked = {name: key for key in keys if (name := self._name(key)) is not None}
        size = 0
        for name, place, value in self._database.find(list(asked)):
            if size > MOST_BYTES:
                result.complete = False
                break
            key = asked[name]
            entry = decode(key, value, now=now, wall=wall, expand=self._expander.expand)
            if isinstance(entry, Damaged):
                result.damaged.append(name)
                result.reasons.append(entry.why)
                continue
            result.entries[key] = entry
            size += len(entry.result)
            if place < middle:
                result.used.append(name)
        return result

    def hot(self) -> list[bytes]:
        """The keys that were hot before, the latest first."""
        return self._database.hot()

    def _name(self, key: bytes) -> bytes | None:
        """The name of a key; None where its prefix has no number."""
        prefix = prefix_of(key)
        number = self._numbers.get(prefix)
        return None if number is None else name_of(number, key[len(prefix) :])


def _dictionary(database: Database, number: int) -> bytes | None:
    """The dictionary with this number; None when there is none or it is damaged."""
    body = database.dictionary(number)
    return None if body is None else unsealed(body, number)
