"""The file in use, as the thread of the disk tier works on it: read, written within its bound, purged, looked after."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from msgspec import Struct

from rpcaccel.core.cache.entry import Damage, Damaged, Entry, Selection
from rpcaccel.stores.disk.database import (
    BUSY_SECONDS,
    PAGE_BYTES,
    PATIENT_SECONDS,
    DiskFault,
    DiskFaultKind,
    connect,
    fault_of,
    free_pages,
    scalar,
    set_patience,
    shrink,
    transaction,
)
from rpcaccel.stores.disk.entry_form import (
    COMPRESSED,
    MAX_PREFIXES,
    Compression,
    decode,
    encode,
    name_of,
    names_under,
    number_in,
    split_key,
)
from rpcaccel.stores.disk.folder import Folder

ALLOWANCE_BYTES = 32 << 20
"""Bytes of the bound that are left for the write-ahead log and for pages above the limit."""
OVER_PAGES = 2048
"""Pages above the limit that a write may need before it has evicted; SQLite refuses to take more."""
SPARE_PAGES = 64
"""Pages that are free before a write beside those for its values: for the index and for other tables."""
EVICTION_ROWS, EVICTION_STEPS = 256, 32
"""Rows that one step of an eviction or of a sweep removes, and steps that one batch may take."""
SHRINK_PAGES = 256
"""Free pages that one look gives back to the file system, so that no lookup waits for long."""
MAX_READ_BYTES = 2 << 20
"""Bytes of results after which a read ends, so that no other lookup waits for long."""
MAX_RENEWED_BYTES = 2 << 20
"""Bytes of entries that one transaction moves to the young end."""
MAX_NOTED_NAMES = 10_000
"""Names of used entries that are held until the next transaction."""
MAX_HOT_KEYS = 20_000
ROOMY_PART = 10
"""A file of which more than one in this many parts is free loses nothing soon, so that nothing is moved in it."""
LARGEST_PART = 8
"""An entry may take one in this many parts of the file."""
_INDEX_FILL = 0.7
"""The part of an index page that is filled where names come in no order."""


class ReadResult(Struct):
    """What was found of some keys."""

    entries: dict[bytes, Entry]
    complete: bool = True
    """Were all keys looked up? Otherwise MAX_READ_BYTES were reached before."""
    damaged: list[Damage] = []
    """Why entries could not be read."""


class FileState(Struct, frozen=True):
    """The file at one moment."""

    entries: int = 0
    bytes: int = 0
    """Bytes of all files of the tier."""
    foreign: bool = False
    """Are there files of other versions?"""
    evicted: int = 0
    """Entries that this process has removed for room since it began."""


class CacheFile:
    """One connection to the file in use. Everything here blocks and may raise what `database.fault_of` explains."""

    def __init__(self, folder: Folder, size: int) -> None:
        """`size`: bytes that all files of the folder may take."""
        self._folder = folder
        self._size = size
        self._number = 0
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        """Tells the file that is open from another one of the same name."""
        self._compression = Compression(self._dictionary)
        self._prefixes: dict[bytes, tuple[int, int]] = {}
        """The number and the count of entries of each prefix that was not purged, as they were lately."""
        self._middle = 0
        """The place in the middle of the entries by age, before which used ones are moved; 0 while all have room."""
        self._used: set[bytes] = set()
        """Names of entries that are to be moved to the young end."""
        self._damaged: set[bytes] = set()
        """Names of entries that are to be removed."""
        self._evicted = 0

    # -- the file -----------------------------------------------------------------------------------------------------

    def open(self, owed: Sequence[Selection] = ()) -> FileState:
        """Open the file in use, or make it, and carry out the purges that are owed to it. Where a process that has
        ended owed one, everything is purged."""
        self.close()
        self._folder.make()
        with self._folder.locked():
            self._number = self._folder.newest()
            self._connection = connect(self._folder.file(self._number))
            self._identity = self._folder.identity(self._number)
        self._used, self._damaged = set(), set()
        self._read_tables()
        for selection in owed or ([Selection()] if self._folder.owes() else []):
            self.purge(selection, dry=False)
        self._folder.owes_nothing()
        return self.state()

    def set_aside(self) -> None:
        """Begin the next file, unless another process has done so already."""
        self.close()
        with self._folder.locked():
            newest = self._folder.newest()
            if newest == self._number:
                connect(self._folder.file(newest + 1)).close()
                self._number = newest + 1
                if self._folder.bytes_beside(self._number) > self._size // 2:
                    self._folder.remove_versions(below=self._number)

    def replaced(self) -> bool:
        """Is another file in use: because another process has set this one aside, or because it was removed?"""
        return self._folder.newest() != self._number or self._folder.identity(self._number) != self._identity

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def resize(self, size: int) -> None:
        """Apply a new bound (bytes); `tidy` shrinks the file to it."""
        self._size = size

    def state(self) -> FileState:
        self._read_prefixes()
        ends = (scalar(self._sql, f"SELECT {end}(seq) FROM entries") for end in ("min", "max"))
        self._middle = 0 if free_pages(self._sql, self._pages()) >= self._pages() // ROOMY_PART else sum(ends) // 2
        return FileState(
            entries=sum(count for _, count in self._prefixes.values()),
            bytes=self._folder.bytes_beside(None),
            foreign=self._folder.has_versions(),
            evicted=self._evicted,
        )

    @property
    def _sql(self) -> sqlite3.Connection:
        if self._connection is None:
            raise DiskFault(DiskFaultKind.UNUSABLE, "its file is not open")
        return self._connection

    def _read_tables(self) -> None:
        """Learn prefixes and dictionaries, of which other processes may have written some."""
        self._read_prefixes()
        self._compression = Compression(self._dictionary)
        for number, topic, body in self._sql.execute("SELECT id, topic, body FROM dictionaries"):
            self._compression.use(topic, number, _blob(body))

    def _read_prefixes(self) -> None:
        rows = self._sql.execute("SELECT prefix, id, entries FROM prefixes WHERE NOT dead")
        self._prefixes = {_blob(prefix): (_prefix_number(number), count) for prefix, number, count in rows}

    @contextmanager
    def _transaction(self, patience: float = BUSY_SECONDS) -> Iterator[None]:
        """One transaction, which waits so many seconds for another process that writes."""
        set_patience(self._sql, patience)
        begun = False
        try:
            with transaction(self._sql):
                begun = True
                yield
        except Exception:
            if begun:  # numbers and dictionaries may have been given out that are not in the file now
                self._read_tables()
            raise

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, keys: Sequence[bytes]) -> ReadResult:
        """The entries of these keys, of which there must be few, up to MAX_READ_BYTES of results. Damaged ones, and
        used ones in the older half of the file, are noted for the next transaction."""
        result, size = ReadResult({}), 0
        now, wall = time.monotonic(), time.time()
        asked = {self._name(key): key for key in keys}
        if None in asked:  # another process may have given out the number of its prefix
            self._read_prefixes()
            asked = {self._name(key): key for key in keys}
            asked.pop(None, None)
        # One statement costs half of what a statement for each name does.
        query = f"SELECT name, seq, value FROM entries WHERE name IN ({','.join('?' * len(asked))})"
        with closing(self._sql.execute(query, list(asked))) as rows:
            for name, place, value in rows:
                if size > MAX_READ_BYTES:
                    result.complete = False
                    break
                key = asked[_blob(name)]
                entry = decode(key, _blob(value), self._compression, now=now, wall=wall)
                if isinstance(entry, Damaged):
                    result.damaged.append(entry.why)
                    self._damaged.add(name)
                    continue
                result.entries[key] = entry
                size += len(entry.result)
                if place < self._middle and len(self._used) < MAX_NOTED_NAMES:
                    self._used.add(name)
        return result

    def hot(self) -> list[bytes]:
        """The hot keys, the latest first."""
        return [_blob(key) for (key,) in self._sql.execute("SELECT key FROM hot ORDER BY seen DESC")]

    def _name(self, key: bytes) -> bytes | None:
        """The name of a key; None where its prefix has no number."""
        prefix, params = split_key(key)
        known = self._prefixes.get(prefix)
        return None if known is None else name_of(known[0], params)

    def _has(self, name: bytes) -> bool:
        return self._sql.execute("SELECT 1 FROM entries WHERE name=?", (name,)).fetchone() is not None

    def _dictionary(self, number: int) -> bytes | None:
        """The body of the dictionary with this number; None when there is none."""
        row = self._sql.execute("SELECT body FROM dictionaries WHERE id=?", (number,)).fetchone()
        return None if row is None else _blob(row[0])

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, entries: Mapping[bytes, Entry]) -> int:
        """Write entries in one transaction, in place of those that are there, and evict the oldest ones for them where
        the file is full; returns how many were written, which all are that are not too large for the file."""
        with self._transaction():
            rows = self._encoded(entries)
            self._make_room(rows)
            names = [name for name, _ in rows]
            self._remove(names)
            self._sql.executemany("INSERT INTO entries(name, value) VALUES(?, ?)", rows)
            self._count(names, 1)
            self._apply_notes()
            for topic in self._compression.due():
                self._train(topic)
        return len(rows)

    def _encoded(self, entries: Mapping[bytes, Entry]) -> list[tuple[bytes, bytes]]:
        """The names and values of entries, without those that are too large."""
        now, wall = time.monotonic(), time.time()
        max_bytes = self._pages() * PAGE_BYTES // LARGEST_PART
        rows: list[tuple[bytes, bytes]] = []
        for key, entry in entries.items():
            value = encode(key, entry, self._compression, now=now, wall=wall)
            if len(value) <= max_bytes:
                prefix, params = split_key(key)
                rows.append((name_of(self._number_for(prefix), params), value))
        return rows

    def _number_for(self, prefix: bytes) -> int:
        if prefix not in self._prefixes:
            self._read_prefixes()  # another process may have given out the number, or buried it: the table counts
        if prefix not in self._prefixes:
            made = self._sql.execute("INSERT INTO prefixes VALUES(NULL, ?, 0, 0)", (prefix,)).lastrowid
            self._prefixes[prefix] = int(made or 0), 0
        return self._prefixes[prefix][0]

    def _train(self, topic: str) -> None:
        """Train the dictionary of a topic, or use the one that another process has trained."""
        row = self._sql.execute("SELECT id, body FROM dictionaries WHERE topic=?", (topic,)).fetchone()
        if row is not None:
            self._compression.use(topic, row[0], _blob(row[1]))
            return
        number = 1 + max(COMPRESSED, scalar(self._sql, "SELECT max(id) FROM dictionaries"))
        body = self._compression.train(topic, number)
        if body is not None:
            self._sql.execute("INSERT INTO dictionaries VALUES(?, ?, ?)", (number, topic, body))

    def notice(self, hot: Mapping[bytes, Entry]) -> dict[bytes, Entry]:
        """Remember the keys of entries that were hits in memory, and keep them from being evicted; returns those that
        are not there any more."""
        absent: dict[bytes, Entry] = {}
        with self._transaction():
            for key, entry in hot.items():
                name = self._name(key)
                if name is None or not self._has(name):
                    absent[key] = entry
                else:
                    self._used.add(name)
            self._apply_notes()
            self._sql.executemany(
                "INSERT INTO hot VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET seen=excluded.seen",
                [(key, int(time.time())) for key in hot],
            )
            over = scalar(self._sql, "SELECT count(*) FROM hot") - MAX_HOT_KEYS
            if over > 0:
                self._sql.execute("DELETE FROM hot WHERE key IN (SELECT key FROM hot ORDER BY seen LIMIT ?)", (over,))
        return absent

    def _apply_notes(self) -> None:
        """Remove the entries that were damaged, and move those that were used to the young end, up to a bound."""
        self._remove(self._damaged)
        middle, left = self._middle, MAX_RENEWED_BYTES
        for name in self._used if middle else ():
            left -= scalar(self._sql, "SELECT length(value) FROM entries WHERE name=? AND seq<?", name, middle)
            if left < 0:
                break
            renewal = "UPDATE entries SET seq=(SELECT max(seq)+1 FROM entries) WHERE name=? AND seq<?"
            self._sql.execute(renewal, (name, middle))
        self._used, self._damaged = set(), set()

    def _remove(self, names: Iterable[bytes]) -> int:
        """Remove entries by name; returns how many were there."""
        statement = "DELETE FROM entries WHERE name=?"
        removed = [name for name in names if self._sql.execute(statement, (name,)).rowcount]
        self._count(removed, -1)
        return len(removed)

    def _count(self, names: Iterable[bytes], sign: int) -> None:
        """Count entries that have come (1) or gone (-1) under their prefixes."""
        rows = [(sign * count, number) for number, count in Counter(map(number_in, names)).items()]
        self._sql.executemany("UPDATE prefixes SET entries=entries+? WHERE id=?", rows)

    # -- room ---------------------------------------------------------------------------------------------------------

    def _pages(self) -> int:
        """Pages that the file may have when nothing else is in the folder."""
        return max(OVER_PAGES, (self._size - ALLOWANCE_BYTES) // PAGE_BYTES)

    def _limit(self) -> int:
        """Pages that the file may have beside the others in the folder."""
        return self._pages() - self._folder.bytes_beside(self._number) // PAGE_BYTES

    def _make_room(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Evict what is oldest until the rows fit. Files that were set aside go first."""
        limit = self._limit()
        sizes = (len(name) + len(value) + (len(name) + 10) / _INDEX_FILL for name, value in rows)
        wanted = SPARE_PAGES + int(sum(sizes)) // PAGE_BYTES
        if limit < self._pages() and free_pages(self._sql, limit) < wanted:
            self._folder.remove_versions(below=self._number)
            limit = self._limit()
        self._sql.execute(f"PRAGMA max_page_count={limit + OVER_PAGES}")
        for _ in range(EVICTION_STEPS):  # a bound that was lowered far is reached little by little
            lacking = wanted - free_pages(self._sql, limit)
            if lacking <= 0:
                break
            self._evict(lacking)

    def _evict(self, pages: int) -> int:
        """Remove the oldest entries, until about `pages` pages are free of them or EVICTION_ROWS are gone; returns how
        many were removed, 0 when none is left."""
        wanted, last, names = pages * PAGE_BYTES, 0, []
        query = "SELECT seq, name, length(value) FROM entries ORDER BY seq LIMIT ?"
        for last, name, size in self._sql.execute(query, (EVICTION_ROWS,)).fetchall():  # noqa: B007 -- used below
            names.append(name)
            wanted -= size
            if wanted <= 0:
                break
        self._sql.execute("DELETE FROM entries WHERE seq<=?", (last,))
        self._count(names, -1)
        self._evicted += len(names)
        return len(names)

    def tidy(self) -> bool:
        """Sweep some of what was purged, move and remove what was noted, and shrink a file that is above its bound;
        returns whether more is to be done. On a disk that is full, that waits until there is room."""
        try:
            limit = self._limit()
            with self._transaction():
                self._apply_notes()
                more = self._sweep()
                above = -free_pages(self._sql, limit)
                more = bool(above > 0 and self._evict(above)) or more
            return shrink(self._sql, limit, SHRINK_PAGES) or more
        except sqlite3.Error as error:
            if fault_of(error).kind is not DiskFaultKind.FULL:
                raise
            return False

    def _sweep(self) -> bool:
        """Remove some entries of prefixes that were purged; returns whether there may be more."""
        dead = scalar(self._sql, "SELECT id FROM prefixes WHERE dead LIMIT 1")
        if not dead:
            return False
        swept = self._sql.execute(
            "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries WHERE name>=? AND name<? LIMIT ?)",
            (*names_under(dead), EVICTION_ROWS),
        ).rowcount
        if swept < EVICTION_ROWS:
            self._sql.execute("DELETE FROM prefixes WHERE id=?", (dead,))
        return True

    # -- purges -------------------------------------------------------------------------------------------------------

    def purge(self, selection: Selection, *, dry: bool) -> int:
        """Remove the selected entries, or count them; returns their number. Their prefixes are hidden from every read
        that knows the table anew, and their rows are removed little by little. Files of other versions go as a whole,
        since a later return to one of those would find there what was purged."""
        with self._transaction(PATIENT_SECONDS):
            return self._purge(selection, dry=dry)

    def _purge(self, selection: Selection, *, dry: bool) -> int:
        self._read_prefixes()
        if not dry:
            self._folder.remove_versions()
        if selection.key is not None:
            name = self._name(selection.key) if selection.matches(selection.key) else None
            if name is None:
                return 0
            return int(self._has(name)) if dry else self._remove([name])
        meant = {prefix: row for prefix, row in self._prefixes.items() if selection.matches(prefix)}
        if not dry:
            for prefix, (number, _) in meant.items():
                self._sql.execute("UPDATE prefixes SET dead=1 WHERE id=?", (number,))
                del self._prefixes[prefix]
            if selection.everything:
                self._sql.execute("DELETE FROM hot")
        return sum(count for _, count in meant.values())


def _blob(value: object) -> bytes:
    """A value that was written as bytes. Raises DiskFault for any other."""
    if isinstance(value, bytes):
        return value
    raise DiskFault(DiskFaultKind.DAMAGED, "its file holds values of a wrong kind")


def _prefix_number(value: object) -> int:
    """A number that was given out to a prefix. Raises DiskFault for any other value."""
    if isinstance(value, int) and 0 <= value < MAX_PREFIXES:
        return value
    raise DiskFault(DiskFaultKind.DAMAGED, "its file holds values of a wrong kind")
