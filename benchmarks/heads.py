"""How long after a node the served head follows a new block: fixed polling, polling by the rhythm, and a WebSocket.

    ANVIL=/path/to/anvil python -m benchmarks.heads [--blocks 200] [--block-time 1]

One anvil makes a block every so many seconds; three probers follow it at the same time in one process. A thread with
a WebSocket of its own notes when the node has each block, so that a loop that is late counts as lateness.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from typing import Any

from rich.console import Console

from rpcaccel.bench.report.render import terminal
from rpcaccel.bench.report.report import Report, Table, milliseconds
from rpcaccel.bench.report.statistics import percentile
from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.controlplane.nodes.head_stream import read_header
from rpcaccel.controlplane.nodes.prober import Prober
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.dataplane.upstream.node_socket import NodeSocket
from tests.support.services import Anvil

WARM = 30.0
"""Seconds at the beginning that are not measured: the rhythm has to be learnt."""


class Counted(HttpNodeClient):
    """A node's session that counts the probes of its head."""

    looks = 0

    async def send(self, method: str, params: bytes, *, timeout: float, span: str = "") -> Answer | Failure:
        self.looks += params == b'["latest",false]'
        return await super().send(method, params, timeout=timeout, span=span)


class Way:
    """One way to follow the head, and when it served each block."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name, self.settings = name, settings
        self.at: dict[int, float] = {}
        self.head = -1
        self.asker: Counted | None = None

    def prober(self, url: str) -> Prober:
        """A prober of the node that follows it this way."""
        given = {"chain": "ethereum", "nodes": [{"id": "a", "url": url}], **self.settings}
        return Prober("net", NetworkSettings.model_validate(given), publish=self._see, connect=self._connect)

    def _connect(self, settings: NodeSettings) -> Counted:
        self.asker = Counted(settings.model_copy(update={"max_connections": 4, "warm": 0}))
        return self.asker

    def _see(self, heads: NetworkHeads) -> None:
        now = time.monotonic()
        self.at |= dict.fromkeys(range(self.head + 1, heads.served.head + 1) if self.head >= 0 else (), now)
        self.head = max(self.head, heads.served.head)


def watch(url: str, at: dict[int, float], stop: threading.Event) -> None:
    """Note when the node announces each block, on a loop of its own."""

    async def follow() -> None:
        node = NodeSocket(NodeSettings.model_validate({"id": "watched", "url": url}), url.replace("http", "ws"))

        def heard(result: bytes) -> None:
            if (head := read_header(result)) is not None:
                at.setdefault(head.sighting.number, time.monotonic())

        if why := await node.open() or await node.follow("eth", "newHeads", heard):
            raise SystemExit(f"its WebSocket {why}")
        while not stop.is_set():
            await asyncio.sleep(0.1)  # between two looks at an event of another thread
        await node.close()

    asyncio.run(follow())


async def measure(url: str, block_time: float, blocks: int) -> list[tuple[Way, int]]:
    """Follow the node by every way; returns each with the probes that it made while it was measured."""
    ways = [
        Way("polling, fixed", websockets="off", block_time=max(2.0, block_time)),
        Way("polling, by the rhythm", websockets="off"),
        Way("WebSocket", websockets="auto"),
    ]
    probers = [way.prober(url) for way in ways]
    for prober in probers:
        await prober.start()
    await asyncio.sleep(WARM)
    before = [way.asker.looks for way in ways if way.asker]
    for way in ways:
        way.at.clear()
    await asyncio.sleep(blocks * block_time)
    made = [way.asker.looks - count for way, count in zip(ways, before, strict=True) if way.asker]
    for prober in probers:
        await prober.stop()
    return list(zip(ways, made, strict=True))


def report(found: list[tuple[Way, int]], at: dict[int, float], block_time: float) -> Report:
    """The table of what was measured."""
    rows = []
    for way, looks in found:
        late = sorted(way.at[number] - at[number] for number in way.at if number in at)
        shown = (milliseconds(percentile(late, share)) for share in (0.5, 0.9, 0.99, 1.0))
        rows.append((way.name, *shown, f"{looks / max(1, len(late)):.2f}", str(len(late))))
    columns = ("", "median", "p90", "p99", "most", "probes a block", "blocks")
    table = Table("Lateness of the served head behind the node", columns, rows)
    return Report(f"Heads, a block every {block_time:g} s", {}, [table])


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--block-time", type=float, default=1.0)
    given = parser.parse_args()
    at: dict[int, float] = {}
    stop = threading.Event()
    node = Anvil("--block-time", f"{given.block_time:g}")
    try:
        watching = threading.Thread(target=watch, args=(node.url, at, stop))
        watching.start()
        found = asyncio.run(measure(node.url, given.block_time, given.blocks))
        stop.set()
        watching.join()
    finally:
        node.stop()
    terminal(report(found, at, given.block_time), Console())


if __name__ == "__main__":
    main()
