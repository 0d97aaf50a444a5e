"""The file in use, and the two threads that work on it: opened, looked after, stepped aside from, set aside, closed.

    new -> opening -> up -> closed
              ^  |    |
              |  v    v
              +- aside      (opened again after a while)

Whatever is wrong is said in words. A file that is damaged is set aside and another one begun; a disk that is full is
read, and written again later; everything else lets the tier step aside for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.database import VERSION
from rpcaccel.stores.disk.disk_fault import DiskFault, DiskFaultKind, fault_of
from rpcaccel.stores.disk.folder import Folder
from rpcaccel.stores.disk.job_thread import Job, JobThread
from rpcaccel.stores.disk.reading import Reading
from rpcaccel.stores.disk.writing import FileState, Writing

START_WITHIN = 2.0
"""Seconds that a start waits for the file to be open; afterwards it is opened in the background."""
AGAIN = 10.0
"""Seconds after which a tier that stepped aside is opened again, and a full disk is written again."""
TICK = 1.0
"""Seconds between two looks at the file."""
ANSWER_WITHIN = 30.0
"""Seconds that a purge, and a part of what is read ahead, may take."""
STUCK = 5.0
"""Seconds after which a write that has not ended is said."""
OWED_MOST = 64
"""Purges that are remembered for a file that is not open; more of them become one of everything."""
TOLD_FOR = 86_400.0
"""Seconds for which it is said that a file was set aside."""


class _State(Enum):
    NEW = "new"
    OPENING = "opening"
    UP = "up"
    ASIDE = "aside"
    CLOSED = "closed"


class OpenFile:
    """Runs jobs on the file in use. Belongs to one event loop; the results of jobs are given back in it."""

    def __init__(
        self,
        folder: Path,
        size: int,
        left: Callable[[], None],
        free: Callable[[], None],
        *,
        again: float = AGAIN,
        stuck: float = STUCK,
    ) -> None:
        """The files of `folder`, which take `size` bytes at the most; `start` opens one.

        Args:
            left: called when the file is used no more, or not for a while.
            free: called when the writing thread has ended a job.
            again: seconds after which a file that could not be used is opened again.
            stuck: seconds after which a write that has not ended is said.
        """
        self.limit = size
        self.state = FileState()
        """The file as it was lately."""
        self.fault = ""
        """Why the file cannot be used, or could not be written lately; empty: it can be."""
        self.errors = 0
        self._again, self._stuck = again, stuck
        self._left = left
        self._free = free
        self._folder = Folder(folder, VERSION)
        self._writing = Writing(self._folder, size)
        self._reading: Reading | None = None
        self._state = _State.NEW
        self._was_up = False
        """Was the file open when this was closed?"""
        self._settled = asyncio.Event()
        """Set once the file was opened, or could not be."""
        self._round = 0
        """Increased whenever the file is left: what an earlier job found is of another file, or of another time."""
        self._full_until = -inf
        self._told: tuple[float, str] = -inf, ""
        """When a file was set aside (the loop's seconds), and the sentence about it."""
        self._busy_since: float | None = None
        """When the job began that the writing thread has; a purge does not count."""
        self._look_due = False
        """Is the file to be looked after once the writing thread has ended its job?"""
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
        return self._was_up if self._state is _State.CLOSED else self.up

    @property
    def busy(self) -> bool:
        """Has the writing thread a job other than a purge?"""
        return self._busy_since is not None

    # -- opening and leaving --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the file, in the background if that takes long."""
        loop = asyncio.get_running_loop()
        self._writer, self._reader = JobThread("disk-writes", loop), JobThread("disk-reads", loop)
        self._open()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), START_WITHIN)

    def _leave(self, state: _State) -> None:
        self._state = state
        self._round += 1
        self._left()

    def _open(self) -> None:
        self._leave(_State.OPENING)
        owed, self._owed = self._owed, []

        def opened() -> tuple[Path, FileState]:
            return self._writing.open(owed), self._writing.state()

        self._writer.submit(opened, partial(self._opened, self._round, owed))

    def _opened(self, round_: int, owed: list[Selection], result: Any) -> None:
        if round_ != self._round or isinstance(result, Exception):
            self._owed = _bounded([*owed, *self._owed])
        if self._is_past(round_, result):
            return
        file, self.state = result
        before, self._reading = self._reading, None

        def opened() -> Reading:
            if before is not None:
                before.close()
            return Reading(file)

        self._reader.submit(opened, partial(self._ready, round_))

    def _ready(self, round_: int, result: Any) -> None:
        if self._is_past(round_, result):
            return
        self._reading = result
        if self._owed:  # a purge came meanwhile
            self._open()
            return
        self._state, self.fault = _State.UP, ""
        self._settled.set()
        self._at(TICK, self._look)

    def _is_past(self, round_: int, result: Any) -> bool:
        """Is the result of a job of no use: because the file was left since, or because it is an exception? Then what
        follows from the exception is done."""
        if round_ != self._round:
            return True
        if isinstance(result, Exception):
            self._trouble(fault_of(result))
            return True
        return False

    def _trouble(self, fault: DiskFault) -> None:
        """Do what follows from a fault."""
        self.errors += 1
        if self._state is _State.CLOSED:
            return
        if fault.kind is DiskFaultKind.DAMAGED:
            self.set_aside(fault.words)
        elif fault.kind is DiskFaultKind.FULL and self.up:
            self.fault = f"{fault.words}: nothing is written"
            self._full_until = asyncio.get_running_loop().time() + self._again
        elif fault.kind is not DiskFaultKind.BUSY or not self.up:
            self.step_aside(fault.words)

    def step_aside(self, words: str) -> None:
        """Use the file no more for a while, because of what `words` say, then open it again."""
        self.fault = words
        self._leave(_State.ASIDE)
        self._settled.set()
        self._at(self._again, self._open)

    def set_aside(self, words: str) -> None:
        """Leave the file for good, because of what `words` say, and begin another one. Where that has just been done,
        the reason may be another one than the file, so that the tier steps aside."""
        now = asyncio.get_running_loop().time()
        if now - self._told[0] < self._again:
            self.step_aside(words)
            return
        self._leave(_State.OPENING)
        self._told = now, f"the disk tier: {words}; it was set aside, and another begun"
        self._writer.submit(self._writing.set_aside, partial(self._begun, self._round))

    def _begun(self, round_: int, result: Any) -> None:
        if round_ != self._round:
            return
        if isinstance(result, Exception):
            self.step_aside(fault_of(result).words)
        else:
            self._open()

    def _at(self, seconds: float, what: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, what)

    def _look(self) -> None:
        """Look after the file: has another process set it aside, is anything to be swept or shrunk?"""
        self._at(TICK, self._look)
        self._look_due = self.busy
        if self._look_due:
            return

        def looked(writing: Writing) -> tuple[bool, bool, FileState]:
            replaced = writing.replaced()
            return replaced, not replaced and writing.tidy(), writing.state()

        self.write(looked, self._looked)

    def _looked(self, result: Any) -> None:
        replaced, more, self.state = result
        if replaced:
            self._open()
        elif more:
            self._at(0.0, self._look)

    async def close(self, within: float) -> None:
        """Close the file, within so many seconds. The writing connection ends last: SQLite takes what stands in the
        write-ahead log into the file when the last connection ends, and neither is the last where both end at once."""
        if self._state in {_State.NEW, _State.CLOSED}:
            return
        self._was_up = self.up
        self._leave(_State.CLOSED)
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        ends = loop.time() + within
        if self._reading is not None:
            await self._of_thread(self._reader, self._reading.close, within)
        await self._of_thread(self._writer, self._writing.close, ends - loop.time())
        self._writer.stop()
        self._reader.stop()

    # -- jobs -----------------------------------------------------------------------------------------------------

    def write(
        self,
        job: Callable[[Writing], Any],
        done: Callable[[Any], None],
        *,
        in_any_case: Callable[[Any], None] = lambda _result: None,
    ) -> None:
        """Let the writing thread, which must not be busy, do a job. `done` is called with its result if the file is
        still in use, `in_any_case` before that with the result or the exception."""
        round_, self._busy_since = self._round, asyncio.get_running_loop().time()

        def ended(result: Any) -> None:
            self._busy_since = None
            in_any_case(result)
            if not self._is_past(round_, result):
                done(result)
                if self._look_due:
                    self._look()
            self._free()

        self._writer.submit(partial(job, self._writing), ended)

    def was_written(self) -> None:
        """Note that something was written: the disk has room again."""
        if self.up:
            self.fault = ""

    def read(self, job: Callable[[Reading], Any], done: Callable[[Any], None]) -> None:
        """Let the reading thread do a job; `done` is called with its result, or with None when there is none."""
        reading, round_ = self._reading, self._round
        if not self.up or reading is None:
            done(None)
            return
        self._reader.submit(
            partial(job, reading), lambda result: done(None if self._is_past(round_, result) else result)
        )

    async def answer(self, job: Callable[[Reading], Any]) -> Any:
        """The result of a job of the reading thread; None when there is none."""
        if not self.up or self._reading is None:
            return None
        return await self._of_thread(self._reader, partial(job, self._reading), ANSWER_WITHIN)

    async def behind(self, within: float) -> None:
        """Wait until the writing thread has ended what it has to do now, for at most `within` seconds."""
        await self._of_thread(self._writer, lambda: True, within)

    async def _of_thread(self, thread: JobThread, job: Job, within: float) -> Any:
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        round_ = self._round

        def done(result: Any) -> None:
            past = self._is_past(round_, result)
            if not told.done():
                told.set_result(None if past else result)

        thread.submit(job, done)
        with suppress(TimeoutError):
            return await asyncio.wait_for(told, within)
        return None

    def resize(self, size: int) -> None:
        """Apply a new bound (bytes). A file above it shrinks little by little."""
        self.limit = size
        if self._state not in {_State.NEW, _State.CLOSED}:
            self._writer.submit(lambda: self._writing.resize(size), lambda _result: None)

    async def purge(self, selection: Selection, *, dry: bool) -> int | None:
        """Remove the selected entries, or count them; returns their number. None when the file cannot be used: then
        the purge is carried out before anything is read again."""
        removed: int | None = None
        if self.up:
            job = partial(self._writing.purge, selection, dry=dry)
            removed = await self._of_thread(self._writer, job, ANSWER_WITHIN)
        if removed is None and not dry and self._state is not _State.CLOSED:
            self._owed = _bounded([*self._owed, selection])
            self._reader.submit(self._folder.owe, lambda _result: None)
            if self.up:
                self.step_aside("a purge could not be carried out yet")
        elif removed is not None and not dry:
            await self.answer(Reading.forget)
        return removed

    # -- what is said ---------------------------------------------------------------------------------------------

    def said(self) -> str:
        """What is wrong with the file now, in words; empty when nothing is."""
        if self._state is _State.OPENING and not self.fault:
            return "its file is being opened"
        if not self.fault and self._busy_since is not None and self.up:
            seconds = asyncio.get_running_loop().time() - self._busy_since
            return f"a write has taken more than {self._stuck:g} s" if seconds > self._stuck else ""
        return self.fault

    def warnings(self) -> tuple[str, ...]:
        """Sentences about files that were set aside lately, and about files of other versions."""
        if self._state is _State.CLOSED:
            return ()
        when, sentence = self._told
        said = [sentence] if sentence and asyncio.get_running_loop().time() - when < TOLD_FOR else []
        if self.state.foreign:
            said.append("the disk tier: its folder holds files of another version, until their room is needed")
        return tuple(said)


def _bounded(owed: list[Selection]) -> list[Selection]:
    """The same purges, or one of everything where they are too many."""
    return owed if len(owed) <= OWED_MOST else [Selection()]
