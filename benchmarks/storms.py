"""The chaos table: `python -m benchmarks.storms --out docs/failures.md`, with --calls 100000 for the record.

Three simulated nodes in processes of their own, the whole program in this one, and calls at a constant rate in an open
loop, each checked. Healthy first; then something goes wrong, and the calls go on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from benchmarks import pages
from rpcaccel.bench.report.report import Report, Table, count, machine, milliseconds
from rpcaccel.dataplane.event_loop import LONGEST_TURN_SECONDS, LongestTurn
from tests.support.services import Program, RedisServer, free_port
from tests.support.storm import NETWORK, Caller, Storm, storm

BAD = "bad"
LOOK_SECONDS = 0.05
"""Seconds between two looks whether the bad node is left alone."""
HEALTHY_SHARE = 0.25
DOWN_SECONDS = 3.0
TURNS: list[float] = []
"""Turns of the event loop in the case that is measured, in seconds."""


class Node:
    """A simulated node in a process of its own, at one port over all its lives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._port = free_port()
        self._process: Program | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._process = Program("simnode", "--port", str(self._port), "--latency", "2ms", measured=False)
        await asyncio.to_thread(self._process.wait_for, "knobs at")

    async def turn(self, **positions: Any) -> None:
        async with aiohttp.ClientSession() as http, http.post(f"{self.url}/simnode/knobs", json=positions) as reply:
            if reply.status != 200:
                raise ValueError(await reply.text())

    async def kill(self) -> None:
        await asyncio.to_thread(self._running.kill)

    async def freeze(self) -> None:
        self._running.pause()

    def end(self) -> None:
        if self._process is not None:
            self._process.resume()
            self._process.kill()

    @property
    def _running(self) -> Program:
        assert self._process is not None
        return self._process


