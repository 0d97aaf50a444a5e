"""Storage engines for the cache tier on disk: speed, size, stalls of the event loop, kills, and damaged files.

    python -m benchmarks.disk_engines [--short] [--out docs/benchmarks.md]           about half an hour, 20 GB of disk

SQLite is part of Python. LMDB and RocksDB are measured where they are installed (`pip install lmdb rocksdict`), and
named as missing where not. TMPDIR says on which disk the files are.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from itertools import product
from math import inf
from pathlib import Path

from msgspec import Struct

from benchmarks import evidence
from benchmarks.disk_stalls import WAYS as LOOKUP_WAYS
from benchmarks.disk_stalls import Stalls, figures, stalls
from benchmarks.engine_trials import OUTCOMES, WAYS, apart, damaged, killed, shared
from benchmarks.engines import (
    ALL,
    BATCH,
    BULK,
    CANDIDATES,
    SYNCED,
    batch_of,
    drop_from_page_cache,
    missing,
    name_of,
    on_disk,
    opened,
    value_of,
)
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report, Table, count, machine, milliseconds, percent, remarks
from rpcaccel.bench.report.statistics import percentile

SECTION = "disk engines"
EXTRAPOLATED = 50_000_000
"""The number of entries for which the bytes on disk are extrapolated."""
END = 50_000
"""The number of entries by which writing into a full database is measured."""


class Size(Struct, frozen=True):
    """How much is measured."""

    fills: tuple[tuple[int, int], ...] = ((340, 1_000_000), (1_700, 1_000_000), (1_700, 4_000_000), (340, 10_000_000))
    """Bytes of a value and number of entries; the loop is measured with the last of them."""
    written: float = 30.0
    """Seconds for which writing is measured; the rest of the entries are written by larger transactions."""
    warm: int = 20_000
    cold: int = 4_000
    runs: int = 7
    seconds: float = 5.0
    """Seconds of a run of the loop, and of two processes that write."""
    commits: int = 200
    kills: int = 20
    trials: int = 50
    """The number of trials for each way of damage."""
    damaged: int = 10_000
    """The number of entries of a database that is damaged."""


USUAL = Size()


def measure(watch: Watch, size: Size = USUAL) -> Report:
    """All tables; engines whose package is not installed are left out and named."""
    without = list(missing(CANDIDATES))
    engines = [engine for engine in CANDIDATES if engine not in without]
    parts: tuple[tuple[str, Callable[..., Table]], ...] = (
        ("damage", _damage),
        ("killed", _killed),
        ("two processes", _shared),
        ("speed and size", _speed),
        ("event loop", _loop),
    )
    made: dict[str, Table] = {}
    with tempfile.TemporaryDirectory() as folder:
        for place, (name, part) in enumerate(parts):
            if watch.stopped:
                break
            watch.part(name, place, len(parts))
            made[name] = part(engines, Path(folder), size, watch)
    order = ("event loop", "damage", "killed", "two processes", "speed and size")
    packages = [f"{ALL[engine].package} {metadata.version(ALL[engine].package)}" for engine in engines[1:]]
    facts = machine() | {
        "engines": ", ".join([f"SQLite {sqlite3.sqlite_version}", *packages]),
        "entries": f"names of {len(name_of(0))} bytes in an order of their own, values that nothing compresses, "
        f"{BATCH} in a transaction",
    }
    said = [f"{engine} was not measured: {ALL[engine].package} is not installed" for engine in without]
    said += [f"{engine}: after a crash of the whole machine {ALL[engine].after_power_loss}" for engine in engines]
    return Report(
        "Storage engines",
        facts,
        [made[name] for name in order if name in made],
        remarks=remarks((), stopped=watch.stopped) + said,
    )


# -- speed and size ----------------------------------------------------------------------------------------------------


class Filled(Struct, frozen=True):
    """How an engine wrote its entries, in entries a second; the making of the entries is left out."""

    rate: float
    """From the first entry on."""
    end_rate: float
    """When nearly all entries were there."""


class Read(Struct, frozen=True):
    """Lookups of one engine; seconds, in order of size."""

    times: list[float]
    processor: float
    """Seconds of processor time of a lookup."""
    own: int
    """Bytes of memory that the process grew by, what it maps of files left out."""
    mapped: int


def fill(engine: str, folder: Path, length: int, entries: int, measured: float) -> Filled:
    """Write entries: for `measured` seconds and in the end as the tier does, between these as fast as can be."""
    end = min(END, entries // 2 // BATCH * BATCH)
    written, rate = _write(engine, folder, length, range(0, entries - end, BATCH), measured)
    database = opened(engine, folder, bulk=True)
    while written < entries - end:
        many = min(BULK, entries - end - written)
        database.put(sorted(batch_of(written, length, many)))
        written += many
    database.close()
    _, end_rate = _write(engine, folder, length, range(written, entries, BATCH), inf)
    return Filled(rate, end_rate)


def _write(engine: str, folder: Path, length: int, starts: range, longest: float) -> tuple[int, float]:
    """Write batches for some seconds: the number of entries, and entries a second."""
    database, took, began, written = opened(engine, folder), 0.0, time.monotonic(), 0
    for start in starts:
        batch = batch_of(start, length)
        before = time.monotonic()
        database.put(batch)
        took += time.monotonic() - before
        written += len(batch)
        if time.monotonic() - began > longest:
            break
    database.close()
    return written, written / took


def look_up(engine: str, folder: Path, length: int, entries: int, lookups: int, *, warm: bool) -> Read:
    """Look entries up at random; `warm` looks each of them up once before, in another order."""
    rng = random.Random(entries)
    own, mapped = _memory()
    database = opened(engine, folder)
    asked = [rng.randrange(entries) for _ in range(lookups)]
    if warm:
        for number in asked:
            database.get(name_of(number))
        rng.shuffle(asked)
    times, used = [], 0.0
    for number in asked:
        name, wanted = name_of(number), value_of(number, length)
        cpu, began = time.thread_time(), time.perf_counter()
        value = database.get(name)
        times.append(time.perf_counter() - began)
        used += time.thread_time() - cpu
        if value != wanted:
            raise RuntimeError(f"{engine} has not got entry {number}")
    own_now, mapped_now = _memory()
    database.close()
    return Read(sorted(times), used / lookups, own_now - own, mapped_now - mapped)


def _memory() -> tuple[int, int]:
    """Resident bytes of this process: its own, and those of mapped files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    held = {
        name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest
    }
    return held.get("RssAnon", 0), held.get("RssFile", 0)


