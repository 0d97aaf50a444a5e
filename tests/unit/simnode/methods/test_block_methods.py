from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode

HEADERS = ("hmyv2_getBlockByNumber", "hmyv2_getHeaderByNumber", "hmyv2_getFullHeader", "hmyv2_latestHeader")


@given(st.integers(1, 176))
async def test_a_block_is_the_same_wherever_it_is_asked_for(number: int) -> None:
    node = SimNode(harmony_chain(178))
    options = {"fullTx": True, "withSigners": True}
    block = await node.ask("hmyv2_getBlockByNumber", number, options)
    assert await node.ask("hmyv2_getBlockByHash", block["hash"], options) == block
    assert await node.ask("hmyv2_getBlockByHashNew", block["hash"], options) == block
    assert await node.ask("hmyv2_getBlockByNumberNew", number, options) == block
    header = await node.ask("hmyv2_getHeaderByNumber", number)
    assert (header["blockHash"], header["unixtime"], header["epoch"]) == (
        block["hash"],
        block["timestamp"],
        block["epoch"],
    )
    assert header["leader"] == block["miner"]
    assert await node.ask("hmyv2_getBlockSigners", number) == block["signers"]
    assert await node.ask("hmyv2_isBlockSigner", number, block["signers"][0]) is True
    full = await node.ask("hmyv2_getFullHeader", number)
    assert (full["parentHash"], full["stateRoot"]) == (block["parentHash"], block["stateRoot"])
    bits = int((await node.ask("hmyv2_getHeaderByNumber", number + 1))["lastCommitBitmap"][:2], 16)
    assert bits.bit_count() <= len(block["signers"])
    assert len(await node.ask("hmyv2_getBlockSignerKeys", number)) == len(block["signers"])


async def test_signers_stand_in_the_next_block(node: SimNode) -> None:
    assert await node.ask("hmyv2_getBlockSigners", 178) == []
    assert await node.ask("hmyv2_getBlockSigners", 0) == []
    assert await node.ask("hmyv2_isBlockSigner", 0, "x") is False
    for method, params in (
        ("hmyv2_getBlockSigners", ["latest"]),
        ("hmyv2_getBlockByNumber", [178, {"withSigners": True}]),
        ("hmyv2_getBlocks", [170, 178, {"withSigners": True}]),
        ("hmyv2_isBlockSigner", [178, "one1"]),
    ):
        with pytest.raises(RpcError, match="block number 179 not found"):
            await node.ask(method, *params)
    with pytest.raises(RpcError, match="pending blocks"):
        await node.ask("hmyv2_getBlockSignerKeys", "pending")
    with pytest.raises(RpcError, match="bitmap"):
        await node.ask("hmyv2_getBlocks", 0, 2, {"withSigners": True})
    with pytest.raises(RpcError, match="invalid address: zz"):
        await node.ask("hmyv2_isBlockSigner", 5, "zz")


async def test_a_range_starting_at_latest_gives_the_head_and_then_the_beginning(node: SimNode) -> None:
    blocks = await node.ask("hmyv2_getBlocks", "latest", 2, {})
    assert [block["number"] for block in blocks] == [178, 0, 1, 2]


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("hmyv2_getBlockByNumberNew", [5, None], "crashed"),
        ("hmyv2_getBlockByHashNew", ["0x" + "11" * 32, True], "crashed"),
        ("eth_getFullHeader", [5], "unknown version"),
        ("hmyv2_getHeaderByNumberRLPHex", [500], "greater than current"),
    ],
)
async def test_refusals(method: str, params: list[Any], text: str, node: SimNode) -> None:
    with pytest.raises(RpcError, match=text):
        await node.ask(method, *params)


async def test_epochs_leader_and_links(node: SimNode) -> None:
    assert await node.ask("hmyv2_getEpoch") == 11
    assert await node.ask("hmyv2_isLastBlock", 180) is True
    assert await node.ask("hmyv2_epochLastBlock", 11) == 180
    header = await node.ask("hmyv2_latestHeader")
    assert header["leader"] == await node.ask("hmyv2_getLeader")
    assert header["timestamp"].endswith("+0000 UTC")
    assert (await node.ask("hmyv2_getHeaderByNumber", 175))["crossLinks"][0]["shard-id"] == 1
    pair = await node.ask("hmyv2_getLatestChainHeaders")
    assert pair["shard-chain-header"]["hash"] == header["blockHash"]
    assert (await node.ask("hmyv2_getLastCrossLinks"))[0]["block-number"] == 173
    assert len(await node.ask("hmyv2_getHeaderByNumberRLPHex", 26)) > 1600
