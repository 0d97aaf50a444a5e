"""What several workers are worth: work a call, and how evenly connections are spread.

Where the load generator takes a core of its own, there is none left to see two workers at their limit. So the rate is
fixed, well under it and the same for each worker, and what is compared is the processor time that a call takes: as long
as that is the same, two workers carry twice the load on two cores.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import uvloop
from msgspec import Struct

from benchmarks.peers import Bench, Row, Running, post
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.runs import process_usage

RATE = 1500
"""Calls a second for each worker."""
CONNECTIONS = 64
WORKERS = 2
FEWEST = CONNECTIONS // WORKERS // 2
"""The kernel deals connections out by a hash: so few on one worker come about once in ten thousand times."""
WANTED = 1.8
_CALL = LoadCall("eth_getBlockByNumber", b'["0x10",false]')


class Load(Struct):
    """The sums over the runs of one proxy under a fixed rate."""

    calls: int = 0
    failures: int = 0
    cpu: float = 0.0
    """Seconds of all its processes, beyond what they take when nothing is asked."""
    held: bool = True
    """Whether the rate was kept."""
    spread: tuple[int, ...] = ()
    """Connections of each worker, of the most uneven run."""

    @property
    def each(self) -> float:
        """Seconds of processor time a call."""
        return self.cpu / max(1, self.calls)


def workers(lab: Bench, runs: int, seconds: float, rate: float = RATE) -> Iterator[Row]:
    """One worker and several, in turns, under the same rate of hits for each worker."""
    node = lab.responder(core=None)
    running = {count: lab.rpcaccel(f"{node},id=static", "--workers", str(count), core=None) for count in (1, WORKERS)}
    loads = {count: Load() for count in running}
    for count, _ in itertools.product(running, range(4 * WORKERS)):
        post(running[count].url, _CALL.body(1).decode())  # each worker has a cache of its own
    for _, count in itertools.product(range(runs), running):
        uvloop.run(_under_load(running[count], count * rate, seconds, loads[count]))
    yield row(loads[1], loads[WORKERS], rate)


def row(one: Load, several: Load, rate: float = RATE) -> Row:
    """The row of the table."""
    path, wanted = f"{WORKERS} workers on {WORKERS} cores, {rate:,.0f} hits/s each", f"{WANTED:g} x one, spread evenly"
    reason = ""
    if failures := one.failures + several.failures:
        reason = f"{failures} calls failed"
    elif not (one.held and several.held):
        reason = "rate not held by the generator"
    elif min(one.cpu, several.cpu) <= 0:
        reason = "a run too short for the clock of processor time"
    if reason:
        return Row(path, f"not reported: {reason}", "–", None, wanted, None)
    ratio = WORKERS * one.each / several.each
    spread = "/".join(map(str, several.spread))
    return Row(
        path,
        f"{several.each * 1e6:.1f} µs a call, connections {spread}",
        f"one: {one.each * 1e6:.1f} µs a call",
        ratio,
        wanted,
        ratio >= WANTED and len(several.spread) == WORKERS and min(several.spread) >= FEWEST,
    )


async def _under_load(running: Running, rate: float, seconds: float, load: Load) -> None:
    target = parse(running.url)
    pool, pids = ConnectionPool(target, CONNECTIONS), process_usage.with_children([running.program.pid])
    await pool.warm(CONNECTIONS)
    marks = [process_usage.use(pids)]
    await asyncio.sleep(seconds)  # what is measured is the work of a proxy that is asked nothing for so long
    marks.append(process_usage.use(pids))
    steady = LoadGenerator(pool, timeout=10.0, spin=False)
    await steady.run(constant(itertools.repeat(_CALL), rate=rate, seconds=seconds), Watch())
    marks.append(process_usage.use(pids))
    idle, busy = (process_usage.spent(*pair) for pair in itertools.pairwise(marks))
    summary, found = steady.summary(), spread(target.port, pids)
    load.cpu += (busy.cores - idle.cores) * steady.elapsed if busy and idle else 0.0
    load.calls += summary.calls
    load.failures += summary.failures
    load.held = load.held and steady.held.yes
    load.spread = min(load.spread or found, found, key=lambda one: min(one, default=0))
    await pool.close()


def spread(port: int, pids: list[int]) -> tuple[int, ...]:
    """The number of connections to a port of each process that has any."""
    sockets = process_usage.sockets(port, "01")
    counts = (len(sockets & process_usage.held(pid)) for pid in pids)
    return tuple(count for count in counts if count)