def _speed(engines: Sequence[str], folder: Path, size: Size, watch: Watch) -> Table:
    rows: list[tuple[str, ...]] = []
    taken: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for place, (length, entries) in enumerate(size.fills):
        last = place == len(size.fills) - 1
        for engine in [*engines, *([SYNCED] if place == 0 and "LMDB" in engines else [])]:
            if watch.stopped:
                break
            watch.at(place / len(size.fills))
            where = folder / f"speed {engine}"
            filled: Filled = apart(fill, engine, where, length, entries, size.written, patience=1800.0)
            apart(drop_from_page_cache, where, patience=600.0)
            cold: Read = apart(_looked_up, engine, where, length, entries, size.cold, False, patience=600.0)
            warm: Read = apart(_looked_up, engine, where, length, entries, size.warm, True, patience=600.0)
            rows.append(_speed_row(engine, length, entries, filled, warm, cold, on_disk(where)))
            taken.setdefault((engine, length), []).append((entries, on_disk(where)))
            if not last or engine == SYNCED:
                shutil.rmtree(where)
    rows += _extrapolated(taken)
    wrote = ("entries", "written", "at the end", "on disk", "for a byte of value")
    read = ("warm p50", "warm p99", "processor", "cold p50", "cold p99", "memory", "mapped")
    note = (
        f"Written: entries a second in the first {size.written:g} s, and at the end the last {END:,} entries; between "
        f"these, transactions of {BULK:,} entries save time. Lookups in microseconds, one after the other. "
        "Cold: the files were dropped from the page cache before. Memory: what a process grows by that looks up "
        f"{size.warm:,} entries, and what it maps of the files. {EXTRAPOLATED:,} entries are extrapolated in a "
        "straight line from the two sizes above."
    )
    return Table("Speed and size", ("", *wrote, *read), rows, note)


def _looked_up(engine: str, folder: Path, length: int, entries: int, lookups: int, warm: bool) -> Read:
    return look_up(engine, folder, length, entries, lookups, warm=warm)


def _speed_row(
    engine: str, length: int, entries: int, filled: Filled, warm: Read, cold: Read, taken: int
) -> tuple[str, ...]:
    return (
        f"{engine}, {length:,} B",
        f"{entries:,}",
        f"{filled.rate:,.0f}/s",
        f"{filled.end_rate:,.0f}/s",
        f"{taken / 1e9:.2f} GB",
        f"{taken / entries / length:.2f}",
        _micro(percentile(warm.times, 0.5)),
        _micro(percentile(warm.times, 0.99)),
        _micro(warm.processor),
        _micro(percentile(cold.times, 0.5)),
        _micro(percentile(cold.times, 0.99)),
        f"{warm.own / 1e6:.0f} MB",
        f"{warm.mapped / 1e6:.0f} MB",
    )


def _extrapolated(taken: dict[tuple[str, int], list[tuple[int, int]]]) -> Iterator[tuple[str, ...]]:
    """A row for each engine and length of which there are two sizes."""
    for (engine, length), found in taken.items():
        if len(found) < 2 or found[0][0] == found[-1][0]:
            continue
        (few, small), (many, large) = found[0], found[-1]
        total = large + (large - small) / (many - few) * (EXTRAPOLATED - many)
        cells = (f"{total / 1e9:.0f} GB", f"{total / EXTRAPOLATED / length:.2f}")
        yield f"{engine}, {length:,} B", f"{EXTRAPOLATED:,}, extrapolated", "–", "–", *cells, *("–",) * 7


