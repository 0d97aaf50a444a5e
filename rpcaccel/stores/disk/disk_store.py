"""The store on disk: read within a deadline, written in the background, and never in the way of a call.

A slow, full, damaged or missing disk is a miss, and is said in the statistics. Nothing here blocks the event loop or
raises towards the data plane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Protocol

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.stores.base import NoStore, PurgeResult, StoreStats
from rpcaccel.stores.disk.open_file import AGAIN, OpenFile
from rpcaccel.stores.disk.reading import Reading, ReadResult
from rpcaccel.stores.disk.turns import Answered, Turns
from rpcaccel.stores.disk.write_queue import WriteQueue
from rpcaccel.stores.disk.writing import BatchOutcome

FLUSH = 0.25
"""Seconds that an answer waits for others before it is written."""
CLOSE_WITHIN, CLOSE_LEAST = 3.0, 0.5
"""Seconds that the last writes and closing the file may take together at the end, and that closing has at the least."""
DAMAGED_MOST, DAMAGED_WITHIN = 32, 3600.0
"""Entries of a file that may be met damaged within so many seconds before the whole file is set aside."""
AHEAD = 50
"""Entries that are read ahead at once, so that no lookup waits for long behind them."""


class DiskTierSettings(Protocol):
    """The settings that the disk tier reads (config.model.DiskSettings). Sizes are in bytes, times in seconds."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def read_timeout(self) -> float: ...
    @property
    def queue(self) -> int: ...


