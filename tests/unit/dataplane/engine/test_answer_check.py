"""Block hashes in logs are compared with those of the blocks, over simulated Harmony nodes that proposed some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import HARMONY_ID, Proxy, proxying

QUIET: dict[str, Any] = {"agreement": {"share": 0}}
"""No answer is compared with another node's."""


def tell(proxy: Proxy, says: Iterable[dict[str, bool]]) -> None:
    """Tell the roles that the nodes report."""
    head = proxy.nodes[0].head
    nodes = tuple(
        NodeHead(id=node.name, head=head, chain_ok=True, answering=True, says=said)
        for node, said in zip(proxy.nodes, says, strict=True)
    )
    proxy.worker.see(
        NetworkHeads(network=proxy.network, served=Served(head=head, final=head), nodes=nodes, eth_chain_id=HARMONY_ID)
    )


def found_false(proxy: Proxy, node: str) -> int:
    return {cell.node: cell.false_hashes for cell in proxy.worker.report().tally.nodes}[node]


async def transaction_of(node: SimNode) -> str:
    """A transaction with logs."""
    logs = await node.ask("eth_getLogs", {"fromBlock": "0x60", "toBlock": "0x70"})
    return str(logs[0]["transactionHash"])


async def span_of_one_transaction(node: SimNode) -> dict[str, str]:
    """A filter for the logs of one block, all of one transaction: nothing in them contradicts another."""
    for number in range(100, 180):
        logs = await node.ask("eth_getLogs", {"fromBlock": hex(number), "toBlock": hex(number)})
        if len({log["transactionHash"] for log in logs}) == 1:
            return {"fromBlock": hex(number), "toBlock": hex(number)}
    raise AssertionError("no such block")


VALIDATOR, OBSERVER = {"explorer": False, "observer": False}, {"explorer": False, "observer": True}


async def test_a_receipt_with_false_hashes_is_asked_of_another_node_and_that_answer_is_kept() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=QUIET) as proxy:
        hash = await transaction_of(nodes[1])
        nodes[0].knobs.false_hashes = True
        first, second = [await proxy.call("eth_getTransactionReceipt", hash) for _ in range(2)]
        assert first.result == await nodes[1].ask("eth_getTransactionReceipt", hash)
        assert (first.node, first.cache, second.cache) == ("node-1", "miss", "memory")
        assert found_false(proxy, "node-0") == 1
        assert first.headers["X-Rpcaccel-Attempts"] == "2"


async def test_where_every_node_gives_false_hashes_the_client_gets_them_and_nothing_is_kept() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=QUIET) as proxy:
        hash = await transaction_of(nodes[1])
        for node in nodes:
            node.knobs.false_hashes = True
        replies = [await proxy.call("eth_getTransactionReceipt", hash) for _ in range(2)]
        assert [reply.cache for reply in replies] == ["miss", "miss"]
        assert replies[0].result["blockHash"] != replies[0].result["logs"][0]["blockHash"]


async def test_logs_asked_for_by_the_hash_of_their_block_prove_themselves() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=QUIET) as proxy:
        span = await span_of_one_transaction(nodes[1])
        block = await nodes[1].ask("eth_getBlockByNumber", span["fromBlock"], False)
        nodes[0].knobs.false_hashes = True
        reply = await proxy.call("eth_getLogs", {"blockHash": block["hash"]})
        assert {log["blockHash"] for log in reply.result} == {block["hash"]}
        assert (reply.node, proxy.asked("eth_getBlockByNumber")) == ("node-1", 0)


async def test_logs_of_a_node_that_proposes_blocks_are_proven_by_the_blocks() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=QUIET) as proxy:
        span = await span_of_one_transaction(nodes[1])
        tell(proxy, [VALIDATOR, VALIDATOR])
        nodes[0].knobs.false_hashes = True
        reply = await proxy.call("eth_getLogs", span)
        block = await nodes[1].ask("eth_getBlockByNumber", span["fromBlock"], False)
        assert {log["blockHash"] for log in reply.result} == {block["hash"]}
        assert proxy.asked("eth_getBlockByNumber") == 1  # the second node's logs are proven by what is known by then
        assert (await proxy.call("eth_getLogs", span)).cache == "memory"


async def test_logs_that_cannot_be_proven_are_not_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=QUIET) as proxy:
        span = await span_of_one_transaction(nodes[0])
        tell(proxy, [VALIDATOR])
        nodes[0].knobs.missing = {"eth_getBlockByNumber"}
        assert [(await proxy.call("eth_getLogs", span)).cache for _ in range(2)] == ["miss", "miss"]


async def test_of_a_node_that_does_not_say_what_it_is_only_what_memory_contradicts_is_distrusted() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=QUIET) as proxy:
        span = await span_of_one_transaction(nodes[1])
        nodes[0].knobs.false_hashes = True
        await proxy.call("eth_getBlockByNumber", span["fromBlock"], False)
        nodes[1].knobs.missing = {"eth_getBlockByNumber"}
        reply = await proxy.call("eth_getLogs", span)
        block = await nodes[0].ask("eth_getBlockByNumber", span["fromBlock"], False)
        assert {log["blockHash"] for log in reply.result} == {block["hash"]}
        assert proxy.asked("eth_getBlockByNumber") == 1


async def test_logs_and_receipts_are_asked_of_observers_first() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net=QUIET) as proxy:
        tell(proxy, [VALIDATOR, VALIDATOR, OBSERVER])
        span, hash = await span_of_one_transaction(nodes[1]), await transaction_of(nodes[1])
        assert {(await proxy.call("eth_getLogs", span)).node, (await proxy.call("eth_getTransactionReceipt", hash)).node
                } == {"node-2"}  # fmt: skip
        assert proxy.asked("eth_getBlockByNumber") == 0


async def test_the_pieces_of_a_range_with_false_hashes_are_not_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=QUIET) as proxy:
        nodes[0].knobs.false_hashes = True
        tell(proxy, [VALIDATOR])
        span = {"fromBlock": "0x20", "toBlock": "0x5f"}
        assert [(await proxy.call("eth_getLogs", span)).cache for _ in range(2)] == ["miss", "miss"]


async def test_receipts_over_which_a_node_stumbles_are_asked_of_another_one() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=QUIET) as proxy:
        span = await span_of_one_transaction(nodes[1])
        block = await nodes[1].ask("eth_getBlockByNumber", span["fromBlock"], False)
        for node in nodes:
            node.knobs.crashed_receipts = True
        await nodes[0].ask("eth_getLogs", span)
        for method in ("eth_getBlockReceipts", "hmyv2_getBlockReceipts"):
            reply = await proxy.call(method, block["hash"])
            assert reply.node == "node-1"
            assert reply.result == await nodes[1].ask(method, block["hash"])


async def test_other_chains_compare_nothing() -> None:
    async with ethereum_nodes(1) as nodes, proxying(nodes, net={**QUIET, "chain": "ethereum"}) as proxy:
        await proxy.call("eth_getLogs", {"fromBlock": "0x20", "toBlock": "0x5f"})
        assert nodes[0].counts.calls == 1