@dataclass
class Hail:
    """Calls at a constant rate: when each was due, how long it took from then, and whether it failed."""

    calls: list[tuple[float, float, bool]] = field(default_factory=list)
    faults: set[str] = field(default_factory=set)
    """The faults of the calls that failed."""

    async def fall(self, run: Caller, calls: int, rate: float, *, newest: int = -1) -> None:
        """Send `calls` reads at `rate` a second. `newest`: reads are for the newest block, which is this one or
        later."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(calls):
                due = began + number / rate
                if (wait := due - loop.time()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(self._one(run, due, 1 + number * 7919 % 150, newest))

    async def _one(self, run: Caller, due: float, block: int, newest: int) -> None:
        fault = await run.ask("latest" if newest >= 0 else block, max(newest, block) if newest >= 0 else block)
        if fault:
            self.faults.add(fault)
        self.calls.append((due, asyncio.get_running_loop().time() - due, bool(fault)))

    @property
    def failed(self) -> int:
        return sum(failed for _, _, failed in self.calls)

    def p99(self, since: float = 0.0, until: float = float("inf")) -> float | None:
        """The 99th percentile in seconds of the calls that were due in this period; None without any."""
        seconds = sorted(took for due, took, _ in self.calls if since <= due < until)
        return seconds[min(int(0.99 * len(seconds)), len(seconds) - 1)] if seconds else None


class Row(NamedTuple):
    """The figures of one case, in seconds."""

    case: str
    calls: int
    failed: int
    healthy: float | None
    found: float | None
    """Seconds after which the bad node was left alone."""
    before: float | None
    """The p99 until the bad node was left alone."""
    after: float | None
    """The p99 after the bad node was left alone."""
    touched: int | None
    """Attempts that went to the bad node after it was left alone."""
    turn: float | None = None
    """The longest turn of the event loop; `measure` fills it in."""


class Weather(NamedTuple):
    """The load under which a case is measured."""

    calls: int
    rate: float


Hurt = Callable[[Node], Awaitable[None]]
Measured = Callable[[Weather], Awaitable[Row]]


def turned(**positions: Any) -> Hurt:
    async def hurt(node: Node) -> None:
        await node.turn(**positions)

    return hurt


async def flap(node: Node) -> None:
    """Kill and start a node again and again, until cancelled."""
    while True:
        await node.kill()
        await asyncio.sleep(0.5)  # the node is away for half a second
        await node.start()
        await asyncio.sleep(0.5)  # the node is there for half a second


CASES: dict[str, Hurt] = {
    "killed": Node.kill,
    "frozen (SIGSTOP)": Node.freeze,
    "answering garbage": turned(faults={"garbage": 1.0}),
    "half bodies": turned(faults={"half_body": 1.0}),
    "HTML 502s": turned(faults={"html": 1.0}),
    "30 % errors": turned(faults={"unavailable": 0.1, "html": 0.1, "reset": 0.1}),
    "2 s latency": turned(latency="2s"),
    "rate limited": turned(faults={"rate_limit": 0.7, "too_many": 0.3}),
    "lagging 50 blocks": turned(lag=50),
    "flapping": flap,
    "lost old blocks": turned(oldest=160),
    "an error no rule knows": turned(
        faults={"error": 1.0},
        error_text="this plan has used all of its compute units for today",
        fault_methods=["hmyv2_getBlockByNumber"],
    ),
}
"""One of three nodes goes bad."""


@contextlib.asynccontextmanager
async def watching(longest: Callable[[], Awaitable[float]], met: list[float]) -> AsyncIterator[None]:
    """Note the longest turn of the last LONGEST_TURN_SECONDS seconds now and then, and at the end."""

    async def look() -> None:
        while True:
            await asyncio.sleep(LONGEST_TURN_SECONDS / 2)  # so that none is forgotten before it is noted
            met.append(await longest())

    looking = asyncio.create_task(look())
    try:
        yield
        met.append(await longest())
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _now(seconds: float) -> float:
    return seconds


@contextlib.asynccontextmanager
async def trio(**more: Any) -> AsyncIterator[tuple[list[Node], Storm]]:
    """Three nodes, the program, and callers."""
    nodes = [Node(BAD), Node("one"), Node("two")]
    try:
        await asyncio.gather(*(node.start() for node in nodes))
        if shut := more.pop("wrong", None):
            await nodes[0].turn(**shut)
        async with storm([(node.name, node.url) for node in nodes], connections=0, **more) as run:
            await Hail().fall(run, 100, 100)  # connections open, latencies known
            turns = LongestTurn()
            turns.start()
            async with watching(lambda: _now(turns.seconds), TURNS):
                yield nodes, run
            turns.stop()
    finally:
        for node in nodes:
            node.end()


async def left_alone(run: Storm, *, lagging: bool) -> tuple[float, int]:
    """The time at which the bad node gets no more calls, and the number of its calls until then."""
    while True:
        (report,) = [report for link in run.supervisor.links if (report := link.report()) is not None]
        bad = next(node for node in report.nodes if node.id == BAD)
        if bad.breaker != "closed" or bad.parked or bad.ejected or bad.rests or (lagging and bad.refusal):
            return asyncio.get_running_loop().time(), run.calls_to(BAD)
        await asyncio.sleep(LOOK_SECONDS)


async def healthy_p99(run: Storm, weather: Weather) -> float | None:
    """The 99th percentile of reads, in seconds, before something goes wrong."""
    hail = Hail()
    await hail.fall(run, int(weather.calls * HEALTHY_SHARE), weather.rate)
    return hail.p99()


async def one_of_three(case: str, weather: Weather) -> Row:
    loop = asyncio.get_running_loop()
    async with trio() as (nodes, run):
        healthy, bad = await healthy_p99(run, weather), Hail()
        lagging = "lagging" in case
        newest = run.supervisor.overview.frame().heads[0].head if lagging else -1
        began = loop.time()
        watching = asyncio.create_task(left_alone(run, lagging=lagging))
        hurting = asyncio.create_task(CASES[case](nodes[0]))  # type: ignore[arg-type]
        await bad.fall(run, weather.calls, weather.rate, newest=newest)
        at, calls = await watching if watching.done() else (None, 0)
        for task in (watching, hurting):
            task.cancel()
        await asyncio.gather(watching, hurting, return_exceptions=True)
        told = (bad.p99(until=at), bad.p99(since=at), run.calls_to(BAD) - calls) if at else (bad.p99(), None, None)
        return Row(case, len(bad.calls), bad.failed, healthy, at and max(0.0, at - began), *told)


async def wrong_chain(weather: Weather) -> Row:
    """A node of a wrong chain beside two others, from the start: no call goes to it."""
    async with trio(wrong={"chain_id": 1, "network_id": 1}) as (_, run):
        bad = Hail()
        await bad.fall(run, weather.calls, weather.rate)
        return Row("wrong chain", len(bad.calls), bad.failed, None, 0.0, None, bad.p99(), run.calls_to(BAD))


async def all_down(weather: Weather) -> Row:
    """All nodes killed for some seconds, then back: how long until calls succeed again."""
    loop = asyncio.get_running_loop()
    async with trio() as (nodes, run):
        healthy, down, well = await healthy_p99(run, weather), Hail(), Hail()
        await asyncio.gather(*(node.kill() for node in nodes))
        await down.fall(run, int(DOWN_SECONDS * weather.rate), weather.rate)
        await asyncio.gather(*(node.start() for node in nodes))
        back = loop.time()
        while await run.ask(5, 5):
            await asyncio.sleep(0.02)  # between two questions: the time until the first answer is measured
        took = loop.time() - back
        await well.fall(run, weather.calls, weather.rate)
        return Row("all down and back", len(well.calls), well.failed, healthy, took, down.p99(), well.p99(), None)


def with_redis(
    case: str, hurt: Callable[[RedisServer, HugeReplies], Awaitable[None]]
) -> Callable[[Weather], Awaitable[Row]]:
    """Redis, which the program reaches through a relay, goes bad; *found after* is the first second."""

    async def measured(weather: Weather) -> Row:
        loop = asyncio.get_running_loop()
        with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
            async with HugeReplies(redis) as relay, trio(redis={"url": relay.url}) as (_, run):
                healthy, bad = await healthy_p99(run, weather), Hail()
                await hurt(redis, relay)
                second = loop.time() + 1.0
                await bad.fall(run, weather.calls, weather.rate)
                redis.thaw()
                told = (bad.p99(until=second), bad.p99(since=second), None)
                return Row(case, len(bad.calls), bad.failed, healthy, 1.0, *told)

    return measured


async def frozen(redis: RedisServer, _: HugeReplies) -> None:
    redis.freeze()


class HugeReplies:
    """A relay before Redis, which answers every command with an array of 10^9 integers while `huge` is set."""

    def __init__(self, redis: RedisServer) -> None:
        self.huge = False
        self.url = ""
        self._redis = redis
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> HugeReplies:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection("127.0.0.1", self._redis.port)
        replying = asyncio.create_task(self._pass_on(back, writer))
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if not self.huge:
                    there.write(data)
                    continue
                writer.write(b"*1000000000\r\n")
                while not reader.at_eof():
                    writer.write(b":1\r\n" * 4096)
                    await writer.drain()
                    await asyncio.sleep(0.001)  # the rest of the program shares the loop
        replying.cancel()
        writer.close()
        there.close()

    async def _pass_on(self, back: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await back.read(1 << 16):
                if not self.huge:
                    writer.write(data)


async def foreign_entries(redis: RedisServer, _: HugeReplies) -> None:
    """Put an entry of somebody else into the stream of the hosts, and values of other types in the place of all else
    that stands under the program's prefix."""
    await asyncio.to_thread(redis.command, "XADD", "rpcaccel:words", "*", "foreign", "entry")
    for key in (await asyncio.to_thread(redis.reply, "KEYS", "rpcaccel*")).splitlines():
        if (name := key.decode()) != "rpcaccel:words":
            await asyncio.to_thread(redis.command, "DEL", name)
            await asyncio.to_thread(redis.command, "RPUSH", name, "foreign")


