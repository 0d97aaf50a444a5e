"""The tier as the data plane meets it: answers or misses, whatever becomes of its file and its disk."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from math import inf
from pathlib import Path

import pytest

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.stores.disk.disk_store import (
    BATCH_BYTES,
    BATCH_ENTRIES,
    MAX_DAMAGED,
    QUEUED_ENTRY_BYTES,
    READ_AHEAD_KEYS,
    DiskStore,
    WriteQueue,
)
from tests.support.stores.disk import LEAST, block, block_key, blocks, in_folder, lasting
from tests.support.waiting import until

Opener = Callable[..., Awaitable[DiskStore]]


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[Opener]:
    """Starts stores on one folder, and closes them at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(folder: Path = tmp_path / "cache", *, retry: float = 10.0, **settings: float) -> DiskStore:
            store = DiskStore(in_folder(folder, **settings), retry=retry)
            await store.start()
            stack.push_async_callback(store.close)
            return store

        yield start


async def fill(store: DiskStore, entries: dict[bytes, Entry]) -> None:
    for key, entry in entries.items():
        store.put(key, entry, inf)
    await until(lambda: store.stats().queued == 0)


async def found(store: DiskStore, *numbers: int) -> list[bool]:
    """Which of these blocks are found. No other block is ever found in place of one."""
    entries = await asyncio.gather(*(store.get(block_key(number)) for number in numbers))
    for number, entry in zip(numbers, entries, strict=True):
        assert entry is None or entry.result == block(number)
    return [entry is not None for entry in entries]


def the_file(tmp_path: Path) -> Path:
    return max((tmp_path / "cache").glob("cache-*.sqlite3"))


