"""What storage engines do between two processes, after kill -9, and with damaged files.

A database is opened in a process of its own only, since an engine that meets a damaged file may end its process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from benchmarks.engines import BATCH, Engine, batch_of, name_of, opened, value_of

T = TypeVar("T")

LENGTH = 340
"""Bytes of a value in these trials."""
PATIENCE = 60.0
"""Seconds after which a process that gives no result counts as hung."""
CONTEXT = multiprocessing.get_context("forkserver")
"""Children come from a server that has opened no engine, because the threads of RocksDB do not survive a fork."""
CONTEXT.set_forkserver_preload([__name__])


class ProcessEndedError(RuntimeError):
    """A process ended, or had to be ended, before it gave its result."""

    def __init__(self, by: int, *, hung: bool) -> None:
        super().__init__("it hung" if hung else f"it ended with {by}")
        self.signal = -by if by < 0 else 0
        self.hung = hung


def apart(function: Callable[..., Any], *arguments: Any, patience: float = PATIENCE) -> Any:
    """The result of a function in a process of its own.

    Raises RuntimeError with what the function raised, and ProcessEndedError when there is no result at all.
    """
    with running(function, *arguments) as (process, results):
        hung = False
        with contextlib.suppress(EOFError):
            if results.poll(patience):
                result, error = results.recv()
                if error:
                    raise RuntimeError(error)
                return result
            hung = True
        if hung:
            process.kill()
        process.join()
        raise ProcessEndedError(process.exitcode or 0, hung=hung)


@contextlib.contextmanager
def running(function: Callable[..., Any], *arguments: Any) -> Iterator[tuple[Any, Connection]]:
    """A process that runs a function, and the connection on which its result or its error comes."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_answer, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
        ours.close()
        process.close()


