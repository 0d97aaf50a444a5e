"""What becomes of answers that are false, doubtful or of an unknown form, over nodes that give a recorded chain."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.simnode.server.envelope import Parsed
from rpcaccel.simnode.server.factories import ethereum_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proof_chain import FACTS, LOGGING
from tests.support.proxy import Proxy, proxying

CASE = json.loads(FACTS.read_text())["prague"]
BLOCK, RECEIPTS, TRANSACTION = CASE["block"], CASE["receipts"], CASE["block"]["transactions"][0]
NUMBER, HASH = BLOCK["number"], BLOCK["hash"]
PLAIN = {**BLOCK, "transactions": [one["hash"] for one in BLOCK["transactions"]]}
LOGS = [log for receipt in RECEIPTS for log in receipt["logs"]]
RESULTS = {
    ("eth_getBlockByNumber", NUMBER, False): PLAIN,
    ("eth_getBlockByNumber", NUMBER, True): BLOCK,
    ("eth_getBlockByHash", HASH, False): PLAIN,
    ("eth_getBlockByHash", HASH, True): BLOCK,
    ("eth_getTransactionByHash", TRANSACTION["hash"]): TRANSACTION,
    ("eth_getTransactionReceipt", TRANSACTION["hash"]): RECEIPTS[0],
    ("eth_getBlockReceipts", NUMBER): RECEIPTS,
    ("eth_getBlockReceipts", HASH): RECEIPTS,
    ("eth_gasPrice",): "0x1",
}
Lie = Callable[[str, Any], Any]


def proof_of(address: str, places: list[str], _block: Any) -> Any:
    """The recorded proof of an account; null where there is none."""
    found = [one for one in CASE["proofs"].values() if one["address"] == address]
    wanted = [
        one for one in found if [int(part["key"], 16) for part in one["storageProof"]] == [int(at, 16) for at in places]
    ]
    return wanted[0] if wanted else {**found[0], "storageProof": []} if found and not places else None


READS = {"eth_getProof": proof_of, "eth_getCode": lambda *_: f"0x{LOGGING}"}


class RecordedNode(SimNode):
    """A node that answers about the recorded block, truly or by `lie`, which is given the method and the result, and
    whose LookupErrors are errors."""

    lie: Lie | None = None

    async def answer(self, parsed: Parsed) -> bytes:
        (call,) = parsed.calls
        params = json.loads(call.params)
        self.counts.methods[call.method] += 1
        if call.method in READS:
            result = READS[call.method](*params)
        else:
            result = LOGS if call.method == "eth_getLogs" else RESULTS.get((call.method, *params))
        if self.lie is not None:
            result = self.lie(call.method, result)
        if isinstance(result, LookupError):
            said = b'"error":{"code":-32601,"message":"%b"}' % str(result).encode()
        else:
            said = b'"result":%b' % json.dumps(result).encode()
        return b'{"jsonrpc":"2.0","id":%b,%b}' % (call.id or b"null", said)


@asynccontextmanager
async def recorded(
    count: int, *, final: int = 3, **net: Any
) -> AsyncIterator[tuple[Proxy, list[RecordedNode], list[Any]]]:
    """A proxy before nodes of the recorded chain, of which `final` is the highest final block and the recorded one is
    served; and the cases that it tells of."""
    more = {name: net.pop(name) for name in ("disk", "clients") if name in net}
    nodes, told = [RecordedNode(ethereum_chain(3), name=f"node-{at}") for at in range(count)], list[Any]()
    async with AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(node)
        served_by = proxying(nodes, net={"chain": "ethereum", **net}, on_hint=told.append, **more)
        proxy = await stack.enter_async_context(served_by)
        serve(proxy, [3] * count, final=final)
        yield proxy, nodes, told


def serve(proxy: Proxy, heads: Sequence[int], *, final: int = 3) -> None:
    """Tell the heads of the nodes, and that the recorded block is served."""
    told = tuple(
        NodeHead(id=node.name, head=head, chain_ok=True, answering=True)
        for node, head in zip(proxy.nodes, heads, strict=True)
    )
    served = Served(head=3, final=final, hash=HASH)
    proxy.worker.see(NetworkHeads(network=proxy.network, served=served, nodes=told, eth_chain_id=31337))


def changes(method: str, **members: Any) -> Lie:
    """Gives other members in the results of one method."""
    return lambda asked, result: {**result, **members} if asked == method else result


BY_NUMBER = ("eth_getBlockByNumber", NUMBER, False)
BY_HASH = ("eth_getTransactionByHash", TRANSACTION["hash"])


@pytest.mark.parametrize(
    ("call", "lie"),
    [
        (BY_NUMBER, changes("eth_getBlockByNumber", gasUsed="0x1")),
        (BY_NUMBER, changes("eth_getBlockByNumber", number="0x4")),
        (BY_NUMBER, changes("eth_getBlockByNumber", hash="0x" + "12" * 32)),
        (BY_HASH, changes("eth_getTransactionByHash", value="0x123")),
        (("eth_getTransactionReceipt", TRANSACTION["hash"]), changes("eth_getTransactionReceipt", blockNumber="0x2")),
    ],
)
async def test_a_false_answer_is_given_by_nobody_and_the_other_node_is_asked(call: tuple[Any, ...], lie: Lie) -> None:
    async with recorded(2) as (proxy, nodes, told):
        nodes[0].lie = lie
        replies = [await proxy.call(*call) for _ in range(2)]
        assert [reply.result for reply in replies] == [RESULTS[call]] * 2
        assert (replies[0].node, replies[1].cache) == ("node-1", "memory")
        (case,) = [one for one in told if isinstance(one, Case)]
        assert (case.minority, case.disproved, case.method) == (("node-0",), True, call[0])
        assert {cell.node: cell.disproved for cell in proxy.worker.report().tally.nodes} == {"node-0": 1, "node-1": 0}


async def test_where_every_node_gives_a_false_answer_the_client_gets_an_error() -> None:
    async with recorded(2) as (proxy, nodes, _):
        for node in nodes:
            node.lie = changes("eth_getBlockByNumber", number="0x4")
        reply = await proxy.call(*BY_NUMBER)
        assert reply.status == 502
        assert "another block number than the one that was asked for" in reply.error["message"]
        nodes[1].lie = None
        assert (await proxy.call(*BY_NUMBER)).result == PLAIN


async def test_a_block_of_another_branch_is_no_lie_before_it_is_final_but_is_given_only_if_no_node_has_another() -> (
    None
):
    other = changes("eth_getBlockByNumber", hash="0x" + "12" * 32)
    async with recorded(2, final=2) as (proxy, nodes, told):
        nodes[0].lie = other
        assert (await proxy.call(*BY_NUMBER)).result == PLAIN
        assert not [one for one in told if isinstance(one, Case)]
    async with recorded(2, final=2) as (proxy, nodes, _):
        nodes[0].lie = nodes[1].lie = other
        replies = [await proxy.call(*BY_NUMBER) for _ in range(2)]
        assert [(reply.result["hash"], reply.cache) for reply in replies] == [("0x" + "12" * 32, "miss")] * 2


async def test_a_chain_that_hashes_otherwise_is_served_as_before_once_two_nodes_agree() -> None:
    async with recorded(3) as (proxy, nodes, told):
        for node in nodes:
            node.lie = changes("eth_getBlockByNumber", stateRoot="0x" + "12" * 32)
        replies = [await proxy.call(*BY_NUMBER) for _ in range(2)]
        assert [reply.cache for reply in replies] == ["miss", "memory"]
        assert replies[0].headers["X-Rpcaccel-Attempts"] == "2"
        again = await proxy.call("eth_getBlockByNumber", NUMBER, True)
        assert again.headers["X-Rpcaccel-Attempts"] == "1"
        assert not [one for one in told if isinstance(one, Case)]


async def test_the_only_node_of_a_chain_that_hashes_otherwise_is_believed() -> None:
    async with recorded(1) as (proxy, nodes, _):
        nodes[0].lie = changes("eth_getBlockByNumber", stateRoot="0x" + "12" * 32)
        assert [(await proxy.call(*BY_NUMBER)).cache for _ in range(2)] == ["miss", "memory"]


async def test_who_gave_a_block_of_a_new_form_falsely_is_told_of_once_another_node_gives_it_rightly() -> None:
    async with recorded(2) as (proxy, nodes, told):
        nodes[0].lie = changes("eth_getBlockByNumber", stateRoot="0x" + "12" * 32)
        assert (await proxy.call(*BY_NUMBER)).result == PLAIN
        (case,) = [one for one in told if isinstance(one, Case)]
        assert case.minority == ("node-0",)


async def test_an_empty_list_of_logs_is_asked_of_a_second_node_where_the_bloom_may_have_some() -> None:
    wanted = {"fromBlock": NUMBER, "toBlock": NUMBER, "address": LOGS[0]["address"]}
    async with recorded(2, agreement={"share": 0.9}) as (proxy, nodes, _):
        await proxy.call(*BY_NUMBER)
        await proxy.call("eth_gasPrice")  # each answer pays for a part of a further call
        nodes[0].lie = nodes[1].lie = lambda method, result: [] if method == "eth_getLogs" else result
        assert (await proxy.call("eth_getLogs", wanted)).headers["X-Rpcaccel-Attempts"] == "2"
    async with recorded(2, agreement={"share": 0.9}) as (proxy, nodes, _):
        await proxy.call(*BY_NUMBER)
        await proxy.call("eth_gasPrice")  # each answer pays for a part of a further call
        nodes[0].lie = lambda method, result: [] if method == "eth_getLogs" else result
        assert (await proxy.call("eth_getLogs", wanted)).result == LOGS
    async with recorded(2, agreement={"share": 0.005}) as (proxy, nodes, _):  # which no answer has paid for yet
        await proxy.call(*BY_NUMBER)
        nodes[0].lie = nodes[1].lie = lambda method, result: [] if method == "eth_getLogs" else result
        assert (await proxy.call("eth_getLogs", wanted)).headers["X-Rpcaccel-Attempts"] == "1"


async def test_with_prove_off_nothing_is_judged() -> None:
    async with recorded(2, prove="off") as (proxy, nodes, _):
        nodes[0].lie = changes("eth_getBlockByNumber", gasUsed="0x1")
        assert (await proxy.call(*BY_NUMBER)).result["gasUsed"] == "0x1"


async def test_one_node_at_the_head_makes_no_form_unknown() -> None:
    """What the others would say is not known while they are behind, so a false answer is given, and not kept."""
    async with recorded(3) as (proxy, nodes, told):
        lie = changes("eth_getBlockByNumber", gasUsed="0x1")
        nodes[0].lie = lie
        serve(proxy, [3, 2, 2])
        assert (await proxy.call(*BY_NUMBER)).result["gasUsed"] == "0x1"
        serve(proxy, [3, 3, 3])
        replies = [await proxy.call(*BY_NUMBER) for _ in range(2)]
        assert [reply.result for reply in replies] == [PLAIN] * 2
        assert [one.minority for one in told if isinstance(one, Case)] in ([], [("node-0",)])


async def test_a_doubted_answer_is_given_where_the_other_node_lies() -> None:
    other = changes("eth_getBlockByNumber", hash="0x" + "12" * 32)
    async with recorded(2, final=2) as (proxy, nodes, _):
        nodes[0].lie, nodes[1].lie = other, changes("eth_getBlockByNumber", number="0x4")
        assert (await proxy.call(*BY_NUMBER)).result["hash"] == "0x" + "12" * 32


@pytest.mark.parametrize("number", ["0x" + "0" * 63 + "3", 3])
async def test_a_number_of_another_spelling_makes_no_node_false(number: str | int) -> None:
    async with recorded(2) as (proxy, nodes, told):
        nodes[0].lie = nodes[1].lie = lambda method, result: PLAIN if method == "eth_getBlockByNumber" else result
        assert (await proxy.call("eth_getBlockByNumber", number, False)).result == PLAIN
        assert not [one for one in told if isinstance(one, Case)]


async def test_a_transaction_that_is_hashed_in_another_way_is_given_and_kept_once_two_nodes_agree() -> None:
    async with recorded(3) as (proxy, nodes, told):
        await proxy.call(*BY_HASH)
        odd = {**TRANSACTION, "hash": "0x" + "12" * 32, "v": "0x0", "r": "0x0", "s": "0x0"}
        for node in nodes:
            node.lie = lambda method, result: odd if method == "eth_getTransactionByHash" else result
        replies = [await proxy.call("eth_getTransactionByHash", odd["hash"]) for _ in range(2)]
        assert [reply.cache for reply in replies] == ["miss", "memory"]
        assert not [one for one in told if isinstance(one, Case)]


async def test_a_node_that_always_lies_is_told_of_once_a_minute_and_counted_each_time() -> None:
    async with recorded(2) as (proxy, nodes, told):
        nodes[0].lie = nodes[1].lie = changes("eth_getBlockByNumber", number="0x4")
        for _ in range(5):
            await proxy.call(*BY_NUMBER)
        assert len([one for one in told if isinstance(one, Case)]) == 2  # one of each node
        assert sum(cell.disproved for cell in proxy.worker.report().tally.nodes) > 2
