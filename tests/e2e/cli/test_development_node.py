"""A node for development behind the real program: what changes its state without a block is seen by the next read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from tests.support.running import LOCAL, Running, found
from tests.support.services import Anvil, Program

RICH = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
SOMEBODY = "0x00000000000000000000000000000000000a11ce"
ROUNDS = 10


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """The program with two workers: what one of them sent the other has to know as well. Its node is at block 0."""
    file = tmp_path_factory.mktemp("dev") / "rpcaccel.toml"
    node = Anvil()
    file.write_text(
        f'workers = 2\n[http]\nexpose = ["evm_*", "anvil_*", "hardhat_*", "eth_sendTransaction"]\n'
        f'[networks.dev]\nchain = "ethereum"\nnodes = ["{node.url}"]\n',
        "utf-8",
    )
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        with node.process, Program("serve", "--config", file, *LOCAL, cwd=file.parent) as program:
            running = await found(program, http)
            await running.ready()
            yield running


async def balance(proxy: Running, block: str = "latest") -> int:
    """The balance that a client on a connection of its own, and so perhaps at another worker, is told."""
    return int((await proxy.call("eth_getBalance", SOMEBODY, block)).result, 16)


async def test_a_balance_that_was_set_is_read_by_the_next_call(proxy: Running) -> None:
    for amount in range(ROUNDS):
        for method in ("anvil_setBalance", "hardhat_setBalance"):
            value = amount * 2 + (method == "hardhat_setBalance")
            assert (await proxy.call(method, SOMEBODY, hex(value))).json["result"] in (None, True)
            assert [await balance(proxy) for _ in range(4)] == [value] * 4
            assert await balance(proxy, "0x0") == value


async def test_after_a_revert_neither_the_head_nor_what_stood_above_is_told(proxy: Running) -> None:
    for _ in range(3):
        before = await balance(proxy)
        snapshot = (await proxy.call("evm_snapshot")).result
        sent = await proxy.call("eth_sendTransaction", {"from": RICH, "to": SOMEBODY, "value": "0x7"})
        await proxy.call("evm_mine")
        head = (await proxy.call("eth_getBlockByNumber", "latest", False)).result
        receipt = (await proxy.call("eth_getTransactionReceipt", sent.result)).result
        assert receipt is not None
        assert await balance(proxy) == before + 7
        assert (await proxy.call("evm_revert", snapshot)).result is True
        for _ in range(3):
            assert await balance(proxy) == before
            assert (await proxy.call("eth_getBlockByHash", head["hash"], False)).json["result"] is None
            assert (await proxy.call("eth_getBlockByNumber", head["number"], False)).json["result"] is None
            assert (await proxy.call("eth_getTransactionReceipt", sent.result)).json["result"] is None
            assert int((await proxy.call("eth_blockNumber")).result, 16) == int(head["number"], 16) - 2
