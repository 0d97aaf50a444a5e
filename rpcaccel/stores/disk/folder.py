"""The files of the disk tier in its folder: `cache-1.sqlite3`, `cache-2.sqlite3` and so on, the highest one in use.

A file that cannot be trusted is set aside by beginning the next one. It is not renamed, because other processes may
have it open, and SQLite finds the files that belong to a database by its name. A file that was set aside is removed
when the one in use needs its room. Every process of a host comes to the same file, since a lock guards the decision.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = re.compile(r"cache-([1-9][0-9]{0,8})\.sqlite3")
_PARTS = ("", "-wal", "-shm", "-journal")
"""What SQLite puts behind the name of a database for the files that belong to it."""


class Folder:
    """A folder that belongs to the disk tier."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<Folder {self.path}>"

    def make(self) -> None:
        """Make the folder where it is missing. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from choosing a file. Raises OSError."""
        # Closing this descriptor releases no lock of SQLite, since it is of another file.
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def numbers(self) -> list[int]:
        """The numbers of the files that are there, the lowest first. Raises OSError."""
        return sorted({int(found[1]) for name in os.listdir(self.path) if (found := _NAME.match(name))})

    def newest(self) -> int:
        """The number of the file in use; 1 where there is none yet. Raises OSError."""
        return max(self.numbers(), default=1)

    def file(self, number: int) -> Path:
        """The path of the file with this number."""
        return self.path / f"cache-{number}.sqlite3"

    def size(self, number: int) -> int:
        """Bytes on the disk of the file with this number and of those that belong to it."""
        total = 0
        for part in _PARTS:
            with suppress(OSError):
                total += os.stat(f"{self.file(number)}{part}").st_size
        return total

    def remove(self, number: int) -> None:
        """Remove the file with this number. Processes that have it open may go on using it."""
        for part in _PARTS:
            with suppress(OSError):
                os.unlink(f"{self.file(number)}{part}")
