"""Sending, refusing, and finding what was sent, as a wallet sees it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.log_methods import fits
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock
from tests.support.wallet import SENDER, signed


async def test_a_sent_transaction_is_pending_then_mined_and_moves_nonce_and_money(
    chain: SimChain, node: SimNode
) -> None:
    before = int(await node.ask("eth_getBalance", SENDER, "latest"), 16)
    name = await node.ask("eth_sendRawTransaction", signed())
    pending = await node.ask("eth_getTransactionByHash", name)
    assert (pending["blockHash"], pending["blockNumber"], pending["transactionIndex"]) == (None, None, None)
    assert pending["from"] == SENDER.lower()
    own = await node.ask("hmyv2_pendingTransactions")
    assert (own[0]["blockHash"], own[0]["blockNumber"], own[0]["timestamp"]) == ("0x" + "00" * 32, None, 0)
    assert own[0]["ethHash"] == name
    assert await node.ask("eth_getTransactionReceipt", name) is None
    assert await node.ask("eth_getTransactionCount", SENDER, "pending") == "0x1"
    assert await node.ask("eth_getTransactionCount", SENDER, "latest") == "0x0"
    assert await node.ask("hmyv2_getPoolStats") == {"executable-count": 1, "non-executable-count": 0}
    chain.advance()
    receipt = await node.ask("eth_getTransactionReceipt", name)
    assert (receipt["status"], receipt["blockNumber"], receipt["transactionHash"]) == ("0x1", hex(179), name)
    assert await node.ask("hmyv2_getTransactionByHash", own[0]["hash"]) is not None
    assert await node.ask("eth_getTransactionCount", SENDER, "latest") == "0x1"
    after = int(await node.ask("eth_getBalance", SENDER, "latest"), 16)
    assert before - after > 21000 * 10**11 // 2
    assert name in (await node.ask("eth_getBlockByNumber", "latest", False))["transactions"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"chain_id": 77}, "blockchain chain id:2, given 77: invalid chain id for signer"),
        ({"gasPrice": 5}, "transaction underpriced"),
        ({"gas": 100}, "intrinsic gas too low"),
        ({"gas": 90_000_000}, "exceeds block gas limit"),
        ({"value": 10**30}, "insufficient funds for gas * price + value"),
        ({"data": "0x" + "00" * 140_000, "gas": 10**7}, "oversized data"),
    ],
)
async def test_a_bad_transaction_is_refused_in_the_nodes_words(
    fields: dict[str, Any], text: str, node: SimNode
) -> None:
    with pytest.raises(RpcError, match=re.escape(text)):
        await node.ask("hmyv2_sendRawTransaction", signed(**fields))
    sink = await node.ask("hmyv2_getCurrentTransactionErrorSink")
    assert [entry["error-message"] for entry in sink] == ([] if "chain_id" in fields else [text])


async def test_the_same_bytes_again_are_known_and_an_old_nonce_is_too_low(chain: SimChain, node: SimNode) -> None:
    await node.ask("eth_sendRawTransaction", signed())
    with pytest.raises(RpcError, match="known transaction"):
        await node.ask("eth_sendRawTransaction", signed())
    with pytest.raises(RpcError, match="replacement transaction underpriced"):
        await node.ask("eth_sendRawTransaction", signed(value=8))
    chain.advance()
    with pytest.raises(RpcError, match="transaction already finalized"):
        await node.ask("eth_sendRawTransaction", signed())
    with pytest.raises(RpcError, match="nonce too low"):
        await node.ask("eth_sendRawTransaction", signed(value=8))


async def test_a_geth_node_words_it_its_own_way(geth: SimNode) -> None:
    await geth.ask("eth_sendRawTransaction", signed(1337))
    with pytest.raises(RpcError, match="already known"):
        await geth.ask("eth_sendRawTransaction", signed(1337))
    geth.chain.advance()
    with pytest.raises(RpcError, match="nonce too low: next nonce 1, tx nonce 0"):
        await geth.ask("eth_sendRawTransaction", signed(1337, value=8))


async def test_a_creation_leaves_a_contract_that_answers(chain: SimChain, node: SimNode) -> None:
    name = await node.ask("eth_sendRawTransaction", signed(to="", gas=100_000, data="0x6001"))
    chain.advance()
    address = (await node.ask("eth_getTransactionReceipt", name))["contractAddress"]
    assert len(await node.ask("eth_getCode", address, "latest")) > 64
    assert await node.ask("eth_getCode", address, hex(178)) == "0x"
    word = await node.ask("eth_call", {"to": address, "data": "0x12345678"}, "latest")
    assert int(word[-16:], 16) == 179


async def test_gossip_brings_a_transaction_to_other_nodes_after_a_while() -> None:
    clock, chain = ManualClock(), harmony_chain()
    taken = SimNode(chain, name="taken", clock=clock, knobs=knobs(gossip=2.0))
    other = SimNode(chain, name="other", clock=clock, knobs=knobs(gossip=2.0))
    name = await taken.ask("eth_sendRawTransaction", signed())
    assert await taken.ask("eth_getTransactionByHash", name) is not None
    assert await other.ask("eth_getTransactionByHash", name) is None
    clock.advance(2.0)
    assert await other.ask("eth_getTransactionByHash", name) is not None


async def test_a_lagging_node_does_not_know_what_is_mined_above_its_head() -> None:
    chain = harmony_chain()
    node, late = SimNode(chain), SimNode(chain, knobs=knobs(lag=5))
    name = await node.ask("eth_sendRawTransaction", signed())
    assert await late.ask("eth_getTransactionCount", SENDER, "pending") == "0x1", "it waits there too"
    chain.advance()
    assert await node.ask("eth_getTransactionReceipt", name) is not None
    assert await late.ask("eth_getTransactionReceipt", name) is None


async def test_a_node_on_an_older_branch_knows_only_its_own_blocks() -> None:
    chain = ethereum_chain()
    node, left = SimNode(chain), SimNode(chain, knobs=knobs(branch=0))
    chain.reorg(3)
    name = await node.ask("eth_sendRawTransaction", signed(1337))
    chain.advance()
    assert await node.ask("eth_getTransactionReceipt", name) is not None
    assert await left.ask("eth_getTransactionReceipt", name) is None
    hashes = [(await n.ask("eth_getBlockByNumber", hex(199), False))["hash"] for n in (node, left)]
    assert len(set(hashes)) == 2
    assert await left.ask("eth_getBlockByHash", hashes[0], False) is None


def test_logs_are_chosen_by_address_and_topics_as_go_ethereum_chooses() -> None:
    entry: dict[str, Any] = {"address": "0xaa", "topics": ["0x1", "0x2"]}
    named: list[dict[str, Any]] = [{}, {"address": "0xAA"}, {"address": ["0xbb", "0xaa"]}]
    for passing in (*named, {"topics": [None, "0x2"]}, {"topics": [[]]}):
        assert fits(entry, passing)
    for failing in ({"address": "0xbb"}, {"topics": ["0x2"]}, {"topics": [["0x3"]]}, {"topics": [None, None, None]}):
        assert not fits(entry, failing)
