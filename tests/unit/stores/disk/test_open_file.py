"""The file in use: what follows from each kind of trouble, and how the tier comes back."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.open_file import OpenFile
from rpcaccel.stores.disk.reading import Reading
from rpcaccel.stores.disk.writing import Batch, Writing
from tests.support.stores.disk import LEAST, block_key, blocks
from tests.support.waiting import until

AGAIN = 0.05


class Told:
    """What the file calls back."""

    def __init__(self) -> None:
        self.left = self.free = 0

    def leave(self) -> None:
        self.left += 1

    def freed(self) -> None:
        self.free += 1


Opener = Callable[..., Awaitable[OpenFile]]


@pytest.fixture
async def open_file(tmp_path: Path) -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:

        async def start(told: Told | None = None, **seconds: float) -> OpenFile:
            told = told or Told()
            file = OpenFile(tmp_path, LEAST, told.leave, told.freed, **({"again": AGAIN} | seconds))
            await file.start()
            stack.push_async_callback(file.close, 3.0)
            assert file.up
            return file

        yield start


def full(_writing: Writing) -> None:
    """Meet a full database, as SQLite says it of a full disk."""
    with closing(sqlite3.connect(":memory:")) as sql, sql:
        sql.execute("CREATE TABLE t(x)")
        sql.execute("PRAGMA max_page_count=2")
        sql.execute("INSERT INTO t VALUES(zeroblob(1000000))")


def fails(error: Exception) -> Callable[[Writing], None]:
    def job(_writing: Writing) -> None:
        raise error

    return job


def ignore(_result: object) -> None:
    """Take no notice."""


async def written(file: OpenFile, job: Callable[[Writing], object]) -> None:
    ended: list[object] = []
    file.write(job, ignore, in_any_case=ended.append)
    await until(lambda: ended)


@pytest.mark.parametrize("job", [full, fails(OSError(errno.ENOSPC, ""))])
async def test_a_full_disk_is_read_and_written_again_later(open_file: Opener, job: Callable[[Writing], None]) -> None:
    file = await open_file()
    await written(file, lambda writing: writing.write(Batch(blocks(range(3)))))
    await written(file, job)
    assert file.up
    assert file.said().endswith("nothing is written")
    assert await file.answer(lambda reading: len(reading.read([block_key(1)], 0).entries)) == 1
    await until(lambda: file.writable)
    assert file.said(), "until something was written"
    await written(file, lambda writing: writing.write(Batch(blocks(range(3)))))
    file.was_written()
    assert file.said() == ""


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO])
async def test_a_disk_that_refuses_is_stepped_aside_from_and_tried_again(open_file: Opener, code: int) -> None:
    told = Told()
    file = await open_file(told)
    before = told.left
    await written(file, fails(OSError(code, "")))
    assert not file.up
    assert file.said()
    assert told.left == before + 1
    assert await file.answer(Reading.hot) is None
    await until(lambda: file.up)
    assert file.said() == ""
    assert file.warnings() == ()


async def test_a_damaged_file_is_left_for_another_one(open_file: Opener, tmp_path: Path) -> None:
    file = await open_file()
    await written(file, lambda writing: writing.write(Batch(blocks(range(3)))))
    await written(file, fails(sqlite3.DatabaseError("malformed")))
    await until(lambda: file.up)
    assert file.state.number == 2
    assert file.state.entries == 0
    assert "set aside" in file.warnings()[0]
    assert (tmp_path / "cache-1001-1.sqlite3").exists()


async def test_a_second_file_that_is_damaged_at_once_is_not_followed_by_a_third(open_file: Opener) -> None:
    file = await open_file(again=3600.0)
    await written(file, fails(sqlite3.DatabaseError("malformed")))
    await until(lambda: file.up)
    await written(file, fails(sqlite3.DatabaseError("malformed")))
    assert not file.up
    assert file.said() == "its file is damaged"
    assert file.state.number == 2


async def test_another_process_that_holds_the_file_spoils_one_write_alone(open_file: Opener) -> None:
    file = await open_file()
    busy = sqlite3.OperationalError("locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    await written(file, fails(busy))
    assert file.up
    assert file.said() == ""
    assert file.errors == 1


async def test_a_bug_is_trouble_as_any_other(open_file: Opener) -> None:
    file = await open_file()
    await written(file, fails(TypeError()))
    assert file.said() == "an unforeseen TypeError"
    await until(lambda: file.up)


async def test_a_write_that_hangs_is_said_and_stops_neither_reads_nor_the_end(open_file: Opener) -> None:
    file = await open_file(stuck=0.01)
    go_on = threading.Event()
    file.write(lambda _writing: go_on.wait(60), ignore)
    assert file.busy
    assert await file.answer(Reading.hot) == []
    await until(lambda: file.said() == "a write has taken more than 0.01 s")
    go_on.set()
    await until(lambda: not file.busy)
    assert file.said() == ""


async def test_what_a_job_found_of_a_file_that_was_left_is_of_no_use(open_file: Opener) -> None:
    file = await open_file()
    go_on, results = threading.Event(), []
    file.read(lambda _reading: go_on.wait(60), results.append)
    file.step_aside("it is tried")
    go_on.set()
    await until(lambda: results)
    assert results == [None]


async def test_purges_that_are_owed_are_bounded(open_file: Opener) -> None:
    file = await open_file()
    await written(file, lambda writing: writing.write(Batch(blocks(range(3)))))
    for many, left in ((2, 3), (100, 0)):
        file.step_aside("it is tried")
        assert await file.purge(Selection(), dry=True) is None
        for number in range(many):
            assert await file.purge(Selection(network=f"n{number}"), dry=False) is None
        await until(lambda: file.up)
        assert file.state.entries == left, "more than are remembered are one purge of everything"


async def test_a_purge_of_everything_is_not_lost_when_it_takes_the_place_of_many(open_file: Opener) -> None:
    file = await open_file()
    await written(file, lambda writing: writing.write(Batch(blocks(range(3)))))
    file.step_aside("it is tried")
    await file.purge(Selection(network="n"), dry=False)
    file.step_aside("it is tried")
    for _ in range(100):  # some of them while the file is being opened
        await file.purge(Selection(method="m"), dry=False)
        await asyncio.sleep(0)
    await until(lambda: file.up)
    assert file.state.entries == 0


async def test_the_end_comes_once(open_file: Opener) -> None:
    file = await open_file()
    await file.close(3.0)
    await file.close(3.0)
    assert file.was_up
    assert not file.up