def _micro(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e6:,.1f}" if seconds < 1e-5 else f"{seconds * 1e6:,.0f}"


# -- the event loop ----------------------------------------------------------------------------------------------------


def _loop(engines: Sequence[str], folder: Path, size: Size, watch: Watch) -> Table:
    length, entries = size.fills[-1]
    pairs = [(engines[0], LOOKUP_WAYS[0]), *product(engines, LOOKUP_WAYS[1:])]
    runs: dict[tuple[str, str], list[Stalls]] = {pair: [] for pair in pairs}
    for turn in range(size.runs):
        watch.at(turn / size.runs)
        # Engines and ways take turns in another order each time, so that a busy moment spoils no single one.
        for engine, way in random.Random(turn).sample(pairs, len(pairs)):
            if watch.stopped:
                break
            where = folder / f"speed {engine}"
            apart(drop_from_page_cache, where, patience=600.0)
            run = apart(stalls, engine, where, way, entries, size.seconds, turn, patience=size.seconds + 300.0)
            runs[engine, way].append(run)
    rows = []
    for (engine, way), made in runs.items():
        if not made:
            continue
        times, busy = figures(made)
        name = way if way == LOOKUP_WAYS[0] else f"{engine}, {way}"
        rows.append((name, *map(milliseconds, times), percent(busy)))
    columns = ("", "late p50", "late p99", "late max", "warm p50", "warm p99", "cold p50", "cold p99", "busy")
    note = (
        "Milliseconds, medians of the runs. Late: how long a call that comes waits for the loop, measured by a pulse a "
        "millisecond. Warm and cold: from the asking until the entry is there, 2,000 and 500 a second together, "
        f"of {entries:,} entries of {length} bytes. Busy: processor time, as a share of a core."
    )
    return Table("How late the event loop is", columns, rows, note)


# -- processes, kills, damage ------------------------------------------------------------------------------------------


def _shared(engines: Sequence[str], folder: Path, size: Size, watch: Watch) -> Table:
    rows = []
    for engine in engines:
        if watch.stopped:
            break
        found = shared(engine, folder / f"shared {engine}", size.seconds, size.commits)
        both = f"{found.together:,.0f}/s" if found.together else "no: the second one cannot open the files"
        seen = [milliseconds(percentile(found.seen, share)) for share in (0.5, 0.99, 1.0)]
        rows.append((engine, f"{found.alone:,.0f}/s", both, *seen))
    columns = ("", "one writes", "two write", "seen after p50", "p99", "max")
    note = (
        "Entries a second; milliseconds from the end of a commit until another process that looks every 0.1 ms finds "
        "the entry. With RocksDB that process has the files open as a secondary, and catches up before each look."
    )
    return Table("Two processes", columns, rows, note)


def _killed(engines: Sequence[str], folder: Path, size: Size, watch: Watch) -> Table:
    rows = []
    for engine in engines:
        if watch.stopped:
            break
        where = folder / f"killed {engine}"
        found = killed(engine, where, size.kills, random.Random(engine))
        shutil.rmtree(where)
        opening = [milliseconds(percentile(found.opening, share)) for share in (0.5, 1.0)]
        rows.append((engine, str(found.kills), f"{found.committed:,}", str(found.lost), str(found.wrong), *opening))
    columns = ("", "kills", "committed", "lost", "wrong", "open again p50", "max")
    note = "Committed: entries; milliseconds until the first answer after a kill -9 in the middle of writing."
    return Table("Killed while writing", columns, rows, note)


def _damage(engines: Sequence[str], folder: Path, size: Size, watch: Watch) -> Table:
    rows = []
    for place, engine in enumerate(engines):
        where = folder / f"damaged {engine}"
        where.mkdir()
        for step, way in enumerate(WAYS):
            if watch.stopped:
                break
            watch.at((place + step / len(WAYS)) / len(engines))
            outcomes, kinds = damaged(engine, where, way, size.trials, size.damaged, seed=step * 1000)
            if outcomes:
                counts = (str(outcomes[outcome]) for outcome in OUTCOMES)
                rows.append((f"{engine}: {way}", count(outcomes.total()), *counts, ", ".join(sorted(kinds)) or "–"))
        shutil.rmtree(where)
    note = (
        f"A database of {size.damaged:,} entries, one half of them still in the log where there is one, is damaged, "
        "read whole by a process of its own, and written to. Of several outcomes of a trial the one furthest to the "
        "right counts."
    )
    return Table("Damaged files", ("", "trials", *OUTCOMES, "errors and signals"), rows, note)


SHORT = Size(
    fills=((340, 2_000), (340, 5_000)),
    warm=500,
    cold=200,
    runs=1,
    seconds=0.3,
    commits=10,
    kills=2,
    trials=1,
    damaged=1_000,
)


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, SHORT)


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
