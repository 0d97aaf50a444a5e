"""The file in use, and the thread that works on it: opened, looked after, left for a while, set aside, closed.

    new -> opening -> up -> closed
              ^  |    |
              |  v    v
              +- aside      (opened again after a while)

Whatever is wrong is said in words. A file that is damaged is set aside and another one begun; a disk that is full is
read, and written again later; after any other fault the tier is not used for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.cache_file import CacheFile, FileState
from rpcaccel.stores.disk.database import VERSION, DiskFault, DiskFaultKind, fault_of
from rpcaccel.stores.disk.folder import Folder
from rpcaccel.stores.job_thread import JobThread

START_SECONDS = 2.0
"""How long a start waits for the file to be open; afterwards it is opened in the background."""
RETRY_SECONDS = 10.0
"""After so long a tier that is not used for a while is opened again, and a full disk is written again."""
TICK_SECONDS = 1.0
"""Between two looks at the file."""
ANSWER_SECONDS = 30.0
"""How long a purge, and a part of what is read ahead, may take."""
STUCK_SECONDS = 2.0
"""A job that has not ended for so long is reported."""
MAX_OWED_PURGES = 64
"""Purges that are remembered for a file that is not open; more of them become one of everything."""
WARNED_SECONDS = 86_400.0
"""How long it is reported that a file was set aside."""

Job = Callable[[CacheFile], Any]
OnEnd = Callable[[Any], None]
"""Takes the result of a job; a DiskFault where there is none, or where the file was left before it came."""


class _State(Enum):
    NEW = "new"
    OPENING = "opening"
    UP = "up"
    ASIDE = "aside"
    CLOSED = "closed"


class OpenFile:
    """Runs jobs on the file in use, one after the other. Belongs to one event loop, in which their results come."""

    def __init__(
        self,
        folder: Path,
        size: int,
        on_left: Callable[[], None],
        *,
        retry: float = RETRY_SECONDS,
        stuck: float = STUCK_SECONDS,
    ) -> None:
        """The files of `folder`, which take `size` bytes at the most; `start` opens one.

        Args:
            on_left: called when the file is used no more, or not for a while.
            retry: RETRY_SECONDS, or what a test needs.
            stuck: STUCK_SECONDS, or what a test needs.
        """
        self.limit = size
        self.state = FileState()
        """The file as it was lately."""
        self.fault = ""
        """Why the file cannot be used, or could not be written lately; empty: it can be."""
        self.errors = 0
        self._retry, self._stuck = retry, stuck
        self._on_left = on_left
        self._folder = Folder(folder, VERSION)
        self._file = CacheFile(self._folder, size)
        self._state = _State.NEW
        self._was_up = False
        """Was the file open when this was closed?"""
        self._settled = asyncio.Event()
        """Set once the file was opened, or could not be."""
        self._round = 0
        """Increased whenever the file is left: what an earlier job found is of another file, or of another time."""
        self._full_until = -inf
        self._set_aside_at, self._warning = -inf, ""
        """When a file was set aside (the loop's seconds), and the sentence about it."""
        self._begun: deque[float] = deque()
        """When each job was submitted that has not ended."""
        self._timer: asyncio.TimerHandle | None = None
        self._owed: list[Selection] = []
        """Purges to be carried out before a file is read that was not open when they came."""

    def __repr__(self) -> str:
        return f"<OpenFile {self._state.value}, {self.state.entries} entries>"

    @property
    def up(self) -> bool:
        """Can the file be read?"""
        return self._state is _State.UP

    @property
    def writable(self) -> bool:
        """May the file be written? Not while the disk is full, but for a try now and then."""
        return self.up and (not self.fault or asyncio.get_running_loop().time() >= self._full_until)

    @property
    def was_up(self) -> bool:
        """Can the file be read, or could it until this was closed?"""
        return self._was_up if self._state is _State.CLOSED else self.up and not self._hangs

    @property
    def _hangs(self) -> bool:
        """Has a job not ended for too long?"""
        return bool(self._begun) and asyncio.get_running_loop().time() - self._begun[0] > self._stuck

    # -- opening and leaving ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the file, in the background if that takes long."""
        self._thread = JobThread("disk", asyncio.get_running_loop())
        self._open()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), START_SECONDS)

    def _leave(self, state: _State) -> None:
        self._state = state
        self._round += 1
        self._on_left()

    def _open(self) -> None:
        self._leave(_State.OPENING)
        owed, self._owed = self._owed, []

        def opened(result: Any) -> None:
            if isinstance(result, DiskFault):
                self._owe(*owed)
            elif self._owed:  # a purge came meanwhile
                self._open()
            else:
                self._state, self.fault, self.state = _State.UP, "", result
                self._settled.set()
                self._after(TICK_SECONDS, self._look)

        self.submit(lambda file: file.open(owed), opened)

    def _trouble(self, fault: DiskFault) -> None:
        """Do what follows from a fault."""
        self.errors += 1
        if self._state is _State.CLOSED:
            return
        if fault.kind is DiskFaultKind.DAMAGED:
            self.set_aside(fault.words)
        elif fault.kind is DiskFaultKind.FULL and self.up:
            self.fault = f"{fault.words}: nothing is written"
            self._full_until = asyncio.get_running_loop().time() + self._retry
        elif fault.kind is not DiskFaultKind.BUSY or not self.up:
            self.step_aside(fault.words)

    def step_aside(self, words: str) -> None:
        """Use the file no more for a while, because of what `words` say, then open it again."""
        self.fault = words
        self._leave(_State.ASIDE)
        self._settled.set()
        self._after(self._retry, self._open)

    def set_aside(self, words: str) -> None:
        """Leave the file for good, because of what `words` say, and begin another one. Where that has just been done,
        the reason may be another one than the file, so that the tier is not used for a while."""
        now = asyncio.get_running_loop().time()
        if now - self._set_aside_at < self._retry:
            self.step_aside(words)
            return
        self._leave(_State.OPENING)
        self._set_aside_at, self._warning = now, f"the disk tier: {words}; it was set aside, and another begun"
        self.submit(CacheFile.set_aside, lambda result: None if isinstance(result, DiskFault) else self._open())

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later, in place of what was to be done later."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _look(self) -> None:
        """Look after the file: has another process set it aside, is anything to be swept or shrunk?"""

        def looked_after(file: CacheFile) -> tuple[bool, bool, FileState]:
            replaced = file.replaced()
            return replaced, not replaced and file.tidy(), file.state()

        def ended(result: Any) -> None:
            replaced, more = False, False
            if not isinstance(result, DiskFault):
                replaced, more, self.state = result
            if replaced:
                self._open()
            elif self.up:
                self._after(0.0 if more else TICK_SECONDS, self._look)

        self.submit(looked_after, ended)

    async def close(self, within: float) -> None:
        """Close the file, within so many seconds."""
        if self._state in {_State.NEW, _State.CLOSED}:
            return
        self._was_up = self.was_up
        self._leave(_State.CLOSED)
        if self._timer is not None:
            self._timer.cancel()
        await self._answer(CacheFile.close, within)
        self._thread.stop()

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def submit(self, job: Job, on_end: OnEnd) -> None:
        """Let the thread do a job on the file. What follows from a fault is done before `on_end` is called."""
        round_ = self._round

        def ended(result: Any) -> None:
            self._begun.popleft()
            if round_ != self._round:
                result = DiskFault(DiskFaultKind.UNUSABLE, "its file was left")
            elif isinstance(result, Exception):
                result = fault_of(result)
                self._trouble(result)
            on_end(result)

        self._begun.append(asyncio.get_running_loop().time())
        self._thread.submit(partial(job, self._file), ended)

    async def answer(self, job: Job, within: float = ANSWER_SECONDS) -> Any:
        """The result of a job; None when there is none, or none within so many seconds."""
        return await self._answer(job, within) if self.up else None

    async def _answer(self, job: Job, within: float) -> Any:
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def ended(result: Any) -> None:
            if not found.done():
                found.set_result(None if isinstance(result, DiskFault) else result)

        self.submit(job, ended)
        with suppress(TimeoutError):
            return await asyncio.wait_for(found, within)
        return None

    def was_written(self) -> None:
        """Note that something was written: the disk has room again."""
        if self.up:
            self.fault = ""

    def resize(self, size: int) -> None:
        """Apply a new bound (bytes). A file above it shrinks little by little."""
        self.limit = size
        if self._state not in {_State.NEW, _State.CLOSED}:
            self.submit(lambda file: file.resize(size), lambda _result: None)

    async def purge(self, selection: Selection, *, dry: bool) -> int | None:
        """Remove the selected entries, or count them; returns their number. None when the file cannot be used: then
        the purge is carried out before anything is read again."""
        removed: int | None = await self.answer(lambda file: file.purge(selection, dry=dry))
        if removed is None and not dry and self._state is not _State.CLOSED:
            self._owe(selection)
            self._thread.submit(self._folder.owe, lambda _result: None)  # for a process after this one
            if self.up:
                self.step_aside("a purge could not be carried out yet")
        return removed

    def _owe(self, *selections: Selection) -> None:
        """Remember purges; as one of everything where they are too many."""
        self._owed += selections
        if len(self._owed) > MAX_OWED_PURGES:
            self._owed = [Selection()]

    # -- what is said -------------------------------------------------------------------------------------------------

    def said(self) -> str:
        """What is wrong with the file now, in words; empty when nothing is."""
        if self._state is _State.OPENING and not self.fault:
            return "its file is being opened"
        if self.up and self._hangs:
            return f"the disk has not answered for {self._stuck:g} s"
        return self.fault

    def warnings(self) -> tuple[str, ...]:
        """Sentences about files that were set aside lately, and about files of other versions."""
        if self._state is _State.CLOSED:
            return ()
        lately = asyncio.get_running_loop().time() - self._set_aside_at < WARNED_SECONDS
        warnings = [self._warning] if lately else []
        if self.state.foreign:
            warnings.append("the disk tier: its folder holds files of another version, until their room is needed")
        return tuple(warnings)
