"""The file that keeps, beside the answers on disk, how far this host has heard the purges of others.

Answers of another version's cache stay in the folder, and what this version hears is not carried out in them: so each
version of the cache has a file of its own, `heard-VERSION.json`, which stays where that cache was left.

The file is read and written by a thread that nobody waits for beyond a bound: a disk that hangs delays the sharing with
other hosts for a moment and stops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import structlog
from msgspec import Meta, Struct

from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.stores.job_thread import JobThread

MAX_FILE_BYTES = 4096
"""Bytes of the file at the most."""
LOAD_SECONDS = 30.0
"""Seconds that reading the file may take. They are many, because everything is purged where it takes longer."""
SAVE_SECONDS = 2.0
"""Seconds that a write of the file is waited for."""

log = structlog.get_logger("rpcaccel.sharing")


class HeardPlace(Struct, frozen=True, kw_only=True):
    """How far this host has heard the purges of others: up to this place in the stream, they are carried out in every
    tier of this host."""

    version: int = 1
    word: Annotated[str, Meta(pattern=r"^[0-9]{1,19}-[0-9]{1,19}$")]
    """The id of a message. Redis answers anything else with an error, which would be taken for a Redis that is away."""
    until: Annotated[float, Meta(ge=0)]
    """The time until which nothing was said that this host has not heard (seconds since 1970)."""


class HeardFile:
    """The file in the folder of the disk tier."""

    def __init__(
        self, folder: Path, cache_version: int, load_within: float = LOAD_SECONDS, save_within: float = SAVE_SECONDS
    ) -> None:
        """`load_within`, `save_within`: seconds that reading and writing may take."""
        self.path = folder / f"heard-{cache_version}.json"
        self._file = KeptFile(self.path, HeardPlace, largest=MAX_FILE_BYTES)
        self._load_within = load_within
        self._save_within = save_within
        self._busy = False
        """Has a thread not come back yet from the disk?"""
        self._fault = ""
        """Why the file was not written lately; empty when it was."""

    async def load(self) -> HeardPlace | None:
        """What was kept; None without a file. Raises LostFileError."""
        try:
            found: HeardPlace | None = await self._done(self._file.load, self._load_within)
        except TimeoutError:
            raise LostFileError("cannot be read: the disk does not answer") from None
        return found

    async def save(self, place: HeardPlace) -> None:
        """Replace the file. A failure is logged, once until a write succeeds. No write is begun while another hangs."""
        if self._busy:
            return
        try:
            await self._done(lambda: self._write(place), self._save_within)
        except OSError as error:
            reason = "the disk does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            if not self._fault:
                log.warning("purges will be heard again after a restart", file=str(self.path), reason=reason)
            self._fault = reason
        else:
            self._fault = ""

    def _write(self, place: HeardPlace) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file.save(place)

    async def _done(self, job: Callable[[], Any], within: float) -> Any:
        """The result of a job in a thread. Raises what the job raises, and TimeoutError, which is an OSError."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Any] = loop.create_future()

        def done(result: Any) -> None:
            self._busy = False
            if not told.done():
                told.set_result(result)

        self._busy = True
        # A thread of an executor would keep the program from ending for as long as the disk hangs.
        thread = JobThread("disk-heard", loop)
        thread.submit(job, done)
        thread.stop()
        result = await asyncio.wait_for(told, within)
        if isinstance(result, Exception):
            raise result
        return result
