"""Many subscribers of new heads on one worker: how late each head reaches them, and what they cost.

10,000 WebSockets subscribe to newHeads of a simulated node with a block every second. Lateness counts from the moment
at which a subscriber of the node itself has the head. Proxy on one core, subscribers, generator and node on the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import repeat
from typing import cast
from urllib.parse import urlsplit

import uvloop
from msgspec import Struct

from benchmarks.peers import Running, as_generator, bench
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, closed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, count, machine, milliseconds
from rpcaccel.bench.report.statistics import percentile
from rpcaccel.bench.runs import process_usage

KEPT = LoadCall("eth_getBlockByNumber", b'["0x10",false]')
HITS_AT_ONCE = 16
OPENED_AT_ONCE = 200
WAIT_SECONDS = 30.0
"""Seconds that may pass without what is waited for."""
SETTINGS = "[http.websocket]\nper_client = 1000000\nconnections = 1000000\n"
_MASK = b"\0\0\0\0"
_SUBSCRIBE = b'{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'
_FRAME = bytes((0x81, 0x80 | len(_SUBSCRIBE))) + _MASK + _SUBSCRIBE
_NUMBER = b'"number":"0x'


class Crowd(Struct, frozen=True):
    """How many subscribe, and for how many heads they are watched in each stage."""

    subscribers: int = 10_000
    heads: int = 30
    seconds: float = 5.0
    """Seconds of hits before anybody subscribes."""


class Heads:
    """What all subscribers have seen."""

    def __init__(self) -> None:
        self.times: defaultdict[int, list[float]] = defaultdict(list)
        """When each head reached a subscriber (seconds of time.monotonic), by number."""
        self.subscribed = self.lost = self.gaps = 0
        self.refused = ""
        """The answer to a subscribe that was refused."""
        self.transports: list[asyncio.Transport] = []

    def close(self) -> None:
        """Cut all connections."""
        for transport in self.transports:
            transport.abort()


class Subscriber(asyncio.Protocol):
    """One WebSocket that subscribes and notes what comes."""

    __slots__ = ("_heads", "_host", "_last", "_open", "_rest", "transport")

    def __init__(self, heads: Heads, host: str) -> None:
        self._heads = heads
        self._rest = b""
        self._open = False
        self._last = -1
        self.transport: asyncio.Transport | None = None
        self._host = host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._heads.transports.append(self.transport)
        lines = ("GET / HTTP/1.1", f"Host: {self._host}", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "\r\n")  # fmt: skip
        self.transport.write("\r\n".join(lines).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._heads.lost += 1

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        data = self._rest + data
        if not self._open:
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self._rest = head
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self._heads.refused = head.decode("latin-1")
                return
            self._open = True
            assert self.transport is not None
            self.transport.write(_FRAME)
        self._rest = self._frames(data, now)

    def _frames(self, data: bytes, now: float) -> bytes:
        """Take the frames up; the rest."""
        while len(data) >= 4:
            size, start = data[1], 2
            if size == 126:
                size, start = int.from_bytes(data[2:4], "big"), 4
            if len(data) < start + size:
                break
            if data[0] == 0x81:
                self._message(data[start : start + size], now)
            elif data[0] == 0x89 and self.transport is not None:
                self.transport.write(b"\x8a\x80" + _MASK)
            data = data[start + size :]
        return data

    def _message(self, text: bytes, now: float) -> None:
        heads, at = self._heads, text.find(_NUMBER)
        if at < 0:
            if b'"result"' in text:
                heads.subscribed += 1
            else:
                heads.refused = text.decode(errors="replace")
            return
        number = int(text[at + len(_NUMBER) : text.index(b'"', at + len(_NUMBER))], 16)
        heads.times[number].append(now)
        if self._last >= 0:
            heads.gaps += number != self._last + 1
        self._last = number


class Stage(Struct, frozen=True):
    """What was seen of some heads."""

    name: str
    late: list[float]
    """Seconds after the node's own subscriber, of every subscriber and head, in order."""
    last: list[float]
    """The same of the last subscriber of each head, in order."""
    hits: float | None = None
    """Hits a second that were answered meanwhile."""


def measure(watch: Watch, short: bool = False) -> Report:
    """Subscribe, watch some heads, and watch as many beside a closed loop of hits."""
    crowd = Crowd(100, 3, 0.5) if short else Crowd()
    with bench() as lab:
        settings = lab.folder / "rpcaccel.toml"
        settings.write_text(SETTINGS)
        node = lab.simnode({}, "--kind", "ethereum", "--block-time", "1s")
        ours = lab.rpcaccel(node, "--chain", "ethereum", "--config", settings)
        with as_generator():
            return uvloop.run(_measured(ours, node, crowd, watch))