async def huge_replies(_: RedisServer, relay: HugeReplies) -> None:
    relay.huge = True


WIDE = 120
"""Blocks that the wide calls for logs ask for."""


def wide_logs(case: str, refusing: int, code: int, text: str) -> Measured:
    """Calls for the logs of single blocks beside wide ones, which the first `refusing` of three nodes refuse."""

    async def measured(weather: Weather) -> Row:
        async with trio() as (nodes, run):
            healthy, bad = await healthy_p99(run, weather), Hail()
            refusal = {"logs_range": 40, "logs_code": code, "logs_refusal": text}
            await asyncio.gather(*(node.turn(**refusal) for node in nodes[:refusing]))
            loop = asyncio.get_running_loop()

            async def one(first: int, blocks: int) -> None:
                began = loop.time()
                if fault := await run.logs(first, first + blocks - 1):
                    bad.faults.add(fault)
                bad.calls.append((began, loop.time() - began, bool(fault)))

            async with asyncio.TaskGroup() as group:
                for number in range(weather.calls):
                    await asyncio.sleep(1 / weather.rate)
                    group.create_task(one(1 + number * 7919 % 30, WIDE if number % 10 == 0 else 1))
            return Row(case, len(bad.calls), bad.failed, healthy, None, bad.p99(), None, None)

    return measured


