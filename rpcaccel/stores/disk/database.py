"""The file of the disk tier as SQL: entries in the order of their age, found by name.

An eviction removes the oldest rows, whose pages become free together. What was used lately is moved to the young end.
SQLite in its WAL mode lets one process write while others read, and survives the death of any of them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rpcaccel.core.cache.entry import SCHEMA
from rpcaccel.stores.disk.disk_fault import DiskFault, DiskFaultKind, fault_of
from rpcaccel.stores.disk.entry_names import MOST_PREFIXES, names_under, number_in

FORMAT = 1
"""Increased whenever the tables or the form of values change."""
VERSION = FORMAT * 1000 + SCHEMA
"""What a file must have been made for."""
_APPLICATION = int.from_bytes(b"rpca", "big")
PAGE = 4096
"""Bytes of a page."""
WRITE_PATIENCE = 2.0
"""Seconds that a write waits for another process that writes."""
READ_PATIENCE = 0.02
"""Seconds that a read waits for another process that repairs the file after a crash."""
_WAL_KEPT = 16 << 20
"""Bytes to which the write-ahead log is cut after a checkpoint."""
OVER = 2048
"""Pages above the limit that a write may need before it has evicted; SQLite refuses to take more."""
SPARE = 64
"""Pages that are free before a write beside those for its values: for the index and for other tables."""
STEP = 256
"""Rows that one step of an eviction or of a sweep removes."""

_TABLES = """
CREATE TABLE entries(seq INTEGER PRIMARY KEY, name BLOB NOT NULL, value BLOB NOT NULL);
CREATE UNIQUE INDEX by_name ON entries(name);
CREATE TABLE prefixes(
    id INTEGER PRIMARY KEY AUTOINCREMENT, prefix BLOB NOT NULL, entries INTEGER NOT NULL, dead INTEGER NOT NULL);
