"""Load while something goes wrong: the whole program in this process, real sockets, and callers that check answers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
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

CALLS = int(os.environ.get("CHAOS_CALLS", "1200"))
"""Calls in the bad part of each storm; 100,000 where it is run for the record."""
CALLERS = 12
"""Callers at once, each waiting for its answer before the next call."""
NETWORK = "harmony-s0"


@dataclass
class Wave:
    """What a number of calls came to."""

    seconds: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    """Answers that were none, or not the true one, by what they said."""

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def __str__(self) -> str:
        return (
            f"{len(self.seconds)} calls, {sum(self.wrong.values())} wrong, p50 {self.quantile(0.5) * 1000:.0f} ms, "
            f"p99 {self.quantile(0.99) * 1000:.0f} ms, longest {max(self.seconds):.2f} s"
        )


class Caller:
    """Asks a proxy for blocks and checks the answers."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self._http = http
        self._asked = 0

    async def ask(self, reference: int | str, at_least: int) -> str:
        """Ask for one block; what is wrong with the answer, if anything."""
        self._asked += 1
        number = self._asked
        body = orjson.dumps(
            {"jsonrpc": "2.0", "id": number, "method": "hmyv2_getBlockByNumber", "params": [reference, {}]}
        )
        try:
            async with self._http.post(self.url, data=body) as response:
                said: dict[str, Any] = orjson.loads(await response.read())
        except aiohttp.ClientError as error:
            return type(error).__name__
        if "error" in said:
            return f"{response.status} {said['error']['message'][:70]}"
        block = (said.get("result") or {}).get("number", -1)
        right = block >= at_least if reference == "latest" else block == at_least
        return "" if right and said["id"] == number else f"block {block} instead of {at_least}"


class Storm(Caller):
    """Callers of a running proxy. Each call asks for another block, so that no answer comes from a cache."""

    def __init__(self, supervisor: Supervisor, url: str, http: aiohttp.ClientSession, blocks: int) -> None:
        super().__init__(url, http)
        self.supervisor = supervisor
        self._blocks = blocks
        self._next = 0

    async def wave(self, calls: int, *, newest: Callable[[], int] | None = None) -> Wave:
        """So many calls by CALLERS callers. `newest`: ask for the newest block instead, which may not go back."""
        done, left = Wave(), iter(range(calls))

        async def caller() -> None:
            for _ in left:
                self._next += 1
                wanted = 1 + self._next * 7919 % self._blocks
                began = asyncio.get_running_loop().time()
                fault = await self.ask("latest" if newest else wanted, newest() if newest else wanted)
                done.seconds.append(asyncio.get_running_loop().time() - began)
                if fault:
                    done.wrong[fault] += 1

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return done

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
        return {cell.node: cell.failures for cell in self.supervisor.overview.snapshot().nodes}

    def calls_to(self, node: str) -> int:
        """Attempts that were sent to a node."""
        return sum(cell.calls for cell in self.supervisor.overview.snapshot().nodes if cell.node == node)


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
    gc.freeze()  # as dataplane.loop does for the program
    supervisor = Supervisor(settings(nodes, **more))
    info = await supervisor.start()
    connector = aiohttp.TCPConnector(limit=connections)
    try:
        async with aiohttp.ClientSession(connector=connector) as http:
            yield Storm(supervisor, f"http://{info.listen}", http, blocks)
    finally:
        await supervisor.stop()
        gc.unfreeze()
