"""Node calls for one distinct miss that several proxies on one Redis are asked at the same moment, and what it costs
to make it one: misses of one proxy with and without a lease for each, in turns.

    python -m benchmarks.node_calls [--short] [--out docs/benchmarks.md]

The node counts the calls. A far node answers after 300 ms, as public ones do or slower; a near one within a
millisecond.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import uvloop

from benchmarks import evidence
from benchmarks.peers import Bench, Running, as_generator, bench, get
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, machine, milliseconds, remarks
from rpcaccel.bench.runs import process_usage
from tests.support.services import RedisServer, wait_until
from tests.support.stores.topologies import cluster

SECTION = "node calls a miss"
FAR, NEAR = 0.3, 0.0005
"""Seconds that the nodes take."""
PROXIES = (1, 2, 4, 8)
RATE = 250
"""Lone misses a second."""
LIGHT, HEAVY = "eth_getBlockByHash", "debug_traceTransaction"
_numbers = count(7 * 10**9)
_SETTINGS = """
redis = {{ url = "{redis}", single_flight = "{mode}", read_timeout = "100ms", connect_timeout = "10s" }}
workers = {workers}
[networks.harmony-s0]
nodes = [{{ id = "node", url = "{node}", roles = ["debug"] }}]
hidden_lag = 0
refresh = 0
prove = false
hedge = {{ quantile = 0 }}
agreement = {{ share = 0 }}
outliers = {{ factor = 0 }}
"""


class Size(NamedTuple):
    """How much is measured."""

    proxies: Sequence[int] = PROXIES
    rounds: int = 6
    at_once: int = 5
    """Distinct calls of a round, which are made at the same moment."""
    seconds: float = 5.0
    runs: int = 5


class Found(NamedTuple):
    """What a distinct miss took."""

    node_calls: float
    first: float
    """Median seconds until the first of the proxies has the answer."""
    last: float
    """Median seconds until the last of the proxies has the answer."""


def measure(watch: Watch, size: Size | None = None) -> Report:
    """Both tables."""
    size = size or Size()
    tables = [
        Table("Node calls", ("proxies", *_COLUMNS), [*_node_calls(watch, size)], _NOTE),
        Table("A lone miss", ("node", *_COSTS), [*_costs(watch, size)], _CLAIMED),
        Table("What Redis bears", ("a proxy", *_BORNE), [*borne(watch, size)], _BEARS),
    ]
    facts = machine() | {
        "node calls": f"{size.rounds * size.at_once} distinct calls, each asked of every proxy at the same moment; a "
        f"node of {FAR * 1000:g} ms",
        "a lone miss": f"{RATE} calls/s to one proxy, {size.runs} interleaved runs of {size.seconds:g} s, medians",
    }
    return Report("Node calls a miss", facts, tables, remarks=remarks((), stopped=watch.stopped))


_COLUMNS = (
    "light, before",
    "light",
    "heavy",
    "first and last answer, before",
    "first and last answer",
    "Cluster: light, before",
    "Cluster: light",
)
_NOTE = (
    "Node calls for each distinct miss; *before* is with `redis.single_flight = heavy`, the rest with `auto`. "
    "Milliseconds until the first and until the last proxy has the answer of a light read, medians. The proxies have "
    "one worker each, but in the last row."
)
_COSTS = (
    "p50 without",
    "with",
    "p99 without",
    "with",
    "processor without",
    "with",
    "Redis commands without",
    "with",
)
_CLAIMED = "Milliseconds. Without a lease for a light read (`heavy`), and with one (`always`)."
_BORNE = ("commands a second", "read by Redis", "sent by Redis", "processor of Redis", "connections")
_BEARS = "Of one proxy; the last line is what Redis's memory grew by for each kept block of 1.6 kB."


# -- several proxies ----------------------------------------------------------------------------------------------


def _node_calls(watch: Watch, size: Size) -> Iterator[tuple[str, ...]]:
    cases = [(number, 1) for number in size.proxies] + [(1, 2)]
    found: dict[tuple[int, int], list[Found]] = {case: [] for case in cases}
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("redis", "cluster"):
            for mode in ("heavy", "auto"):
                with bench(Path(folder)) as lab, _store(kind, lab) as (redis, _), as_generator():
                    node = lab.responder("--latency", str(FAR))
                    started = _started(lab, redis, node, mode, max(size.proxies))
                    two = _proxy(lab, redis, node, mode, "two", workers=2)
                    for case in cases:
                        watch.part(f"{case[0]} proxies, {kind}, {mode}", done, 4 * len(cases))
                        done += 1
                        proxies = [two] if case[1] == 2 else started[: case[0]]
                        for method in (LIGHT, HEAVY) if (kind, mode) == ("redis", "auto") else (LIGHT,):
                            found[case].append(uvloop.run(_together(proxies, node, method, size, case[1])))
    for (number, workers), seen in found.items():
        plain, auto, heavy, clustered, clustered_auto = seen
        times = [f"{milliseconds(one.first)}, {milliseconds(one.last)}" for one in (plain, auto)]
        counts = [f"{one.node_calls:.2f}" for one in (plain, auto, heavy, clustered, clustered_auto)]
        yield f"{number}" if workers == 1 else f"{number} of {workers} workers", *counts[:3], *times, *counts[3:]


async def _together(proxies: Sequence[Running], node: str, method: str, size: Size, workers: int) -> Found:
    """Ask all proxies for the same distinct calls at the same moment."""
    async with _Pools([proxy.url for proxy in proxies for _ in range(workers * (1 if workers == 1 else 4))]) as pools:
        for _ in range(3):  # the proxies learn how long the method takes
            await asyncio.gather(*(pool.post(_call(method).body(1), 10.0) for pool in pools))
        before, times = _asked(node, method), []
        for _ in range(size.rounds):
            calls = [_call(method) for _ in range(size.at_once)]
            times += await asyncio.gather(*(_times(pools, call) for call in calls))
        asked = _asked(node, method) - before
    firsts, lasts = zip(*((min(some), max(some)) for some in times), strict=True)
    return Found(asked / len(times), median(firsts), median(lasts))


class _Pools(list[ConnectionPool]):
    """A pool of connections to each URL; one that is named several times gets as many."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        super().__init__()

    async def __aenter__(self) -> _Pools:
        self.extend(ConnectionPool(parse(url), 64) for url in self._urls)
        await asyncio.gather(*(pool.warm(8) for pool in self))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(pool.close() for pool in self))


