"""The state file, which keeps changes made at run time for the next start. It holds secrets and is readable by its
owner only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rpcaccel.config.errors import ConfigError, Fault
from rpcaccel.controlplane.settings.audit import Change
from rpcaccel.core.wire.json_text import UNREADABLE

VERSION = 1


class Earlier(Struct, frozen=True):
    """An older revision: its difference from the config file."""

    revision: int
    overlay: dict[str, Any]


class StateDocument(Struct, frozen=True, kw_only=True):
    """The content of the state file."""

    version: int = VERSION
    revision: int
    overlay: dict[str, Any]
    """A merge patch over what file, environment and flags say."""
    changes: tuple[Change, ...] = ()
    """Oldest first."""
    earlier: tuple[Earlier, ...] = ()
    told: dict[str, Any] = {}
    """The values of flags and variables when the file was written, by path."""


class StateFile:
    """A file that is replaced whole: at any moment it has the old or the new content."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<StateFile {self.path}>"

    def load(self) -> StateDocument | None:
        """The saved content; None without a file. Raises ConfigError for a file that cannot be used."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _fault(self.path, f"cannot be read: {error.strerror or type(error).__name__}") from None
        try:
            saved = msgspec.json.decode(content, type=StateDocument)
        except UNREADABLE:
            raise _fault(self.path, "is not a state file of rpcaccel; move it away to start without it") from None
        if saved.version != VERSION:
            raise _fault(self.path, f"has version {saved.version}, which this rpcaccel does not read")
        return saved

    def save(self, saved: StateDocument) -> None:
        """Write and rename the file, and sync both to the disk. Raises OSError. Blocks."""
        write_whole(self.path, msgspec.json.format(msgspec.json.encode(saved), indent=1))


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file so that at any moment it has the old or the new content. Raises OSError. Blocks."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Sync the folder: without this a power cut may undo the rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fault(path: Path, what: str) -> ConfigError:
    return ConfigError([Fault(str(path), "", what)])