async def _measured(ours: Running, node: str, crowd: Crowd, watch: Watch) -> Report:
    pids, heads, direct = process_usage.with_children([ours.program.pid]), Heads(), Heads()
    async with AsyncExitStack() as opened:
        opened.callback(heads.close)
        opened.callback(direct.close)
        pool = await opened.enter_async_context(ConnectionPool(parse(ours.url), HITS_AT_ONCE))
        watch.part("hits alone", 0, 4)
        alone = await _hits(pool, crowd.seconds, watch)
        before = process_usage.use(pids)
        watch.part(f"{crowd.subscribers:,} subscribe", 1, 4)
        with contextlib.suppress(OSError):
            await _subscribe(node, 1, direct)
        await _subscribe(ours.url, crowd.subscribers, heads)
        after = process_usage.use(pids)
        watch.part(f"{crowd.heads} heads", 2, 4)
        stages = [await _stage("nothing else", heads, direct, crowd)]
        watch.part(f"{crowd.heads} heads beside hits", 3, 4)
        running = asyncio.ensure_future(_hits(pool, crowd.heads * 1.0, watch))
        beside = await _stage("beside hits", heads, direct, crowd)
        stages.append(Stage(beside.name, beside.late, beside.last, await running))
        gaps, lost = heads.gaps, heads.lost
    each = None if before is None or after is None else (after.resident - before.resident) / crowd.subscribers
    facts = machine() | {
        "subscribers": f"{crowd.subscribers:,} WebSockets on one worker, newHeads, a block a second",
        "lateness": "from a subscriber of the node itself"
        if direct.subscribed
        else "from the first subscriber that has the head",
        "memory": "–" if each is None else f"{each / 1024:.1f} KiB a subscriber",
        "hits alone": f"{count(alone)}/s over {HITS_AT_ONCE} connections",
    }
    columns = ("heads", "notifications", "p50", "p99", "last, p50", "last, p99", "hits")
    note = "Milliseconds; last: until the last subscriber has a head."
    table = Table("Subscribers", columns, [_row(stage, alone) for stage in stages], note)
    remarks = ["interrupted: what was measured until then"] if watch.stopped else []
    if gaps or lost:
        remarks.append(f"{gaps} gaps, {lost} connections lost")
    return Report("Subscribers", facts, [table], remarks=remarks)


async def _hits(pool: ConnectionPool, seconds: float, watch: Watch) -> float:
    """The hits a second of a closed loop."""
    load = LoadGenerator(pool, timeout=10.0)
    await load.run(closed(repeat(KEPT), at_once=HITS_AT_ONCE, seconds=seconds), watch)
    return load.summary().rate or 0.0


async def _subscribe(url: str, number: int, heads: Heads) -> None:
    """Open so many WebSockets, and wait until all are subscribed. Raises OSError."""
    loop, parts = asyncio.get_running_loop(), urlsplit(url)
    for opened in range(0, number, OPENED_AT_ONCE):
        some = range(opened, min(number, opened + OPENED_AT_ONCE))
        where = parts.hostname or "", parts.port or 80
        await asyncio.gather(*(loop.create_connection(lambda: Subscriber(heads, parts.netloc), *where) for _ in some))
        wanted = some.stop
        await _until(lambda wanted=wanted: heads.subscribed == wanted or heads.refused)  # type: ignore[misc]
        if heads.refused:
            raise OSError(f"a subscribe was refused: {heads.refused[:200]}")


async def _until(holds: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait until it holds. Raises TimeoutError, which is an OSError."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)  # between two looks: connections have no event for it


async def _stage(name: str, heads: Heads, direct: Heads, crowd: Crowd) -> Stage:
    """Watch the next heads until all subscribers have them."""
    before = max(heads.times, default=-1)
    wanted: list[int] = []

    def complete() -> bool:
        wanted[:] = [n for n, times in sorted(heads.times.items()) if n > before and len(times) == crowd.subscribers]
        return len(wanted) >= crowd.heads

    await _until(complete, crowd.heads + WAIT_SECONDS)
    late, last = [], []
    for number in wanted:
        times = heads.times[number]
        since = min(direct.times.get(number, times))
        late += [moment - since for moment in times]
        last.append(max(times) - since)
    return Stage(name, sorted(late), sorted(last))


def _row(stage: Stage, alone: float) -> tuple[str, ...]:
    shares = [percentile(values, share) for values in (stage.late, stage.last) for share in (0.5, 0.99)]
    hits = "–" if stage.hits is None else f"{count(stage.hits)}/s, {stage.hits / alone * 100:.0f} %"
    return stage.name, count(len(stage.late)), *map(milliseconds, shares), hits