async def _times(pools: Sequence[ConnectionPool], call: LoadCall) -> list[float]:
    body, began = call.body(1), perf_counter()

    async def one(pool: ConnectionPool) -> float:
        reply = await pool.post(body, 30.0)
        if isinstance(reply, str) or b'"result"' not in reply.body[:60]:
            raise AssertionError(f"a call failed: {reply if isinstance(reply, str) else reply.body[:200]!r}")
        return perf_counter() - began

    return await asyncio.gather(*(one(pool) for pool in pools))


def _call(method: str) -> LoadCall:
    return LoadCall(method, b'["0x%064x"%b]' % (next(_numbers), b",false" if method == LIGHT else b""))


def _asked(node: str, method: str) -> int:
    counts: dict[str, int] = json.loads(get(node))["asked"]
    return counts.get(method, 0)


def _started(lab: Bench, redis: str, node: str, mode: str, number: int) -> list[Running]:
    return [_proxy(lab, redis, node, mode, f"{place}") for place in range(number)]


def _proxy(lab: Bench, redis: str, node: str, mode: str, name: str, *, workers: int = 1) -> Running:
    file = lab.folder / f"{mode}-{name}.toml"
    file.write_text(_SETTINGS.format(redis=redis, mode=mode, node=node, workers=workers))
    proxy = lab.rpcaccel("--config", file, core=None)
    wait_until("Redis in use", lambda: b'rpcaccel_tier_up{tier="redis"} 1' in get(f"{proxy.admin}/metrics"))
    return proxy


