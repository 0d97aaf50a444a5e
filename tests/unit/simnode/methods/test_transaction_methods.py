from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain.addresses import to_one
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode

FULL = {"fullTx": True, "inclStaking": True}


@given(st.integers(1, 178))
async def test_a_transaction_is_the_same_wherever_it_is_asked_for(number: int) -> None:
    node = SimNode(harmony_chain(178))
    block = await node.ask("hmyv2_getBlockByNumber", number, FULL)
    assert await node.ask("hmyv2_getBlockTransactionCountByNumber", number) == len(block["transactions"])
    assert await node.ask("hmyv2_getBlockTransactionCountByHash", block["hash"]) == len(block["transactions"])
    receipts = await node.ask("hmyv2_getBlockReceipts", block["hash"])
    assert len(receipts) == len(block["transactions"]) + len(block["stakingTransactions"])
    for index, tx in enumerate(block["transactions"]):
        same = [
            await node.ask("hmyv2_getTransactionByHash", tx["hash"]),
            await node.ask("hmyv2_getTransactionByHash", tx["ethHash"]),
            await node.ask("hmyv2_getTransactionByBlockNumberAndIndex", number, index),
            await node.ask("hmyv2_getTransactionByBlockHashAndIndex", block["hash"], hex(index)),
        ]
        assert all(one == tx for one in same)
        assert list(same[0]) == sorted(same[0])
        assert await node.ask("hmyv2_getTransactionReceipt", tx["hash"]) == receipts[index]
        assert (await node.ask("eth_getTransactionByHash", tx["hash"]))["hash"] == tx["ethHash"]
    assert await node.ask("hmyv2_getTransactionByBlockNumberAndIndex", number, 99) is None


async def test_staking_transactions_have_their_own_methods(node: SimNode) -> None:
    block = await node.ask("hmyv2_getBlockByNumber", 21, FULL)
    staking = block["stakingTransactions"][0]
    assert await node.ask("hmyv2_getStakingTransactionByHash", staking["hash"]) == staking
    assert await node.ask("hmyv2_getStakingTransactionByBlockNumberAndIndex", 21, 0) == staking
    assert await node.ask("hmyv2_getStakingTransactionByBlockHashAndIndex", block["hash"], 0) == staking
    assert await node.ask("hmyv2_getStakingTransactionByBlockNumberAndIndex", 20, 0) is None
    assert await node.ask("hmyv2_getBlockStakingTransactionCountByNumber", 21) == 1
    assert await node.ask("hmyv2_getBlockStakingTransactionCountByHash", block["hash"]) == 1
    assert await node.ask("hmyv2_getTransactionByHash", staking["hash"]) is None
    assert await node.ask("eth_getTransactionReceipt", staking["hash"]) is None
    assert (await node.ask("hmyv2_getTransactionReceipt", staking["hash"]))["blockNumber"] == 21
    hashes = await node.ask("hmyv2_getBlockByNumber", 21, {"inclStaking": True})
    assert hashes["stakingTransactions"] == [staking["hash"]]
    for method, params in (
        ("eth_getStakingTransactionByHash", [staking["hash"]]),
        ("eth_getStakingTransactionByBlockNumberAndIndex", [21, 0]),
        ("eth_getStakingTransactionByBlockHashAndIndex", [block["hash"], 0]),
    ):
        with pytest.raises(RpcError, match="unknown version"):
            await node.ask(method, *params)


async def test_history_needs_an_explorer(node: SimNode) -> None:
    who = to_one(node.chain.generator.accounts[0])
    query: dict[str, Any] = {"address": who, "pageIndex": 0, "pageSize": 3, "fullTx": True, "order": "DESC"}
    page = (await node.ask("hmyv2_getTransactionsHistory", query))["transactions"]
    assert [tx["blockNumber"] for tx in page] == sorted((tx["blockNumber"] for tx in page), reverse=True)
    assert all(who in (tx["from"], tx["to"]) for tx in page)
    names = (await node.ask("hmyv2_getTransactionsHistory", {"address": who}))["transactions"]
    assert await node.ask("hmyv2_getTransactionsCount", who, "ALL") == len(names) > 3
    staker = to_one(node.chain.generator.delegators[0])
    staked = await node.ask("hmyv2_getStakingTransactionsHistory", {"address": staker, "fullTx": True})
    assert await node.ask("hmyv2_getStakingTransactionsCount", staker, "ALL") == len(staked["staking_transactions"])
    assert (await node.ask("eth_getStakingTransactionsHistory", {"address": staker}))["staking_transactions"] == []
    plain = SimNode(node.chain, knobs=knobs(explorer=False))
    with pytest.raises(RpcError, match="explorer service not started"):
        await plain.ask("hmyv2_getTransactionsHistory", query)
    assert await plain.ask("hmyv2_getStakingTransactionsHistory", query) is None


async def test_what_does_not_happen_here_is_empty(node: SimNode) -> None:
    assert await node.ask("hmyv2_getCXReceiptByHash", "0x" + "11" * 32) is None
    assert await node.ask("hmyv2_resendCx", "0x" + "11" * 32) is False
    assert await node.ask("hmyv2_getPendingCXReceipts") == []
    assert await node.ask("hmyv2_getNumPendingCXReceipts") == 0
