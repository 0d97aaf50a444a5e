"""Load while something goes wrong: the whole program in this process, real sockets, and callers that check answers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.supervisor import Supervisor
from rpcaccel.core.messages import NodeReport
from rpcaccel.core.stats.counters import Tier

CALLS = int(os.environ.get("CHAOS_CALLS", "300"))
"""Calls in the bad part of each storm, at the least; 100,000 where it is run for the record."""
CALLERS = 12
"""Callers at once, each waiting for its answer before the next call."""
PATIENCE, PATIENCE_A_CALL = 120.0, 0.5
"""Seconds after which a wave hangs: whatever the machine does beside it, it takes a small part of that."""
NETWORK = "harmony-s0"


@dataclass
class Wave:
    """What a number of calls came to."""

    seconds: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    """Answers that were none, or not the true one, by what they said."""

    def __str__(self) -> str:
        """Its figures: they are told, never judged, since they depend on what else the machine does."""
        ordered = sorted(self.seconds)
        p50, p99 = (ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1000 for share in (0.5, 0.99))
        return (
            f"{len(ordered)} calls, {sum(self.wrong.values())} wrong, p50 {p50:.0f} ms, p99 {p99:.0f} ms, "
            f"longest {ordered[-1]:.2f} s"
        )


class Caller:
    """Asks a proxy for blocks and checks the answers."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self._http = http
        self._asked = 0

    async def ask(self, reference: int | str, at_least: int) -> str:
        """Ask for one block; what is wrong with the answer, if anything."""
        said = await self._call("hmyv2_getBlockByNumber", reference, {})
        if isinstance(said, str):
            return said
        block = (said.get("result") or {}).get("number", -1)
        right = block >= at_least if reference == "latest" else block == at_least
        return "" if right else f"block {block} instead of {at_least}"

    async def logs(self, first: int, last: int) -> str:
        """Ask for the logs of some blocks; what is wrong with the answer, if anything."""
        said = await self._call("eth_getLogs", {"fromBlock": hex(first), "toBlock": hex(last)})
        if isinstance(said, str):
            return said
        blocks = [int(log["blockNumber"], 16) for log in said["result"]]
        right = blocks == sorted(blocks) and all(first <= block <= last for block in blocks)
        return "" if right and (blocks or last - first < 50) else f"logs of {len(blocks)} blocks"

    async def _call(self, method: str, *params: Any) -> dict[str, Any] | str:
        """The reply to a call; the fault of one that is an error, or none."""
        self._asked += 1
        number = self._asked
        body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with self._http.post(self.url, data=body) as response:
                said: dict[str, Any] = orjson.loads(await response.read())
        except aiohttp.ClientError as error:
            return type(error).__name__
        if "error" in said:
            return f"{response.status} {said['error']['message'][:70]}"
        return said if said["id"] == number else f"the answer to call {said['id']}"


class Storm(Caller):
    """Callers of a running proxy. Each call asks for another block, so that no answer comes from a cache."""

    def __init__(self, supervisor: Supervisor, url: str, http: aiohttp.ClientSession, blocks: int) -> None:
        super().__init__(url, http)
        self.supervisor = supervisor
        self.answered = 0
        """Calls that have been made and have come to their end, in all waves."""
        self._blocks = blocks
        self._next = 0

    async def wave(
        self, calls: int, *, newest: Callable[[], int] | None = None, enough: Callable[[], bool] = lambda: True
    ) -> Wave:
        """So many calls by CALLERS callers, and more until it is `enough`.

        Args:
            newest: ask for the newest block instead of various ones; it may not go back.
        """
        done, made = Wave(), itertools.count()

        async def caller() -> None:
            while next(made) < calls or not enough():
                self._next += 1
                wanted = 1 + self._next * 7919 % self._blocks
                began = asyncio.get_running_loop().time()
                fault = await self.ask("latest" if newest else wanted, newest() if newest else wanted)
                done.seconds.append(asyncio.get_running_loop().time() - began)
                self.answered += 1
                if fault:
                    done.wrong[fault] += 1

        async with asyncio.timeout(PATIENCE + calls * PATIENCE_A_CALL):
            await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return done

    async def more(self, calls: int) -> None:
        """Until so many more calls have come to their end: time, as what disturbs a wave counts it."""
        until = self.answered + calls
        while self.answered < until:
            await asyncio.sleep(0.005)  # other tasks go on: nothing tells of a call's end but the count

    async def until(self, holds: Callable[[NodeReport], bool], node_id: str) -> None:
        """Call until the worker's view of a node is such, and nothing is under way there."""
        async with asyncio.timeout(PATIENCE):
            while True:
                (node,) = [node for node in self.nodes() if node.id == node_id]
                if holds(node) and not node.in_flight:
                    return
                await self.wave(CALLERS)

    async def history(self, number: int) -> None:
        """A heavy call, of an account of its own."""
        asked = [{"address": f"0x{number + 1:040x}", "pageIndex": 0, "pageSize": 5}]
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getTransactionsHistory", "params": asked})
        async with self._http.post(self.url, data=body) as response:
            await response.read()

    def nodes(self) -> list[NodeReport]:
        """The nodes as the worker sees them at this moment."""
        (report,) = [report for link in self.supervisor.links if (report := link.report()) is not None]
        return list(report.nodes)

    def failures(self) -> dict[str, dict[str, int]]:
        """The failed attempts by node and kind."""
        return {cell.node: cell.failures for cell in self.supervisor.overview.frame().snapshot.nodes}

    def failed_at(self, node: str) -> int:
        """Attempts that failed at a node."""
        return sum(self.failures().get(node, {}).values())

    @property
    def redis(self) -> Tier:
        """What the second tier says of itself."""
        return next(tier for tier in self.supervisor.overview.frame().snapshot.tiers if tier.name == "redis")

    def calls_to(self, node: str) -> int:
        """Attempts that were sent to a node."""
        return sum(cell.calls for cell in self.supervisor.overview.frame().snapshot.nodes if cell.node == node)


def settings(nodes: Sequence[tuple[str, str]], **more: Any) -> Settings:
    """Settings for nodes given as (id, URL), small time limits so that a storm is short."""
    network = {
        "block_time": "1s",
        "deadline": "8s",
        "nodes": [{"id": name, "url": url, "timeout": "3s", "connect_timeout": "1s"} for name, url in nodes],
        **more.pop("net", {}),
    }
    plain = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}, "memory": {"size": 0}, "drain_timeout": 1}
    return Settings.model_validate({**plain, "networks": {NETWORK: network}, **more})


@contextlib.asynccontextmanager
async def storm(
    nodes: Sequence[tuple[str, str]], *, blocks: int = 150, connections: int = CALLERS * 2, **more: Any
) -> AsyncIterator[Storm]:
    """The program, serving `nodes`, and callers for it; 0 connections: as many as it takes."""
    gc.collect()
    gc.freeze()  # as dataplane.event_loop does for the program
    supervisor = Supervisor(settings(nodes, **more))
    info = await supervisor.start()
    connector = aiohttp.TCPConnector(limit=connections)
    try:
        async with aiohttp.ClientSession(connector=connector) as http:
            yield Storm(supervisor, f"http://{info.listen}", http, blocks)
    finally:
        await supervisor.stop()