OTHERS: dict[str, Measured] = {
    "wrong chain": wrong_chain,
    "all down and back": all_down,
    "Redis frozen": with_redis("Redis frozen", frozen),
    "foreign entries in Redis": with_redis("foreign entries in Redis", foreign_entries),
    "endless replies of Redis": with_redis("endless replies of Redis", huge_replies),
    "wide logs get -32005 from one": wide_logs("wide logs get -32005 from one", 1, -32005, "limit exceeded"),
    "all three refuse ranges": wide_logs("all three refuse ranges", 3, -32602, "range {asked} exceeds limit of {most}"),
}
NOTE = (
    "*Found after*: seconds from the fault until the node is left alone; with all down, from "
    "their return until the first answer; of Redis, the first second. *p99 before* and *after* that moment; *ratio* is "
    "that after it over the healthy one. *To it after*: attempts that still went to the bad node: trials of half-open "
    "breakers, for a node that answers some of its probes. *Longest turn*: the longest time for which the event loop, "
    "which the callers share with the program, kept a call waiting; up to 10 ms of a single turn may be missing."
)


def report(rows: list[Row], weather: Weather) -> Report:
    columns = ("one of three nodes", "calls", "failed", "healthy p99", "found after", "p99 before", "p99 after",
               "ratio", "to it after", "longest turn")  # fmt: skip
    table = Table("Chaos", columns, [_texts(row) for row in rows], NOTE)
    facts = machine() | {"load": f"{weather.rate:g} calls a second in an open loop, milliseconds; nodes answer in 2 ms"}
    return Report("Chaos", facts, [table], data={"network": NETWORK, "rows": [row._asdict() for row in rows]})


def _texts(row: Row) -> tuple[str, ...]:
    ratio = f"{row.after / row.healthy:.1f}" if row.after and row.healthy else "–"
    found = "–" if row.found is None else f"{row.found:.1f} s"
    times = (milliseconds(row.healthy), found, milliseconds(row.before), milliseconds(row.after))
    touched = "–" if row.touched is None else str(row.touched)
    return row.case, count(row.calls), str(row.failed), *times, ratio, touched, milliseconds(row.turn)


async def measure(case: str, weather: Weather) -> Row:
    """One case, with programs of its own."""
    TURNS.clear()
    row = await (OTHERS[case](weather) if case in OTHERS else one_of_three(case, weather))
    return row._replace(turn=max(TURNS, default=None))


def command(
    about: str,
    cases: Sequence[str],
    measure: Callable[[str, Weather], Awaitable[Any]],
    report: Callable[[list[Any], Weather], Report],
    section: str,
) -> None:
    """Measure some cases, each in a loop of its own, as the command line says, and put the table into its page."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000, help="checked calls beside each case")
    parser.add_argument("--rate", type=float, default=250.0, help="calls a second")
    parser.add_argument("--only", action="append", choices=cases, help="this case; may be repeated")
    parser.add_argument("--out", type=Path, help="a page whose section is replaced (.md), or a report (.json, .html)")
    given = parser.parse_args()
    weather = Weather(given.calls, given.rate)
    rows = []
    for case in given.only or cases:
        rows.append(asyncio.run(measure(case, weather)))
        made = report(rows, weather)
        print(*made.tables[0].rows[-1], sep="  ", file=sys.stderr, flush=True)
    pages.tell(made, given.out, section)


if __name__ == "__main__":
    command(str(__doc__), [*CASES, *OTHERS], measure, report, "chaos")
