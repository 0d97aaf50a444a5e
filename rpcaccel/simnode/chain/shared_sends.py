"""The file in which processes that simulate one chain tell each other the transactions that they are sent.

A line is a block's number and a signed transaction in hexadecimal digits. Every process puts the lines into its blocks
in the order of the file, so that all have the same transactions at the same places. The file lasts as long as one
process of the chain runs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from rpcaccel.simnode.chain.blocks import ChainSpec

MAX_SHARED_BYTES = 16 << 20
"""Bytes of the file: about 75,000 transfers, which fill 140 MB of memory in each process."""
SECONDS_TO_HEAR = 0.5
"""The time at the least from a send to the first moment of its block. The sender writes its line within this time, and
every process looks at the file before it shows a block."""


class NotShared(Exception):
    """A transaction cannot be told to the other processes of the chain; the text says why."""


class SharedSends:
    """The transactions that one process has in common with all others of a chain."""

    def __init__(self, spec: ChainSpec, folder: Path) -> None:
        """Open the file of the chain, below `folder`; empty if no other process has it open. Raises NotShared."""
        digest = blake2b(msgspec.json.encode(spec), digest_size=8).hexdigest()
        self.place = folder / f"rpcaccel-simnode-{os.geteuid()}-{digest}"
        self._read = 0
        try:
            self._folder = self._opened_folder()
            self._empty_if_alone()
            fcntl.flock(self._folder, fcntl.LOCK_SH)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open("sends", flags, 0o600, dir_fd=self._folder)
        except OSError as error:
            raise self._trouble(error) from None

    def __repr__(self) -> str:
        return f"<SharedSends {self.place}, {self._read} bytes read>"

    def _opened_folder(self) -> int:
        """A descriptor of the folder, which nobody else can put anything into. Raises OSError, NotShared."""
        self.place.mkdir(mode=0o700, exist_ok=True)
        folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(folder)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            os.close(folder)
            raise self._refused("it belongs to another user, or is open to others")
        return folder

    def _empty_if_alone(self) -> None:
        """Remove the file where no other process has the folder locked, as each does for as long as it runs."""
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink("sends", dir_fd=self._folder)
        except (BlockingIOError, FileNotFoundError):
            return

    def close(self) -> None:
        """Leave the file to the other processes; the last one removes it."""
        self._empty_if_alone()
        os.close(self._file)
        os.close(self._folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing. Raises NotShared if the file is lost."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if not os.fstat(self._file).st_nlink:
                raise self._refused("it was removed while nodes ran; end all nodes of the chain and start them again")
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def fresh(self) -> list[tuple[int, bytes]]:
        """The blocks and the signed transactions of the lines that were not read before."""
        size = os.fstat(self._file).st_size
        if size <= self._read:
            return []
        data = os.pread(self._file, size - self._read, self._read)
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        self._read += data.rfind(b"\n") + 1
        return [(int(number), bytes.fromhex(raw.decode())) for number, raw in map(bytes.split, lines)]

    def append(self, number: int, raw: bytes) -> None:
        """Write a line, while the file is locked and every line before was read. Raises NotShared, and then no process
        has the transaction."""
        line = b"%d %s\n" % (number, raw.hex().encode())
        if self._read + len(line) > MAX_SHARED_BYTES:
            raise self._refused(f"it is full ({MAX_SHARED_BYTES >> 20} MB); end all nodes of the chain to empty it")
        try:
            if os.write(self._file, line) < len(line):
                os.ftruncate(self._file, self._read)
                raise self._refused("there is no space left")
        except OSError as error:
            raise self._trouble(error) from None
        self._read += len(line)

    def _trouble(self, error: OSError) -> NotShared:
        return self._refused(os.strerror(error.errno) if error.errno else str(error))

    def _refused(self, reason: str) -> NotShared:
        return NotShared(f"sent transactions cannot be shared in {self.place}: {reason}")
