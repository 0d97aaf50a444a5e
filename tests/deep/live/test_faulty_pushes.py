"""Subscribers over simulated nodes that push wrongly, lag, lie silent, refuse WebSockets, die and come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from locustfiles.live_stream import HeadSequence, LogSequence
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, running
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import LOCAL, Running, found, until
from tests.support.services import Program

BLOCKS = 45
PACE = 0.08
"""Seconds between blocks."""
WELL: dict[str, Any] = {
    **dict.fromkeys(("silent", "mute_subscribe", "overtake", "false_hashes", "stall"), False),
    **{"websocket": "on", "push_delay": "0ms", "push_faults": {}, "lag": 0},
}
ILLS: tuple[dict[str, Any], ...] = (
    {"push_faults": {"duplicate": 0.3, "disorder": 0.3, "drop": 0.3}},
    {"push_faults": {"cut": 0.5}},
    {"push_delay": "jitter:100ms+200ms", "overtake": True},
    {"silent": True},
    {"mute_subscribe": True, "push_faults": {"cut": 1.0}},
    {"websocket": "refused"},
    {"websocket": "off"},
    {"stall": True},
    {"lag": 3},
    {"false_hashes": True},
)
"""One node at a time has one of these, or is dead."""


class BareSubscriber:
    """One WebSocket through the proxy with a subscription to headers and one to all logs."""

    def __init__(self) -> None:
        self.heads, self.logs = HeadSequence(), LogSequence()
        self.faults: list[str] = []
        self.hashes: set[tuple[int, str]] = set()
        """The blocks that logs named and that were not taken back."""

    async def listen(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Take what comes until the connection ends, which is a fault."""
        kinds: dict[str, str] = {}
        for kind, *filters in (("newHeads",), ("logs", {})):
            await socket.send_json(
                {"jsonrpc": "2.0", "id": kind, "method": "eth_subscribe", "params": [kind, *filters]}
            )
        async for message in socket:
            told = json.loads(message.data)
            if "id" in told:
                kinds[told["result"]] = told["id"]
                continue
            result = told["params"]["result"]
            heads = kinds[told["params"]["subscription"]] == "newHeads"
            if wrong := (self.heads if heads else self.logs).take(result):
                self.faults.append(f"{'head' if heads else 'log'} {result}: {wrong}")
            if not heads:
                change = self.hashes.discard if result["removed"] else self.hashes.add
                change((int(result["blockNumber"], 16), result["blockHash"]))
        self.faults.append(f"closed with {socket.close_code}")


@asynccontextmanager
async def subscribed(kind: str, folder: Path) -> AsyncIterator[tuple[list[SimNode], Running, list[BareSubscriber]]]:
    """Three nodes of a chain with many logs, the program over them, and two subscribers."""
    chain = harmony_chain(200, density=8) if kind == "harmony" else ethereum_chain(200, density=8)
    async with AsyncExitStack() as started:
        nodes = await started.enter_async_context(running(chain, 3))
        http = await started.enter_async_context(aiohttp.ClientSession())
        program = Program("serve", *(node.url for node in nodes), *LOCAL, cwd=folder)
        started.push_async_callback(asyncio.to_thread, program.stop)
        proxy = await found(program, http)
        await proxy.ready()
        subscribers = [BareSubscriber() for _ in range(2)]
        for subscriber in subscribers:
            socket = await http.ws_connect(proxy.url.replace("http", "ws"))
            listening = asyncio.create_task(subscriber.listen(socket))
            started.push_async_callback(asyncio.wait, {listening})
            started.callback(listening.cancel)
        yield nodes, proxy, subscribers


async def grown(chain: SimChain, subscribers: list[BareSubscriber]) -> None:
    """Add blocks until every subscriber was told of a block and of a log."""

    async def told() -> bool:
        chain.advance()
        await asyncio.sleep(PACE)
        return all(one.heads.heads and one.logs.taken for one in subscribers)

    await until("every subscriber was told", told)


async def well(nodes: list[SimNode]) -> None:
    """Start every node that was killed, and end what ails the others."""
    for node in nodes:
        await node.start()
        node.knobs.turn(WELL)


async def ail(node: SimNode, rng: Random) -> None:
    """Kill a node, or let it fail in another way."""
    if rng.random() < 0.3:
        await node.kill()
    else:
        node.knobs.turn(rng.choice(ILLS))


@pytest.mark.parametrize(("kind", "seed"), [("harmony", 1), ("ethereum", 2)])
async def test_every_stream_is_that_of_the_chain_whatever_nodes_push(kind: str, seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    async with subscribed(kind, tmp_path) as (nodes, _, subscribers):
        chain = nodes[0].chain
        await grown(chain, subscribers)
        for number in range(BLOCKS):
            chain.advance()
            await asyncio.sleep(PACE)
            if number % 5 == 0:
                await well(nodes)
                await ail(rng.choice(nodes), rng)
            if kind == "ethereum" and number % 7 == 6:
                chain.reorg(rng.randint(1, 4))
        await well(nodes)
        last = chain.advance(3)
        while not await nodes[0].ask("eth_getLogs", {"fromBlock": hex(last), "toBlock": hex(last)}):
            last = chain.advance()
        end = await nodes[0].ask("eth_getBlockByNumber", hex(last), False)

        async def told() -> bool:
            return all(one.heads.tip == last and (last, end["hash"]) in one.hashes for one in subscribers)

        await until("the last block at every subscriber", told)
        for one in subscribers:
            assert one.faults == []
            await check(one, nodes[0], kind)


async def check(one: BareSubscriber, node: SimNode, kind: str) -> None:
    """Compare what a subscriber was sent with the chain."""
    branch = one.heads.branch
    blocks = [await node.ask("eth_getBlockByNumber", hex(number), False) for number in branch]
    assert list(branch.values()) == [block["hash"] for block in blocks]
    assert [block["number"] for block in blocks] == [hex(number) for number in range(min(branch), max(branch) + 1)]
    method = "hmy_getLogs" if kind == "harmony" else "eth_getLogs"
    logs = await node.ask(method, {"fromBlock": hex(min(number for number, _ in one.hashes)), "toBlock": "latest"})
    assert (one.logs.missing(logs), one.logs.extra(logs)) == (0, 0)
    assert one.hashes == {(int(log["blockNumber"], 16), log["blockHash"]) for log in logs}
