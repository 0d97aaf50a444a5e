"""Four proxies over the same nodes and one Redis or Redis Cluster, each as a host of its own would run it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from rpcaccel.core import client_limits
from tests.deep.live.node_door import NodeDoor
from tests.support.fleet import NETWORK, STEADY, GatedNode
from tests.support.proxy import Reply
from tests.support.running import LOCAL, Running, found, until
from tests.support.services import START_SECONDS, Program, RedisServer

HOSTS = 4
KEY = client_limits.make(b"k" * client_limits.RANDOM_BYTES)
RATE = 20
"""Calls a second, and at once, of the holder of the key."""
BLOCK = "hmyv2_getBlockByNumber"
FAR = 3000
"""A block that no load asks for."""
_SETTINGS = f"""
[redis]
url = "{{redis}}"
single_flight = "always"
read_timeout = "1s"
[clients.keys.shared]
hashes = ["{client_limits.hashed(KEY)}"]
rate = {RATE}
burst = {RATE}
[networks.{NETWORK}]
nodes = [{{nodes}}]
"""


class FourHosts:
    """The proxies, the nodes behind them, and the servers of Redis."""

    def __init__(
        self, folder: Path, http: aiohttp.ClientSession, nodes: Sequence[GatedNode], redis: Sequence[RedisServer]
    ) -> None:
        self.nodes = nodes
        self.redis = redis
        self.proxies: list[Running] = []
        self.door = NodeDoor()
        """What the last proxy takes for Redis, where that is a single server."""
        self._http = http
        self._folder = folder
        self._addresses = itertools.count(1)

    def __repr__(self) -> str:
        return f"<FourHosts {self.proxies}>"

    # -- from start to stop ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every proxy that does not run."""
        if len(self.redis) == 1 and not self.door.port:
            self.door.open(self.redis[0].port)
        fresh = [
            self._program(number)
            for number in range(HOSTS)
            if number >= len(self.proxies) or not self.proxies[number].program.running
        ]
        started = dict(fresh)
        for number, program in fresh:
            running = await found(program, self._http)
            self.proxies[number : number + 1] = [running]
        await asyncio.gather(*(self.proxies[number].ready() for number in started))

    def _program(self, number: int) -> tuple[int, Program]:
        folder = self._folder / f"host-{number}"
        folder.mkdir(exist_ok=True)
        file = folder / "rpcaccel.toml"
        form = '{{ id = "{}", url = "{}", quota = {{ day = 1e6 }} }}'
        listed = ", ".join(form.format(node.name, node.url) for node in self.nodes)
        file.write_text(_SETTINGS.format(redis=self._url(number), nodes=listed))
        return number, Program("serve", "--config", file, *LOCAL, env=STEADY, cwd=folder)

    def _url(self, number: int) -> str:
        if len(self.redis) > 1:
            return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.redis)
        port = self.door.port if number == HOSTS - 1 else self.redis[0].port
        return f"redis://127.0.0.1:{port}/0"

    async def stop(self) -> None:
        """End what runs."""
        await asyncio.gather(*(proxy.end() for proxy in self.proxies))
        self.door.close()

    # -- what tests ask for ---------------------------------------------------------------------------------------

    async def well(self) -> FourHosts:
        """Everything runs and is in touch, with equal weights and nothing kept."""
        for node in self.nodes:
            node.release()
            node.knobs.turn({"latency": "0ms"})
        await self.start()
        for proxy in self.proxies:
            await sharing(proxy, up=True)
        await self.proxies[0].changed(weights(1, 1))
        await self.agree(1, 1)
        await self.purge()
        for node in self.nodes:
            node.counts.reset()
        return self

    async def each(self, method: str, *params: Any) -> list[Reply]:
        """Ask every proxy at the same moment."""
        return await asyncio.gather(*(proxy.call(method, *params) for proxy in self.proxies))

    async def agree(self, *wanted: int) -> None:
        """Wait until every proxy has these weights."""

        async def holds() -> bool:
            return [await weights_of(proxy) for proxy in self.proxies] == [[*wanted]] * HOSTS

        await until(f"weights {wanted} on every host", holds)

    async def purge(self) -> None:
        """Purge everything by the first proxy, and wait until every proxy has."""
        for proxy in self.proxies:
            await until(f"the block in the memory of {proxy}", remembers(proxy))
        assert (await self.proxies[0].change({"all": True}, "purge", "POST"))[0] == 200
        for proxy in self.proxies:
            await until(f"the block out of the memory of {proxy}", forgot(proxy))

    def asked(self, method: str) -> int:
        """How often the nodes were asked, all together."""
        return sum(node.counts.asked(method) for node in self.nodes)

    async def spent(self) -> list[float]:
        """What each proxy says is used of the nodes' quotas of the day."""
        told = [(await proxy.nodes()).values() for proxy in self.proxies]
        return [sum(use["used"] for node in nodes for use in node["quota"]) for nodes in told]

    def claims(self) -> int:
        """SETs that primaries executed: every claim of a lease is one, granted or not."""
        return sum(server.calls("set") for server in self.redis[:3])

    def address(self) -> str:
        """An address that nobody has asked for."""
        return f"0x{next(self._addresses):040x}"

    def hold(self, method: str) -> None:
        """Let the nodes keep calls of a method waiting, until they are released."""
        for node in self.nodes:
            node.hold(method)

    def release(self) -> None:
        """Let the nodes answer."""
        for node in self.nodes:
            node.release()

    async def arrived(self) -> None:
        """Wait until a call that is held has arrived at a node."""

        async def holds() -> bool:
            return any(node.held and node.arrived.is_set() for node in self.nodes)

        await until("a call at a node", holds)

    async def claimed(self, before: int, count: int) -> None:
        """Wait until so many leases were claimed since there were `before` claims."""

        async def holds() -> bool:
            return self.claims() >= before + count

        await until(f"{count} claims", holds)


