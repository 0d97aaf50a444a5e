"""The files of the disk tier in its folder: `cache-VERSION-1.sqlite3`, `cache-VERSION-2.sqlite3` and so on.

Of the files of its own version a process uses the one with the highest number. A file that cannot be trusted is set
aside by beginning the next one. It is not renamed, because other processes may have it open, and SQLite finds the files
that belong to a database by its name. Files that were set aside, and those of other versions, are removed when the one
in use needs their room. Every process of a host comes to the same file, since a lock guards the decision.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"cache-([1-9][0-9]{0,8})-([1-9][0-9]{0,8})\.sqlite3")
_OWED = "purge-owed"
_PARTS = ("", "-wal", "-shm", "-journal")
"""What SQLite puts behind the name of a database for the files that belong to it."""


class CacheFile(NamedTuple):
    """One file of the tier."""

    version: int
    number: int


class Folder:
    """A folder that belongs to the disk tier, as processes of one version use it."""

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version

    def __repr__(self) -> str:
        return f"<Folder {self.path}>"

    def make(self) -> None:
        """Make the folder where it is missing, and let nobody else read or write what is in it. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in [f"{self._path(file)}{part}" for file in self._all() for part in _PARTS]:
            with suppress(OSError):  # of another user, or removed meanwhile
                if os.stat(path).st_mode & 0o077:
                    os.chmod(path, 0o600)

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

    def newest(self) -> int:
        """The number of the file in use; 1 where there is none yet. Raises OSError."""
        return max((file.number for file in self._all() if file.version == self.version), default=1)

    def file(self, number: int) -> Path:
        """The path of the file with this number."""
        return self._path(CacheFile(self.version, number))

    def size(self, number: int) -> int:
        """Bytes of the file with this number."""
        return self._size(CacheFile(self.version, number))

    def others(self, number: int) -> list[CacheFile]:
        """All files but the one with this number. Raises OSError."""
        return [file for file in self._all() if file != (self.version, number)]

    def bytes_beside(self, number: int) -> int:
        """Bytes of all files but the one with this number. Raises OSError."""
        return sum(map(self._size, self.others(number)))

    def remove_others(self, number: int) -> None:
        """Remove all files that nobody needs beside the one with this number. Processes that have one open may go on
        using it. Raises OSError."""
        for file in self.others(number):
            if file.version != self.version or file.number < number:
                self._unlink(file)

    def owe(self) -> None:
        """Leave word, for processes to come, that a purge is still to be carried out. Raises OSError."""
        (self.path / _OWED).touch(mode=0o600)

    def owes(self) -> bool:
        """Was such word left?"""
        return (self.path / _OWED).exists()

    def owes_nothing(self) -> None:
        """Take the word back. Raises OSError."""
        (self.path / _OWED).unlink(missing_ok=True)

    def remove_versions(self) -> None:
        """Remove the files of other versions. Raises OSError."""
        for file in self._all():
            if file.version != self.version:
                self._unlink(file)

    def _unlink(self, file: CacheFile) -> None:
        for part in _PARTS:
            with suppress(OSError):
                os.unlink(f"{self._path(file)}{part}")

    def _all(self) -> list[CacheFile]:
        found = map(_NAME.fullmatch, os.listdir(self.path))
        return [CacheFile(int(match[1]), int(match[2])) for match in found if match]

    def _path(self, file: CacheFile) -> Path:
        return self.path / f"cache-{file.version}-{file.number}.sqlite3"

    def _size(self, file: CacheFile) -> int:
        """Bytes of a file and of those that belong to it."""
        total = 0
        for part in _PARTS:
            with suppress(OSError):
                total += os.stat(f"{self._path(file)}{part}").st_size
        return total
