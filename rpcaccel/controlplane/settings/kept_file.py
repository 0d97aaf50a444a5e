"""The files that keep something over a restart. Each is replaced whole: at any moment it has the old or the new
content, and its owner alone may read it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from rpcaccel.core.wire.json_text import UNREADABLE

T = TypeVar("T", bound=Struct)
MAX_KEPT_BYTES = 1 << 26
"""Bytes of a file that is read, unless its owner needs fewer: more than any of them grows to."""

OWNER_ALONE, EVERYONE_READS = 0o600, 0o644
"""Permissions of a file that may hold secrets, and of one that holds none."""


class LostFileError(Exception):
    """A file cannot be used. Its text says why, in words that follow the file's name."""


class _Versioned(Struct):
    version: int = 1


class KeptFile(Generic[T]):
    """A file of one JSON document."""

    def __init__(self, path: Path, content: type[T], *, version: int = 1, largest: int = MAX_KEPT_BYTES) -> None:
        """The file at `path`.

        Args:
            content: the Struct of the document. It has a member `version`.
            version: the version of the document that is read.
            largest: bytes of a file that is read.
        """
        self.path = path
        self._content = content
        self._version = version
        self._largest = largest
        self._lost = False
        """Was a file read that cannot be used? It is set aside before another one takes its place."""

    def __repr__(self) -> str:
        return f"<{self._content.__name__} in {self.path}>"

    def load(self) -> T | None:
        """What was saved; None without a file. Raises LostFileError. Blocks."""
        self._lost = False
        try:
            with self.path.open("rb") as opened:
                text = opened.read(self._largest + 1)
            self._lost = True
            if len(text) > self._largest:
                raise LostFileError(f"is larger than {self._largest} bytes")
            version = msgspec.json.decode(text, type=_Versioned).version
            if version != self._version:
                raise LostFileError(f"has version {version}, which this rpcaccel does not read")
            found = msgspec.json.decode(text, type=self._content)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise LostFileError(f"cannot be read: {error.strerror or type(error).__name__}") from None
        except UNREADABLE:
            raise LostFileError("is damaged") from None
        self._lost = False
        return found

    @property
    def aside(self) -> Path:
        """The path to which a file that cannot be used is moved."""
        return self.path.with_name(f"{self.path.name}.lost")

    def save(self, content: T) -> None:
        """Replace the file. One that could not be used is moved to `aside` before. Raises OSError. Blocks."""
        if self._lost:
            with contextlib.suppress(FileNotFoundError):
                self.path.replace(self.aside)
            self._lost = False
        write_whole(self.path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def beside(state: Path, ending: str) -> Path:
    """The path of a file that belongs to a state file: rpcaccel.state.json -> rpcaccel.ENDING."""
    return state.with_name(f"{state.name.removesuffix('.json').removesuffix('.state')}.{ending}")


def write_whole(path: Path, content: bytes, mode: int = OWNER_ALONE, *, anew: bool = False) -> None:
    """Replace a file so that at any moment it has the old or the new content; with `anew`, make it where there is none,
    or else raise FileExistsError. `mode`: its permissions, of which the umask takes some. Raises OSError. Blocks."""
    with replacing(path, mode, anew=anew) as new, new.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


@contextlib.contextmanager
def replacing(path: Path, mode: int = OWNER_ALONE, *, anew: bool = False) -> Iterator[Path]:
    """An empty file beside another one, whose place it takes at the end unless an error is raised. Who writes it must
    have it on the disk by then. Its name stays the same, so that what a killed program left of it is replaced by the
    next write. Raises OSError, with `anew` also where the other one is there by then. Blocks."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(None, "it is there, and no file")  # but a device, such as /dev/null
    new = path.with_name(f".{path.name}.{os.getpid()}.new" if anew else f".{path.name}.new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield new
        if anew:
            os.link(new, path)
            new.unlink()
        else:
            new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # without this a power cut may undo the rename
    finally:
        os.close(folder)
