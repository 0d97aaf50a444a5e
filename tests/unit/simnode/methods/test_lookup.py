from __future__ import annotations

from typing import Any

from eth_account import Account

from rpcaccel.simnode.methods.lookup import fits
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock

KEY = "0x" + "11" * 32


def signed(chain: int) -> str:
    fields = {"to": "0x" + "22" * 20, "value": 7, "gas": 21000, "gasPrice": 10**11, "nonce": 0, "chainId": chain}
    return str(Account.sign_transaction(fields, KEY).raw_transaction.to_0x_hex())


async def test_gossip_brings_a_transaction_to_other_nodes_after_a_while() -> None:
    clock, chain = ManualClock(), harmony_chain()
    taken = SimNode(chain, name="taken", clock=clock, knobs=knobs(gossip=2.0))
    other = SimNode(chain, name="other", clock=clock, knobs=knobs(gossip=2.0))
    name = await taken.ask("eth_sendRawTransaction", signed(1_666_700_000))
    assert await taken.ask("eth_getTransactionByHash", name) is not None
    assert await other.ask("eth_getTransactionByHash", name) is None
    clock.advance(2.0)
    assert await other.ask("eth_getTransactionByHash", name) is not None


async def test_a_lagging_node_does_not_know_what_is_mined_above_its_head() -> None:
    chain = harmony_chain()
    node, late = SimNode(chain), SimNode(chain, knobs=knobs(lag=5))
    name = await node.ask("eth_sendRawTransaction", signed(1_666_700_000))
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
