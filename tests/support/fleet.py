"""A running program that many tests ask one after another, and that is put back between them to how it started.

Starting a program costs more than most tests do with it. What a test changes by the admin API or on the simulated
nodes is undone by `fresh`; a test that ends the program, or needs flags of its own, starts one for itself.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

from rpcaccel.simnode.server.envelope import Parsed
from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import LOCAL, Running, found, until
from tests.support.services import Program

NETWORK = "harmony-s0"
STEADY = {
    f"RPCACCEL_NETWORKS__HARMONY_S0__{name}": value
    for name, value in (
        ("HEDGE__QUANTILE", "0"),
        ("REFRESH", "0"),
        ("SLOW_START", "0"),
        ("OUTLIERS__FACTOR", "0"),
        ("AGREEMENT__SHARE", "0"),
        ("EXAMINE", "false"),
    )
}
"""No call is made that no client made, and a node that comes back has its whole share at once: what nodes are asked
then depends neither on the speed of the machine nor on the tests before."""


class GatedNode(SimNode):
    """A node that keeps calls of a method waiting from `hold` until `release`."""

    held: str = ""
    arrived: asyncio.Event
    """Set when a call is kept waiting."""
    _released: asyncio.Event

    def hold(self, method: str) -> None:
        """Keep calls of this method waiting from now on."""
        self.held, self.arrived, self._released = method, asyncio.Event(), asyncio.Event()

    def release(self) -> None:
        """Answer what was kept waiting, and keep nothing any more."""
        if self.held:
            self.held = ""
            self._released.set()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def answer(self, parsed: Parsed) -> bytes:
        if self.held and any(call.method == self.held for call in parsed.calls):
            self.arrived.set()
            await self._released.wait()
        return await super().answer(parsed)


@asynccontextmanager
async def gated_nodes(count: int = 1, head: int = 200) -> AsyncIterator[list[GatedNode]]:
    """Such nodes of one Harmony chain, which run while the block does."""
    chain = harmony_chain(head)
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(GatedNode(chain, name=f"node-{number}")) for number in range(count)]


class Fleet:
    """A program over simulated Harmony nodes of one chain."""

    def __init__(self, proxy: Running, nodes: Sequence[GatedNode]) -> None:
        self.proxy = proxy
        self.nodes = nodes
        self._positions = [node.knobs.positions() for node in nodes]
        self._revision = self._workers = 1
        self._found = ""
        self._blocks = itertools.cycle(range(10, 200))

    def __repr__(self) -> str:
        return f"<Fleet of {len(self.nodes)} nodes behind {self.proxy.program!r}>"

    @property
    def head(self) -> int:
        """The newest block of the chain."""
        return self.nodes[0].chain.head

    def asked(self, method: str) -> int:
        """How often the nodes were asked, all together."""
        return sum(node.counts.asked(method) for node in self.nodes)

    async def set(self, **network: Any) -> None:
        """Change settings of the network; every worker has adopted them then."""
        await self.proxy.changed({"networks": {NETWORK: network}})

    async def look(self, *nodes: SimNode, times: int = 1) -> None:
        """Have these nodes, or all, looked at now, instead of waiting until the prober comes round."""
        for node in list(nodes or self.nodes) * times:
            status, _ = await self.proxy.change({}, f"nodes/{NETWORK}/{node.name}/probe", "POST")
            assert status == 200

    async def fresh(self) -> Self:
        """Undo what a test changed: knobs, settings, what is kept and counted."""
        for node, positions in zip(self.nodes, self._positions, strict=True):
            node.release()
            await node.start()
            node.knobs.turn(positions)
        settings = await self.proxy.api("settings")
        self._workers = len(settings["workers"])
        if settings["revision"] != self._revision:
            status, told = await self.proxy.change({"to": self._revision}, "settings/undo", "POST")
            assert status == 200, told
            self._revision = told["revision"]
        await self.look()
        try:
            await until("every node serving", self._all_serve)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self._found}") from error
        await self._purge()
        for node in self.nodes:
            node.counts.reset()
        return self

    async def _purge(self) -> None:
        assert (await self.proxy.change({"all": True}, "purge", "POST"))[0] == 200

    async def _all_serve(self) -> bool:
        """Does every worker ask every node, with good answers? What a worker thinks of a node shows by calls only, and
        a node that failed shows by one that it is well again. Nothing is kept, or no node would be asked again."""
        await self._purge()
        asked = len(self.nodes) * (2 if self._workers == 1 else 8)
        replies = []
        for _ in range(asked):
            call = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockTransactionCountByNumber","params":[%d]}'
            replies.append(await self.proxy.post(call % next(self._blocks), Connection="close"))
        nodes = await self.proxy.nodes()
        self._found = f"{[reply.body[:200] for reply in replies]}, {nodes}"
        answering = {reply.headers.get("X-Rpcaccel-Node") for reply in replies if "result" in reply.json}
        well = len(answering) == len(self.nodes) and all("result" in reply.json for reply in replies)
        return well and all(node["state"] == "serving" for node in nodes.values())


@asynccontextmanager
async def fleet_of(
    nodes: Sequence[GatedNode], *flags: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[Fleet]:
    """Start the nodes, and the program over them."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        for node in nodes:
            await node.start()
        urls = [f"{node.url},id={node.name}" for node in nodes]
        try:
            with Program("serve", *urls, *LOCAL, *flags, env=STEADY | (env or {}), cwd=cwd) as program:
                proxy = await found(program, http)
                await proxy.ready()
                yield Fleet(proxy, nodes)
                await http.close()  # a connection left open would be waited for
                await proxy.end()
        finally:
            for node in nodes:
                await node.kill()


class Fleets:
    """Fleets that live as long as the run, by name; one that has ended, or cannot be put back, is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, tuple[Fleet, Any]] = {}

    async def fresh(self, name: str, make_nodes: Callable[[], Sequence[GatedNode]], *flags: str) -> Fleet:
        """The fleet of this name, as if nobody had used it; it is started with these nodes and flags."""
        if name in self._running and not self._running[name][0].proxy.program.running:
            await self._end(name)
        if name not in self._running:
            place = fleet_of(make_nodes(), *flags, cwd=self._folder)
            self._running[name] = (await place.__aenter__(), place)
        try:
            return await self._running[name][0].fresh()
        except BaseException:
            await self._end(name)
            raise

    async def _end(self, name: str) -> None:
        _, place = self._running.pop(name)
        await place.__aexit__(None, None, None)

    async def close(self) -> None:
        """End all of them."""
        for name in list(self._running):
            await self._end(name)
