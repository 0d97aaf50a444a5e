"""Writes to Redis: a bounded queue that is written in the background, pipelined to the primaries.

A full queue drops new writes. Large values are compressed with zstd.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import NamedTuple

import zstandard

from rpcaccel.core.cache.entry import Entry, Selection, encode
from rpcaccel.stores.redis.replies import NoServerError
from rpcaccel.stores.redis.topology import Command, Topology
from rpcaccel.stores.tasks import cancel_and_wait

COMPRESSION_LEVEL = 1
"""The compression level. JSON compresses well at any level, and compression runs on the event loop."""
MAX_EXPANDED_BYTES = 256 << 20
"""Bytes that a value may claim to expand to."""


class Zstd:
    """Compresses bodies of at least `threshold` bytes. Must be used by one thread at a time."""

    __slots__ = ("_compressor", "_decompressor", "threshold")

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self._compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def compress(self, body: bytes) -> bytes | None:
        """The compressed body; None below the threshold or when compression saves less than a tenth."""
        if len(body) < self.threshold:
            return None
        shorter = self._compressor.compress(body)
        return shorter if len(shorter) * 10 <= len(body) * 9 else None

    def expand(self, body: bytes, length: int) -> bytes | None:
        """The body of `length` bytes; None when the frame is damaged or states another length."""
        try:
            # Checked before memory is allocated, because a frame may claim any size.
            if length > MAX_EXPANDED_BYTES or zstandard.frame_content_size(body) != length:
                return None
            return self._decompressor.decompress(body)
        except zstandard.ZstdError:
            return None


MAX_PIPELINED_WRITES = 64
"""Writes in one pipeline. They are encoded between two awaits, so that the event loop is not blocked for long."""

MAX_QUEUE_BYTES = 64 << 20
"""Bytes of all results in the queue together."""

MAX_LIFE_SECONDS = 7 * 86400.0
"""Seconds of the longest lifetime, so that a Redis without eviction does not grow for ever."""

THREAD_FROM_BYTES = 256 << 10
"""Bytes from which a result is compressed in a thread."""


class PendingWrite(NamedTuple):
    """A queued entry, and the monotonic time at which it expires (seconds)."""

    entry: Entry
    until: float


class Writes:
    """The queue of writes. `prefix` is put before every key; times are in seconds."""

    def __init__(self, topology: Topology, *, prefix: bytes, timeout: float, limit: int, zstd: Zstd) -> None:
        self._topology = topology
        self._prefix = prefix
        self._timeout = timeout
        self._limit = limit
        self._zstd = zstd
        self._waiting: dict[bytes, PendingWrite] = {}
        self._hand: dict[bytes, PendingWrite] = {}
        """The writes under way."""
        self._bytes = 0
        self._wake = asyncio.Event()
        self._round = asyncio.Event()
        """Set, and replaced by a new event, whenever the writes under way have ended."""
        self._task: asyncio.Task[None] | None = None
        self.written = self.failed = self.dropped = 0

    @property
    def queued(self) -> int:
        """Number of writes that are queued or under way."""
        return len(self._waiting) + len(self._hand)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="redis writes")

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        """Queue an entry. It replaces a queued entry with the same key."""
        size = len(entry.result)
        if self.queued >= self._limit or self._bytes + size > MAX_QUEUE_BYTES or not self._topology.up or ttl <= 0:
            self.dropped += 1
            return
        before = self._waiting.get(key)
        self._bytes += size - (len(before.entry.result) if before is not None else 0)
        self._waiting[key] = PendingWrite(entry, time.monotonic() + min(ttl, MAX_LIFE_SECONDS))
        self._wake.set()

    async def forget(self, selection: Selection) -> None:
        """Drop the selected queued writes and wait for those under way, so that a purge after this finds them."""
        for key in [key for key in self._waiting if selection.matches(key)]:
            self._bytes -= len(self._waiting.pop(key).entry.result)
        if any(selection.matches(key) for key in self._hand):
            await self._round.wait()

    async def settled(self, key: bytes) -> None:
        """Wait until no write of `key` is queued or under way."""
        while key in self._waiting or key in self._hand:
            await self._round.wait()

    async def close(self, *, within: float) -> None:
        """Write what is queued, for `within` seconds at the most, and stop."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(within):
                while self.queued and self._topology.up:
                    await self._round.wait()
        except TimeoutError:
            pass
        await cancel_and_wait(self._task)
        self.dropped += self.queued
        self._waiting, self._hand, self._bytes = {}, {}, 0
        self._round.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                keys = list(islice(self._waiting, MAX_PIPELINED_WRITES))
                self._hand = {key: self._waiting.pop(key) for key in keys}
                try:
                    await self._write()
                except Exception:  # whatever it was, the next writes must go on
                    self.failed += len(keys)
                self._bytes -= sum(len(pending.entry.result) for pending in self._hand.values())
                self._hand = {}
                self._round.set()
                self._round = asyncio.Event()

    async def _write(self) -> None:
        commands: list[Command] = []
        now, wall = time.monotonic(), time.time()
        for key, (entry, until) in self._hand.items():
            life = int((until - now) * 1000)
            if life <= 0:
                continue
            try:
                commands.append(("SET", self._prefix + key, await self._encode(entry, now, wall), "PX", life))
            except Exception:  # an entry that cannot be encoded must not stop the others
                self.failed += 1
        replies = await self._topology.ask(bytes, commands, self._timeout)
        dropped = sum(isinstance(reply, NoServerError) for reply in replies)
        failed = sum(isinstance(reply, Exception) for reply in replies) - dropped
        self.dropped += dropped
        self.failed += failed
        self.written += len(replies) - dropped - failed

    async def _encode(self, entry: Entry, now: float, wall: float) -> bytes:
        if len(entry.result) < THREAD_FROM_BYTES:
            return encode(entry, now=now, wall=wall, compress=self._zstd.compress)
        return await asyncio.to_thread(encode, entry, now=now, wall=wall, compress=self._zstd.compress)