class Steady:
    """Clients that ask every one of these proxies without pause for blocks, and compare what they get."""

    def __init__(self, hosts: FourHosts, *numbers: int) -> None:
        self.answered = dict.fromkeys(numbers, 0)
        self.wrong: list[str] = []
        self._hosts = hosts
        self._blocks = itertools.cycle(range(1, 2000))
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Steady:
        self._tasks = [asyncio.create_task(self._ask(number)) for number in [*self.answered] * 4]
        await self.go_on()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def go_on(self, calls: int = 40) -> None:
        """Return once every proxy has answered so many further calls."""
        wanted = {number: count + calls for number, count in self.answered.items()}

        async def holds() -> bool:
            return bool(self.wrong) or all(self.answered[number] >= count for number, count in wanted.items())

        await until(f"{calls} further answers of every host", holds)

    async def _ask(self, number: int) -> None:
        branch = self._hosts.nodes[0].chain.branch
        while not self._stop.is_set():
            block, proxy = next(self._blocks), self._hosts.proxies[number]
            try:
                async with asyncio.timeout(START_SECONDS):
                    reply = await proxy.call(BLOCK, block, {})
            except (aiohttp.ClientError, TimeoutError) as error:
                self.wrong.append(f"host {number}, block {block}: {error!r}")
                return
            if reply.json.get("result", {}).get("hash") != f"0x{branch.hash_of(block).hex()}":
                self.wrong.append(f"host {number}, block {block}: {reply.body[:200]!r}")
            self.answered[number] += 1
            await asyncio.sleep(0.01)  # the proxies need the processor as well


def weights(*weights: int) -> Any:
    """The change that gives nodes these weights."""
    nodes = {f"node-{number}": {"weight": weight} for number, weight in enumerate(weights)}
    return {"networks": {NETWORK: {"nodes": nodes}}}


async def weights_of(proxy: Running) -> list[int]:
    """The weights that a proxy has in force."""
    nodes = (await proxy.api("settings"))["document"]["networks"][NETWORK]["nodes"]
    return [nodes[name]["weight"] for name in sorted(nodes)]


async def sharing(proxy: Running, *, up: bool) -> None:
    """Wait until a proxy is in touch with the others, or knows that it is not."""

    async def holds() -> bool:
        return bool((await proxy.api("settings"))["shared"]["up"] == up)

    await until(f"{proxy} sharing: {up}", holds)


def remembers(proxy: Running) -> Callable[[], Awaitable[bool]]:
    """Does the proxy answer from its memory?"""

    async def holds() -> bool:
        return (await proxy.call(BLOCK, FAR, {})).cache == "memory"

    return holds


def forgot(proxy: Running) -> Callable[[], Awaitable[bool]]:
    """Does the proxy no longer answer from its memory?"""

    async def holds() -> bool:
        return (await proxy.call(BLOCK, FAR, {})).cache != "memory"

    return holds


@asynccontextmanager
async def four_hosts(
    folder: Path, nodes: Sequence[GatedNode], redis: Sequence[RedisServer]
) -> AsyncIterator[FourHosts]:
    """Four proxies while the block runs."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        for node in nodes:
            await node.start()
        hosts = FourHosts(folder, http, nodes, redis)
        try:
            await hosts.start()
            yield hosts
        finally:
            await hosts.stop()
            for node in nodes:
                await node.kill()
