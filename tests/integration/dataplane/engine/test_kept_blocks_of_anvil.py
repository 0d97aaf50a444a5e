"""What is taken out of the kept blocks of a real EVM node is what that node itself says, in its order."""

from __future__ import annotations

import json

import pytest

from tests.support.dataplane.saying import all_saying
from tests.support.proof_chain import ProofChain
from tests.support.proxy import proxying


@pytest.mark.parametrize("fork", ["london", "prague"])
async def test_transactions_and_receipts_out_of_their_blocks_are_what_the_node_says(fork: str) -> None:
    with ProofChain(fork) as chain:
        chain.grow()
        head = int(chain.ask("eth_blockNumber"), 16)

        def said(method: str, params: bytes) -> bytes:
            return b'"result":%b' % json.dumps(chain.ask(method, *json.loads(params))).encode()

        async with all_saying(said) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
            nodes[0].head = head
            proxy.see()
            kinds = set()
            for number in map(hex, range(head + 1)):
                block = (await proxy.call("eth_getBlockByNumber", number, True)).result
                receipts = (await proxy.call("eth_getBlockReceipts", number)).result
                asked = [("eth_getBlockByNumber", number, False), ("eth_getBlockByHash", block["hash"], True),
                         ("eth_getBlockByHash", block["hash"], False)]  # fmt: skip
                asked += [("eth_getBlockReceipts", block["hash"])] if receipts else []
                for at, one in enumerate(block["transactions"]):
                    kinds.add(one["type"])
                    asked += [("eth_getTransactionByHash", one["hash"]), ("eth_getTransactionReceipt", one["hash"]),
                              ("eth_getTransactionByBlockNumberAndIndex", number, hex(at)),
                              ("eth_getTransactionByBlockHashAndIndex", block["hash"], hex(at))]  # fmt: skip
                for call in asked:
                    reply = await proxy.call(*call)
                    assert (reply.cache, json.dumps(reply.result)) == ("memory", json.dumps(chain.ask(*call))), call
            assert len(kinds) >= 3


@pytest.mark.parametrize("method", ["eth_getTransactionByHash", "eth_getTransactionByBlockNumberAndIndex"])
async def test_a_false_transaction_in_a_kept_block_is_given_no_more_than_one_that_a_node_gives(method: str) -> None:
    """A block is judged by its header alone, a transaction by its hash."""
    with ProofChain("prague") as chain:
        chain.grow()
        head = int(chain.ask("eth_blockNumber"), 16)

        def true(method: str, params: bytes) -> bytes:
            return b'"result":%b' % json.dumps(chain.ask(method, *json.loads(params))).encode()

        def false(method: str, params: bytes) -> bytes:
            return true(method, params).replace(b'"value": "0x', b'"value": "0xdead')

        async with all_saying(false, true) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
            for node in nodes:
                node.head = head
            proxy.see()
            number = next(n for n in range(head, 0, -1) if chain.block(n)["block"]["transactions"])
            block = await proxy.call("eth_getBlockByNumber", hex(number), True)
            (said, *_), (truth, *_) = block.result["transactions"], chain.block(number)["block"]["transactions"]
            assert said["value"] != truth["value"], "the block that is kept is of the node that lies"
            params = [truth["hash"]] if method == "eth_getTransactionByHash" else [hex(number), "0x0"]
            assert (await proxy.call(method, *params)).result == truth
