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
from rpcaccel.stores.disk.cache_file import CacheFile
from rpcaccel.stores.disk.database import DiskFault, DiskFaultKind
from rpcaccel.stores.disk.open_file import OpenFile
from tests.support.stores.disk import LEAST, block_key, blocks
from tests.support.waiting import until

RETRY = 0.05
TRIED = DiskFault(DiskFaultKind.UNUSABLE, "it is tried")


Opener = Callable[..., Awaitable[OpenFile]]


@pytest.fixture
async def open_file(tmp_path: Path) -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:

        async def start(on_left: Callable[[], None] = lambda: None, **seconds: float) -> OpenFile:
            file = OpenFile(tmp_path, LEAST, on_left, **({"retry": RETRY} | seconds))
            await file.start()
            stack.push_async_callback(file.close, 3.0)
            assert file.up
            return file

        yield start


def full(_file: CacheFile) -> None:
    """Meet a full database, as SQLite says it of a full disk."""
    with closing(sqlite3.connect(":memory:")) as sql, sql:
        sql.execute("CREATE TABLE t(x)")
        sql.execute("PRAGMA max_page_count=2")
        sql.execute("INSERT INTO t VALUES(zeroblob(1000000))")


def fails(error: Exception) -> Callable[[CacheFile], None]:
    def job(_file: CacheFile) -> None:
        raise error

    return job


def write_some(file: CacheFile) -> int:
    return file.write(blocks(range(3)))


async def run(file: OpenFile, job: Callable[[CacheFile], object]) -> object:
    """What a job ended with."""
    ended: list[object] = []
    file.submit(job, ended.append)
    await until(lambda: ended)
    return ended[0]


@pytest.mark.parametrize("job", [full, fails(OSError(errno.ENOSPC, ""))])
async def test_a_full_disk_is_read_and_written_again_later(open_file: Opener, job: Callable[[CacheFile], None]) -> None:
    file = await open_file()
    assert await run(file, write_some) == 3
    await run(file, job)
    assert file.up
    assert file.said().endswith("nothing is written")
    assert await file.answer(lambda reads: len(reads.read([block_key(1)]).entries)) == 1
    await until(lambda: file.writable)
    assert file.said(), "until something was written"
    assert await run(file, write_some) == 3
    file.was_written()
    assert file.said() == ""


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO])
async def test_a_disk_that_refuses_is_stepped_aside_from_and_tried_again(open_file: Opener, code: int) -> None:
    left: list[bool] = []
    file = await open_file(lambda: left.append(True))
    before = len(left)
    await run(file, fails(OSError(code, "")))
    assert not file.up
    assert file.said()
    assert len(left) == before + 1
    assert await file.answer(CacheFile.hot) is None
    await until(lambda: file.up)
    assert file.said() == ""
    assert file.warnings() == ()


async def test_a_second_file_that_is_damaged_at_once_is_not_followed_by_a_third(
    open_file: Opener, tmp_path: Path
) -> None:
    file = await open_file(retry=3600.0)
    await run(file, fails(sqlite3.DatabaseError("malformed")))
    await until(lambda: file.up)
    assert "set aside" in file.warnings()[0]
    await run(file, fails(sqlite3.DatabaseError("malformed")))
    assert not file.up
    assert file.said() == "its file is damaged"
    assert not (tmp_path / "cache-1001-3.sqlite3").exists()


async def test_another_process_that_holds_the_file_spoils_one_write_alone(open_file: Opener) -> None:
    file = await open_file()
    busy = sqlite3.OperationalError("locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    await run(file, fails(busy))
    assert file.up
    assert file.said() == ""
    assert file.errors == 1


async def test_a_bug_is_trouble_as_any_other(open_file: Opener) -> None:
    file = await open_file()
    await run(file, fails(TypeError()))
    assert file.said() == "an unforeseen TypeError"
    await until(lambda: file.up)


async def test_a_job_that_hangs_is_said_until_it_ends(open_file: Opener) -> None:
    file = await open_file(stuck=0.01)
    go_on, results = threading.Event(), list[object]()
    file.submit(lambda _file: go_on.wait(60), results.append)
    await until(lambda: file.said() == "the disk has not answered for 0.01 s")
    assert not file.was_up
    go_on.set()
    await until(lambda: results)
    assert results == [True]
    assert file.was_up
    assert file.said() == ""


async def test_what_a_job_found_of_a_file_that_was_left_is_of_no_use(open_file: Opener) -> None:
    file = await open_file()
    go_on, results = threading.Event(), list[object]()
    file.submit(lambda _file: go_on.wait(60), results.append)
    file.leave(TRIED)
    go_on.set()
    await until(lambda: results)
    assert isinstance(results[0], DiskFault)
    assert file.errors == 0


async def test_purges_that_are_owed_are_bounded(open_file: Opener) -> None:
    file = await open_file()
    assert await run(file, write_some) == 3
    for many, left in ((2, 3), (100, 0)):
        file.leave(TRIED)
        assert await file.purge(Selection(), dry=True) is None
        for number in range(many):
            assert await file.purge(Selection(network=f"n{number}"), dry=False) is None
        await until(lambda: file.up)
        assert file.state.entries == left, "more than are remembered are one purge of everything"


async def test_a_purge_of_everything_is_not_lost_when_it_takes_the_place_of_many(open_file: Opener) -> None:
    file = await open_file()
    assert await run(file, write_some) == 3
    file.leave(TRIED)
    await file.purge(Selection(network="n"), dry=False)
    file.leave(TRIED)
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
