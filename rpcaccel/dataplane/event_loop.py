"""The event loop of every process of the program: uvloop, its turns, and the longest of them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import resource
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from rpcaccel.core.stepwise import Steps

T = TypeVar("T")
TURN_SECONDS = 0.0005
"""Seconds for which work whose size a client or a node chooses may hold the loop before others get their turn."""
ROOM_TO_SEND = 256 * 1024
"""Bytes for which the system is asked to have room on a connection; Linux takes twice as many. Without this bound it
takes up to 4 MB at once, and on one machine does the work of the receiver as well: 15 ms of a turn."""
LOOK_SECONDS = 0.01
"""Seconds between two looks at the loop. A turn is met up to so long after it began."""
LONGEST_TURN_SECONDS = 60
"""Seconds for which the longest turn is told: four times as long as Prometheus usually takes between two scrapes."""
_STARTING = 1.0
"""Seconds before the first look: what a program does once, when it starts, is no turn that clients meet again."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt, from malloc.h."""
_LARGE = 128 << 10
"""The size in bytes from which glibc maps a block: less than the pieces of up to 256 KiB in which long answers are
read."""
_SPARE = 16 << 20
"""Bytes at the end of the heap that glibc keeps for later blocks."""
_COLLECT_AFTER = 5_000
"""Objects that may be allocated before the garbage collector looks at the young ones. A call under way has some thirty,
none of which is part of a cycle; with Python's own 700 the collector took an eighth of the time of a miss. With
20,000 it held the loop for 4 to 7 ms each time."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new uvloop.

    The modules imported so far stay loaded for good. A full garbage collection that walked them would hold up every
    call for 50 ms and more, so they are set aside, for the rest of the process.
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


def report_bug(message: str, error: Exception) -> None:
    """Tell the loop of an exception that nobody foresaw, and that ends nothing but the work in which it arose."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


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


async def in_turns(steps: Steps[T], clock: Callable[[], float] = time.monotonic) -> T:
    """Do all steps, no longer than TURN_SECONDS at once, and return what they come to."""
    turn_ends = clock() + TURN_SECONDS
    try:
        while True:
            next(steps)
            if clock() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = clock() + TURN_SECONDS
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the generator's own type


class OneATurn:
    """Callbacks of which each turn of the loop runs one, in the order in which they were added."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, callback: Callable[[], None]) -> None:
        """Run `callback` in a later turn."""
        self._waiting.append(callback)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._run)

    async def turn(self) -> None:
        """Wait for a turn of the caller's own."""
        came = asyncio.get_running_loop().create_future()
        self.add(lambda: None if came.done() else came.set_result(None))
        await came

    def _run(self) -> None:
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._run)


class LongestTurn:
    """The longest turn of the running loop in the last minute, in seconds, as a timer meets it.

    The timer is late by what the loop does when the time has come, and so would be the answer to a call that arrived at
    that moment: callbacks that run one after the other, a collection of garbage, other programs on the processor.
    A single turn is met at any moment of it, so up to LOOK_SECONDS of its length may be missing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = 0.0
        self._seconds: deque[tuple[int, float]] = deque(maxlen=LONGEST_TURN_SECONDS)
        """The longest turn of each second that had one, with the number of the second."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the running loop from now on."""
        self._timer = asyncio.get_running_loop().call_later(_STARTING, self._wait)

    def stop(self) -> None:
        """Look no longer."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def seconds(self) -> float:
        """The longest turn of the last LONGEST_TURN_SECONDS; 0.0 when none was met."""
        since = int(self._clock()) - LONGEST_TURN_SECONDS
        return max((late for second, late in self._seconds if second > since), default=0.0)

    def _wait(self) -> None:
        self._due = self._clock() + LOOK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now, seconds = self._clock(), self._seconds
        late, second = max(0.0, now - self._due), int(now)
        if not seconds or seconds[-1][0] != second:
            seconds.append((second, late))
        elif late > seconds[-1][1]:
            seconds[-1] = second, late
        self._wait()
