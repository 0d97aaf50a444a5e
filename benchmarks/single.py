"""The side-by-side measurements that are no throughput: sharing, added latency, large answers, the start."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import TypeVar

import uvloop

from benchmarks.peers import TESTED, Bench, Row, as_generator, get, post
from rpcaccel.bench.load.client import ConnectionPool, LoadReply, parse
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.verdict import verdict
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Summary, percentile
from rpcaccel.bench.runs import process_usage

T = TypeVar("T")
WAITERS = 64
LARGE = 10_000_000


def shared(lab: Bench, runs: int) -> Iterator[Row]:
    """WAITERS identical calls at once, over a node that takes 50 ms."""
    node = lab.responder("--latency", "0.05")
    ours = lab.rpcaccel(f"{node},id=slow").url
    calls, waits = [], []
    for number in range(runs):
        before = _asked(node)
        waits += _run(lambda number=number: _together(ours, _miss(10**9 + number)))  # type: ignore[misc]
        calls.append(_asked(node) - before)
    middle = percentile(sorted(waits), 0.5) or 0.0
    yield Row(
        f"{WAITERS} identical misses, 50 ms node",
        f"{max(calls)} node call, median {middle * 1000:.1f} ms",
        "–",
        None,
        "1 call, 60 ms",
        max(calls) == 1 and middle <= 0.06,
    )


def added(lab: Bench, runs: int, seconds: float) -> Iterator[Row]:
    """Misses at 1,000 calls a second, directly and through the proxy. The node shares the proxy's core here, since the
    generator keeps its own busy to send at exact times."""
    node = lab.responder(core=TESTED)
    ours = lab.rpcaccel(f"{node},id=static", "--memory", "64MB").url
    with as_generator():
        yield _added(node, ours, runs, seconds)


def _added(node: str, ours: str, runs: int, seconds: float) -> Row:
    numbers = count(2 * 10**9)
    direct: list[Summary] = []
    through: list[Summary] = []
    held = True
    for _ in range(runs):
        for url, into in ((node, direct), (ours, through)):
            summary, kept = _run(lambda url=url: _steady(url, seconds, numbers))  # type: ignore[misc]
            into.append(summary)
            held = held and kept
    base = {name: median(_ms(one, name) for one in direct) for name in ("p50", "p99")}
    p50, p99 = (median(_ms(one, name) for one in through) - base[name] for name in ("p50", "p99"))
    failures = sum(one.failures for one in (*direct, *through))
    path, wanted = "added latency of a miss at 1,000/s, p50 / p99", "0.3 / 1.5 ms"
    if failures or not held:
        reason = f"{failures} calls failed" if failures else "rate not held by the generator"
        return Row(path, f"not reported: {reason}", "–", None, wanted, None)
    return Row(
        path,
        f"{p50:+.2f} ms / {p99:+.2f} ms",
        f"direct: {base['p50']:.2f} / {base['p99']:.2f} ms",
        None,
        wanted,
        p50 <= 0.3 and p99 <= 1.5,
    )


def large(lab: Bench, runs: int) -> Iterator[Row]:
    """An answer of 10 MB: memory at its peak, and the longest wait of small calls meanwhile."""
    node = lab.responder()
    ours = lab.rpcaccel(f"{node},id=static")
    url, pid = ours.url, ours.program.pid
    post(url, LoadCall("bench_bytes", b'[{"bytes":1000}]').body(1).decode())
    peaks, stalls = [], []
    for _ in range(runs):
        before, _ = _resident(pid), Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        stalls.append(_run(lambda: _beside(url)))
        peaks.append((_peak(pid) - before) / LARGE)
    peak, stall = median(peaks), median(stalls)
    yield Row(
        "10 MB answer: peak memory, longest stall of others",
        f"{peak:.1f} x the answer, {stall * 1000:.1f} ms",
        "–",
        None,
        "2.5 x, 20 ms",
        peak <= 2.5 and stall <= 0.02,
    )


def started(lab: Bench, runs: int) -> Iterator[Row]:
    """The row of the time from the command to the first answer, and of the memory of a proxy that idles."""
    node = lab.responder()
    times, sizes = [], []
    for _ in range(runs):
        began = time.monotonic()
        ours = lab.rpcaccel(f"{node},id=static")
        post(ours.url, LoadCall("eth_chainId").body(1).decode())
        times.append(time.monotonic() - began)
        time.sleep(2.0)  # what is measured is the memory of a proxy that has idled for so long
        sizes.append(_resident(ours.program.pid))
        ours.program.stop()
    yield Row(
        "start to first answer; idle memory",
        f"{median(times):.2f} s; {median(sizes) / 1e6:.0f} MB",
        "–",
        None,
        "1.0 s; 90 MB",
        median(times) <= 1.0 and median(sizes) <= 90e6,
    )


def _run(made: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await made()

    return uvloop.run(main())


async def _together(url: str, call: LoadCall) -> list[float]:
    pool = ConnectionPool(parse(url), WAITERS)
    await pool.warm(WAITERS)
    began, ended = time.perf_counter(), []

    async def one() -> None:
        outcome = await pool.post(call.body(1), 10.0)
        assert not verdict(outcome, b"1"), outcome
        ended.append(time.perf_counter() - began)

    await asyncio.gather(*(one() for _ in range(WAITERS)))
    await pool.close()
    return ended


async def _steady(url: str, seconds: float, numbers: Iterator[int]) -> tuple[Summary, bool]:
    async with ConnectionPool(parse(url), 256) as pool:
        steady = LoadGenerator(pool, timeout=10.0)
        await steady.run(constant((_miss(number) for number in numbers), rate=1000, seconds=seconds), Watch())
    return steady.summary(), steady.held.yes


async def _beside(url: str) -> float:
    """The longest time of a small call while a large answer passed, in seconds."""
    pool, waits, done = ConnectionPool(parse(url), 4), [], asyncio.Event()
    await pool.warm(4)

    async def small() -> None:
        while not done.is_set():
            began = time.perf_counter()
            await pool.post(LoadCall("hmyv2_blockNumber").body(1), 10.0)
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.001)  # a steady pace beside the large answer

    beside = asyncio.create_task(small())
    outcome = await pool.post(LoadCall("bench_bytes", b'[{"bytes":%d}]' % LARGE).body(1), 30.0)
    assert isinstance(outcome, LoadReply), outcome
    assert len(outcome.body) >= LARGE, outcome.body[:200]
    done.set()
    await beside
    await pool.close()
    return max(waits)


def _miss(number: int) -> LoadCall:
    return LoadCall("eth_getBlockByHash", b'["0x%064x",false]' % number)


def _asked(node: str) -> int:
    return int(json.loads(get(node))["asked"].get("eth_getBlockByHash", 0))


def _ms(summary: Summary, name: str) -> float:
    return float(getattr(summary, name) or 0.0) * 1000


def _resident(pid: int) -> int:
    use = process_usage.use([pid])
    return use.resident if use is not None else 0


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
