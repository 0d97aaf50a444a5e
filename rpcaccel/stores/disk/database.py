"""Opens a file of the disk tier as a SQLite database, and says what is wrong with it or with its disk.

SQLite in its WAL mode lets one process write while others read, and survives the death of any of them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from rpcaccel.core.cache.entry import SCHEMA

FORMAT = 1
"""Increased whenever the tables or the form of values change."""
VERSION = FORMAT * 1000 + SCHEMA
"""What a file must have been made for."""
_APPLICATION = int.from_bytes(b"rpca", "big")
PAGE_BYTES = 4096
BUSY_SECONDS, PATIENT_SECONDS = 0.01, 2.0
"""How long a job waits for another process that writes: a batch, behind which lookups wait and which is tried
again; opening the file and a purge."""
_MAX_KEPT_LOG_BYTES = 16 << 20
"""Bytes to which the write-ahead log is cut after a checkpoint."""

_TABLES = """
CREATE TABLE entries(seq INTEGER PRIMARY KEY, name BLOB NOT NULL, value BLOB NOT NULL);
CREATE UNIQUE INDEX by_name ON entries(name);
CREATE TABLE prefixes(
    id INTEGER PRIMARY KEY AUTOINCREMENT, prefix BLOB NOT NULL, entries INTEGER NOT NULL, dead INTEGER NOT NULL);
