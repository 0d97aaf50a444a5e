"""The proxy beside nginx and HAProxy, on one core each, the load generator and the node on the other.

Figures of a machine mean little elsewhere; their ratios mean something. Runs are interleaved, medians are told.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

import uvloop

from benchmarks.peers import TESTED, Bench, as_generator, bench, get, post
from benchmarks.rounds import BATCH, BODIES, Rounds, Side, programs
from rpcaccel.bench.load.client import ConnectionPool, parse, verdict
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, count, machine, remarks
from rpcaccel.bench.report.statistics import Summary, percentile, ratio
from rpcaccel.bench.runs import process_usage

NODES: dict[str, tuple[str, ...]] = {"static": (), "100 µs a call": ("--work", "0.0001")}
"""The nodes before which misses are measured, with the options of the responder. A static node costs next to nothing,
so that the way through the proxy is measured. A real node takes processor time for each call, which bounds the rate
whatever stands in front of it; calls that wait reach it in batches, which spares it the reading of requests."""
CONNECTIONS = (32, 128)
OURS = "rpcaccel"
WAITERS = 64
"""Identical misses at once."""
ADDED_RATE = 1000
"""Calls a second at which the latency is measured that the proxy adds to a miss."""


class Row(NamedTuple):
    """One line of the side-by-side table."""

    path: str
    ours: str
    theirs: str
    ratio: float | None
    wanted: str
    reached: bool | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the line."""
        ratio = "–" if self.ratio is None else f"{self.ratio:.2f}"
        reached = {True: "yes", False: "no", None: "–"}[self.reached]
        return self.path, self.ours, self.theirs, ratio, self.wanted, reached


def measure(watch: Watch, short: bool = False) -> Report:
    """What was wanted of the proxy beside what was measured, each part with programs of its own."""
    parts = PARTS[2:3] if short else PARTS
    rows: list[Row] = []
    missing: list[str] = []
    rounds = _rounds(watch, len(parts), rows, short)
    for made in parts:
        if not watch.stopped:
            with bench() as lab:
                rows += made(lab, rounds)
                missing += lab.missing
    columns = ("path", "rpcaccel", "peer", "ratio", "wanted", "reached")
    said = [*remarks((), stopped=watch.stopped), *dict.fromkeys((*missing, *rounds.remarks))]
    return Report(
        "Side by side", _facts(rounds), [Table("Side by side", columns, [row.cells for row in rows])], remarks=said
    )


def _rounds(watch: Watch, parts: int, rows: list[Row] | list[tuple[str, ...]], short: bool) -> Rounds:
    seconds, runs = (0.3, 1) if short else (3.0, 3)
    return Rounds(seconds, runs, lambda text: watch.part(text, min(len(rows), parts - 1), parts))


def _facts(rounds: Rounds) -> dict[str, str]:
    runs = f"{rounds.runs} interleaved runs of {rounds.seconds:g} s, medians; answers of 1.7 kB"
    return machine() | programs() | {"runs": f"{runs}; rpcaccel with one worker"}