class DiskStore(NoStore):
    """The tier on disk. It keeps only what never expires, and leases nothing: it is one host's."""

    name: ClassVar[str] = "disk"

    def __init__(self, settings: DiskTierSettings, *, again: float = AGAIN) -> None:
        """`again`: seconds after which a file that could not be used is tried again."""
        self._file = OpenFile(Path(settings.path), settings.size, self._let_go, self._go_on, again=again)
        self._turns = Turns(self._read, settings.read_timeout, self._too_slow)
        self._queue = WriteQueue(settings.queue)
        self._next_flush: asyncio.TimerHandle | None = None
        self._damaged_lately: list[float] = []
        """When damaged entries of the file in use were met."""
        self._damaged: dict[str, int] = {}
        self._hits = self._misses = self._down = self._busy = 0
        self._written = self._failed = self._dropped = self._purged = 0

    def __repr__(self) -> str:
        return f"<DiskStore {self._file!r}, {len(self._queue)} to be written>"

    async def start(self) -> None:
        """Open the file, in the background if that takes long."""
        await self._file.start()

    async def close(self) -> None:
        """Write what is queued, for a bounded time, and close the file."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + CLOSE_WITHIN
        while self._file.writable and len(self._queue) and loop.time() < ends:
            self._flush()
            await self._file.behind(ends - loop.time())
        await self._file.close(max(CLOSE_LEAST, ends - loop.time()))
        if self._next_flush is not None:
            self._next_flush.cancel()

    def _let_go(self) -> None:
        """Let nobody wait for a file that is used no more."""
        self._damaged_lately.clear()
        self._dropped += self._queue.clear()
        self._turns.give_up()

    # -- reads ----------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> Awaitable[Entry | None]:
        """The entry of `key`; None when there is none, or no answer in time."""
        found: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()

        def told(entry: Entry | None) -> None:
            if not found.done():
                found.set_result(entry)

        if not self.look((key,), lambda _key, _entry: True, told):
            told(None)
        return found

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        """Call `done` with the first accepted entry of `keys`, or with None; False when the file cannot be asked."""
        if not self._file.up:
            self._down += 1
            return False
        if self._turns.stuck:
            self._busy += 1
            return False
        key, rest = keys[0], keys[1:]

        def told(entry: Entry | None) -> None:
            if entry is not None and accepts(key, entry):
                done(entry)
            elif not rest or not self.look(rest, accepts, done):
                done(None)

        waiting = self._queue.get(key)
        if waiting is None:
            self._turns.ask(key, told)
        else:
            self._hits += 1
            told(waiting)
        return True

    def _read(self, keys: Sequence[bytes], answered: Answered) -> None:
        middle = self._file.state.middle

        def done(result: ReadResult | None) -> None:
            if result is None:
                answered({}, True)
                return
            if answered(result.entries, result.complete):
                self._hits += len(result.entries)
                if result.complete:
                    self._misses += len(keys) - len(result.entries) - len(result.damaged)
            self._note(result)

        self._file.read(lambda reading: reading.read(keys, middle), done)

    def _note(self, result: ReadResult) -> None:
        """Note the entries that were used, and those that were damaged."""
        if result.damaged or result.used:
            self._queue.note(result.used, result.damaged)
        for why in result.reasons:
            self._damaged[why] = self._damaged.get(why, 0) + 1
            now = asyncio.get_running_loop().time()
            self._damaged_lately = [when for when in self._damaged_lately if now - when < DAMAGED_WITHIN]
            self._damaged_lately.append(now)
        if len(self._damaged_lately) > DAMAGED_MOST:
            self._file.set_aside(f"more than {DAMAGED_MOST} of its entries are damaged")

    def _too_slow(self) -> None:
        if self._file.up:
            self._file.step_aside("reads take too long")

    async def read_ahead(self, room: int, keep: Callable[[bytes, Entry], object]) -> int | None:
        """Read what was hot before the last restart, the latest first, until it takes `room` bytes; `keep` is called
        with each entry. Returns the number of entries; None when the file cannot be read."""
        keys: list[bytes] | None = await self._file.answer(Reading.hot)
        if keys is None:
            return None
        count = 0
        while keys and room > 0:
            some, keys = keys[:AHEAD], keys[AHEAD:]
            result: ReadResult | None = await self._file.answer(_reads(some))
            if result is None:
                break
            for key, entry in result.entries.items():
                if room > 0:
                    room -= len(key) + len(entry.result)
                    keep(key, entry)
                    count += 1
            if not result.complete:
                keys = [key for key in some if key not in result.entries] + keys
        return count

    # -- writes ---------------------------------------------------------------------------------------------------

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        """Queue an entry that never expires; others are not kept here."""
        if ttl < inf:
            return
        if not self._file.writable or not self._queue.put(key, entry):
            self._dropped += 1
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Write a batch now if there is a whole one, and a little later if there is less."""
        if self._queue.full_batch:
            self._flush()
        elif self._queue and self._next_flush is None:
            self._next_flush = asyncio.get_running_loop().call_later(FLUSH, self._flush)

    def _flush(self) -> None:
        """Write a batch, if something waits and the thread is free."""
        if self._next_flush is not None:
            self._next_flush.cancel()
            self._next_flush = None
        if self._queue and self._file.writable and not self._file.busy:
            batch = self._queue.take()
            self._file.write(lambda writing: writing.write(batch), self._count, in_any_case=self._landed)

    def _landed(self, result: Any) -> None:
        count = self._queue.landed()
        if isinstance(result, Exception):
            self._failed += count

    def _count(self, written: BatchOutcome) -> None:
        self._file.was_written()
        self._written += written.written
        self._dropped += written.refused
        if written.numbered:
            self._file.read(Reading.forget, lambda _result: None)

    def notice(self, hot: Mapping[bytes, Entry]) -> None:
        """Take note of entries that were hits in memory: they are kept from being evicted, and are read ahead after a
        restart. Does nothing while something else is written."""
        if self._file.writable and not self._file.busy:
            self._file.write(lambda writing: writing.notice(hot), self._noticed)

    def _noticed(self, absent: Mapping[bytes, Entry]) -> None:
        """Write what is hot and not there any more."""
        for key, entry in absent.items():
            self.put(key, entry, inf)

    def resize(self, size: int) -> None:
        """Apply a new bound (bytes). A file above it shrinks little by little."""
        self._file.resize(size)

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        """Remove the selected entries, or count them. Where the file is not open, that is done before it is read."""
        if not dry:
            self._queue.forget(selection)
        removed = await self._file.purge(selection, dry=dry)
        if not dry:
            self._purged += removed or 0
        return PurgeResult(removed or 0, complete=removed is not None)

    # -- what is said ---------------------------------------------------------------------------------------------

    def stats(self) -> StoreStats:
        """The state and the counters now."""
        file = self._file
        return StoreStats(
            name=self.name,
            up=file.was_up,
            fault=file.said(),
            hits=self._hits,
            misses=self._misses,
            late=self._turns.late,
            errors=file.errors,
            down=self._down,
            busy=self._busy,
            damaged=dict(self._damaged),
            reads=self._turns.jobs,
            writes=self._written,
            writes_failed=self._failed,
            writes_dropped=self._dropped,
            queued=len(self._queue),
            purged=self._purged,
            entries=file.state.entries,
            bytes=file.state.bytes,
            limit=file.limit,
            evicted=file.state.evicted,
            warnings=file.warnings(),
        )


def _reads(keys: Sequence[bytes]) -> Callable[[Reading], ReadResult]:
    return lambda reading: reading.read(keys, 0)
