"""The history over restarts: a file beside the state file, written seldom and by a thread.

The file is never the reason why a start fails. One that cannot be used is named in the log and on the page, and set
aside as NAME.lost before another one takes its place; the history begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from rpcaccel.controlplane.settings.kept_file import replacing
from rpcaccel.controlplane.stats.buckets import Bucket
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.history_table import MAX_TABLE_BYTES, ROLLUPS

TABLE_FLUSH_SECONDS = 15.0
"""Seconds between two times that what was counted is added to the table."""
HISTORY_SAVE_SECONDS = 300.0
"""Seconds between two writes, which is what a power cut costs of the history."""
MAX_HISTORY_BYTES = 2 * MAX_TABLE_BYTES
"""A larger file is none that was written here."""

_Version1 = tuple[int, dict[str, dict[str, list[bytes]]]]
"""The file of version 0.2 and before, in MessagePack: 1, and the slices by kind and range, each encoded by itself."""
_Slice = tuple[Bucket, dict[str, Bucket | None]]
"""The whole, and its parts; None for one that equals the whole."""

log = structlog.get_logger("rpcaccel.history")


class HistoryKeeper:
    """Takes up the history at the start, and saves it now and then and at the end."""

    def __init__(
        self, history: History, wall: Callable[[], float] = time.time, every: float = HISTORY_SAVE_SECONDS
    ) -> None:
        """`every`: seconds between two writes."""
        self.note = ""
        """A sentence when the history was lost, or will be."""
        self._history = history
        self._wall = wall
        self._every = every
        self._path: Path | None = None
        self._lost = False
        """Is there a file that cannot be used?"""
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<HistoryKeeper of {self._path}>"

    def open(self, path: Path | None) -> None:
        """Take up what the last run saved; None: nothing is kept. A file that cannot be used is named in a note."""
        self._path = path
        try:
            if path is not None and path.exists():
                self._take_up(path)
        except (OSError, ValueError) as error:
            why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            self._lost = True
            self.note = f"{path} {why}: the charts began anew at this start"
            log.error("the history begins anew", file=str(path), reason=why)  # noqa: TRY400 -- the reason says all

    def _take_up(self, path: Path) -> None:
        if path.stat().st_size > MAX_HISTORY_BYTES:
            raise ValueError(f"is larger than {MAX_HISTORY_BYTES / 1e6:g} MB")
        with path.open("rb") as opened:
            begins_as_version_1 = opened.read(1) == b"\x92"
        if begins_as_version_1:
            self._take_over(path.read_bytes())
            cut = ", and for the older half of what found no room" if self._history.table.cut else ""
            log.warning(f"the history of an older version was taken over, but for the last day of each node{cut}")
        else:
            self._history.table.load(path)
        self._history.until = self._wall()
        if self._history.table.newest() > self._history.until:
            self.note = f"{path} tells of times after this clock's: the charts show them when the clock gets there"
            log.error("the history is from the future by this clock", file=str(path))

    def _take_over(self, content: bytes) -> None:
        try:
            _, saved = msgspec.msgpack.decode(content, type=_Version1)
            slices = [
                (group, over, msgspec.msgpack.decode(one, type=_Slice))
                for group in ("network", "client")
                for over in reversed(ROLLUPS[group])  # the longest first: what finds no room is of the shortest
                for one in saved.get(f"{group}s", {}).get(over, [])
            ]
            for group, over, (whole, parts) in slices:
                buckets = {"": whole, **{name: part or whole for name, part in parts.items()}}
                self._history.take_in(group, whole.at, whole.seconds, buckets, over)
        except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError, sqlite3.Error):
            raise ValueError("is damaged") from None

    def start(self) -> None:
        """Fill the table, and save it, now and then from now on."""
        self._task = asyncio.create_task(self._run(), name="history")

    async def stop(self) -> None:
        """Save everything to the end."""
        self._ending.set()
        if self._task is not None:
            await self._task  # not cancelled: its thread might finish an older write after the last one
        await self._save()

    async def _run(self) -> None:
        wait, passed = min(TABLE_FLUSH_SECONDS, self._every), 0.0
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._ending.wait()
            if not self._ending.is_set():
                passed += wait
                await self._save(write=passed >= self._every)
                passed %= self._every

    async def _save(self, *, write: bool = True) -> None:
        """Add what was counted to the table, and `write` the file if there is to be one."""
        try:
            await asyncio.to_thread(self._history.flush)
            if write and self._path is not None:
                await asyncio.to_thread(self._write, self._path)
                self.note = ""
        except OSError as error:
            note = f"{self._path} cannot be written ({error.strerror or error}): the charts begin anew after a restart"
            if note != self.note:
                log.warning(note)
            self.note = note
        except Exception:
            log.exception("the history was not saved, and is saved again")

    def _write(self, path: Path) -> None:
        if self._lost and path.is_file():
            path.replace(path.with_name(f"{path.name}.lost"))
        self._lost = False
        with replacing(path) as new:
            self._history.save(new)