def _hits(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """Rows of answers from memory, beside nginx' micro-cache for POST bodies."""
    node = lab.responder()
    ours = lab.rpcaccel(f"{node},id=static").url
    nginx = lab.nginx(node)
    sides = [Side(kind, ours, kind) for kind in ("same", "ids", "local", "batch")]
    if nginx is not None:
        sides += [Side(f"nginx {kind}", nginx[0], kind) for kind in ("same", "ids")]
    rates = rounds.rates(sides)
    yield _row("memory hit, identical bodies", rates.get("same"), rates.get("nginx same"), "nginx micro-cache", 1.3)
    yield _row("memory hit, differing ids", rates.get("ids"), rates.get("nginx ids"), "nginx micro-cache", 3.0)
    yield _row("local answers", rates.get("local"), rates.get("nginx same"), "nginx micro-cache", 1.3)
    items = rates["batch"] * BATCH if "batch" in rates else None
    yield _row("batch of 20 hits, items", items, rates.get("same"), "single hits", 2.0)


def _redis(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """The row of answers from Redis, when memory keeps nothing."""
    node = lab.responder()
    ours = lab.rpcaccel(f"{node},id=static", "--memory", "0", "--redis", lab.redis().url)
    nginx = lab.nginx(node)
    sides = [Side("ours", ours.url, "keys")] + ([Side("nginx", nginx[0], "same")] if nginx else [])
    rates = rounds.rates(sides)
    yield _row("Redis hit (memory tier off)", rates.get("ours"), rates.get("nginx"), "nginx micro-cache", 0.2)
    _, source = post(ours.url, BODIES["keys"](5))
    if source != "redis":
        rounds.remarks.append(f"the Redis row was answered from {source}")


def _row(path: str, ours: float | None, theirs: float | None, peer: str, wanted: float) -> Row:
    said = f"{wanted:g} x {peer}"
    if not ours:
        return Row(path, "not reported", f"{count(theirs)}/s", None, said, None)
    if not theirs:
        return Row(path, f"{count(ours)}/s", "–", None, said, None)
    return Row(path, f"{count(ours)}/s", f"{count(theirs)}/s", ours / theirs, said, ours / theirs >= wanted)


def _shared(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """The row of WAITERS identical calls at once, over a node that takes 50 ms."""
    node = lab.responder("--latency", "0.05")
    ours = lab.rpcaccel(f"{node},id=slow").url
    calls, waits = [], list[float]()
    for number in range(rounds.runs):
        before = _asked(node)
        waits += uvloop.run(_together(ours, _miss(10**9 + number)))
        calls.append(_asked(node) - before)
    middle = percentile(sorted(waits), 0.5) or 0.0
    told = f"{max(calls)} node call, median {middle * 1000:.1f} ms"
    reached = max(calls) == 1 and middle <= 0.06
    yield Row(f"{WAITERS} identical misses, 50 ms node", told, "–", None, "1 call, 60 ms", reached)


async def _together(url: str, call: LoadCall) -> list[float]:
    async with ConnectionPool(parse(url), WAITERS) as pool:
        await pool.warm(WAITERS)
        began, ended = time.perf_counter(), list[float]()

        async def one() -> None:
            outcome = await pool.post(call.body(1), 10.0)
            assert not verdict(outcome, b"1"), outcome
            ended.append(time.perf_counter() - began)

        await asyncio.gather(*(one() for _ in range(WAITERS)))
    return ended


def _added(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """The row of misses at a steady rate, directly and through the proxy. The node shares the proxy's core here, since
    the generator keeps its own busy to send at exact times."""
    node = lab.responder(core=TESTED)
    ours = lab.rpcaccel(f"{node},id=static", "--memory", "64MB").url
    numbers = itertools.count(2 * 10**9)
    found: dict[str, list[tuple[Summary, bool]]] = {node: [], ours: []}
    with as_generator():
        for _, url in itertools.product(range(rounds.runs), found):
            found[url].append(uvloop.run(_steady(url, rounds.seconds, numbers)))
    path, wanted = f"added latency of a miss at {ADDED_RATE:,}/s, p50 / p99", "0.3 / 1.5 ms"
    both = [*found[node], *found[ours]]
    failures = sum(summary.failures for summary, _ in both)
    if failures or not all(held for _, held in both):
        reason = f"{failures} calls failed" if failures else "rate not held by the generator"
        yield Row(path, f"not reported: {reason}", "–", None, wanted, None)
        return
    base, through = (
        [median((getattr(summary, which) or 0.0) * 1000 for summary, _ in found[url]) for which in ("p50", "p99")]
        for url in (node, ours)
    )
    p50, p99 = (mine - direct for mine, direct in zip(through, base, strict=True))
    told = f"{p50:+.2f} ms / {p99:+.2f} ms"
    yield Row(path, told, f"direct: {base[0]:.2f} / {base[1]:.2f} ms", None, wanted, p50 <= 0.3 and p99 <= 1.5)


async def _steady(url: str, seconds: float, numbers: Iterator[int]) -> tuple[Summary, bool]:
    async with ConnectionPool(parse(url), 256) as pool:
        steady = LoadGenerator(pool, timeout=10.0)
        await steady.run(constant((_miss(number) for number in numbers), rate=ADDED_RATE, seconds=seconds), Watch())
    return steady.summary(), steady.held.yes


def _started(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """The row of the time from the command to the first answer, and of the memory of a proxy that idles."""
    node = lab.responder()
    times, sizes = list[float](), list[int]()
    for _ in range(rounds.runs):
        began = time.monotonic()
        ours = lab.rpcaccel(f"{node},id=static")
        post(ours.url, LoadCall("eth_chainId").body(1).decode())
        times.append(time.monotonic() - began)
        time.sleep(2.0)  # what is measured is the memory of a proxy that has idled for so long
        use = process_usage.use([ours.program.pid])
        sizes.append(use.resident if use is not None else 0)
        ours.program.stop()
    reached = median(times) <= 1.0 and median(sizes) <= 90e6
    told = f"{median(times):.2f} s; {median(sizes) / 1e6:.0f} MB"
    yield Row("start to first answer; idle memory", told, "–", None, "1.0 s; 90 MB", reached)


def _miss(number: int) -> LoadCall:
    return LoadCall("eth_getBlockByHash", b'["0x%064x",false]' % number)


def _asked(node: str) -> int:
    return int(json.loads(get(node))["asked"].get("eth_getBlockByHash", 0))


PARTS: tuple[Callable[[Bench, Rounds], Iterator[Row]], ...] = (_hits, _redis, _shared, _added, _started)


def misses(watch: Watch, short: bool = False) -> Report:
    """Calls that were never made before: a row for each kind of node and number of connections."""
    rows: list[tuple[str, ...]] = []
    connections = (8,) if short else CONNECTIONS
    rounds = _rounds(watch, len(NODES) * len(connections), rows, short)
    for kind, options in NODES.items():
        for number in connections:
            if watch.stopped:
                break
            with bench() as lab:
                node = lab.responder(*options)
                nginx, haproxy = lab.nginx(node), lab.haproxy(node)
                urls = {OURS: lab.rpcaccel(f"{node},id=node", "--memory", "64MB").url, "no proxy": node}
                urls |= {"nginx": nginx[1]} if nginx else {}
                urls |= {"HAProxy": haproxy} if haproxy else {}
                found = rounds.interleaved([Side(name, url, "miss", number) for name, url in urls.items()])
            rows.append((kind, str(number), *_cells(found)))
    columns = ("node", "connections", OURS, "no proxy", "ratio", "nginx", "ratio", "HAProxy", "ratio")
    note = (
        "Calls a second. A ratio is the proxy's rate over that of the column before it, "
        "the geometric mean over pairs of runs."
    )
    said = [*remarks((), stopped=watch.stopped), *rounds.remarks]
    return Report("Misses", _facts(rounds), [Table("Misses", columns, rows, note)], remarks=said)


def _cells(found: dict[str, list[float]]) -> list[str]:
    ours = found.get(OURS, [])
    cells = [f"{count(median(ours))}/s" if ours else "not reported"]
    for name in ("no proxy", "nginx", "HAProxy"):
        theirs = found.get(name, [])
        both = ratio(theirs, ours) if theirs and ours else None
        cells += [f"{count(median(theirs))}/s" if theirs else "–", "–" if both is None else f"{both.ratio:.2f}"]
    return cells
