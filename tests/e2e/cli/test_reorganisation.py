"""Branches of a real EVM node that are abandoned while the proxy holds answers from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.support.fixtures import shared
from tests.support.running import Evm, Running, until

Ask = Callable[..., Awaitable[Any]]
READER = "0x00000000000000000000000000000000000000aa"


@shared
async def ask(evm: Evm, http: aiohttp.ClientSession) -> Ask:
    """Ask the node itself."""

    async def asked(method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with http.post(evm.chain.url, json=body) as response:
            return (await response.json())["result"]

    return asked


def reads(head: int) -> list[tuple[str, list[Any]]]:
    """Reads whose answers a reorganisation changes."""
    blocks = [("eth_getBlockByNumber", [hex(number), False]) for number in range(head - 5, head + 1)]
    return [*blocks, ("eth_getBlockByNumber", ["latest", False]), ("eth_getBalance", [READER, "latest"])]


async def answers(proxy: Running, head: int) -> list[Any]:
    return [(await proxy.call(method, *params)).json.get("result") for method, params in reads(head)]


async def at(proxy: Running, number: int) -> None:
    async def reached() -> bool:
        return (await proxy.call("eth_blockNumber")).json["result"] == hex(number)

    await until(f"head {number}", reached)


@shared
async def head(evm: Evm, ask: Ask) -> int:
    """The newest block of a branch of which the proxy holds answers."""
    proxy = evm.proxy
    await ask("anvil_mine", hex(8))
    await ask("anvil_setBalance", READER, hex(7))
    await ask("anvil_mine", "0x1")
    head = int(await ask("eth_blockNumber"), 16)
    await at(proxy, head)
    old = await answers(proxy, head)
    assert old == await answers(proxy, head)
    assert (await proxy.call("eth_getBlockByNumber", hex(head), False)).cache == "memory"
    return head


@pytest.mark.parametrize("depth", [1, 4])
async def test_a_new_branch_that_is_longer_replaces_all_that_was_kept_of_the_old_one(
    evm: Evm, head: int, ask: Ask, depth: int
) -> None:
    proxy = evm.proxy
    old = await answers(proxy, head)
    await ask("anvil_reorg", depth, [])
    await ask("anvil_setBalance", READER, hex(9))
    await ask("anvil_mine", "0x1")
    await at(proxy, head + 1)
    new = [await ask(method, *params) for method, params in reads(head + 1)]
    abandoned = sorted(block["hash"] for block in old[6 - depth : 6])
    assert set(abandoned).isdisjoint(block["hash"] for block in new[:7])
    for _ in range(3):
        assert await answers(proxy, head + 1) == new
    for name in abandoned:
        found = (await proxy.call("eth_getBlockByHash", name, False)).json["result"]
        assert found == await ask("eth_getBlockByHash", name, False)


async def test_a_new_branch_of_the_same_length_is_noticed_and_then_nothing_of_the_old_one_is_served(
    evm: Evm, head: int, ask: Ask
) -> None:
    proxy = evm.proxy
    await ask("anvil_reorg", 3, [])
    new = [await ask(method, *params) for method, params in reads(head)]

    async def noticed() -> bool:
        return bool((await proxy.call("eth_getBlockByNumber", "latest", False)).json["result"] == new[6])

    await until("the other block of that number", noticed)
    for _ in range(3):
        assert await answers(proxy, head) == new
