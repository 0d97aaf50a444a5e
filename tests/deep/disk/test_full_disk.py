"""A disk that is full, for real: a small file system in memory, mounted where this user may do so."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.disk_store import DiskStore
from tests.support.stores.disk import block, block_key, blocks, in_folder
from tests.support.waiting import until

FULL_AT, LARGER = "9m", "80m"
SAID = "no space is left on the disk: nothing is written"


def _mounted(folder: Path, *options: str) -> bool:
    return subprocess.run(["mount", *options, "none", folder], check=False, capture_output=True).returncode == 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 9 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if not _mounted(folder, "-t", "tmpfs", "-o", f"size={FULL_AT}"):
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def fill(store: DiskStore, numbers: range) -> None:
    for key, entry in blocks(numbers).items():
        store.put(key, entry, inf)
    await until(lambda: store.stats().queued == 0 or not store.stats().up)


@pytest.mark.deep
async def test_a_full_disk_is_read_and_purged_and_written_again_when_there_is_room(small: Path) -> None:
    store = DiskStore(in_folder(small / "cache"), retry=0.2)
    await store.start()
    first = 0
    while store.stats().fault != SAID:
        await fill(store, range(first, first + 1000))
        first += 1000
        assert first < 100_000
    stats = store.stats()
    assert stats.up
    assert stats.writes_failed
    entries = await asyncio.gather(*(store.get(block_key(number)) for number in range(first)))
    assert sum(entry is not None for entry in entries) == stats.writes
    assert all(entry is None or entry.result == block(number) for number, entry in enumerate(entries))
    await store.purge(Selection())  # that is written, too, and waits for room where there is none
    assert await store.get(block_key(0)) is None
    assert _mounted(small, "-o", f"remount,size={LARGER}")
    while store.stats().fault:
        await fill(store, range(first, first + 10))
        await asyncio.sleep(0.05)  # the store tries again when its time has come
    assert await store.get(block_key(0)) is None
    await fill(store, range(first, first + 10))
    assert await store.get(block_key(first)) is not None
    await store.close()
