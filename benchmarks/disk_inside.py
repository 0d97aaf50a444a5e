"""The disk tier by itself, in process: what a million blocks take, and what a restart costs in hits."""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from hashlib import shake_128
from itertools import accumulate, islice
from math import inf
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from benchmarks import blocks
from rpcaccel.config.model import DiskSettings
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.recent_purges import RecentPurges
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.dataplane.engine.store_lookup import READ_AHEAD_SHARE, HotAnswers
from rpcaccel.stores.disk.disk_store import DiskStore

CHUNK = 10_000
"""Blocks that are made at once, before the clock of the writes runs; fewer than the queue of the tier holds."""
MEMORY, MAX_ENTRY = 256_000_000, 8_000_000
"""The memory tier as it is by default (bytes)."""
LOOK_EVERY = 1500
"""Requests between two looks of the memory tier for what is hot: five seconds at 300 requests a second."""
PAUSE_EVERY = 500
"""Requests after which the replay waits for the writes: it is far quicker than the explorer is, and the disk is not."""
_HISTORY = b":hmyv2_getTransactionsHistory:"
Request = tuple[bytes, int]
"""A key, and the length of its answer (bytes)."""
CHAIN = 1_000_000
"""The number of blocks of the chain."""
CALLS_A_HEAD = 600
"""Requests between two heads: 300 a second, blocks of two seconds."""


class Popularity:
    """Ranks below `count`, the first ones asked for most (Zipf)."""

    def __init__(self, rng: random.Random, count: int, skew: float) -> None:
        self._rng = rng
        self._edges = list(accumulate(1.0 / (rank + 1) ** skew for rank in range(count)))

    def rank(self) -> int:
        """A rank that was drawn."""
        return bisect(self._edges, self._rng.random() * self._edges[-1])


def _sized(key: bytes, least: int, most: int) -> Request:
    """The key with the length of its answer, which is always the same."""
    return key, least + crc32(key) % (most - least + 1)


def _block(number: int) -> Request:
    return _sized(b"harmony-s0:hmyv2_getBlockByNumber:[%d,{}]" % number, 2_000, 20_000)


def _receipt(block: int, index: int) -> Request:
    return _sized(b"harmony-s0:hmyv2_getTransactionReceipt:%064x" % (block << 16 | index), 700, 1_600)


def explorer() -> Iterator[Request]:
    """What an explorer asks for, the same every time, in sizes as Harmony's: its front page, popular addresses, and
    people (and crawlers) who walk through old blocks."""
    rng = random.Random("explorer")
    addresses, landmarks = Popularity(rng, 40_000, 1.0), Popularity(rng, 20_000, 0.8)
    asked = 0
    while True:
        head = CHAIN + asked // CALLS_A_HEAD
        kind = rng.random()
        if kind < 0.35:
            page = [_block(head - n) for n in range(8)]
        elif kind < 0.60:
            page = [_sized(b"harmony-s0:hmyv2_getTransactionsHistory:%040x:0" % addresses.rank(), 1_000, 16_000)]
        elif kind < 0.75:
            block = landmarks.rank() * 47
            page = [_block(block), *(_receipt(block, n) for n in range(3))]
        else:
            start = rng.randrange(CHAIN)
            page = [_block(start + n) for n in range(rng.randrange(5, 40))]
        asked += len(page)
        yield from page


class Filled(Struct, frozen=True):
    """What some blocks took."""

    number: int
    answers: int
    """Bytes of the answers."""
    on_disk: int
    """Bytes of the files, once they are closed."""
    seconds: float
    cpu: float
    """Seconds of processor time of all threads."""

    @property
    def ratio(self) -> float:
        """Bytes of answers for each byte of the files."""
        return self.answers / self.on_disk


async def fill(folder: Path, number: int) -> Filled:
    """Write the first `number` blocks in a random order, as fast as the tier takes them."""
    store = DiskStore(DiskSettings(path=str(folder), size=50_000_000_000))
    await store.start()
    answers, seconds, cpu = 0, 0.0, 0.0
    numbers = list(range(number))
    random.Random("fill").shuffle(numbers)
    for first in range(0, number, CHUNK):
        entries = {blocks.key(one): blocks.entry(one, time.monotonic()) for one in numbers[first : first + CHUNK]}
        answers += sum(len(entry.result) for entry in entries.values())
        began, used = time.perf_counter(), time.process_time()
        for key, entry in entries.items():
            store.put(key, entry, inf)
        await _written(store)
        seconds += time.perf_counter() - began
        cpu += time.process_time() - used
    written = store.stats().writes
    await store.close()
    if written != number:
        raise RuntimeError(f"{number - written} of {number} blocks were not written")
    return Filled(number, answers, size_of(folder), seconds, cpu)