async def test_what_was_put_is_there_at_once_and_after_a_restart(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store()
    store.put(block_key(1), lasting(block(1)), inf)
    for _ in range(2):
        entry = await store.get(block_key(1))
        assert entry is not None
        assert entry.result == block(1)
        await store.close()
        assert [*(tmp_path / "cache").glob("*-wal")] == []
        store = await open_store()


async def test_what_expires_is_not_kept(open_store: Opener) -> None:
    store = await open_store()
    store.put(block_key(1), lasting(b"1"), 60.0)
    assert store.stats().queued == 0
    assert await found(store, 1) == [False]


async def test_entries_and_bytes_are_told(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store()
    await fill(store, blocks(range(600)))
    await until(lambda: store.stats().entries == 600)
    stats = store.stats()
    assert stats.writes == 600
    assert stats.limit == LEAST
    assert 0.5 < stats.bytes / sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 2


async def test_hits_and_misses_are_counted(open_store: Opener) -> None:
    store = await open_store()
    await fill(store, blocks(range(3)))
    assert await found(store, 0, 1, 7) == [True, True, False]
    stats = store.stats()
    assert (stats.hits, stats.misses) == (2, 1)


async def test_more_than_may_wait_is_dropped_and_counted(open_store: Opener) -> None:
    store = await open_store(queue=1 << 20)
    for key, entry in blocks(range(1000)).items():
        store.put(key, entry, inf)
    stats = store.stats()
    assert 0 < stats.writes_dropped == 1000 - stats.queued
    await until(lambda: store.stats().queued == 0)
    assert sum(await found(store, *range(1000))) == store.stats().writes


async def test_of_several_keys_the_first_that_is_accepted_counts(open_store: Opener) -> None:
    store = await open_store()
    await fill(store, blocks(range(3)))
    told: list[Entry | None] = []
    assert store.look([block_key(9), block_key(0), block_key(1)], lambda key, _entry: key != block_key(0), told.append)
    assert store.look([block_key(9), block_key(0)], lambda _key, _entry: False, told.append)
    await until(lambda: len(told) == 2)
    assert sorted((entry.result if entry else b"") for entry in told) == [b"", block(1)]


async def test_a_purge_spares_nothing_that_waits(open_store: Opener) -> None:
    store = await open_store()
    await fill(store, blocks(range(10)))
    for key, entry in blocks(range(10, 20)).items():
        store.put(key, entry, inf)
    purged = await store.purge(Selection(network="harmony-s0"))
    assert purged.complete
    assert await found(store, *range(20)) == [False] * 20
    await until(lambda: store.stats().entries == 0)


async def test_a_closed_store_has_nothing_and_takes_nothing(open_store: Opener) -> None:
    store = await open_store()
    await fill(store, blocks(range(1)))
    await store.close()
    store.put(block_key(1), lasting(b"1"), inf)
    assert await found(store, 0, 1) == [False, False]
    assert not (await store.purge(Selection())).complete
    assert store.stats().up, "until it was closed"


# -- what waits to be written ---------------------------------------------------------------------------------------


def test_what_waits_or_is_being_written_can_be_read() -> None:
    queue, entry = WriteQueue(1 << 20), lasting(b"1")
    assert queue.put(b"k", entry)
    batch = queue.batch()
    assert batch == {b"k": entry}
    assert queue.get(b"k") is entry
    assert queue.end(batch) == 1
    assert queue.get(b"k") is None
    assert not queue


def test_an_answer_that_was_replaced_while_it_was_written_is_written_again() -> None:
    queue = WriteQueue(1 << 20)
    queue.put(b"k", lasting(b"1"))
    batch = queue.batch()
    newer = lasting(b"2")
    queue.put(b"k", newer)
    assert queue.end(batch) == 0
    assert queue.batch() == {b"k": newer}


def test_an_answer_beyond_the_bound_is_refused_until_a_batch_was_written() -> None:
    key, entry = block_key(1), lasting(b"x" * 1000)
    queue = WriteQueue(2 * (QUEUED_ENTRY_BYTES + len(key) + 1000))
    assert queue.put(key, entry)
    assert queue.put(block_key(2), entry)
    assert not queue.put(block_key(3), entry)
    assert queue.put(key, entry), "in place of the one that waits"
    queue.end(queue.batch())
    assert queue.put(block_key(3), entry)


def test_a_batch_is_bounded_in_answers_and_in_bytes() -> None:
    queue = WriteQueue(1 << 30)
    for key, entry in blocks(range(BATCH_ENTRIES + 10)).items():
        queue.put(key, entry)
    for expected in (BATCH_ENTRIES, 10):
        assert queue.full_batch == (expected == BATCH_ENTRIES)
        assert queue.end(queue.batch()) == expected
    for number in range(5):
        queue.put(block_key(number), lasting(b"x" * BATCH_BYTES))
    assert queue.full_batch
    assert len(queue.batch()) == 1


def test_a_purge_drops_what_waits_or_is_being_written_and_leaves_the_rest() -> None:
    queue = WriteQueue(1 << 20)
    queue.put(block_key(1), lasting(b"1"))
    queue.put(block_key(1, method="other"), lasting(b"1"))
    batch = queue.batch()
    assert queue.drop(Selection(method="other")) == 1
    assert list(queue.batch()) == [block_key(1)]
    assert queue.end(batch) == 1


async def test_what_another_process_keeps_from_being_written_is_written_later(
    open_store: Opener, tmp_path: Path
) -> None:
    store = await open_store()
    await fill(store, blocks(range(3)))
    with closing(sqlite3.connect(the_file(tmp_path), isolation_level=None)) as sql:
        sql.execute("BEGIN IMMEDIATE")
        for key, entry in blocks(range(3, 200)).items():
            store.put(key, entry, inf)
        await until(lambda: store.stats().errors)
        assert await found(store, 1, 100, 300) == [True, True, False]
        sql.execute("ROLLBACK")
    await until(lambda: store.stats().queued == 0)
    assert store.stats().writes == 200
    assert store.stats().writes_failed == store.stats().writes_dropped == 0


# -- trouble --------------------------------------------------------------------------------------------------------


def spoil(file: Path) -> None:
    """Overwrite what a database begins its pages with."""
    size = file.stat().st_size
    with file.open("r+b") as opened:
        for place in range(0, size, 4096):
            opened.seek(place)
            opened.write(os.urandom(512))


async def test_a_file_that_is_damaged_at_the_start_is_set_aside(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store()
    await fill(store, blocks(range(100)))
    await store.close()
    spoil(the_file(tmp_path))
    store = await open_store()
    assert store.stats().up
    assert "set aside" in store.stats().warnings[0]
    assert await found(store, 1) == [False]
    await fill(store, blocks(range(3)))
    assert await found(store, 1) == [True]
    assert (tmp_path / "cache" / "cache-1001-1.sqlite3").exists()


async def test_a_file_that_is_damaged_meanwhile_is_set_aside_and_the_others_follow(
    open_store: Opener, tmp_path: Path
) -> None:
    one, other = await open_store(), await open_store()
    await fill(one, blocks(range(1000)))
    with closing(sqlite3.connect(the_file(tmp_path))) as sql, sql:
        sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(the_file(tmp_path))
    while not one.stats().warnings:
        await found(one, *range(0, 1000, 7))
    await until(lambda: one.stats().up)
    await fill(one, blocks(range(10)))
    assert the_file(tmp_path).name == "cache-1001-2.sqlite3"
    while await found(other, 3) == [False]:
        await until(lambda: other.stats().up)
    assert await found(one, 3, 100) == [True, False]
    assert await found(other, 3, 100) == [True, False]


async def test_many_damaged_entries_condemn_the_file(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store()
    await fill(store, blocks(range(100)))
    with closing(sqlite3.connect(the_file(tmp_path))) as sql, sql:
        sql.execute("UPDATE entries SET value=zeroblob(100)")
    for number in range(MAX_DAMAGED + 1):
        assert await found(store, number) == [False]
    await until(lambda: store.stats().up and bool(store.stats().warnings))
    assert "entries are damaged" in store.stats().warnings[0]
    assert store.stats().damaged == {"checksum": MAX_DAMAGED + 1}


async def test_a_folder_that_cannot_be_made_is_no_tier_and_says_why(open_store: Opener, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file")
    store = await open_store(tmp_path / "plain" / "cache")
    stats = store.stats()
    assert not stats.up
    assert stats.fault == "not a directory"
    store.put(block_key(1), lasting(b"1"), inf)
    assert await found(store, 1) == [False]
    assert (store.stats().writes_dropped, store.stats().down) == (1, 1)


async def test_a_purge_of_a_file_that_is_not_open_is_done_before_it_is_read(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store()
    await fill(store, blocks(range(5)))
    await store.close()
    barrier = tmp_path / "cache" / "lock"
    barrier.unlink()
    barrier.mkdir()
    late = await open_store(retry=0.05)
    assert not late.stats().up
    assert not (await late.purge(Selection(key=block_key(1)))).complete
    barrier.rmdir()
    await until(lambda: late.stats().up)
    assert await found(late, *range(5)) == [True, False, True, True, True]


async def test_a_purge_that_was_owed_at_the_end_is_one_of_everything_at_the_next_start(
    open_store: Opener, tmp_path: Path
) -> None:
    store = await open_store()
    await fill(store, blocks(range(5)))
    await store.close()
    barrier = tmp_path / "cache" / "lock"
    barrier.unlink()
    barrier.mkdir()
    late = await open_store(retry=3600.0)
    assert not (await late.purge(Selection(method="other"))).complete
    await until((tmp_path / "cache" / "purge-owed").exists)
    await late.close()
    barrier.rmdir()
    assert await found(await open_store(), *range(5)) == [False] * 5
    assert not (tmp_path / "cache" / "purge-owed").exists()


async def test_a_folder_that_was_removed_is_made_anew(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store(retry=0.05)
    await fill(store, blocks(range(5)))
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    await until((tmp_path / "cache" / "lock").exists)
    await until(lambda: store.stats().up)
    assert await found(store, 3) == [False]
    await fill(store, blocks(range(5)))
    assert await found(store, 3) == [True]


async def test_large_answers_are_read_a_few_at_a_time_and_all_of_them_come(open_store: Opener) -> None:
    store = await open_store()
    large = {block_key(number): lasting(b"[" + b"1," * 400_000 + b"1]") for number in range(12)}
    await fill(store, large)
    entries = await asyncio.gather(*(store.get(key) for key in large))
    assert [entry and entry.result for entry in entries] == [entry.result for entry in large.values()]
    assert store.stats().reads > 2
    ahead: dict[bytes, Entry] = {}
    store.notice(large)
    await store.close()
    assert await (await open_store()).read_ahead(1 << 30, ahead.__setitem__) == 12


# -- after a restart ------------------------------------------------------------------------------------------------


async def test_what_was_hot_is_read_ahead_the_latest_first_within_its_room(open_store: Opener) -> None:
    store = await open_store()
    entries = blocks(range(3 * READ_AHEAD_KEYS))
    await fill(store, entries)
    store.notice(entries)
    await store.close()
    store = await open_store()
    ahead: dict[bytes, Entry] = {}
    assert await store.read_ahead(inf, ahead.__setitem__) == len(entries)
    assert {key: entry.result for key, entry in ahead.items()} == {key: entry.result for key, entry in entries.items()}
    one = len(block_key(1)) + len(block(1))
    assert await store.read_ahead(10 * one, ahead.__setitem__) in range(9, 13)


async def test_without_a_file_nothing_is_read_ahead(open_store: Opener, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file")
    store = await open_store(tmp_path / "plain" / "cache")
    assert await store.read_ahead(1000, lambda _key, _entry: None) is None


def modes(folder: Path) -> dict[str, int]:
    """The permissions of each file that is no folder."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_nobody_else_may_read_a_file_of_the_tier_or_what_belongs_to_it(
    open_store: Opener, tmp_path: Path
) -> None:
    await fill(await open_store(), {block_key(1): lasting(block(1))})
    given = modes(tmp_path / "cache")
    assert {name.rpartition("-")[2] for name in given} >= {"wal", "shm"}
    assert set(given.values()) == {0o600}, given


async def test_files_that_others_may_read_are_closed_to_them_at_the_start(open_store: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    for part in ("", "-wal", "-shm", "-journal"):
        (folder / f"cache-1-1.sqlite3{part}").touch(mode=0o644)
    first = await open_store()
    await fill(first, {block_key(1): lasting(block(1))})
    await first.close()
    for path in folder.iterdir():
        path.chmod(0o644)
    assert await found(await open_store(), 1) == [True]
    assert {mode for name, mode in modes(folder).items() if "sqlite3" in name} == {0o600}
