from __future__ import annotations

import json

import pytest

from rpcaccel.simnode.methods import json_views
from rpcaccel.simnode.methods.json_views import Shown
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain

BLOCK = (
    "number viewID epoch hash parentHash nonce mixHash logsBloom stateRoot miner difficulty extraData size gasLimit "
    "gasUsed vrf vrfProof timestamp transactionsRoot receiptsRoot uncles transactions transactionsInEthHash "
    "stakingTransactions"
)
TX = (
    "blockHash blockNumber from timestamp gas gasPrice hash ethHash input nonce to transactionIndex value shardID "
    "toShardID v r s"
)


def test_a_block_has_a_real_ones_keys_in_order_and_its_size() -> None:
    branch = harmony_chain().branch
    empty = json_views.block_text(branch, branch.block(27), "v2", Shown())
    assert " ".join(json.loads(empty)) == BLOCK
    assert 1500 < len(empty) < 1700
    full = json.loads(
        json_views.block_text(branch, branch.block(26), "v2", Shown(full=True, signers=True, staking=True))
    )
    assert "transactionsInEthHash" not in full
    assert " ".join(full["transactions"][0]) == TX
    assert full["signers"][0].startswith("one1")
    eth = json.loads(json_views.block_text(branch, branch.block(26), "eth", Shown()))
    assert eth["sha3Uncles"] == json_views.NO_UNCLES
    assert "epoch" not in eth


@pytest.mark.parametrize("version", ["v1", "v2", "eth"])
def test_one_block_says_the_same_in_each_dialect(version: str) -> None:
    branch = harmony_chain().branch
    view = json.loads(json_views.block_text(branch, branch.block(101), version, Shown(full=True)))
    number = view["number"] if version == "v2" else int(view["number"], 16)
    assert (number, view["hash"]) == (101, json_views.to_hex(branch.hash_of(101)))


def test_the_bitmap_of_a_block_is_that_of_the_one_before() -> None:
    branch = harmony_chain().branch
    bits = int.from_bytes(bytes.fromhex(json_views.bitmap(branch, 51)), "little")
    assert bits.bit_count() == len(json_views.signers(branch, 50))
    assert json_views.bitmap(branch, 0) == ""


def test_gas_adds_up_over_the_receipts_of_a_block() -> None:
    branch = harmony_chain(density=5).branch
    block = branch.block(50)
    receipts = [json_views.receipt(branch, tx, block, "v2") for tx in block.txs]
    assert len(receipts) == 10
    assert receipts[-1]["cumulativeGasUsed"] == sum(receipt["gasUsed"] for receipt in receipts) == block.gas_used
    indexes = [int(log["logIndex"], 16) for receipt in receipts for log in receipt["logs"]]
    assert indexes == list(range(len(indexes)))
    assert json_views.bloom(branch.generator, block.txs) != f"0x{bytes(256).hex()}"


def test_a_geth_block_has_geths_fields() -> None:
    branch = ethereum_chain().branch
    view = json.loads(json_views.block_text(branch, branch.block(50), "geth", Shown(full=True)))
    assert {"baseFeePerGas", "withdrawalsRoot"} <= set(view)
    assert view["transactions"][0]["chainId"] == "0x539"
