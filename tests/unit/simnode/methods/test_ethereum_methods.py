from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import ethereum_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode


async def test_tags_name_the_depths_of_finality(geth: SimNode) -> None:
    numbers = [
        int((await geth.ask("eth_getBlockByNumber", tag, False))["number"], 16)
        for tag in ("earliest", "finalized", "safe", "latest", "pending")
    ]
    assert numbers == [0, 114, 146, 178, 179]
    assert (await geth.ask("eth_getBlockByNumber", "pending", False))["hash"] is None


async def test_above_the_head_there_is_null(geth: SimNode) -> None:
    assert await geth.ask("eth_getBlockByNumber", "0x1000", False) is None
    assert await geth.ask("eth_getBlockReceipts", "0x1000") is None
    assert await geth.ask("eth_getBlockTransactionCountByNumber", "0x1000") is None
    assert await geth.ask("eth_getUncleCountByBlockNumber", "0x1000") is None
    assert await geth.ask("eth_getTransactionByBlockNumberAndIndex", "0x1000", "0x0") is None


async def test_block_and_transactions_agree(geth: SimNode) -> None:
    block = await geth.ask("eth_getBlockByNumber", "0x50", True)
    assert await geth.ask("eth_getBlockByHash", block["hash"], True) == block
    tx = block["transactions"][0]
    assert await geth.ask("eth_getTransactionByHash", tx["hash"]) == tx
    assert await geth.ask("eth_getTransactionByBlockNumberAndIndex", "0x50", "0x0") == tx
    assert await geth.ask("eth_getTransactionByBlockHashAndIndex", block["hash"], "0x0") == tx
    assert await geth.ask("eth_getBlockTransactionCountByHash", block["hash"]) == hex(len(block["transactions"]))
    receipts = await geth.ask("eth_getBlockReceipts", block["hash"])
    assert await geth.ask("eth_getTransactionReceipt", tx["hash"]) == receipts[0]
    assert await geth.ask("eth_getBlockReceipts", "0x50") == receipts
    assert await geth.ask("eth_getTransactionByHash", "0x" + "11" * 32) is None
    assert await geth.ask("eth_getTransactionReceipt", "0x" + "11" * 32) is None
    assert await geth.ask("eth_getBlockByHash", "0x" + "11" * 32, True) is None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([26, False], "invalid argument 0: hex string without 0x prefix"),
        (["0x01a", False], "invalid argument 0: hex number with leading zero digits"),
        (["0x1a"], "missing value for required argument 1"),
        (["0x1a", "x"], "invalid argument 1: json: cannot unmarshal non-boolean into Go value of type bool"),
    ],
)
async def test_arguments_are_refused_in_geths_words(params: list[object], message: str, geth: SimNode) -> None:
    with pytest.raises(RpcError) as caught:
        await geth.ask("eth_getBlockByNumber", *params)
    assert (caught.value.code, caught.value.message) == (-32602, message)


async def test_fees_and_identity(geth: SimNode) -> None:
    history = await geth.ask("eth_feeHistory", "0x4", "latest", [50])
    assert (history["oldestBlock"], len(history["baseFeePerGas"]), len(history["reward"])) == (hex(175), 5, 4)
    assert "reward" not in await geth.ask("eth_feeHistory", 2, "latest")
    with pytest.raises(RpcError, match="beyond head block"):
        await geth.ask("eth_feeHistory", "0x1", "0x1000")
    assert int(await geth.ask("eth_gasPrice"), 16) % 1000 == 178
    assert await geth.ask("eth_maxPriorityFeePerGas") == hex(10**9)
    assert (await geth.ask("eth_chainId"), await geth.ask("net_version")) == ("0x539", "1337")
    assert (await geth.ask("web3_clientVersion")).startswith("Geth")
    assert await geth.ask("web3_sha3", "0x") == "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert await geth.ask("eth_syncing") is False
    late = SimNode(ethereum_chain(100), knobs=knobs(lag=50))
    assert (await late.ask("eth_syncing"))["currentBlock"] == hex(50)
    for method in ("net_peerCount", "net_listening", "rpc_modules", "txpool_status"):
        assert await geth.ask(method)
    assert await geth.ask("eth_accounts") == []
    assert await geth.ask("eth_blockNumber") == hex(178)


@pytest.mark.parametrize("params", [("newHeads",), ("logs", {}), (), ("newHeads", 1, 2)])
async def test_over_http_nothing_is_subscribed_to(params: tuple[Any, ...], geth: SimNode) -> None:
    with pytest.raises(RpcError, match="notifications not supported") as caught:
        await geth.ask("eth_subscribe", *params)
    assert caught.value.code == -32601
