"""What ranges, refresh and Redis save: a mixed trace through two workers, with and without each of them.

    python -m benchmarks.replay [--heads 120] [--out docs/benchmarks.md]

Workers, HTTP and Redis are real; nodes are simulated, heads move by a clock set by hand, calls come one after the
other. So the counts hang on the machine by some calls in ten thousand only (the second tier has a clock of its own).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from benchmarks import pages
from benchmarks.mixed import HOSTS, Mixed
from rpcaccel.bench.report.report import Report, Table, machine, percent
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import HITS, AnswerSource
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support import services
from tests.support.manual_clock import ManualClock
from tests.support.proxy import Proxy, proxying
from tests.support.services import RedisServer

SECTION = "ranges, refresh, redis"
START = 4_000
"""The first head."""
BLOCK_TIME = 2.0
CLASSES = (CacheClass.HEAD, CacheClass.BY_NUMBER, CacheClass.FOREVER, CacheClass.STATIC)


class Variant(Struct, frozen=True):
    """The features that are switched on."""

    name: str
    ranges: bool = True
    refresh: float = 0.05
    redis: bool = True


VARIANTS = (
    Variant("all three, as by default"),
    Variant("without ranges", ranges=False),
    Variant("without refresh", refresh=0.0),
    Variant("refresh with half of the node calls", refresh=0.5),
    Variant("without Redis", redis=False),
    Variant("with none of them", ranges=False, refresh=0.0, redis=False),
)


class Saved(Struct):
    """The counts of one variant."""

    calls: int = 0
    failed: int = 0
    node_calls: int = 0
    node_bytes: int = 0
    refreshed: int = 0
    asked: Counter[CacheClass] = field(default_factory=Counter)
    hits: Counter[CacheClass] = field(default_factory=Counter)
    partial: int = 0

    def ratio(self, cache: CacheClass) -> float | None:
        """The share of the calls of a class that no node had to be waited for."""
        return self.hits[cache] / self.asked[cache] if self.asked[cache] else None

    def count(self, proxy: Proxy) -> None:
        """Add what a worker counted."""
        tally = proxy.worker.report().tally
        for cell in tally.cells:
            self.asked[cell.cache] += cell.calls
            self.hits[cell.cache] += sum(cell.latency[source].count for source in HITS)
            self.partial += cell.latency[AnswerSource.PARTIAL].count
            self.refreshed += cell.refreshed
        self.node_bytes += sum(node.size_in for node in tally.nodes)


async def settled(proxies: Sequence[Proxy]) -> None:
    """Wait until what is fetched is there, and what is to be written to Redis is written."""
    for proxy in proxies:
        while len(proxy.worker.engine.flights) or proxy.worker.engine.store.stats().queued:
            await asyncio.sleep(0.001)  # other tasks run meanwhile


async def through(variant: Variant, heads: int, redis: str) -> Saved:
    """The trace through two workers over the same nodes."""
    clock = ManualClock(start=time.monotonic())  # the second tier has a clock of its own
    net: dict[str, Any] = {"ranges": {"enabled": variant.ranges}, "refresh": variant.refresh}
    more: dict[str, Any] = {"redis": {"url": redis, "read_timeout": 2.0}} if variant.redis else {}
    async with (
        harmony_nodes(3, head=START) as nodes,
        proxying(nodes, net=net, clock=clock.now, **more) as one,
        proxying(nodes, net=net, clock=clock.now, **more) as other,
    ):
        hosts = (one, other)
        for node in nodes:
            node.counts.reset()
        saved = await _replayed(hosts[:HOSTS], nodes, clock, heads)
        saved.node_calls = sum(node.counts.calls for node in nodes)
        for host in hosts:
            saved.count(host)
        return saved


async def _replayed(hosts: Sequence[Proxy], nodes: Sequence[SimNode], clock: ManualClock, heads: int) -> Saved:
    chain, saved = nodes[0].chain, Saved()
    mixed = Mixed(chain, START)
    for head in range(START, START + heads):
        for host, method, params in mixed.at(head):
            reply = await hosts[host].call(method, *params)
            saved.calls += 1
            saved.failed += "error" in reply.json
            await settled(hosts)
        chain.advance()
        clock.advance(BLOCK_TIME)
        for proxy in hosts:
            proxy.see()
            await settled(hosts)
    return saved


def measure(heads: int, variants: Sequence[Variant] = VARIANTS) -> Report:
    """Every variant over the same trace, each with a Redis of its own. Without redis-server those without only."""
    rows: list[tuple[str, ...]] = []
    data: dict[str, Any] = {}
    there = services.find("redis-server") is not None
    remarks = [f"{v.name}: no redis-server here" for v in variants if v.redis and not there]
    usable = [variant for variant in variants if not variant.redis or there]
    for variant in usable:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = stack.enter_context(RedisServer(folder)).url if variant.redis else ""
            saved = asyncio.run(through(variant, heads, url))
        rows.append(_row(variant, saved))
        if saved.failed:
            remarks.append(f"{variant.name}: {saved.failed} calls failed")
        data[variant.name] = {"calls": saved.calls, "failed": saved.failed, "node calls": saved.node_calls}
    facts = machine() | {"trace": f"{heads} heads, {data[usable[0].name]['calls']:,} calls, {HOSTS} workers, 3 nodes"}
    columns = (
        "",
        *(f"hits: {cache}" for cache in CLASSES),
        "partial",
        "refreshes",
        "node calls",
        "spared",
        "read from nodes",
    )
    return Report(
        "What ranges, refresh and Redis save", facts, [Table("Replay", columns, rows)], remarks=remarks, data=data
    )


def _row(variant: Variant, saved: Saved) -> tuple[str, ...]:
    return (
        variant.name,
        *(percent(saved.ratio(cache)) for cache in CLASSES),
        str(saved.partial),
        f"{saved.refreshed:,}",
        f"{saved.node_calls:,}",
        percent(1 - saved.node_calls / saved.calls),
        f"{saved.node_bytes / 1e6:.1f} MB",
    )


def main() -> None:
    """Replay, show, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=120, help="blocks that the trace goes on for")
    parser.add_argument("--out", type=Path, help="a page whose section is replaced (.md), or a report (.json, .html)")
    given = parser.parse_args()
    report = measure(given.heads)
    pages.tell(report, given.out, SECTION)


if __name__ == "__main__":
    main()
