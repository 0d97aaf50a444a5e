"""What the proxy adds at low load: 100 calls a second, to a node directly and through the proxy, in turns.

python -m benchmarks.overhead [--short] [--out docs/benchmarks.md]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import count, repeat
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

from benchmarks import evidence
from benchmarks.peers import TESTED, Bench, as_generator, bench
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, machine, milliseconds
from rpcaccel.bench.report.statistics import Summary

SECTION = "overhead"
RATE = 100
_numbers = count(3 * 10**9)
KEPT = LoadCall("eth_getBlockByNumber", b'["0x10",false]')


class Way(NamedTuple):
    """One way to get an answer: directly, by a miss, or by a hit."""

    name: str
    url: str
    calls: Callable[[], Iterator[LoadCall]]


def measure(watch: Watch, *, seconds: float = 4.0, runs: int = 3, latencies: tuple[float, ...] = (0.0, 0.02)) -> Report:
    """The table for a node that answers at once and one that takes 20 ms."""
    rows: list[tuple[str, ...]] = []
    remarks = list[str]()
    for place, latency in enumerate(latencies):
        name = f"node of {latency * 1000:g} ms"
        with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab, as_generator():
            ways = _ways(lab, latency)
            found: dict[str, list[Summary]] = {way.name: [] for way in ways}
            for number in range(runs):
                watch.part(f"{name}, run {number + 1}", place * runs + number, runs * len(latencies))
                for way in ways if number % 2 == 0 else ways[::-1]:
                    summary, held = uvloop.run(_one(way, seconds, watch))
                    if watch.stopped:
                        break
                    if summary.failures or not held:
                        why = f"{summary.failures} calls failed" if summary.failures else "the rate was not held"
                        remarks.append(f"{name}, {way.name}: a run is left out, {why}")
                    else:
                        found[way.name].append(summary)
        rows += _rows(name, found)
        if watch.stopped:
            remarks.append("interrupted: what was measured until then")
            break
    facts = machine() | {
        "load": f"{RATE} calls/s in an open loop, {runs} interleaved runs of {seconds:g} s, medians; answers of 1.7 kB",
        "cores": "node and proxy on one, generator on the other",
    }
    columns = ("", "p50", "p99", "added p50", "added p99")
    note = "Milliseconds. A hit needs no node: what it adds to a call to a far node is less than nothing."
    return Report(
        "Overhead at low load", facts, [Table("Overhead", columns, rows, note)], remarks=[*dict.fromkeys(remarks)]
    )


def _ways(lab: Bench, latency: float) -> list[Way]:
    node = lab.responder("--latency", str(latency), core=TESTED)
    ours = lab.rpcaccel(f"{node},id=node").url
    return [Way("direct", node, _new), Way("miss", ours, _new), Way("hit", ours, lambda: repeat(KEPT))]


def _new() -> Iterator[LoadCall]:
    return (LoadCall("eth_getBlockByHash", b'["0x%064x",false]' % number) for number in _numbers)


async def _one(way: Way, seconds: float, watch: Watch) -> tuple[Summary, bool]:
    async with ConnectionPool(parse(way.url), 32) as pool:
        await pool.warm(8)
        await pool.post(KEPT.body(1), 10.0)
        steady = LoadGenerator(pool, timeout=10.0)
        await steady.run(constant(way.calls(), rate=RATE, seconds=seconds), watch)
    return steady.summary(), steady.held.yes


def _rows(node: str, found: dict[str, list[Summary]]) -> Iterator[tuple[str, ...]]:
    base = [_middle(found["direct"], name) for name in ("p50", "p99")]
    for way, runs in found.items():
        times = [_middle(runs, which) for which in ("p50", "p99")]
        added = ["–" if way == "direct" else _added(*pair) for pair in zip(times, base, strict=True)]
        yield f"{node}, {way}", *map(milliseconds, times), *added


def _added(time: float | None, base: float | None) -> str:
    return "–" if time is None or base is None else f"{(time - base) * 1000:+.2f}"


def _middle(runs: list[Summary], name: str) -> float | None:
    return median(float(getattr(run, name) or 0.0) for run in runs) if runs else None


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, seconds=0.3, runs=1, latencies=(0.0,))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
