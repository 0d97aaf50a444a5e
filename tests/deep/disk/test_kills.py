"""Workers that are killed while they write: the tier opens again, nothing wrong is in it, nothing written is lost.

`make disk KILLS=1000` makes the long run.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import IO, cast

import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.disk_store import DiskStore
from tests.support.services import ROOT
from tests.support.stores.disk import LEAST, block, block_key, in_folder
from tests.support.stores.disk_writer import AT_ONCE
from tests.support.waiting import until

KILLS = int(os.environ.get("DISK_KILLS", "4"))
WRITERS = 2
APART = 100_000_000
"""Between the numbers of two writers."""


class Writers:
    """Processes that write to one folder, each its own blocks."""

    def __init__(self, folder: Path, size: int, first: int) -> None:
        command = [sys.executable, "-m", "tests.support.stores.disk_writer", str(folder), str(size)]
        self._running = [
            subprocess.Popen([*command, str(first + APART * number)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for number in range(WRITERS)
        ]

    def kill(self, after: float) -> tuple[list[int], list[int]]:
        """Kill all of them `after` seconds after each has begun; returns the first of each AT_ONCE numbers that they
        put, and of those the ones that they knew to be written."""
        put, written = list[int](), list[int]()
        begun = [cast("IO[str]", process.stdout).readline() for process in self._running]
        time.sleep(after)  # the processes write meanwhile: at which moment they are killed is what varies
        for process in self._running:
            process.kill()
        for first, process in zip(begun, self._running, strict=True):
            said = (first + process.communicate()[0]).split("\n")[:-1]  # the last one may be cut
            starts = [int(line.split()[0]) for line in said]
            whole = int(said[-1].split()[1]) // AT_ONCE  # they are written in the order in which they were put
            put += starts
            written += starts[:whole]
        return put, written


async def _missing(store: DiskStore, numbers: Iterable[int]) -> list[int]:
    """Those of these blocks that are not there; none that is there is another one."""
    missing = []
    for number in numbers:
        entry = await store.get(block_key(number))
        if entry is None:
            missing.append(number)
        else:
            assert entry.result == block(number)
    return missing


def _rows(folder: Path) -> int:
    (file,) = folder.glob("cache-*.sqlite3")
    with closing(sqlite3.connect(file)) as sql, sql:
        ((rows,),) = sql.execute("SELECT count(*) FROM entries")
    return int(rows)


def _numbers(starts: Iterable[int]) -> list[int]:
    return [number for start in starts for number in range(start, start + AT_ONCE)]


@pytest.mark.deep
@pytest.mark.parametrize(("size", "evicts"), [(1 << 30, False), (LEAST, True)])
async def test_killed_writers_leave_nothing_wrong_and_all_that_was_written(
    tmp_path: Path, size: int, evicts: bool
) -> None:
    rng = random.Random(size)
    first, all_put, lost, slowest = 0, [0], 0, 0.0
    for _ in range(KILLS):
        put, written = await asyncio.to_thread(Writers(tmp_path, size, first).kill, rng.uniform(0.02, 1.5))
        store = DiskStore(in_folder(tmp_path, size=size))
        before = time.monotonic()
        await store.start()
        await until(lambda: store.stats().up)  # noqa: B023 - asked in this turn
        slowest = max(slowest, time.monotonic() - before)
        assert store.stats().warnings == ()
        missing = await _missing(store, _numbers(written))
        assert evicts or missing == []
        lost += len(await _missing(store, _numbers(set(put) - set(written))))
        await _missing(store, rng.choices(all_put, k=200))
        assert store.stats().damaged == {}
        all_put += put
        first = max(start % APART for start in put) + AT_ONCE
        counted = await store.purge(Selection(), dry=True)
        await store.close()
        assert counted.removed == _rows(tmp_path)
    said = f"opened within {slowest:.3f} s, {len(all_put) * AT_ONCE} answers put, {lost} of those not yet written lost"
    print(f"\n{KILLS} kills of {WRITERS} writers: {said}")
