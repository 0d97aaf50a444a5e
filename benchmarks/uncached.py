"""Keeps the files of a disk tier out of the page cache, so that every read goes to the disk.

    python -m benchmarks.uncached FOLDER [--every 0.5]

It brings what is in the write-ahead log into the file, says so on stdout, and drops the pages again and again until it
is ended. It is a process of its own, since closing a file releases all locks that its process has on the file.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path


def checkpoint(folder: Path) -> None:
    """Bring what is in the write-ahead logs into the files, and empty them if nobody reads them just now."""
    for file in folder.glob("*.sqlite3"):
        connection = sqlite3.connect(file, timeout=5.0)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


def drop(folder: Path) -> None:
    """Drop the pages of all files from the page cache, once they are on the disk."""
    for file in folder.glob("*.sqlite3*"):
        with suppress(FileNotFoundError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def load(folder: Path) -> None:
    """Bring all files into the page cache."""
    for file in folder.glob("*.sqlite3*"):
        with suppress(FileNotFoundError), file.open("rb") as opened:
            while opened.read(1 << 20):
                pass


def main() -> None:
    """Run from the command line, until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=float, default=0.5, help="seconds")
    given = parser.parse_args()
    checkpoint(given.folder)
    drop(given.folder)
    print("dropped", flush=True)
    while True:
        time.sleep(given.every)  # as often as the operator of the measurement wants
        drop(given.folder)


if __name__ == "__main__":
    main()