@contextmanager
def _store(kind: str, lab: Bench) -> Iterator[tuple[str, Sequence[RedisServer]]]:
    """The address of an empty Redis, or Redis Cluster of three primaries and a replica, and its servers."""
    with ExitStack() as stack:
        if kind == "redis":
            server = lab.redis()
            yield server.url, [server]
        else:
            servers = stack.enter_context(cluster(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            yield "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers), servers


# -- one proxy ----------------------------------------------------------------------------------------------------


class Lone(NamedTuple):
    """A run of misses that nobody else asks for."""

    p50: float
    p99: float
    cpu: float
    """Seconds of the proxy's processor a call, idle work included."""
    commands: float
    """Commands that Redis executed a call."""


def _costs(watch: Watch, size: Size) -> Iterator[tuple[str, ...]]:
    for place, latency in enumerate((NEAR, FAR)):
        with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab, as_generator():
            redis, node = lab.redis(), lab.responder("--latency", str(latency))
            proxies = {mode: _proxy(lab, redis.url, node, mode, "one") for mode in ("heavy", "always")}
            runs: dict[str, list[Lone]] = {mode: [] for mode in proxies}
            for number in range(size.runs):
                watch.part(f"a lone miss, run {number + 1}", place * size.runs + number, 2 * size.runs)
                for mode in sorted(proxies, reverse=bool(number % 2)):
                    runs[mode].append(uvloop.run(_lone(proxies[mode], redis, size.seconds, watch)))
        plain, claimed = (Lone(*map(median, zip(*runs[mode], strict=True))) for mode in ("heavy", "always"))
        times = (plain.p50, claimed.p50, plain.p99, claimed.p99)
        yield (
            f"{latency * 1000:g} ms",
            *map(milliseconds, times),
            *(f"{one.cpu * 1e6:.0f} µs" for one in (plain, claimed)),
            *(f"{one.commands:.2f}" for one in (plain, claimed)),
        )


async def _lone(proxy: Running, redis: RedisServer, seconds: float, watch: Watch) -> Lone:
    pids = process_usage.with_children([proxy.program.pid])
    async with ConnectionPool(parse(proxy.url), 256) as pool:
        await pool.warm(64)
        before, commands = process_usage.use(pids), _commands(redis)
        steady = LoadGenerator(pool, timeout=10.0)
        calls = (_call(LIGHT) for _ in iter(int, 1))
        await steady.run(constant(calls, rate=RATE, seconds=seconds), watch)
        spent, summary = process_usage.spent(before, process_usage.use(pids)), steady.summary()
        if summary.failures:
            raise AssertionError(f"{summary.failures} calls failed")
    cpu = spent.cores * steady.elapsed if spent is not None else 0.0
    made = max(1, summary.calls)
    return Lone(summary.p50 or 0.0, summary.p99 or 0.0, cpu / made, (_commands(redis) - commands) / made)


def _commands(redis: RedisServer) -> int:
    return _load(redis).commands


# -- Redis --------------------------------------------------------------------------------------------------------


class Load(NamedTuple):
    """What a Redis did until now."""

    commands: int
    read: int
    sent: int
    """Bytes."""
    cpu: float
    """Seconds."""
    connections: int
    memory: int
    keys: int


def borne(watch: Watch, size: Size) -> Iterator[tuple[str, ...]]:
    """Rows that say what proxies of one and of two workers cost a Redis, at rest and under misses."""
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab, as_generator():
            redis, node = lab.redis(), lab.responder("--latency", str(NEAR), "--blocks")
            proxy = _proxy(lab, redis.url, node, "auto", "one", workers=workers)
            said = f"{workers} worker{'s' if workers > 1 else ''}"
            watch.part(f"what Redis bears, {said}", workers - 1, 2)
            yield f"{said}, nothing asked", *_figures(redis, partial(time.sleep, size.seconds), size.seconds)
            before = _load(redis)
            calls = (LoadCall("eth_getBlockByNumber", b'["0x%x",false]' % number) for number in count(1))
            steady = partial(uvloop.run, _steady(proxy.url, calls, size.seconds, watch))
            yield f"{said}, {RATE} misses/s", *_figures(redis, steady, size.seconds)
            after = _load(redis)
            if workers == 1:
                grown = (after.memory - before.memory) / max(1, after.keys - before.keys)
    yield "a kept block", *["–"] * 3, f"{grown:,.0f} bytes of memory", "–"


def _figures(redis: RedisServer, during: Callable[[], object], seconds: float) -> tuple[str, ...]:
    before = _load(redis)
    during()
    after = _load(redis)
    commands = (after.commands - before.commands) / seconds
    rates = [f"{(now - then) / seconds / 1000:.1f} kB/s" for then, now in zip(before[1:3], after[1:3], strict=True)]
    return f"{commands:.1f}", *rates, f"{(after.cpu - before.cpu) / seconds:.2%}", f"{after.connections}"


async def _steady(url: str, calls: Iterator[LoadCall], seconds: float, watch: Watch) -> None:
    async with ConnectionPool(parse(url), 64) as pool:
        await pool.warm(16)
        await LoadGenerator(pool, timeout=10.0).run(constant(calls, rate=RATE, seconds=seconds), watch)


def _load(redis: RedisServer) -> Load:
    text = redis.reply("INFO", "everything")
    read = partial(_field, text)
    return Load(
        int(read("total_commands_processed")),
        int(read("total_net_input_bytes")),
        int(read("total_net_output_bytes")),
        read("used_cpu_sys") + read("used_cpu_user"),
        int(read("connected_clients")) - 1,
        int(read("used_memory")),
        int(redis.command("DBSIZE")[1:]),
    )


def _field(text: bytes, name: str) -> float:
    found = re.search(rb"^%s:([\d.]+)" % name.encode(), text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, Size(proxies=(1, 2), rounds=1, at_once=1, seconds=0.5, runs=1))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