CREATE UNIQUE INDEX by_prefix ON prefixes(prefix) WHERE NOT dead;
CREATE TABLE dictionaries(id INTEGER PRIMARY KEY, topic TEXT NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE hot(key BLOB PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID;
"""
"""`prefixes.dead` marks what a purge has removed: its rows are found by nobody, and are swept later. `hot` holds the
keys of entries that were hits in memory, with the Unix time of the latest notice."""


class Database:
    """One connection to a file. Must be used by one thread at a time. Its methods raise sqlite3.Error."""

    def __init__(self, path: Path, *, reads_only: bool = False) -> None:
        """Connect to a file, which is made where it is missing, for this user alone: SQLite gives its mode to the files
        that belong to it. Raises DiskFault for a file that cannot be used."""
        with suppress(OSError):  # it is there, or SQLite says why it cannot be made
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._sql = sqlite3.connect(
            path, timeout=READ_PATIENCE if reads_only else WRITE_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare()
            if reads_only:
                self._sql.execute("PRAGMA query_only=1")
        except Exception as error:
            self._sql.close()
            raise fault_of(error) from None

    def _prepare(self) -> None:
        sql = self._sql
        made_for = self._number("PRAGMA application_id"), self._number("PRAGMA user_version")
        new = made_for == (0, 0) and self._number("SELECT count(*) FROM sqlite_master") == 0
        if not new and made_for != (_APPLICATION, VERSION):
            raise DiskFault(DiskFaultKind.DAMAGED, "its file is of another version or program")
        if new:
            sql.execute(f"PRAGMA page_size={PAGE}")
            sql.execute("PRAGMA auto_vacuum=INCREMENTAL")
        if sql.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise DiskFault(DiskFaultKind.UNUSABLE, "the file system of its folder lacks shared memory (WAL)")
        # After a power failure the newest writes may be lost, and nothing else (sqlite.org/pragma.html).
        sql.execute("PRAGMA synchronous=NORMAL")
        sql.execute(f"PRAGMA journal_size_limit={_WAL_KEPT}")
        # An error of the disk would end the process by a signal. What is mapped all the same is the small file -shm.
        sql.execute("PRAGMA mmap_size=0")
        if new:
            with self.writing():
                for statement in _TABLES.split(";")[:-1]:
                    sql.execute(statement)
                sql.execute(f"PRAGMA application_id={_APPLICATION}")
                sql.execute(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        """Close the connection."""
        self._sql.close()

    def try_to_write(self) -> None:
        """Raise what a write would raise: SQLite opens files that it may not write, and does not say so."""
        with self.writing():
            self._sql.execute(f"PRAGMA user_version={VERSION}")

    def _number(self, query: str, *values: object) -> int:
        row = self._sql.execute(query, values).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it is written, or nothing."""
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._sql.execute("COMMIT")
        except BaseException:
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")
            raise

    # -- entries --------------------------------------------------------------------------------------------------

    def find(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
        """The names, the places and the values of those of these entries that are there. All of them are looked up by
        one statement, which costs half of what as many statements do."""
        marks = ",".join("?" * len(names))
        rows = self._sql.execute(f"SELECT name, seq, value FROM entries WHERE name IN ({marks})", names)
        try:
            for name, place, value in rows:
                yield name, place, _blob(value)
        finally:
            rows.close()

    def has(self, name: bytes) -> bool:
        """Is the entry there?"""
        return self._sql.execute("SELECT 1 FROM entries WHERE name=?", (name,)).fetchone() is not None

    def put(self, rows: Sequence[tuple[bytes, bytes]], number: int) -> None:
        """Put names and values of one prefix at the young end, in place of those that are there."""
        sql = self._sql
        replaced = sql.executemany("DELETE FROM entries WHERE name=?", [(name,) for name, _ in rows]).rowcount
        sql.executemany("INSERT INTO entries(name, value) VALUES(?, ?)", rows)
        self._count(number, len(rows) - replaced)

    def remove(self, names: Iterable[bytes]) -> int:
        """Remove entries by name; returns how many were there."""
        removed = 0
        for name in names:
            gone = self._sql.execute("DELETE FROM entries WHERE name=?", (name,)).rowcount
            self._count(number_in(name), -gone)
            removed += gone
        return removed

    def renew(self, names: Iterable[bytes], middle: int, most: int) -> None:
        """Move those of these entries that stand before `middle` to the young end, until `most` bytes were moved."""
        for name in names:
            size = self._number("SELECT length(value) FROM entries WHERE name=? AND seq<?", name, middle)
            if not size:
                continue
            most -= size
            if most < 0:
                return
            self._sql.execute("UPDATE entries SET seq=(SELECT max(seq)+1 FROM entries) WHERE name=?", (name,))

    def middle(self) -> int:
        """The place in the middle between the oldest and the youngest entry."""
        oldest, youngest = self._number("SELECT min(seq) FROM entries"), self._number("SELECT max(seq) FROM entries")
        return (oldest + youngest) // 2

    def _count(self, number: int, change: int) -> None:
        if change:
            self._sql.execute("UPDATE prefixes SET entries=entries+? WHERE id=?", (change, number))

    # -- room -----------------------------------------------------------------------------------------------------

    def bound(self, pages: int) -> None:
        """Let the file have `pages` pages at the most, and OVER while it evicts."""
        self._sql.execute(f"PRAGMA max_page_count={pages + OVER}")

    def free(self, pages: int) -> int:
        """Pages that can be filled before the file has more than `pages` pages."""
        return pages - self._number("PRAGMA page_count") + self._number("PRAGMA freelist_count")

    def evict(self, pages: int) -> int:
        """Remove the oldest entries, until about `pages` pages are free of them or STEP entries are gone; returns how
        many were removed, 0 when none is left."""
        rows = self._sql.execute("SELECT seq, name, length(value) FROM entries ORDER BY seq LIMIT ?", (STEP,))
        wanted, last, names = pages * PAGE, 0, []
        for last, name, size in rows:  # noqa: B007 -- the place of the last one is used
            names.append(name)
            wanted -= size
            if wanted <= 0:
                break
        rows.close()
        self._sql.execute("DELETE FROM entries WHERE seq<=?", (last,))
        self._uncount(names)
        return len(names)

    def _uncount(self, names: Iterable[bytes]) -> None:
        gone: dict[int, int] = {}
        for name in names:
            number = number_in(name)
            gone[number] = gone.get(number, 0) + 1
        for number, count in gone.items():
            self._count(number, -count)

    def shrink(self, pages: int) -> bool:
        """Give pages that are free back to the file system, some at a time; returns whether the file is still larger
        than `pages` pages and has more of them."""
        over = self._number("PRAGMA page_count") - pages
        if over > 0 and self._number("PRAGMA freelist_count"):
            # A script is stepped to its end. A statement without columns is stepped once, which is one page.
            self._sql.executescript(f"PRAGMA incremental_vacuum({min(over, OVER)})")
            over = self._number("PRAGMA page_count") - pages
        return over > 0 and self._number("PRAGMA freelist_count") > 0

    # -- prefixes -------------------------------------------------------------------------------------------------

    def prefixes(self) -> dict[bytes, tuple[int, int]]:
        """The number and the count of entries of each prefix that was not purged."""
        rows = self._sql.execute("SELECT prefix, id, entries FROM prefixes WHERE NOT dead")
        return {_blob(prefix): (_within(number, MOST_PREFIXES), count) for prefix, number, count in rows}

    def number_for(self, prefix: bytes) -> int:
        """Give out a number for a prefix."""
        return int(self._sql.execute("INSERT INTO prefixes VALUES(NULL, ?, 0, 0)", (prefix,)).lastrowid or 0)

    def bury(self, number: int) -> None:
        """Let the entries under a prefix be found by nobody any more; `sweep` removes them."""
        self._sql.execute("UPDATE prefixes SET dead=1 WHERE id=?", (number,))

    def sweep(self) -> bool:
        """Remove some entries of prefixes that were purged; returns whether there may be more."""
        number = self._number("SELECT id FROM prefixes WHERE dead LIMIT 1")
        if not number:
            return False
        first, end = names_under(number)
        swept = self._sql.execute(
            "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries WHERE name>=? AND name<? LIMIT ?)",
            (first, end, STEP),
        ).rowcount
        if swept < STEP:
            self._sql.execute("DELETE FROM prefixes WHERE id=?", (number,))
        return True

    # -- dictionaries and hot keys --------------------------------------------------------------------------------

    def dictionaries(self) -> list[tuple[int, str, bytes]]:
        """The number, the topic and the sealed body of each dictionary."""
        rows = self._sql.execute("SELECT id, topic, body FROM dictionaries")
        return [(number, topic, _blob(body)) for number, topic, body in rows]

    def dictionary(self, number: int) -> bytes | None:
        """The sealed body of a dictionary."""
        row = self._sql.execute("SELECT body FROM dictionaries WHERE id=?", (number,)).fetchone()
        return None if row is None else _blob(row[0])

    def keep_dictionary(self, number: int, topic: str, body: bytes) -> None:
        """Keep a new dictionary, which must be sealed."""
        self._sql.execute("INSERT INTO dictionaries VALUES(?, ?, ?)", (number, topic, body))

    def notice(self, keys: Iterable[bytes], seen: int, most: int) -> None:
        """Keep these keys as hot, and at most the `most` latest ones of all."""
        self._sql.executemany(
            "INSERT INTO hot VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET seen=excluded.seen",
            [(key, seen) for key in keys],
        )
        over = self._number("SELECT count(*) FROM hot") - most
        if over > 0:
            self._sql.execute("DELETE FROM hot WHERE key IN (SELECT key FROM hot ORDER BY seen LIMIT ?)", (over,))

    def hot(self) -> list[bytes]:
        """The hot keys, the latest first."""
        return [_blob(key) for (key,) in self._sql.execute("SELECT key FROM hot ORDER BY seen DESC")]

    def forget_hot(self) -> None:
        """Forget all hot keys."""
        self._sql.execute("DELETE FROM hot")


def _blob(value: object) -> bytes:
    """A value that was written as bytes. Raises DiskFault for any other."""
    if isinstance(value, bytes):
        return value
    raise DiskFault(DiskFaultKind.DAMAGED, "its file holds values of a wrong kind")


def _within(number: object, most: int) -> int:
    """A number that was written as one below `most`. Raises DiskFault for any other value."""
    if isinstance(number, int) and 0 <= number < most:
        return number
    raise DiskFault(DiskFaultKind.DAMAGED, "its file holds values of a wrong kind")