async def _written(store: DiskStore) -> None:
    while store.stats().queued:
        await asyncio.sleep(0.001)  # between two looks: the store tells nobody when its queue is empty


def size_of(folder: Path) -> int:
    """Bytes of all files of a folder, holes included."""
    return sum(file.stat().st_size for file in folder.iterdir())


class Asked(Struct, frozen=True):
    """A request of the explorer."""

    key: bytes
    length: int
    """Bytes of the answer."""
    lasting: bool
    """Is the answer final? Others are kept until the head moves, and in memory only."""


def requests() -> Iterator[Asked]:
    """The explorer's requests. A history of transactions is true at one head, so that its key has the head in it."""
    for place, (key, length) in enumerate(explorer()):
        if _HISTORY in key:
            yield Asked(b"%b@%d" % (key, place // CALLS_A_HEAD), length, lasting=False)
        else:
            yield Asked(key, length, lasting=True)


class Tiers:
    """The memory tier, with or without one on disk behind it, asked as a worker asks them."""

    def __init__(self, disk: DiskStore | None) -> None:
        self.memory = MemoryTier(MEMORY, MAX_ENTRY)
        self._disk = disk
        self._hot = HotAnswers(self.memory, disk, RecentPurges(), time.monotonic) if disk is not None else None
        self._since = 0

    async def read_ahead(self) -> int:
        """Read ahead what was hot before a restart; returns the number of entries."""
        if self._disk is None:
            return 0
        room = int(MEMORY * READ_AHEAD_SHARE)
        return await self._disk.read_ahead(room, lambda key, entry: self.memory.put(key, entry, time.monotonic()))

    async def ask(self, asked: Asked) -> bool:
        """Was the request a hit? A miss is kept."""
        self._since += 1
        if self._disk is not None and self._hot is not None:
            if self._since % PAUSE_EVERY == 0:
                await _written(self._disk)
            if self._since % LOOK_EVERY == 0:
                self._hot.look()
        key = bytes(memoryview(asked.key))  # every call brings a key of its own
        if self.memory.get(key, time.monotonic()) is not None:
            return True
        if self._disk is not None and asked.lasting:
            found = await self._disk.get(key)
            if found is not None:
                self.memory.put(key, found, time.monotonic())
                return True
        entry = _answer(asked)
        self.memory.put(key, entry, time.monotonic())
        if self._disk is not None and asked.lasting:
            self._disk.put(key, entry, inf)
        return False


def _answer(asked: Asked) -> Entry:
    return Entry(
        result=shake_128(asked.key).hexdigest(asked.length // 2).encode(),
        cache=CacheClass.FOREVER if asked.lasting else CacheClass.HEAD,
        network="harmony-s0",
        method="m",
        stored_at=time.monotonic(),
    )


class Restarted(Struct, frozen=True):
    """Hit ratios (0..1) before and after a restart."""

    before: float
    after: float
    before_without: float
    """Without a tier on disk."""
    after_without: float
    read_ahead: int
    """Entries that were read ahead after the start."""
    lost: int
    """Lookups that were late and writes that were dropped: 0 on a machine that is not too busy."""


async def restart(folder: Path, before: int, window: int) -> Restarted:
    """Replay `before` requests and, after a restart, `window` more; ratios are of `window` requests each."""
    source = requests()
    earlier, last, first = (list(islice(source, count)) for count in (before - window, window, window))
    disk = DiskStore(_settings(folder))
    await disk.start()
    tiers, alone = Tiers(disk), Tiers(None)
    for one in (tiers, alone):
        await _ratio(one, earlier)
    with_it, without = [await _ratio(one, last) for one in (tiers, alone)]
    lost = _lost(disk)
    await disk.close()
    disk = DiskStore(_settings(folder))
    await disk.start()
    tiers, alone = Tiers(disk), Tiers(None)
    ahead = await tiers.read_ahead()
    with_it_after, without_after = [await _ratio(one, first) for one in (tiers, alone)]
    lost += _lost(disk)
    await disk.close()
    return Restarted(with_it, with_it_after, without, without_after, ahead, lost)


def _settings(folder: Path) -> DiskSettings:
    return DiskSettings(path=str(folder))


def _lost(disk: DiskStore) -> int:
    stats = disk.stats()
    return stats.late + stats.busy + stats.down + stats.writes_dropped + stats.writes_failed


async def _ratio(tiers: Tiers, asked: Sequence[Asked]) -> float:
    hits = 0
    for one in asked:
        hits += await tiers.ask(one)
    return hits / len(asked)
