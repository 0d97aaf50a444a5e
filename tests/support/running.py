"""The real program as a process, found by what it prints, and called over sockets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import aiohttp
import orjson
from prometheus_client.parser import text_string_to_metric_families

from tests.support.proxy import PATIENT_REDIS, Reply
from tests.support.services import START_SECONDS, Anvil, Program

Serve = Callable[..., Awaitable["Running"]]

LOCAL = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
HARMONY = ("--chain", "harmony", "--shard", "0")
"""The operator's word for what nodes serve: they are not asked before the start, which matters where none answers."""
QUICK = {"RPCACCEL_NETWORKS__HARMONY_S0__BLOCK_TIME": "200ms"}
"""Nodes are looked at every tenth of a second: for tests that wait until something is noticed of them."""
ADDRESS = re.compile(r"(http://[^/\s]+)/\S*  <-")
PAGE = r"page +(http://[^/\s]+)/"
PATIENT = {f"RPCACCEL_REDIS__{name.upper()}": f"{seconds}s" for name, seconds in PATIENT_REDIS.items()}
"""For tests that count what Redis answered or took."""


class Running:
    """A program that has said where it serves."""

    def __init__(self, program: Program, http: aiohttp.ClientSession, url: str, admin: str) -> None:
        self.program = program
        self.url = url
        self.admin = admin
        self._http = http

    async def post(self, body: bytes, path: str = "/", **headers: str) -> Reply:
        """Send a body as it is."""
        async with self._http.post(self.url + path, data=body, headers=headers) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def get(self, url: str) -> Reply:
        """Ask by GET."""
        async with self._http.get(url) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def call(self, method: str, *params: Any, id: Any = 1, path: str = "/") -> Reply:
        """One call."""
        return await self.post(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), path)

    async def load(
        self, calls: Iterable[tuple[str, Sequence[Any]]], at_once: int = 32, into: list[Reply] | None = None
    ) -> list[Reply]:
        """Many calls, so many at once; the replies in the order they came, as they come in `into`."""
        waiting, replies = iter(calls), [] if into is None else into

        async def client() -> None:
            for method, params in waiting:
                replies.append(await self.call(method, *params))

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(client())
        return replies

    async def ready(self) -> None:
        """Wait until every network has a node."""
        await asyncio.to_thread(self.program.wait_ready, f"{self.url}/readyz")

    async def api(self, name: str) -> Any:
        """A document of the admin API."""
        return json.loads((await self.get(f"{self.admin}/api/v1/{name}")).body)

    async def nodes(self) -> dict[str, Any]:
        """What the admin API says of each node, by id."""
        return {node["id"]: node for node in (await self.api("nodes"))["nodes"]}

    async def node_in(self, state: str, node_id: str) -> Any:
        """What the admin API says of a node once it is in this state; its picture is a second old at the most."""

        found: list[Any] = []

        async def holds() -> bool:
            found[:] = [(await self.nodes())[node_id]]
            return bool(found[0]["state"] == state)

        try:
            await until(f"{node_id} {state}", holds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it is {found}") from error
        return found[0]

    async def change(self, patch: Any, path: str = "settings", method: str = "PATCH") -> tuple[int, Any]:
        """Ask the admin API for a change; status and document."""
        headers = {"If-Match": "*", "X-Rpcaccel-Request": "cli"}
        url = f"{self.admin}/api/v1/{path}"
        async with self._http.request(method, url, json=patch, headers=headers) as reply:
            return reply.status, await reply.json(content_type=None)

    async def changed(self, patch: Any) -> Any:
        """Change the settings, in every worker; the document."""
        status, told = await self.change(patch)
        assert (status, told.get("adopted")) == (200, len(told.get("workers", ()))), told
        return told

    async def metrics(self) -> Metrics:
        """What Prometheus would read."""
        return Metrics((await self.get(f"{self.admin}/metrics")).body.decode())

    async def end(self) -> int:
        """SIGTERM; its exit code."""
        return await asyncio.to_thread(self.program.stop)


class Evm(NamedTuple):
    """A real EVM node and the program over it."""

    chain: Anvil
    proxy: Running


class Metrics:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels."""
        return sum(
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        )


async def found(program: Program, http: aiohttp.ClientSession) -> Running:
    """A program that was started, once it has said where it serves."""
    page = await asyncio.to_thread(program.wait_for, PAGE)
    listen = ADDRESS.search(program.output)
    assert listen is not None, program.output
    return Running(program, http, listen[1], page[1])


async def until(what: str, holds: Callable[[], Awaitable[object]], seconds: float = START_SECONDS) -> None:
    """Ask again and again until it holds; TimeoutError naming `what`."""
    try:
        async with asyncio.timeout(seconds):
            while not await holds():
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise TimeoutError(f"{what}: not within {seconds:g} s") from error
