"""The event loop of every process of the program: uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of malloc.h."""
_LARGE = 128 << 10
"""Bytes: less than the pieces of up to 256 KiB in which long answers are read."""
_SPARE = 16 << 20
"""Bytes at the end of the heap that are kept for what comes next."""
_COLLECT_AFTER = 20_000
"""Objects that may be allocated before the garbage collector looks at the young ones. A call under way has some thirty,
none of which is part of a cycle; with Python's own 700 the collector took an eighth of the time of a miss."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new uvloop.

    What is imported by now stays for good, and a full collection that walked it would hold up every call for 50 ms and
    more: it is set aside.
    """
    _map_large_blocks()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    finally:
        gc.unfreeze()


def _map_large_blocks() -> None:
    """Have glibc take each large block from the system and give it back when it is freed, as it does at first: once one
    was freed, glibc takes those of its size from the heap (mallopt(3), M_MMAP_THRESHOLD), where a small block behind
    them keeps them. A burst of answers of 4 MB left 900 MB that way. Other C libraries have no such call."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _SPARE)
