"""The file in use, and the thread that works on it: opened, looked after, left for a while, set aside, closed.

One task opens the file, looks after it every second, and opens it again when it was left. What a fault means is decided
here, and reported in words: a file that is damaged is set aside and another one begun; a disk that is full is read, and
written again later; after any other fault the file is left for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
JOB_SECONDS = 30.0
"""How long a purge, and a part of what is read ahead, may take."""
STUCK_SECONDS = 2.0
"""A job that has not ended for so long is reported."""
MAX_OWED_PURGES = 64
"""Purges that are remembered for a file that is not open; more of them become one of everything."""
WARNED_SECONDS = 86_400.0
"""How long it is reported that a file was set aside."""

FileJob = Callable[[CacheFile], Any]
OnEnd = Callable[[Any], None]
"""Takes the result of a job; a DiskFault where there is none, or where the file was left before it came."""


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
        self.up = False
        """Can the file be read?"""
        self.state = FileState()
        """The file as it was lately."""
        self.fault = ""
        """Why the file cannot be used, or could not be written lately; empty: it can be."""
        self.errors = 0
        self._retry, self._stuck = retry, stuck
        self._on_left = on_left
        self._folder = Folder(folder, VERSION)
        self._file = CacheFile(self._folder, size)
        self._task: asyncio.Task[None] | None = None
        """What keeps the file open, between start and end."""
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
        self._left: asyncio.Future[DiskFault]
        """Done once the file that is up is to be left."""
        self._owed: list[Selection] = []
        """Purges to be carried out before a file is read that was not open when they came."""

    def __repr__(self) -> str:
        return f"<OpenFile {'up' if self.up else self.fault or 'not open'}, {self.state.entries} entries>"

    @property
    def writable(self) -> bool:
        """May the file be written? Not while the disk is full, but for a try now and then."""
        return self.up and (not self.fault or asyncio.get_running_loop().time() >= self._full_until)

    @property
    def was_up(self) -> bool:
        """Can the file be read, or could it until this was closed?"""
        return self._was_up if self._task is None else self.up and not self._hangs

    @property
    def _hangs(self) -> bool:
        """Has a job not ended for too long?"""
        return bool(self._begun) and asyncio.get_running_loop().time() - self._begun[0] > self._stuck

    # -- opening and leaving ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the file, in the background if that takes long."""
        self._thread = JobThread("disk", asyncio.get_running_loop())
        self._task = asyncio.create_task(self._keep_open())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), START_SECONDS)

    async def _keep_open(self) -> None:
        while True:
            fault = await self._use()
            now = asyncio.get_running_loop().time()
            # Where a file was set aside just before, the reason may be another one than the file.
            if fault is not None and fault.kind is DiskFaultKind.DAMAGED and now - self._set_aside_at >= self._retry:
                self._set_aside_at = now
                self._warning = f"the disk tier: {fault.words}; it was set aside, and another begun"
                result = await self._run(CacheFile.set_aside)
                fault = result if isinstance(result, DiskFault) else None
            if fault is not None:
                self.fault = fault.words
                self._settled.set()
                await asyncio.sleep(self._retry)

    async def _use(self) -> DiskFault | None:
        """Open the file and look after it; returns why it was left, or None where it is to be opened again at once."""
        owed, self._owed = self._owed, []
        opened = await self._run(partial(CacheFile.open, owed=owed))
        if isinstance(opened, DiskFault):
            self._owe(*owed)
            return opened
        if self._owed:  # a purge came meanwhile
            return None
        self.up, self.fault, self.state = True, "", opened
        self._left = asyncio.get_running_loop().create_future()
        self._settled.set()
        more = False
        while True:
            await asyncio.wait([self._left], timeout=0.0 if more else TICK_SECONDS)
            if self._left.done():
                return self._left.result()
            looked, more = await self._run(_look_after), False  # after a fault, the next look waits
            if not isinstance(looked, DiskFault):
                replaced, more, self.state = looked
                if replaced:
                    self._end_use()
                    return None

    def leave(self, fault: DiskFault) -> None:
        """Use the file no more. It is opened again after a while; another one is begun at once where it is damaged."""
        if self.up:
            self.fault = fault.words
            self._end_use()
            self._left.set_result(fault)

    def _end_use(self) -> None:
        self.up = False
        self._round += 1
        self._on_left()

    async def close(self, within: float) -> None:
        """Close the file, within so many seconds."""
        if self._task is None:
            return
        self._was_up, task, self._task = self.was_up, self._task, None
        task.cancel()
        self._end_use()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._run(CacheFile.close), within)
        self._thread.stop()

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def submit(self, job: FileJob, on_end: OnEnd) -> None:
        """Let the thread do a job on the file. What follows from a fault is done before `on_end` is called."""
        round_ = self._round

        def ended(result: Any) -> None:
            self._begun.popleft()
            if round_ != self._round:
                result = DiskFault(DiskFaultKind.UNUSABLE, "its file was left")
            elif isinstance(result, Exception):
                result = fault_of(result)
                self._meet(result)
            on_end(result)

        self._begun.append(asyncio.get_running_loop().time())
        self._thread.submit(partial(job, self._file), ended)

    def _meet(self, fault: DiskFault) -> None:
        """Do what follows from a fault of a job. A fault of opening is that of the task."""
        self.errors += 1
        if self.up and fault.kind is DiskFaultKind.FULL:
            self.fault = f"{fault.words}: nothing is written"
            self._full_until = asyncio.get_running_loop().time() + self._retry
        elif fault.kind is not DiskFaultKind.BUSY:
            self.leave(fault)

    async def _run(self, job: FileJob) -> Any:
        """The result of a job, or a DiskFault."""
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(job, lambda result: None if found.done() else found.set_result(result))
        return await found

    async def answer(self, job: FileJob, within: float = JOB_SECONDS) -> Any:
        """The result of a job; None when there is none, or none within so many seconds."""
        result = None
        if self.up:
            with suppress(TimeoutError):
                result = await asyncio.wait_for(self._run(job), within)
        return None if isinstance(result, DiskFault) else result

    def was_written(self) -> None:
        """Note that something was written: the disk has room again."""
        if self.up:
            self.fault = ""

    def resize(self, size: int) -> None:
        """Apply a new bound (bytes). A file above it shrinks little by little."""
        self.limit = size
        if self._task is not None:
            self.submit(lambda file: file.resize(size), lambda _result: None)

    async def purge(self, selection: Selection, *, dry: bool) -> int | None:
        """Remove the selected entries, or count them; returns their number. None when the file cannot be used: then
        the purge is carried out before anything is read again."""
        removed: int | None = await self.answer(lambda file: file.purge(selection, dry=dry))
        if removed is None and not dry and self._task is not None:
            self._owe(selection)
            self._thread.submit(self._folder.owe, lambda _result: None)  # for a process after this one
            self.leave(DiskFault(DiskFaultKind.UNUSABLE, "a purge could not be carried out yet"))
        return removed

    def _owe(self, *selections: Selection) -> None:
        """Remember purges; as one of everything where they are too many."""
        self._owed += selections
        if len(self._owed) > MAX_OWED_PURGES:
            self._owed = [Selection()]

    # -- what is said -------------------------------------------------------------------------------------------------

    def said(self) -> str:
        """What is wrong with the file now, in words; empty when nothing is."""
        if self._task is not None and not self.up and not self.fault:
            return "its file is being opened"
        if self.up and self._hangs:
            return f"the disk has not answered for {self._stuck:g} s"
        return self.fault

    def warnings(self) -> tuple[str, ...]:
        """Sentences about files that were set aside lately, and about files of other versions."""
        if self._task is None:
            return ()
        lately = asyncio.get_running_loop().time() - self._set_aside_at < WARNED_SECONDS
        warnings = [self._warning] if lately else []
        if self.state.foreign:
            warnings.append("the disk tier: its folder holds files of another version, until their room is needed")
        return tuple(warnings)


def _look_after(file: CacheFile) -> tuple[bool, bool, FileState]:
    """Has another file taken the place of this one? Is more to be swept or shrunk? And its state."""
    replaced = file.replaced()
    return replaced, not replaced and file.tidy(), file.state()
