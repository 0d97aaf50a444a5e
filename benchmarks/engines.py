"""Storage engines for a cache tier on disk, each behind the same few functions: SQLite, LMDB and RocksDB.

LMDB and RocksDB are no dependencies of the product: `pip install lmdb rocksdict` makes them comparable.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

BATCH, BULK = 500, 50_000
"""The numbers of entries that are written in one transaction: by the tier, and where a large database is only made."""
CACHE = 16_000_000
"""Bytes that an engine may hold in a cache of its own; LMDB has none."""
_MAP = 1 << 36
"""Bytes of address space that LMDB maps; its file grows within them."""

Batch = Sequence[tuple[bytes, bytes]]
"""Names with their values."""


class Engine(Protocol):
    """An open database of entries."""

    def put(self, batch: Batch) -> None:
        """Write a batch: all of it or nothing."""

    def get(self, name: bytes) -> bytes | None:
        """The value that was written last for this name."""

    def catch_up(self) -> None:
        """Make visible what another process has written, where the engine does not do this by itself."""

    def close(self) -> None: ...


class Sqlite:
    """A table in the order of writing, with a unique index on the name."""

    SETUP = (
        "PRAGMA page_size=4096",
        "PRAGMA auto_vacuum=INCREMENTAL",
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=NORMAL",
        f"PRAGMA cache_size=-{CACHE // 1000}",
        "CREATE TABLE IF NOT EXISTS entries(seq INTEGER PRIMARY KEY, name BLOB NOT NULL, value BLOB NOT NULL)",
        "CREATE UNIQUE INDEX IF NOT EXISTS by_name ON entries(name)",
    )

    BULK = ("PRAGMA cache_size=-2000000", "PRAGMA synchronous=OFF", "PRAGMA wal_autocheckpoint=100000")

    def __init__(self, folder: Path, *, second: bool = False, bulk: bool = False) -> None:
        file = folder / "entries.sqlite"
        self._db = sqlite3.connect(file, timeout=10.0, isolation_level=None, check_same_thread=False)
        for statement in (*self.SETUP, *(self.BULK if bulk else ())):
            self._db.execute(statement)

    def put(self, batch: Batch) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO entries(name, value) VALUES (?, ?)", batch)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def get(self, name: bytes) -> bytes | None:
        row = self._db.execute("SELECT value FROM entries WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def catch_up(self) -> None:
        """Every lookup sees the last commit."""

    def close(self) -> None:
        self._db.close()


class Lmdb:
    """A B+ tree in a mapped file; `synced` flushes the data of each transaction, but not the page that names them."""

    def __init__(self, folder: Path, *, second: bool = False, bulk: bool = False, synced: bool = False) -> None:
        self._db: Any = import_module("lmdb").open(
            str(folder), map_size=_MAP, sync=synced, metasync=False, readahead=False
        )

    def put(self, batch: Batch) -> None:
        with self._db.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(batch)

    def get(self, name: bytes) -> bytes | None:
        with self._db.begin() as transaction:
            found: bytes | None = transaction.get(name)
        return found

    def catch_up(self) -> None:
        """Every lookup sees the last commit."""

    def close(self) -> None:
        self._db.close()


class Rocks:
    """A log-structured merge tree; a second process opens it as a secondary, which reads and cannot write."""

    def __init__(self, folder: Path, *, second: bool = False, bulk: bool = False) -> None:
        self._rocks: Any = import_module("rocksdict")
        options, table = self._rocks.Options(raw_mode=True), self._rocks.BlockBasedOptions()
        options.set_compression_type(self._rocks.DBCompressionType.none())
        options.set_advise_random_on_open(True)
        table.set_bloom_filter(10, False)
        table.set_block_cache(self._rocks.Cache(CACHE))
        options.set_block_based_table_factory(table)
        kinds = self._rocks.AccessType
        own = folder.with_name(f"{folder.name}.second")
        access = kinds.secondary(str(own)) if second else kinds.read_write()
        self._db: Any = self._rocks.Rdict(str(folder), options, access_type=access)
        self._second = second

    def put(self, batch: Batch) -> None:
        written = self._rocks.WriteBatch(raw_mode=True)
        for name, value in batch:
            written.put(name, value)
        self._db.write(written)

    def get(self, name: bytes) -> bytes | None:
        found: bytes | None = self._db.get(name)
        return found

    def catch_up(self) -> None:
        if self._second:
            self._db.try_catch_up_with_primary()

    def close(self) -> None:
        self._db.close()


class Candidate(Struct, frozen=True):
    """An engine that is compared."""

    make: Callable[..., Engine]
    """Opens the engine in a folder: `second=True` where another process has it open, `bulk=True` to write very much."""
    after_power_loss: str
    """What the settings promise after a crash of the whole machine."""
    package: str = ""
    """The package that must be installed; empty: none."""


CANDIDATES: dict[str, Candidate] = {
    "SQLite": Candidate(Sqlite, "the last commits may be lost, the file is whole (WAL, synchronous=NORMAL)"),
    "LMDB": Candidate(Lmdb, "the file may be damaged (sync=False)", "lmdb"),
    "RocksDB": Candidate(Rocks, "the last commits may be lost, the files are whole (log not synced)", "rocksdict"),
}
"""The engines by name."""
SYNCED = "LMDB, data synced"
"""LMDB as it would have to be set to promise what the others promise; only its writing is measured."""
ALL = CANDIDATES | {
    SYNCED: Candidate(
        lambda folder, **more: Lmdb(folder, synced=True, **more),
        "the last commits may be lost, the file is whole (metasync=False)",
        "lmdb",
    )
}


def opened(engine: str, folder: Path, *, second: bool = False, bulk: bool = False) -> Engine:
    """Open an engine by its name, in a folder that is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return ALL[engine].make(folder, second=second, bulk=bulk)


def missing(engines: Iterable[str]) -> Iterator[str]:
    """The engines whose package is not installed."""
    return (engine for engine in engines if (needs := ALL[engine].package) and find_spec(needs) is None)


# -- entries -----------------------------------------------------------------------------------------------------------

_POOL = random.Random("values").randbytes(1 << 20)


def name_of(number: int) -> bytes:
    """The name of an entry (53 bytes). Names sort in another order than that of their numbers, as hashes do."""
    return b"harmony-s0:eth_getTransactionReceipt:%016x" % (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)


def value_of(number: int, length: int) -> bytes:
    """The value of an entry, which no other entry has and no engine could compress."""
    start = number * 7919 % (len(_POOL) - length)
    return number.to_bytes(8, "big") + _POOL[start : start + length - 8]


def batch_of(start: int, length: int, count: int = BATCH) -> Batch:
    """The entries with these numbers."""
    return [(name_of(number), value_of(number, length)) for number in range(start, start + count)]


# -- files -------------------------------------------------------------------------------------------------------------


def files(folder: Path) -> list[Path]:
    """All files of a database."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def on_disk(folder: Path) -> int:
    """Bytes that the files take on the disk, holes left out."""
    return sum(path.stat().st_blocks * 512 for path in files(folder))


def drop_from_page_cache(folder: Path) -> None:
    """Make the next reads come from the disk. No process may have the files open, since mapped pages stay."""
    for path in files(folder):
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