CREATE UNIQUE INDEX by_prefix ON prefixes(prefix) WHERE NOT dead;
CREATE TABLE dictionaries(id INTEGER PRIMARY KEY, topic TEXT NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE hot(key BLOB PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID;
"""
"""`entries` stand in the order of their age: an eviction removes the oldest rows, whose pages become free together.
Whole keys in place of names would make a file of blocks 30 % larger. `prefixes.dead` marks what a purge has hidden and
a sweep removes. `hot` holds the keys of entries that were hits in memory, with the Unix time of the latest notice."""


class DiskFaultKind(StrEnum):
    """What follows from a fault of the disk tier."""

    DAMAGED = "damaged"
    """The file cannot be trusted any more: it is set aside, and another one is begun."""
    FULL = "full"
    """Nothing can be written for now; what is there can be read."""
    BUSY = "busy"
    """Another process holds the file; the operation is given up."""
    UNUSABLE = "unusable"
    """The tier cannot be used for now; it is opened again later."""


class DiskFault(Exception):
    """A fault of the disk tier, in words for the operator, without a path."""

    def __init__(self, kind: DiskFaultKind, words: str) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words


_BY_CODE = {
    sqlite3.SQLITE_CORRUPT: (DiskFaultKind.DAMAGED, "its file is damaged"),
    sqlite3.SQLITE_NOTADB: (DiskFaultKind.DAMAGED, "its file is of another kind"),
    sqlite3.SQLITE_ERROR: (DiskFaultKind.DAMAGED, "its file has another form"),
    sqlite3.SQLITE_CONSTRAINT: (DiskFaultKind.DAMAGED, "its file is damaged"),
    sqlite3.SQLITE_IOERR_SHORT_READ: (DiskFaultKind.DAMAGED, "its file was cut off"),
    sqlite3.SQLITE_FULL: (DiskFaultKind.FULL, "no space is left on the disk"),
    sqlite3.SQLITE_BUSY: (DiskFaultKind.BUSY, "another process holds its file"),
    sqlite3.SQLITE_LOCKED: (DiskFaultKind.BUSY, "another process holds its file"),
    sqlite3.SQLITE_PROTOCOL: (DiskFaultKind.BUSY, "another process holds its file"),
    sqlite3.SQLITE_READONLY: (DiskFaultKind.UNUSABLE, "its file may not be written"),
    sqlite3.SQLITE_PERM: (DiskFaultKind.UNUSABLE, "its file may not be used by this user"),
    sqlite3.SQLITE_CANTOPEN: (DiskFaultKind.UNUSABLE, "its file cannot be opened"),
    sqlite3.SQLITE_NOMEM: (DiskFaultKind.UNUSABLE, "no memory is left"),
}
_PRIMARY_CODE = 0xFF
"""The part of an extended result code that is the primary one (sqlite.org/rescode.html)."""


def fault_of(error: Exception) -> DiskFault:
    """The fault behind an exception that a job of the tier raised."""
    if isinstance(error, DiskFault):
        return error
    if isinstance(error, sqlite3.Error):
        # Python itself raises errors without a code, for text that is not UTF-8.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        found = _BY_CODE.get(code) or _BY_CODE.get(code & _PRIMARY_CODE)
        return DiskFault(*(found or (DiskFaultKind.UNUSABLE, "the disk answered with an error")))
    if isinstance(error, OSError):
        words = os.strerror(error.errno).lower() if error.errno else "the system refuses it"
        return DiskFault(DiskFaultKind.FULL if error.errno == errno.ENOSPC else DiskFaultKind.UNUSABLE, words)
    return DiskFault(DiskFaultKind.UNUSABLE, f"an unforeseen {type(error).__name__}")


def connect(path: Path) -> sqlite3.Connection:
    """Open a file, which is made where it is missing, for this user alone: SQLite gives its mode to the files that
    belong to it. Raises DiskFault for a file that cannot be used or not be written."""
    with suppress(OSError):  # it is there, or SQLite says why it cannot be made
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        set_patience(sql, PATIENT_SECONDS)
        _prepare(sql)
    except Exception as error:
        sql.close()
        raise fault_of(error) from None
    return sql


def _prepare(sql: sqlite3.Connection) -> None:
    made_for = scalar(sql, "PRAGMA application_id"), scalar(sql, "PRAGMA user_version")
    new = made_for == (0, 0) and scalar(sql, "SELECT count(*) FROM sqlite_master") == 0
    if not new and made_for != (_APPLICATION, VERSION):
        raise DiskFault(DiskFaultKind.DAMAGED, "its file is of another version or program")
    if new:
        sql.execute(f"PRAGMA page_size={PAGE_BYTES}")
        sql.execute("PRAGMA auto_vacuum=INCREMENTAL")
    if sql.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise DiskFault(DiskFaultKind.UNUSABLE, "the file system of its folder lacks shared memory (WAL)")
    # After a power failure the newest writes may be lost, and nothing else (sqlite.org/pragma.html).
    sql.execute("PRAGMA synchronous=NORMAL")
    sql.execute(f"PRAGMA journal_size_limit={_MAX_KEPT_LOG_BYTES}")
    # An error of the disk would end the process by a signal. What is mapped all the same is the small file -shm.
    sql.execute("PRAGMA mmap_size=0")
    with transaction(sql):
        for statement in _TABLES.split(";")[:-1] if new else ():
            sql.execute(statement)
        sql.execute(f"PRAGMA application_id={_APPLICATION}")
        # Raises for a file that may not be written, which SQLite opens and says nothing.
        sql.execute(f"PRAGMA user_version={VERSION}")


def set_patience(sql: sqlite3.Connection, seconds: float) -> None:
    """Let statements wait so long for another process that holds the file."""
    sql.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")


def scalar(sql: sqlite3.Connection, query: str, *values: object) -> int:
    """The number that a query returns; 0 where it returns none."""
    row = sql.execute(query, values).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


@contextmanager
def transaction(sql: sqlite3.Connection) -> Iterator[None]:
    """One transaction: all of it is written, or nothing. Raises sqlite3.Error."""
    sql.execute("BEGIN IMMEDIATE")
    try:
        yield
        sql.execute("COMMIT")
    except BaseException:
        if sql.in_transaction:
            sql.execute("ROLLBACK")
        raise


def free_pages(sql: sqlite3.Connection, limit: int) -> int:
    """Pages that can be filled before the file has more than `limit` pages."""
    return limit - scalar(sql, "PRAGMA page_count") + scalar(sql, "PRAGMA freelist_count")


def shrink(sql: sqlite3.Connection, limit: int, step: int) -> bool:
    """Give up to `step` free pages back to the file system; returns whether the file is still larger than `limit` pages
    and has more of them."""
    over = scalar(sql, "PRAGMA page_count") - limit
    if over > 0 and scalar(sql, "PRAGMA freelist_count"):
        # A script is stepped to its end. A statement without columns is stepped once, which is one page.
        sql.executescript(f"PRAGMA incremental_vacuum({min(over, step)})")
        over = scalar(sql, "PRAGMA page_count") - limit
    return over > 0 and scalar(sql, "PRAGMA freelist_count") > 0
