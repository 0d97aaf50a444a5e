"""The history over restarts: a file beside the state file, written seldom and by a thread.

The file is never the reason why a start fails. One that is damaged, of another version or too large is left behind with
a word in the log and on the page, and the history begins anew. One from the future, by a clock that may not have been
set yet, is renamed before a new one is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from rpcaccel.controlplane.settings.kept_file import write_whole
from rpcaccel.controlplane.stats.history import History

VERSION = 1
SAVE_EVERY = 300.0
"""Seconds between two writes, which is what a power cut costs of the history."""
LARGEST = 64_000_000
"""Bytes of the file at the most: a week of some hundred networks with a few nodes each."""

Kept = dict[str, dict[str, list[bytes]]]
"""Encoded time slices by kind and range, oldest first."""

log = structlog.get_logger("rpcaccel.history")


class _Saved(Struct, frozen=True, array_like=True):
    version: int
    kept: Kept


class _Versioned(Struct, frozen=True, array_like=True):
    version: int


class LostHistoryError(Exception):
    """The file cannot be used. Its text says why, in words that follow the file's name."""


class HistoryFile:
    """The file, which is replaced whole at each write."""

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        self.path = path
        self._largest = largest

    def __repr__(self) -> str:
        return f"<HistoryFile {self.path}>"

    def load(self) -> Kept:
        """What was saved; nothing without a file. Raises LostHistoryError."""
        try:
            with self.path.open("rb") as opened:
                content = opened.read(self._largest + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise LostHistoryError(f"cannot be read: {error.strerror or type(error).__name__}") from None
        if len(content) > self._largest:
            raise LostHistoryError(f"is larger than {self._largest / 1e6:g} MB")
        try:
            version = msgspec.msgpack.decode(content, type=_Versioned).version
            if version == VERSION:
                return msgspec.msgpack.decode(content, type=_Saved).kept
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise LostHistoryError("is damaged") from None
        raise LostHistoryError(f"has version {version}, which this rpcaccel does not read")

    @property
    def aside(self) -> Path:
        """Where a file is put that a clock may have been wrong about."""
        return self.path.with_name(f"{self.path.name}.future")

    def put_aside(self) -> None:
        """Rename the file; one that was put aside before is replaced. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(self.aside)

    def save(self, kept: Kept) -> None:
        """Write and rename. What makes the file too large is left out, the finest ranges first. Raises OSError.
        Blocks."""
        left = {kind: dict(ranges) for kind, ranges in kept.items()}
        content = msgspec.msgpack.encode(_Saved(VERSION, left))
        while len(content) > self._largest and any(left.values()):
            for ranges in left.values():
                if ranges:
                    del ranges[next(iter(ranges))]
            content = msgspec.msgpack.encode(_Saved(VERSION, left))
        write_whole(self.path, content)


class HistoryKeeper:
    """Takes up the history at the start, and saves it now and then and at the end."""

    def __init__(self, history: History, wall: Callable[[], float] = time.time, every: float = SAVE_EVERY) -> None:
        """`every`: seconds between two writes."""
        self.note = ""
        """A sentence when the history was lost, or will be."""
        self._early = ""
        """A sentence when the clock was behind the file at the start."""
        self._to_put_aside = False
        self._history = history
        self._wall = wall
        self._every = every
        self._file: HistoryFile | None = None
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<HistoryKeeper {self._file!r}>"

    def open(self, file: HistoryFile | None) -> None:
        """Take up what the last run saved. A file that cannot be used is named in a note."""
        self._file = file
        if file is None:
            return
        try:
            saved = file.load()
            if saved and self._history.restore(saved, self._wall()):
                self._say_future(file)
        except LostHistoryError as error:
            self._begin_anew(file, str(error))
        except (ValueError, msgspec.MsgspecError):
            self._begin_anew(file, "is damaged")

    def start(self) -> None:
        """Save now and then from now on."""
        if self._file is not None:
            self._task = asyncio.create_task(self._run(self._file), name="history")

    async def stop(self) -> None:
        """Save everything to the end."""
        self._ending.set()
        if self._task is not None:
            await self._task  # not cancelled: its thread might finish an older write after the last one
        if self._file is not None:
            await self._save(self._file)

    async def _run(self, file: HistoryFile) -> None:
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._ending.wait()
            if not self._ending.is_set():
                await self._save(file)

    async def _save(self, file: HistoryFile) -> None:
        try:
            if self._to_put_aside:
                await asyncio.to_thread(file.put_aside)
                self._to_put_aside = False
            await asyncio.to_thread(file.save, self._history.kept())
        except OSError as error:
            why = error.strerror or type(error).__name__
            note = f"{file.path} cannot be written ({why}): the charts begin anew after a restart"
            if note != self.note:
                log.warning(note)
            self.note = note
        except Exception:
            log.exception("the history was not saved, and is saved again")
        else:
            self.note = self._early

    def _say_future(self, file: HistoryFile) -> None:
        self._to_put_aside = True
        self.note = self._early = (
            f"{file.path} tells of times after this clock's: the charts lack them, and the file is kept as {file.aside}"
        )
        log.error("the history is from the future by this clock", file=str(file.path), kept_as=str(file.aside))

    def _begin_anew(self, file: HistoryFile, why: str) -> None:
        self.note = f"{file.path} {why}: the charts began anew at this start"
        log.error("the history begins anew", file=str(file.path), reason=why)
