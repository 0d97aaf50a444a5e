"""Says what is wrong with the disk tier's file or its disk, and what follows from it."""

from __future__ import annotations

import errno
import os
import sqlite3
from enum import StrEnum


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
_CODE = 0xFF
"""The part of an extended result code that is the primary one (sqlite.org/rescode.html)."""


def fault_of(error: Exception) -> DiskFault:
    """The fault behind an exception that a job of the tier raised."""
    if isinstance(error, DiskFault):
        return error
    if isinstance(error, sqlite3.Error):
        # Python itself raises errors without a code, for text that is not UTF-8.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        found = _BY_CODE.get(code) or _BY_CODE.get(code & _CODE)
        return DiskFault(*(found or (DiskFaultKind.UNUSABLE, "the disk answered with an error")))
    if isinstance(error, OSError):
        words = os.strerror(error.errno).lower() if error.errno else "the system refuses it"
        return DiskFault(DiskFaultKind.FULL if error.errno == errno.ENOSPC else DiskFaultKind.UNUSABLE, words)
    return DiskFault(DiskFaultKind.UNUSABLE, f"an unforeseen {type(error).__name__}")
