"""Real reorganisations, through the real program: EVM nodes whose newest blocks are replaced, one of which stays back.

The nodes are anvils that are told the same transactions and times, and so have the same blocks.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.running import LOCAL, Running, found, until
from tests.support.services import Anvil, Program

GENESIS = 1_700_000_000
FIRST, LAST = 12, 20
"""The blocks looked at: the last four of them are replaced."""
PAYER, PAYEE = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"


class Node:
    """One anvil, asked directly."""

    def __init__(self, name: str, anvil: Anvil, http: aiohttp.ClientSession) -> None:
        self.name, self.url = name, anvil.url
        self._http = http

    async def call(self, method: str, *params: Any) -> Any:
        """Its result; None when it is an error."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self._http.post(self.url, json=body) as response:
            return (await response.json()).get("result")

    async def mine(self, first: int, last: int, value: int) -> None:
        """Blocks first..last, in each of them a payment that `value` tells from those of other branches."""
        for number in range(first, last + 1):
            payment = {"from": PAYER, "to": PAYEE, "value": hex(value + number)}
            await self.call("eth_sendTransaction", payment)
            await self.call("evm_setNextBlockTimestamp", GENESIS + 12 * number)
            await self.call("evm_mine")

    async def hash_of(self, number: int) -> str:
        return str((await self.call("eth_getBlockByNumber", hex(number), False))["hash"])


@pytest.fixture
def nodes(http: aiohttp.ClientSession) -> Iterator[Callable[[int], list[Node]]]:
    with ExitStack() as started:

        def start(count: int) -> list[Node]:
            anvils = [Anvil("--no-mining", "--timestamp", str(GENESIS)) for _ in range(count)]
            for anvil in anvils:
                started.callback(anvil.stop)
            return [Node(name, anvil, http) for name, anvil in zip("abc", anvils, strict=False)]

        yield start


async def serving(
    nodes: list[Node], new_program: Callable[..., Program], http: aiohttp.ClientSession, folder: Path
) -> Running:
    """The program over these nodes, which looks for new blocks often."""
    file = folder / "rpcaccel.toml"
    urls = ", ".join(f'"{node.url},id={node.name}"' for node in nodes)
    file.write_text(
        f'[networks.evm]\nchain = "ethereum"\nfinality_depth = 16\nblock_time = 0.4\nnodes = [{urls}]\n', "utf-8"
    )
    running = await found(new_program("serve", "--config", file, *LOCAL), http)
    await running.ready()
    return running


async def questions(node: Node) -> list[tuple[str, list[Any]]]:
    """Everything asked about blocks FIRST..LAST as this node has them now, by number and by transaction."""
    asked: list[tuple[str, list[Any]]] = [("eth_getLogs", [{"fromBlock": hex(FIRST), "toBlock": hex(LAST)}])]
    for number in range(FIRST, LAST + 1):
        block = await node.call("eth_getBlockByNumber", hex(number), False)
        asked += [
            ("eth_getBlockByNumber", [hex(number), True]),
            ("eth_getBlockTransactionCountByNumber", [hex(number)]),
            ("eth_getTransactionByBlockNumberAndIndex", [hex(number), "0x0"]),
            ("eth_getBlockReceipts", [hex(number)]),
            ("eth_getBalance", [PAYEE, hex(number)]),
            ("eth_getTransactionCount", [PAYER, hex(number)]),
            ("eth_getTransactionByHash", [block["transactions"][0]]),
            ("eth_getTransactionReceipt", [block["transactions"][0]]),
        ]
    return [*asked, ("eth_getBalance", [PAYEE, "latest"]), ("eth_getBlockByNumber", ["latest", False])]


async def noticed(proxy: Running, node: Node, number: int = LAST) -> None:
    """Until the proxy, which has that block in memory, tells the new one: it has noticed the reorganisation."""
    wanted = await node.hash_of(number)

    async def told() -> bool:
        block = (await proxy.call("eth_getBlockByNumber", hex(number), True)).result
        return block is not None and bool(block["hash"] == wanted)

    await until("the reorganisation", told)


async def ask_all(proxy: Running, asked: list[tuple[str, list[Any]]]) -> list[Any]:
    return [(await proxy.call(method, *params)).json.get("result") for method, params in asked]


async def test_nothing_of_an_abandoned_branch_is_served_though_a_node_stayed_on_it(
    nodes: Callable[[int], list[Node]],
    new_program: Callable[..., Program],
    http: aiohttp.ClientSession,
    tmp_path: Path,
) -> None:
    a, b, late = all_nodes = nodes(3)
    await asyncio.gather(*(node.mine(1, LAST, value=0) for node in all_nodes))
    assert len({await node.hash_of(LAST) for node in all_nodes}) == 1, "they have the same blocks"
    proxy = await serving(all_nodes, new_program, http, tmp_path)
    old = await questions(a)
    before = await ask_all(proxy, old)
    assert await ask_all(proxy, old) == before == [await a.call(method, *params) for method, params in old]
    for node in (a, b):
        await node.call("anvil_rollback", 4)
        await node.mine(LAST - 3, LAST + 1, value=1000)
    await noticed(proxy, a)
    new = await questions(a)
    wanted = {repr(call): await a.call(*(call[0], *call[1])) for call in (*old, *new)}
    for turn, call in itertools.product(range(4), (*new, *old)):
        reply = await proxy.call(call[0], *call[1])
        assert reply.json.get("result") == wanted[repr(call)], (turn, call)
        number = call[1][0] if call[0] == "eth_getBlockByNumber" else ""
        assert reply.node != late.name or (number and int(number, 16) < LAST - 3), (turn, call)
    await late.call("anvil_rollback", 4)
    await late.mine(LAST - 3, LAST + 1, value=1000)
    fresh = itertools.count()

    async def asked_again() -> bool:
        params = ({"to": PAYEE, "data": hex(next(fresh) + 2**32)}, hex(LAST))
        return (await proxy.call("eth_call", *params)).node == late.name

    await until("the late node's return", asked_again)


async def test_after_reorganisations_of_the_only_node_everything_is_as_it_says_now(
    nodes: Callable[[int], list[Node]],
    new_program: Callable[..., Program],
    http: aiohttp.ClientSession,
    tmp_path: Path,
) -> None:
    """First its head goes back, and then its newest blocks are replaced by empty ones of the same numbers."""
    (node,) = nodes(1)
    await node.mine(1, LAST - 4, value=0)
    snapshot = await node.call("evm_snapshot")
    await node.mine(LAST - 3, LAST, value=0)
    proxy = await serving([node], new_program, http, tmp_path)
    old = await questions(node)
    await ask_all(proxy, old)
    await node.call("evm_revert", snapshot)
    await node.mine(LAST - 3, LAST - 1, value=1000)
    await noticed(proxy, node, LAST - 1)
    await as_it_says(proxy, node, old)
    await node.mine(LAST, LAST, value=1000)
    await noticed(proxy, node)
    newer = await questions(node)
    await ask_all(proxy, newer)
    by_hash = [("eth_getBlockByHash", [await node.hash_of(number), False]) for number in range(LAST - 3, LAST + 1)]
    await node.call("anvil_reorg", 4, [])
    await noticed(proxy, node)
    await as_it_says(proxy, node, [*old, *newer, *by_hash])


async def as_it_says(proxy: Running, node: Node, asked: list[tuple[str, list[Any]]]) -> None:
    """Asked twice, the proxy answers what the node does now."""
    for call in (*asked, *asked):
        wanted = await node.call(call[0], *call[1])
        assert (await proxy.call(call[0], *call[1])).json.get("result") == wanted, call
