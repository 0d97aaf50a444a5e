"""With `prove = "full"`, no node and no cache can lie about what a block of the served branch has."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.chains import load
from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import sequence
from rpcaccel.core.hashing.trie import EMPTY_TRIE_ROOT
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.proof.encoding import HEADER_WRITERS, encoded
from rpcaccel.core.proof.known_chain import MAX_KNOWN_BLOCKS
from tests.support.proxy import Proxy, Reply, settings_for
from tests.support.waiting import until
from tests.unit.core.proof.test_block import changed, members
from tests.unit.dataplane.engine.test_proofs import (
    BLOCK,
    BY_NUMBER,
    HASH,
    LOGS,
    NUMBER,
    PLAIN,
    RECEIPTS,
    RESULTS,
    TRANSACTION,
    Lie,
    RecordedNode,
    changes,
    recorded,
    serve,
)

FULL = {"prove": "full"}
RECEIPT = ("eth_getTransactionReceipt", TRANSACTION["hash"])
WANTED = {"fromBlock": NUMBER, "toBlock": NUMBER}
CALLS: list[tuple[Any, ...]] = [
    BY_NUMBER,
    ("eth_getBlockByNumber", NUMBER, True),
    ("eth_getBlockByHash", HASH, False),
    ("eth_getTransactionByHash", TRANSACTION["hash"]),
    RECEIPT,
    ("eth_getBlockReceipts", NUMBER),
    ("eth_getLogs", WANTED),
]
NO_HASH_HAS = {"size", "totalDifficulty", "blobGasPrice"}
"""Members that no hash is made of."""


def truth(call: tuple[Any, ...]) -> Any:
    return LOGS if call[0] == "eth_getLogs" else RESULTS[call]


def proved(reply: Reply) -> str | None:
    return reply.headers.get("X-Rpcaccel-Proved")


def changes_one(seed: int) -> Lie:
    """Changes one member of each result, which a hash is made of."""

    def lie(_method: str, result: Any) -> Any:
        paths = [path for path in members(result) if path and path[-1] not in NO_HASH_HAS]
        if not paths:
            return result
        *way, last = random.Random(seed).choice(paths)
        false = place = copy.deepcopy(result)
        for part in way:
            place = place[part]
        place[last] = changed(place[last])
        return false

    return lie


@pytest.mark.parametrize("call", CALLS, ids=lambda call: "-".join(map(str, call))[:40])
@pytest.mark.parametrize("seed", range(8))
async def test_a_node_that_changes_one_member_of_whatever_it_says_deceives_nobody(
    call: tuple[Any, ...], seed: int
) -> None:
    async with recorded(3, **FULL) as (proxy, nodes, _):
        nodes[0].lie = changes_one(seed)
        replies = [await proxy.call(*call) for _ in range(2)]
        assert [reply.result for reply in replies] == [truth(call)] * 2
        assert proved(replies[1]) == HASH


@pytest.mark.parametrize("call", CALLS, ids=lambda call: "-".join(map(str, call))[:40])
async def test_what_is_proved_is_kept_and_said_to_be_so(call: tuple[Any, ...]) -> None:
    async with recorded(1, **FULL) as (proxy, _, _):
        replies = [await proxy.call(*call) for _ in range(3)]  # the third is known by its text
        assert [(reply.result, reply.cache, proved(reply)) for reply in replies] == [
            (truth(call), "miss", HASH),
            (truth(call), "memory", HASH),
            (truth(call), "memory", HASH),
        ]


@pytest.mark.parametrize("left_out", range(len(LOGS)))
async def test_a_list_that_lacks_a_log_is_false(left_out: int) -> None:
    async with recorded(2, **FULL) as (proxy, nodes, told):
        few = [log for at, log in enumerate(LOGS) if at != left_out]
        nodes[0].lie = lambda method, result: few if method == "eth_getLogs" else result
        reply = await proxy.call("eth_getLogs", WANTED)
        assert (reply.result, proved(reply)) == (LOGS, HASH)
        (case,) = [one for one in told if isinstance(one, Case)]
        assert case.minority == ("node-0",)


async def test_logs_by_an_address_are_complete_and_those_of_no_block_cost_no_receipts() -> None:
    async with recorded(1, **FULL) as (proxy, _, _):
        reply = await proxy.call("eth_getLogs", {**WANTED, "address": LOGS[0]["address"]})
        assert (reply.result, proved(reply)) == (LOGS, HASH)
    async with recorded(1, **FULL) as (proxy, nodes, _):
        nodes[0].lie = lambda method, result: [] if method == "eth_getLogs" else result
        reply = await proxy.call("eth_getLogs", {**WANTED, "address": "0x" + "12" * 20})
        assert (reply.result, proved(reply), proxy.asked("eth_getBlockReceipts")) == ([], HASH, 0)


async def keep_falsely(proxy: Proxy, call: tuple[Any, ...]) -> None:
    """Have the disk keep a false answer, as others may write one there."""
    network, engine = proxy.worker.state.networks[proxy.network], proxy.worker.engine
    plan = network.plan(call[0], json.dumps(call[1:]).encode())
    false = copy.deepcopy(truth(call))
    (false[0] if isinstance(false, list) else false)["transactionIndex" if call[0] != BY_NUMBER[0] else "gasUsed"] = (
        "0x6"
    )
    engine.keep(network, plan, json.dumps(false).encode(), 3)
    await until(lambda: engine.disk.stats().writes > 0)
    engine.memory.purge(Selection())


@pytest.mark.parametrize("prove", ["cheap", "full"])
@pytest.mark.parametrize("call", [CALLS[0], CALLS[3], CALLS[4], CALLS[5], CALLS[6]], ids=lambda call: call[0])
async def test_a_poisoned_answer_of_the_disk_is_found_when_it_is_read(
    call: tuple[Any, ...], prove: str, tmp_path: Path
) -> None:
    disk = {"path": str(tmp_path / "cache"), "read_timeout": 10}
    async with recorded(1, prove=prove, disk=disk) as (proxy, _, _):
        await keep_falsely(proxy, call)
        replies = [await proxy.call(*call) for _ in range(2)]
        if prove == "full":
            assert [(reply.result, proved(reply)) for reply in replies] == [(truth(call), HASH)] * 2
        else:
            assert replies[0].result != truth(call), "what the disk has is believed"


@pytest.mark.parametrize(
    "false", [b"null", json.dumps({**TRANSACTION, "blockHash": None, "blockNumber": None}).encode()]
)
async def test_that_there_is_nothing_yet_is_not_believed_of_the_disk(false: bytes, tmp_path: Path) -> None:
    disk = {"path": str(tmp_path / "cache"), "read_timeout": 10}
    async with recorded(1, **FULL, disk=disk) as (proxy, _, _):
        network, engine = proxy.worker.state.networks[proxy.network], proxy.worker.engine
        plan = network.plan(CALLS[3][0], json.dumps(CALLS[3][1:]).encode())
        assert plan.key is not None
        entry = Entry(result=false, cache=plan.cache, network=network.name, method=plan.method, stored_at=engine.now())
        engine.disk.put(plan.key, entry, inf)
        await until(lambda: engine.disk.stats().writes > 0)
        assert (await proxy.call(*CALLS[3])).result == TRANSACTION


async def test_an_answer_of_the_disk_that_is_true_is_given(tmp_path: Path) -> None:
    disk = {"path": str(tmp_path / "cache"), "read_timeout": 10}
    async with recorded(1, **FULL, disk=disk) as (proxy, _, _):
        await proxy.call(*CALLS[5])
        await until(lambda: proxy.worker.engine.disk.stats().writes > 1)
    async with recorded(1, **FULL, disk=disk) as (proxy, nodes, _):
        await nodes[0].stop()
        reply = await proxy.call(*CALLS[5])
        assert (reply.result, reply.cache, proved(reply)) == (RECEIPTS, "disk", HASH)


async def test_what_was_kept_before_everything_was_to_be_proved_is_proved_first() -> None:
    async with recorded(1, prove="cheap") as (proxy, nodes, _):
        await proxy.call(*BY_NUMBER)
        proxy.worker.adopt(settings_for(nodes, net={"chain": "ethereum", **FULL}), 2)
        serve(proxy, [3])
        reply = await proxy.call(*BY_NUMBER)
        assert (reply.cache, proved(reply)) == ("miss", HASH)


async def test_a_chain_that_hashes_otherwise_is_served_and_its_answers_are_kept() -> None:
    async with recorded(3, **FULL) as (proxy, nodes, told):
        for node in nodes:
            node.lie = changes("eth_getBlockByNumber", stateRoot="0x" + "12" * 32)
        for call in (BY_NUMBER, RECEIPT, CALLS[5], CALLS[6]):
            replies = [await proxy.call(*call) for _ in range(3)]
            assert [reply.status for reply in replies] == [200] * 3
            assert (replies[2].cache, proved(replies[2])) == ("memory", None), call
        assert not [one for one in told if isinstance(one, Case)]


async def test_what_cannot_be_proved_now_is_given_and_not_kept() -> None:
    async with recorded(2, **FULL) as (proxy, nodes, _):
        for node in nodes:
            node.lie = lambda method, result: LookupError("no") if method == "eth_getBlockReceipts" else result
        replies = [await proxy.call(*RECEIPT) for _ in range(2)]
        assert [(reply.result, reply.cache, proved(reply)) for reply in replies] == [(RECEIPTS[0], "miss", None)] * 2


@pytest.mark.parametrize("liar", range(3))
async def test_blocks_whose_hash_is_not_known_are_those_that_most_nodes_have(liar: int) -> None:
    async with recorded(3, **FULL) as (proxy, nodes, _):
        proxy.worker.see(unknown(nodes))
        forged = {**PLAIN, "extraData": "0x55"}
        forged["hash"] = hash_of(forged)
        nodes[liar].lie = changes("eth_getBlockByNumber", **forged)
        replies = [await proxy.call(*BY_NUMBER) for _ in range(2)]
        assert [(reply.result, proved(reply)) for reply in replies] == [(PLAIN, HASH)] * 2


async def test_a_node_that_says_to_be_ahead_of_the_others_does_not_decide_alone() -> None:
    forged = {**PLAIN, "transactions": [], "transactionsRoot": f"0x{EMPTY_TRIE_ROOT.hex()}"}
    forged["hash"] = hash_of(forged)
    async with recorded(3, **FULL) as (proxy, nodes, _):
        nodes[0].lie = lambda method, result: forged if method == "eth_getBlockByNumber" else result
        for behind in nodes[1:]:
            behind.lie = lambda method, result: None if method == "eth_getBlockByNumber" else result
        proxy.worker.see(unknown(nodes, [3, 2, 2]))
        replies = [await proxy.call(*BY_NUMBER) for _ in range(2)]
        assert [(reply.cache, proved(reply)) for reply in replies] == [("miss", None)] * 2


async def test_most_of_the_weight_decides_and_not_most_of_the_nodes() -> None:
    async with recorded(3, **FULL) as (proxy, nodes, told):
        proxy.worker.see(unknown(nodes))
        network = proxy.worker.state.networks[proxy.network]
        for node in network.pool.nodes:
            node.weight = 10.0 if node.id == "node-0" else 1.0
        for pruned in nodes[1:]:
            pruned.lie = lambda method, result: None if method == "eth_getBlockByNumber" else result
        replies = [await proxy.call(*RECEIPT) for _ in range(2)]
        assert [(reply.result, proved(reply)) for reply in replies] == [(RECEIPTS[0], HASH)] * 2
        assert not [one for one in told if isinstance(one, Case)]


async def test_a_block_that_the_node_itself_chose_is_asked_of_another_one_first() -> None:
    nowhere = {**RECEIPTS[0], "blockNumber": "0x777777", "blockHash": "0x" + "12" * 32, "logs": [], "status": "0x0"}
    async with recorded(2, **FULL) as (proxy, nodes, _):
        nodes[0].lie = lambda method, result: nowhere if method == RECEIPT[0] else result
        for _ in range(2):
            assert (await proxy.call(*RECEIPT)).result == RECEIPTS[0]


async def test_nodes_that_must_agree_are_each_proved() -> None:
    few = LOGS[1:]
    async with recorded(3, **FULL, rules={"eth_getLogs": {"agree": 2}}) as (proxy, nodes, _):
        for liar in nodes[:2]:
            liar.lie = lambda method, result: few if method == "eth_getLogs" else result
        assert "result" not in (await proxy.call("eth_getLogs", WANTED)).json
        for liar in nodes:
            liar.lie = None
        replies = [await proxy.call("eth_getLogs", WANTED) for _ in range(2)]
        assert [(reply.result, reply.cache, proved(reply)) for reply in replies] == [
            (LOGS, "miss", HASH),
            (LOGS, "memory", HASH),
        ]


async def test_transactions_of_a_type_of_the_chain_s_own_stop_nothing_between_blocks_that_are_proved() -> None:
    own = [{**one, "type": "0x7b"} for one in BLOCK["transactions"]]
    async with recorded(2, **FULL) as (proxy, nodes, _):
        await proxy.call("eth_getBlockByNumber", NUMBER, True)
        for node in nodes:
            node.lie = lambda method, result: (
                {**result, "transactions": own} if method.startswith("eth_getBlockBy") and result == BLOCK else result
            )
        proxy.worker.engine.memory.purge(Selection())
        for call in (("eth_getBlockByNumber", NUMBER, True), ("eth_getBlockReceipts", NUMBER), RECEIPT):
            replies = [await proxy.call(*call) for _ in range(2)]
            assert (replies[1].cache, proved(replies[1])) == ("memory", None), call


async def test_longer_ranges_than_blocks_are_remembered_of_are_refused() -> None:
    async with recorded(1, **FULL) as (proxy, _, _):
        reply = await proxy.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": hex(MAX_KNOWN_BLOCKS + 1)})
        assert (
            reply.error["message"]
            == f'eth_getLogs takes {MAX_KNOWN_BLOCKS} blocks at the most where all is proved (prove = "full")'
        )
        assert proxy.asked("eth_getLogs") == 0


def unknown(nodes: Sequence[RecordedNode], heads: Sequence[int] = (3, 3, 3)) -> NetworkHeads:
    """What is told of these nodes while no hash of a block is known."""
    told = tuple(
        NodeHead(id=node.name, head=head, chain_ok=True, answering=True)
        for node, head in zip(nodes, heads, strict=True)
    )
    served = Served(head=3, final=3, doubted=1)
    return NetworkHeads(network="harmony-s0", served=served, nodes=told, eth_chain_id=31337)


def hash_of(header: dict[str, Any]) -> str:
    """The hash that a header should have."""
    form = load("ethereum").provable.header
    return f"0x{keccak256(sequence(encoded(header, (*form.members, *form.later), HEADER_WRITERS))).hex()}"
