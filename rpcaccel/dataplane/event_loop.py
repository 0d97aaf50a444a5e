"""The event loop of every process of the program: uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import resource
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt, from malloc.h."""
_LARGE = 128 << 10
"""The size in bytes from which glibc maps a block: less than the pieces of up to 256 KiB in which long answers are
read."""
_SPARE = 16 << 20
"""Bytes at the end of the heap that glibc keeps for later blocks."""
_COLLECT_AFTER = 20_000
"""Objects that may be allocated before the garbage collector looks at the young ones. A call under way has some thirty,
none of which is part of a cycle; with Python's own 700 the collector took an eighth of the time of a miss."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new uvloop.

    The modules imported so far stay loaded for good. A full garbage collection that walked them would hold up every
    call for 50 ms and more, so they are set aside.
    """
    _map_large_blocks()
    allow_files()
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def allow_files() -> None:
    """Raise the number of files that this process may have open to the most that the system grants it: each connection
    is one, and the usual beginning is 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems grant less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _map_large_blocks() -> None:
    """Have glibc map each large block, and unmap it when it is freed, as it does at first. After the first such block
    was freed, glibc takes blocks of its size from the heap (mallopt(3), M_MMAP_THRESHOLD), where a small block behind
    them keeps them: a burst of answers of 4 MB left 900 MB that way. Other C libraries have no such call."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _SPARE)
