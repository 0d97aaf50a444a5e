"""A process that writes blocks to a disk tier without end, to be killed: `python -m … FOLDER SIZE FIRST`.

For each AT_ONCE blocks it prints the number of the first, and how many blocks the file has by then.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from math import inf
from pathlib import Path

from rpcaccel.stores.disk.disk_store import DiskStore
from tests.support.stores.disk import block, block_key, in_folder, lasting

AT_ONCE = 20
PAUSE = 0.005
"""Seconds between two times that so many blocks are put."""


async def _write(folder: Path, size: int, first: int) -> None:
    store = DiskStore(in_folder(folder, size=size))
    await store.start()
    for start in count(first, AT_ONCE):
        for number in range(start, start + AT_ONCE):
            store.put(block_key(number), lasting(block(number), block=number), inf)
        print(start, store.stats().writes, flush=True)
        await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
