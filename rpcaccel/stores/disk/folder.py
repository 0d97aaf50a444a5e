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

_NAME = re.compile(r"cache-([1-9][0-9]{0,8})-([1-9][0-9]{0,8})\.sqlite3")
_PARTS = ("", "-wal", "-shm", "-journal")
"""What SQLite puts behind the name of a database for the files that belong to it."""


class Folder:
    """A folder that belongs to the disk tier, as processes of one version use it. Its methods raise OSError."""

    def __init__(self, path: Path, version: int) -> None:
        self._path = path
        self._version = version
        self._owed = path / "purge-owed"

    def __repr__(self) -> str:
        return f"<Folder {self._path}>"

    def make(self) -> None:
        """Make the folder where it is missing, and let nobody else read or write what is in it."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in self._files():
            for part in self._parts(*file):
                with suppress(OSError):  # of another user, or removed meanwhile
                    if part.stat().st_mode & 0o077:
                        part.chmod(0o600)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from choosing a file."""
        # Closing this descriptor releases no lock of SQLite, since it is of another file.
        descriptor = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def newest(self) -> int:
        """The number of the file in use; 1 where there is none yet."""
        return max((number for version, number in self._files() if version == self._version), default=1)

    def file(self, number: int) -> Path:
        return self._parts(self._version, number)[0]

    def identity(self, number: int) -> tuple[int, int] | None:
        """The device and the inode of the file with this number, which tell it from another one of its name; None when
        it is not there."""
        try:
            found = self.file(number).stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def bytes_beside(self, number: int | None) -> int:
        """Bytes of all files but the one with this number."""
        total = 0
        for file in self._files():
            for part in self._parts(*file) if file != (self._version, number) else ():
                with suppress(OSError):
                    total += part.stat().st_size
        return total

    def has_versions(self) -> bool:
        """Are there files of other versions?"""
        return any(version != self._version for version, _ in self._files())

    def remove_versions(self, *, below: int = 0) -> None:
        """Remove the files of other versions, and those of this version whose numbers are `below` this one. Processes
        that have one open may go on using it."""
        for version, number in self._files():
            for part in self._parts(version, number) if version != self._version or number < below else ():
                with suppress(OSError):
                    part.unlink()

    def owe(self) -> None:
        """Leave word, for processes to come, that a purge is still to be carried out."""
        self._owed.touch(mode=0o600)

    def owes(self) -> bool:
        """Was such word left?"""
        return self._owed.exists()

    def owes_nothing(self) -> None:
        """Take the word back."""
        self._owed.unlink(missing_ok=True)

    def _files(self) -> list[tuple[int, int]]:
        found = map(_NAME.fullmatch, os.listdir(self._path))
        return [(int(match[1]), int(match[2])) for match in found if match]

    def _parts(self, version: int, number: int) -> list[Path]:
        """The paths of a file, and of those that belong to it."""
        return [self._path / f"cache-{version}-{number}.sqlite3{part}" for part in _PARTS]
