"""Workers that are killed while they write: the tier opens again at once, nothing wrong is in it, hardly anything lost.

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

import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.disk_store import DiskStore
from tests.support.services import ROOT
from tests.support.stores.disk import LEAST, block, block_key, in_folder
from tests.support.stores.disk_writer import AT_ONCE

KILLS = int(os.environ.get("DISK_KILLS", "4"))
OPENS_WITHIN = 2.0
LOST_AT_MOST = 1.0
"""Seconds before the kill of which answers may be lost."""
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

    def kill(self, after: float) -> list[tuple[int, float]]:
        """Kill all of them `after` seconds after each has begun; returns the first number and the time of each put."""
        put: list[tuple[int, float]] = []
        for process in self._running:
            assert process.stdout is not None
            put.append(_line(process.stdout.readline()))
        time.sleep(after)  # the processes write meanwhile: at which moment they are killed is what varies
        for process in self._running:
            process.kill()
        for process in self._running:
            said, _ = process.communicate()
            put += [
                _line(line) for line in said.splitlines() if line.count(" ") == 1 and line.endswith(tuple("0123456789"))
            ]
        return put


def _line(line: str) -> tuple[int, float]:
    number, when = line.split()
    return int(number), float(when)


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


@pytest.mark.deep
@pytest.mark.parametrize(("size", "evicts"), [(1 << 30, False), (LEAST, True)])
async def test_killed_writers_leave_nothing_wrong_and_lose_a_second_at_most(
    tmp_path: Path, size: int, evicts: bool
) -> None:
    rng = random.Random(size)
    first, all_put, lost, slowest = 0, [0], 0, 0.0
    for _ in range(KILLS):
        put = await asyncio.to_thread(Writers(tmp_path, size, first).kill, rng.uniform(0.02, 1.5))
        killed = time.monotonic()
        store = DiskStore(in_folder(tmp_path, size=size))
        before = time.monotonic()
        await store.start()
        slowest = max(slowest, time.monotonic() - before)
        assert store.stats().up
        assert store.stats().warnings == ()
        old = [number for number, when in put if when < killed - LOST_AT_MOST]
        for start in old:
            missing = await _missing(store, range(start, start + AT_ONCE))
            assert evicts or missing == []
        new = [start for start, when in put if when >= killed - LOST_AT_MOST]
        lost += len(await _missing(store, [number for start in new for number in range(start, start + AT_ONCE)]))
        await _missing(store, rng.choices(all_put, k=200))
        assert store.stats().damaged == {}
        all_put += [start for start, _ in put]
        first = max(start % APART for start, _ in put) + AT_ONCE
        counted = await store.purge(Selection(), dry=True)
        await store.close()
        assert counted.removed == _rows(tmp_path)
    assert slowest <= OPENS_WITHIN
    said = f"opened within {slowest:.3f} s, {len(all_put) * AT_ONCE} answers put, {lost} lost"
    print(f"\n{KILLS} kills of {WRITERS} writers: {said}")
