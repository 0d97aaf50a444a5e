"""What the writing thread does: opens the file, writes batches within its bound, purges, and tidies up."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.stores.disk.database import OVER, PAGE, SPARE, Database
from rpcaccel.stores.disk.dictionaries import FIRST, LAST, Compressor, sealed, unsealed
from rpcaccel.stores.disk.disk_fault import DiskFault, DiskFaultKind, fault_of
from rpcaccel.stores.disk.entry_names import name_of, prefix_of
from rpcaccel.stores.disk.folder import Folder
from rpcaccel.stores.disk.values import encode

ALLOWANCE = 32 << 20
"""Bytes of the bound that are left for the write-ahead log and for pages above the limit."""
STEPS = 32
"""Steps of eviction that one batch may take."""
MOVED_MOST = 2 << 20
"""Bytes of entries that one batch moves to the young end at the most."""
ROOMY = 10
"""A file of which more than one in this many parts is free loses nothing soon, so that nothing is moved in it."""
LARGEST = 8
"""An entry may take one in this many parts of the file."""
HOT_MOST = 20_000
"""Hot keys that are remembered."""
_FILL = 0.7
"""The part of an index page that is filled where names come in no order."""


class Batch(Struct):
    """What is to be written in one transaction."""

    entries: dict[bytes, Entry]
    used: set[bytes] = set()
    """Names of entries that are to be moved to the young end where they stand before the middle."""
    damaged: set[bytes] = set()
    """Names of entries that are to be removed."""


class BatchOutcome(Struct):
    """What became of the entries of a batch."""

    written: int = 0
    refused: int = 0
    """Entries that are too large for the file."""
    numbered: bool = False
    """Was a number given out to a prefix that had none?"""


class FileState(Struct, frozen=True):
    """The file at one moment."""

    number: int = 0
    entries: int = 0
    bytes: int = 0
    """Bytes of all files of the tier."""
    foreign: bool = False
    """Are there files of other versions?"""
    middle: int = 0
    """The place in the middle of the entries by age, before which used ones are moved; 0 while all have room."""
    evicted: int = 0
    """Entries that this process has removed for room since it began."""


class Writing:
    """Writes one file. Everything here blocks and may raise what `disk_fault.fault_of` explains."""

    def __init__(self, folder: Folder, size: int) -> None:
        """`size`: bytes that all files of the folder may take."""
        self._folder = folder
        self._size = size
        self._number = 0
        self._database: Database | None = None
        self._compressor = Compressor()
        self._prefixes: dict[bytes, tuple[int, int]] = {}
        self._identity: tuple[int, int] | None = None
        """Tells the file that is open from another one of the same name."""
        self._stale = False
        """A transaction that failed may have given out numbers and dictionaries that are not in the file."""
        self._evicted = 0

    # -- the file -------------------------------------------------------------------------------------------------

    def open(self, owed: Sequence[Selection] = ()) -> Path:
        """Open the file in use, or make it, carry out the purges that are owed to it, and return its path. Where a
        process that has ended owed one, everything is purged. Raises DiskFault."""
        self.close()
        self._folder.make()
        with self._folder.locked():
            self._number = self._folder.newest()
            file = self._folder.file(self._number)
            self._database = Database(file)
            self._identity = _identity(file)
        self._database.try_to_write()
        self._read_tables()
        for selection in owed or ([Selection()] if self._folder.owes() else []):
            self.purge(selection, dry=False)
        self._folder.owes_nothing()
        return file

    def set_aside(self) -> None:
        """Begin the next file, unless another process has done so already."""
        self.close()
        with self._folder.locked():
            number = self._folder.newest()
            if number == self._number:
                Database(self._folder.file(number + 1)).close()
                self._number = number + 1
                if self._folder.bytes_beside(self._number) > self._size // 2:
                    self._folder.remove_others(self._number)

    def replaced(self) -> bool:
        """Is another file in use: because another process has set this one aside, or because it was removed?"""
        return self._folder.newest() != self._number or _identity(self._folder.file(self._number)) != self._identity

    def close(self) -> None:
        """Close the connection, if there is one."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def resize(self, size: int) -> None:
        """Apply a new bound; `tidy` shrinks the file to it."""
        self._size = size

    def state(self) -> FileState:
        """The state of the file now."""
        database = self._opened()
        self._prefixes = database.prefixes()
        return FileState(
            number=self._number,
            entries=sum(count for _, count in self._prefixes.values()),
            bytes=self._folder.bytes_beside(self._number) + self._folder.size(self._number),
            foreign=any(file.version != self._folder.version for file in self._folder.others(self._number)),
            middle=self._middle(),
            evicted=self._evicted,
        )

    def _opened(self) -> Database:
        if self._database is None:
            raise DiskFault(DiskFaultKind.UNUSABLE, "its file is not open")
        return self._database

    def _read_tables(self) -> None:
        """Learn prefixes and dictionaries, of which other processes may have written some."""
        database = self._opened()
        self._prefixes = database.prefixes()
        self._compressor.forget()
        self._stale = False
        for number, topic, body in database.dictionaries():
            dictionary = unsealed(body, number)
            if dictionary is not None:
                self._compressor.know(topic, number, dictionary)

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> BatchOutcome:
        """Write a batch, and evict the oldest entries for it where the file is full."""
        database, done = self._opened(), BatchOutcome()
        if self._stale:
            self._read_tables()
        self._stale, known = True, len(self._prefixes)
        with database.writing():
            rows = self._encoded(batch.entries)
            if self._train():
                rows = self._encoded(batch.entries)
            done.refused = len(batch.entries) - sum(map(len, rows.values()))
            self._make_room(rows)
            for number, group in rows.items():
                database.put(group, number)
                done.written += len(group)
            database.remove(batch.damaged)
            database.renew(batch.used, self._middle(), MOVED_MOST)
        self._stale = False
        done.numbered = len(self._prefixes) > known
        return done

    def _encoded(self, entries: Mapping[bytes, Entry]) -> dict[int, list[tuple[bytes, bytes]]]:
        """Names and values, by the number of their prefix; without those that are too large."""
        now, wall = time.monotonic(), time.time()
        most = self._pages() * PAGE // LARGEST
        rows: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, entry in entries.items():
            topic = f"{entry.network}:{entry.method}"

            def compress(result: bytes, topic: str = topic) -> tuple[int, bytes]:
                return self._compressor.compress(topic, result)

            value = encode(key, entry, now=now, wall=wall, compress=compress)
            if len(value) > most:
                continue
            prefix = prefix_of(key)
            number = self._number_for(prefix)
            rows.setdefault(number, []).append((name_of(number, key[len(prefix) :]), value))
        return rows

    def _number_for(self, prefix: bytes) -> int:
        found = self._prefixes.get(prefix)
        if found is None:
            # Another process may have made the number, or buried it: what counts is the table.
            self._prefixes = self._opened().prefixes()
            found = self._prefixes.get(prefix) or (self._opened().number_for(prefix), 0)
            self._prefixes[prefix] = found
        return found[0]

    def _train(self) -> bool:
        """Train the dictionaries that are due; returns whether there were any."""
        database, due = self._opened(), self._compressor.due()
        for topic in due:
            known = {topic: (number, body) for number, topic, body in database.dictionaries()}
            if topic in known:  # another process has trained one
                number, body = known[topic]
                dictionary = unsealed(body, number)
            else:
                number = max((number for number, _ in known.values()), default=FIRST - 1) + 1
                dictionary = self._compressor.train(topic) if number <= LAST else None
                if dictionary is not None:
                    database.keep_dictionary(number, topic, sealed(dictionary, number))
            if dictionary is None:
                self._compressor.give_up(topic)
            else:
                self._compressor.know(topic, number, dictionary)
        return bool(due)

    def _middle(self) -> int:
        """The place before which entries that are used are moved: none while the file is far from full."""
        database, limit = self._opened(), self._pages()
        return database.middle() if database.free(limit) < limit // ROOMY else 0

    # -- room -----------------------------------------------------------------------------------------------------

    def _pages(self) -> int:
        """Pages that the file may have when nothing else is in the folder."""
        return max(OVER, (self._size - ALLOWANCE) // PAGE)

    def _limit(self) -> int:
        """Pages that the file may have beside the others in the folder."""
        return self._pages() - self._folder.bytes_beside(self._number) // PAGE

    def _make_room(self, rows: Mapping[int, Sequence[tuple[bytes, bytes]]]) -> None:
        """Evict what is oldest until the rows fit. Files that were set aside go first."""
        database, limit = self._opened(), self._limit()
        sizes = (len(name) + len(value) + (len(name) + 10) / _FILL for group in rows.values() for name, value in group)
        wanted = SPARE + int(sum(sizes)) // PAGE
        if limit < self._pages() and database.free(limit) < wanted:
            self._folder.remove_others(self._number)
            limit = self._limit()
        database.bound(limit)
        for _ in range(STEPS):  # a bound that was lowered far is reached little by little
            lacking = wanted - database.free(limit)
            if lacking <= 0:
                break
            self._evicted += database.evict(lacking)

    def tidy(self) -> bool:
        """Sweep some of what was purged, and shrink a file that is above its bound; returns whether more is to be
        done. On a disk that is full, that waits until there is room."""
        try:
            return self._tidy()
        except sqlite3.Error as error:
            if fault_of(error).kind is not DiskFaultKind.FULL:
                raise
            return False

    def _tidy(self) -> bool:
        database, limit = self._opened(), self._limit()
        with database.writing():
            more = database.sweep()
            above = -database.free(limit)
            if above > 0 and (evicted := database.evict(above)):
                self._evicted += evicted
                more = True
        return database.shrink(limit) or more

    # -- purges and hot keys --------------------------------------------------------------------------------------

    def purge(self, selection: Selection, *, dry: bool) -> int:
        """Remove the selected entries, or count them; returns their number. No read finds them that knows the numbers
        of prefixes anew; their rows are removed little by little. Files of other versions go as a whole, since a later
        return to one of those would find there what was purged."""
        database, self._stale = self._opened(), True
        with database.writing():
            self._prefixes = database.prefixes()
            if selection.key is not None:
                if not dry:
                    self._folder.remove_versions()
                return self._purge_key(selection.key, dry=dry) if selection.matches(selection.key) else 0
            meant = {prefix: row for prefix, row in self._prefixes.items() if selection.matches(prefix)}
            if not dry:
                self._folder.remove_versions()
                for prefix, (number, _) in meant.items():
                    database.bury(number)
                    del self._prefixes[prefix]
                if selection.everything:
                    database.forget_hot()
            return sum(count for _, count in meant.values())

    def _purge_key(self, key: bytes, *, dry: bool) -> int:
        database, prefix = self._opened(), prefix_of(key)
        found = self._prefixes.get(prefix)
        if found is None:
            return 0
        name = name_of(found[0], key[len(prefix) :])
        return int(database.has(name)) if dry else database.remove([name])

    def notice(self, hot: Mapping[bytes, Entry]) -> dict[bytes, Entry]:
        """Remember the keys of entries that were hits in memory, and keep them from being evicted; returns those that
        are not there any more."""
        database = self._opened()
        absent: dict[bytes, Entry] = {}
        used: list[bytes] = []
        with database.writing():
            for key, entry in hot.items():
                prefix = prefix_of(key)
                found = self._prefixes.get(prefix)
                name = None if found is None else name_of(found[0], key[len(prefix) :])
                if name is None or not database.has(name):
                    absent[key] = entry
                else:
                    used.append(name)
            database.renew(used, self._middle(), MOVED_MOST)
            database.notice(hot, int(time.time()), HOT_MOST)
        return absent


def _identity(file: Path) -> tuple[int, int] | None:
    """The device and the number of a file; None when it is not there."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