def _answer(results: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = function(*arguments), ""
    except Exception as error:  # whatever it is, the parent has to know of it
        answer = None, f"{type(error).__name__}: {error}"
    results.send(answer)


# -- two processes -----------------------------------------------------------------------------------------------------


class Shared(Struct, frozen=True):
    """What two processes can do with one database."""

    alone: float
    """Entries a second that one process writes by itself."""
    together: float | None
    """Entries a second that two processes write; None when the second one cannot write."""
    refusal: str
    """The error that the second process got."""
    seen: list[float]
    """Seconds from the end of a commit in one process until the other one found the entry, in order of size."""


def shared(engine: str, folder: Path, seconds: float, commits: int) -> Shared:
    """Let two processes write for some seconds, and let one look for what the other one commits."""
    alone = apart(_written, engine, folder / "alone", 0, seconds)
    both, refusal = folder / "both", ""
    apart(_written, engine, both, 0, 0.0)
    with running(_written, engine, both, 1 << 40, seconds) as (_, first):
        time.sleep(seconds / 4)  # so that both have it open for most of the time
        try:
            second = apart(_written, engine, both, 1 << 41, seconds)
        except RuntimeError as error:
            second, refusal = 0.0, str(error)
        together = first.recv()[0] + second
    with running(_committed, engine, folder / "seen", commits) as (_, ends):
        seen = apart(_seen, engine, folder / "seen", commits)
        ended = ends.recv()[0]
    waited = sorted(max(0.0, at - end) for at, end in zip(seen, ended, strict=True))
    return Shared(alone, None if refusal else together, refusal, waited)


def _written(engine: str, folder: Path, start: int, seconds: float) -> float:
    """Entries a second; one batch at the least."""
    database, count, began = opened(engine, folder), 0, time.monotonic()
    while count == 0 or time.monotonic() - began < seconds:
        database.put(batch_of(start + count, LENGTH))
        count += BATCH
    rate = count / (time.monotonic() - began)
    database.close()
    return rate


def _committed(engine: str, folder: Path, commits: int) -> list[float]:
    """The times at which commits of one entry ended, a few milliseconds apart."""
    database, ends = opened(engine, folder), []
    (folder / "begun").touch()
    while not (folder / "looking").exists():
        time.sleep(0.01)  # between two looks at what the other process leaves in the folder
    for number in range(commits):
        time.sleep(0.005)  # so that each commit is looked for alone
        database.put(batch_of(number, LENGTH, 1))
        ends.append(time.monotonic())
    while (folder / "looking").exists():
        time.sleep(0.01)
    database.close()
    return ends


def _seen(engine: str, folder: Path, commits: int) -> list[float]:
    """The times at which each of the entries was found for the first time."""
    while not (folder / "begun").exists():
        time.sleep(0.01)
    database, seen = opened(engine, folder, second=True), []
    (folder / "looking").touch()
    for number in range(commits):
        while database.get(name_of(number)) is None:
            time.sleep(0.0001)  # the pace of the looks, which bounds what is measured
            database.catch_up()
        seen.append(time.monotonic())
    (folder / "looking").unlink()
    database.close()
    return seen


# -- kill -9 -----------------------------------------------------------------------------------------------------------


class Killed(Struct, frozen=True):
    """What was left after a writing process was killed many times."""

    kills: int
    committed: int
    lost: int
    wrong: int
    opening: list[float]
    """Seconds until the database was open and gave its first answer, in order of size."""


def killed(engine: str, folder: Path, kills: int, rng: random.Random) -> Killed:
    """Kill a process that writes without a pause, again and again, and read everything after each time."""
    committed, lost, wrong, opening = 0, 0, 0, []
    for _ in range(kills):
        with running(_writing, engine, folder, committed) as (process, _results):
            told = committed
            while told == committed:
                time.sleep(0.005)  # between two looks at what was committed
                told = _told(folder, committed)
            time.sleep(rng.uniform(0.0, 0.1))  # the moment of the kill is by chance
            process.kill()
            process.join()
        committed = _told(folder, committed)
        took, gone, bad = apart(_after_kill, engine, folder, committed)
        opening.append(took)
        lost, wrong = max(lost, gone), wrong + bad
    return Killed(kills, committed, lost, wrong, sorted(opening))


def _told(folder: Path, before: int) -> int:
    try:
        text = (folder.parent / f"{folder.name}.told").read_bytes()
    except FileNotFoundError:
        return before
    return max(before, int(text[-20:] or b"0"))


def _writing(engine: str, folder: Path, start: int) -> None:
    """Write without end, and tell after each commit how many entries there are."""
    database = opened(engine, folder)
    with (folder.parent / f"{folder.name}.told").open("ab", buffering=0) as told:
        while True:
            database.put(batch_of(start, LENGTH))
            start += BATCH
            told.write(b"%020d" % start)


def _after_kill(engine: str, folder: Path, committed: int) -> tuple[float, int, int]:
    """Seconds to open, entries lost, wrong values."""
    began = time.monotonic()
    database = opened(engine, folder)
    database.get(name_of(0))
    took = time.monotonic() - began
    gone = bad = 0
    for number in range(committed):
        value = database.get(name_of(number))
        gone += value is None
        bad += value is not None and value != value_of(number, LENGTH)
    database.close()
    return took, gone, bad


# -- damage ------------------------------------------------------------------------------------------------------------

OUTCOMES = ("nothing noticed", "entries missing", "error", "wrong answer", "hung", "process died")
"""What a damaged file leads to; of several outcomes of one trial the last of this list counts."""
ALREADY_READ = 20
"""The number of entries that are read before a file is damaged that is open."""


def flip(file: Path, rng: random.Random) -> None:
    """Flip bits of 20 bytes at random places."""
    with file.open("r+b") as stream:
        for _ in range(20):
            place = rng.randrange(file.stat().st_size)
            stream.seek(place)
            byte = stream.read(1)[0]
            stream.seek(place)
            stream.write(bytes([byte ^ rng.randrange(1, 256)]))


def overwrite(file: Path, rng: random.Random) -> None:
    """Put random bytes, zeros or another page of the file in the place of a page."""
    pages = max(1, file.stat().st_size // 4096)
    with file.open("r+b") as stream:
        stream.seek(rng.randrange(pages) * 4096)
        page = rng.choice((rng.randbytes(4096), bytes(4096), stream.read(4096)))
        stream.seek(rng.randrange(pages) * 4096)
        stream.write(page)


def cut(file: Path, rng: random.Random) -> None:
    """Cut the file off at a random place."""
    os.truncate(file, rng.randrange(file.stat().st_size))


Harm = Callable[[Path, random.Random], None]
"""Damages a file."""


class Way(Struct, frozen=True):
    """A way of damaging a database."""

    harm: Harm
    while_open: bool = False
    """Does a process have the database open, and has it read some entries, when the damage happens?"""
    only: tuple[str, ...] = ("*",)
    """Patterns of the files that may be damaged; of these the larger ones are damaged more often."""


WAYS: dict[str, Way] = {
    "bytes flipped": Way(flip),
    "a page overwritten": Way(overwrite),
    "cut short": Way(cut),
    "bytes flipped while open": Way(flip, while_open=True),
    "cut short while open": Way(cut, while_open=True),
    "lock file cut short while open": Way(cut, while_open=True, only=("*-shm", "lock.mdb")),
}
"""The ways of damage by name. The file of locks is not read from the disk, but it is mapped: SQLite's is *-shm."""


def damaged(engine: str, folder: Path, way: str, trials: int, entries: int, seed: int) -> tuple[Counter[str], set[str]]:
    """The outcomes of some trials, each with a copy of one database; and the kinds of errors and signals.

    There are no outcomes where the engine has no such file.
    """
    original, copy = folder / "original", folder / "copy"
    if not original.exists():
        # One half has reached its place, the other one is still in the log, as at any moment of a running engine.
        apart(_fill, engine, original, 0, entries // 2, True)
        with contextlib.suppress(ProcessEndedError):
            apart(_fill, engine, original, entries // 2, entries, False)
    outcomes, kinds = Counter[str](), set[str]()
    if not [file for pattern in WAYS[way].only for file in original.glob(pattern)]:
        return outcomes, kinds
    for trial in range(trials):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        try:
            outcome, kind = apart(_read_damaged, engine, copy, way, entries, seed + trial)
        except ProcessEndedError as ended:
            outcome = "hung" if ended.hung else "process died"
            kind = "" if ended.hung else signal.Signals(ended.signal).name if ended.signal else "exit"
        outcomes[outcome] += 1
        kinds.add(kind)
    return outcomes, kinds - {""}


def _fill(engine: str, folder: Path, start: int, end: int, close: bool) -> None:
    database = opened(engine, folder)
    for place in range(start, end, BATCH):
        database.put(batch_of(place, LENGTH))
    if not close:
        os._exit(0)
    database.close()


def _read_damaged(engine: str, folder: Path, way: str, entries: int, seed: int) -> tuple[str, str]:
    """Read all entries, and write a batch in the end: the outcome, and the kind of the first error."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # engines tell on standard error of what they meet
    trial = _Trial(engine, folder, WAYS[way], random.Random(seed))
    trial.run(entries)
    return max(trial.found, key=OUTCOMES.index, default=OUTCOMES[0]), trial.kind


class _Trial:
    """One damaged database, and what was found in it."""

    def __init__(self, engine: str, folder: Path, way: Way, rng: random.Random) -> None:
        self._engine = engine
        self._folder = folder
        self._way = way
        self._rng = rng
        self.found: set[str] = set()
        self.kind = ""
        """The kind of the first error."""

    def run(self, entries: int) -> None:
        if not self._way.while_open:
            self._harm()
        database = self._without_error(lambda: opened(self._engine, self._folder))
        if database is None:
            return
        for number in range(entries):
            if self._way.while_open and number == ALREADY_READ:
                self._harm()
            self._look(database, number)
        self._without_error(lambda: database.put(batch_of(entries, LENGTH)))
        self._without_error(database.close)

    def _harm(self) -> None:
        there = [file for pattern in self._way.only for file in self._folder.glob(pattern) if file.stat().st_size]
        self._way.harm(self._rng.choices(there, [file.stat().st_size for file in there])[0], self._rng)

    def _look(self, database: Engine, number: int) -> None:
        before = len(self.found)
        value = self._without_error(lambda: database.get(name_of(number)))
        if value is not None and value != value_of(number, LENGTH):
            self.found.add("wrong answer")
        elif value is None and len(self.found) == before:
            self.found.add("entries missing")

    def _without_error(self, step: Callable[[], T]) -> T | None:
        try:
            return step()
        except BaseException as error:  # a panic in the binding of RocksDB is no Exception
            self.found.add("error")
            self.kind = self.kind or type(error).__name__
            return None
