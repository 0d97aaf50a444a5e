"""The store on disk: read within a deadline, written in the background, and never in the way of a call.

A slow, full, damaged or missing disk is a miss, and is reported in the statistics. Nothing here blocks the event loop
or raises towards the data plane.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Protocol

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.stores.base import PurgeResult, Store, StoreStats
from rpcaccel.stores.disk.cache_file import CacheFile, ReadResult
from rpcaccel.stores.disk.database import DiskFault, DiskFaultKind
from rpcaccel.stores.disk.lookups import Lookups, OnRead
from rpcaccel.stores.disk.open_file import RETRY_SECONDS, OpenFile

FLUSH_SECONDS = 0.25
"""How long an answer waits for others before it is written."""
BATCH_ENTRIES, BATCH_BYTES = 64, 2 << 20
"""Answers, and bytes of their results, that are written at once. They take about a millisecond of a processor, so that
calls do not wait behind long bursts of writing where there is no other processor."""
QUEUED_ENTRY_BYTES = 400
"""Memory that an answer takes beside its key and its result while it waits."""
CLOSE_SECONDS, MIN_CLOSE_SECONDS = 3.0, 0.5
"""What the last writes and closing the file may take together at the end, and what closing has at the least."""
MAX_DAMAGED, DAMAGED_SECONDS = 32, 3600.0
"""Entries of a file that may be met damaged within so many seconds before the whole file is set aside."""
NOTICED_AT_ONCE = 100
"""Hot entries that one job takes note of."""
READ_AHEAD_KEYS = 50
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


class WriteQueue:
    """The answers that are not written yet, bounded in bytes. They can be read meanwhile."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of everything in the queue."""
        self._limit = limit
        self._bytes = 0
        self._entries: dict[bytes, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full_batch(self) -> bool:
        """Do enough answers wait for a batch?"""
        return len(self._entries) >= BATCH_ENTRIES or self._bytes >= BATCH_BYTES

    def put(self, key: bytes, entry: Entry) -> bool:
        """Queue an answer, in place of one with the same key; False when there is no room."""
        before = self._entries.get(key)
        added = _queued_bytes(key, entry) - (0 if before is None else _queued_bytes(key, before))
        if self._bytes + added > self._limit:
            return False
        self._bytes += added
        self._entries[key] = entry
        return True

    def get(self, key: bytes) -> Entry | None:
        return self._entries.get(key)

    def batch(self) -> dict[bytes, Entry]:
        """The answers that are to be written next. They stay in the queue until `end` is called."""
        batch, size = dict[bytes, Entry](), 0
        for key, entry in islice(self._entries.items(), BATCH_ENTRIES):
            if size >= BATCH_BYTES:
                break
            batch[key] = entry
            size += len(entry.result)
        return batch

    def end(self, batch: Mapping[bytes, Entry]) -> int:
        """Forget the answers of a batch that were not replaced meanwhile; returns how many were not dropped either."""
        ended = [key for key, entry in batch.items() if self._entries.get(key) is entry]
        for key in ended:
            self._bytes -= _queued_bytes(key, self._entries.pop(key))
        return len(ended)

    def drop(self, selection: Selection) -> int:
        """Drop the selected answers; returns their number."""
        return self.end({key: entry for key, entry in self._entries.items() if selection.matches(key)})


class DiskStore(Store):
    """The tier on disk. It keeps only what never expires, and leases nothing: it is one host's."""

    def __init__(self, settings: DiskTierSettings, *, retry: float = RETRY_SECONDS) -> None:
        """`retry`: seconds after which a file that could not be used is tried again."""
        self._file = OpenFile(Path(settings.path), settings.size, self._drop_all, retry=retry)
        too_slow = DiskFault(DiskFaultKind.UNUSABLE, "reads take too long")
        self._lookups = Lookups(self._read, settings.read_timeout, lambda: self._file.leave(too_slow))
        self._queue = WriteQueue(settings.queue)
        self._writing = False
        self._hot: list[tuple[bytes, Entry]] = []
        """Entries that are still to be taken note of as hot."""
        self._held_up = False
        """Has another process just held the file? Then writes wait a little, so that lookups come between."""
        self._next_flush: asyncio.TimerHandle | None = None
        self._damaged_at: deque[float] = deque(maxlen=MAX_DAMAGED + 1)
        """When damaged entries of the file in use were met."""
        self._damaged: dict[str, int] = {}
        self._hits = self._misses = self._down = self._busy = 0
        self._written = self._failed = self._dropped = self._purged = 0

    def __repr__(self) -> str:
        return f"<DiskStore {self._file!r}, {len(self._queue)} to be written>"

    async def start(self) -> None:
        await self._file.start()

    async def close(self) -> None:
        """Write what is queued, for a bounded time, and close the file."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + CLOSE_SECONDS
        while self._file.writable and (len(self._queue) or self._hot) and loop.time() < ends:
            self._flush()
            await self._file.answer(_nothing, ends - loop.time())
        await self._file.close(max(MIN_CLOSE_SECONDS, ends - loop.time()))
        if self._next_flush is not None:
            self._next_flush.cancel()

    def _drop_all(self) -> None:
        """Let nobody wait for a file that is used no more."""
        self._damaged_at.clear()
        self._dropped += self._queue.drop(Selection())
        self._lookups.give_up()

    # -- reads --------------------------------------------------------------------------------------------------------

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        if not self._file.up:
            self._down += 1
            return False
        if self._lookups.stuck:
            self._busy += 1
            return False
        key, rest = keys[0], keys[1:]

        def on_lookup(entry: Entry | None) -> None:
            if entry is not None and accepts(key, entry):
                done(entry)
            elif not rest or not self.look(rest, accepts, done):
                done(None)

        queued = self._queue.get(key)
        if queued is None:
            self._lookups.ask(key, on_lookup)
        else:
            self._hits += 1
            on_lookup(queued)
        return True

    def _read(self, keys: Sequence[bytes], on_read: OnRead) -> None:
        def ended(result: ReadResult | DiskFault) -> None:
            if isinstance(result, DiskFault):
                on_read({}, True)
                return
            if on_read(result.entries, result.complete):
                self._hits += len(result.entries)
                if result.complete:
                    self._misses += len(keys) - len(result.entries) - len(result.damaged)
            self._note_damage(result)

        self._file.submit(lambda file: file.read(keys), ended)

    def _note_damage(self, result: ReadResult) -> None:
        now = asyncio.get_running_loop().time()
        for reason in result.damaged:
            self._damaged[reason] = self._damaged.get(reason, 0) + 1
            self._damaged_at.append(now)
        if len(self._damaged_at) > MAX_DAMAGED and now - self._damaged_at[0] < DAMAGED_SECONDS:
            words = f"more than {MAX_DAMAGED} of its entries are damaged"
            self._file.leave(DiskFault(DiskFaultKind.DAMAGED, words))

    async def read_ahead(self, room: int, keep: Callable[[bytes, Entry], object]) -> int | None:
        """Read what was hot before the last restart, the latest first, until it takes `room` bytes; `keep` is called
        with each entry. Returns the number of entries; None when the file cannot be read."""
        keys: list[bytes] | None = await self._file.answer(CacheFile.hot)
        if keys is None:
            return None
        count = 0
        while keys and room > 0:
            some, keys = keys[:READ_AHEAD_KEYS], keys[READ_AHEAD_KEYS:]
            result: ReadResult | None = await self._file.answer(partial(CacheFile.read, keys=some))
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

    # -- writes -------------------------------------------------------------------------------------------------------

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
        if self._queue.full_batch and not self._held_up:
            self._flush()
        elif self._queue and self._next_flush is None:
            self._next_flush = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        """Write a batch, if something waits and nothing is being written; a little later where the disk is full."""
        if self._next_flush is not None:
            self._next_flush.cancel()
            self._next_flush = None
        self._held_up = self._file.up and not self._file.writable
        if self._held_up:
            self._go_on()
        elif self._queue and self._file.up and not self._writing:
            batch = self._queue.batch()
            self._write(lambda file: file.write(batch), partial(self._batch_ended, batch))

    def _write(self, job: Callable[[CacheFile], Any], on_end: Callable[[Any], None]) -> None:
        self._writing = True

        def ended(result: Any) -> None:
            self._writing = False
            self._held_up = isinstance(result, DiskFault) and result.kind is DiskFaultKind.BUSY
            on_end(result)
            self._go_on()

        self._file.submit(job, ended)

    def _batch_ended(self, batch: Mapping[bytes, Entry], result: int | DiskFault) -> None:
        if not isinstance(result, DiskFault):
            self._queue.end(batch)
            self._file.was_written()
            self._written += result
            self._dropped += len(batch) - result
        elif not self._held_up:  # otherwise the answers are written again
            self._failed += self._queue.end(batch)

    def notice(self, hot: Mapping[bytes, Entry]) -> None:
        """Take note of entries that were hits in memory: they are kept from being evicted, and are read ahead after a
        restart. Does nothing while something else is written, or earlier ones are noted."""
        if not self._hot:
            self._hot = list(hot.items())
            self._notice_some()

    def _notice_some(self) -> None:
        """Take note of some of the hot entries, few enough that no lookup waits for long behind them."""
        some, self._hot = dict(self._hot[:NOTICED_AT_ONCE]), self._hot[NOTICED_AT_ONCE:]
        if not some or not self._file.writable or self._writing:
            self._hot = []
            return
        self._write(lambda file: file.notice(some), self._noticed)

    def _noticed(self, absent: Mapping[bytes, Entry] | DiskFault) -> None:
        """Write what is hot and not there any more, and go on with the next ones."""
        for key, entry in absent.items() if not isinstance(absent, DiskFault) else ():
            self.put(key, entry, inf)
        self._notice_some()

    def resize(self, size: int) -> None:
        """Apply a new bound (bytes). A file above it shrinks little by little."""
        self._file.resize(size)

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        """Remove the selected entries, or count them. Where the file is not open, that is done before it is read."""
        if not dry:
            self._queue.drop(selection)
        removed = await self._file.purge(selection, dry=dry)
        if not dry:
            self._purged += removed or 0
        return PurgeResult(removed or 0, complete=removed is not None)

    # -- what is said -------------------------------------------------------------------------------------------------

    def stats(self) -> StoreStats:
        file = self._file
        return StoreStats(
            up=file.was_up,
            fault=file.said(),
            hits=self._hits,
            misses=self._misses,
            late=self._lookups.late,
            errors=file.errors,
            down=self._down,
            busy=self._busy,
            damaged=dict(self._damaged),
            reads=self._lookups.jobs,
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


def _nothing(_file: CacheFile) -> None:
    """End once the jobs before it have ended."""


def _queued_bytes(key: bytes, entry: Entry) -> int:
    return QUEUED_ENTRY_BYTES + len(key) + len(entry.result)
