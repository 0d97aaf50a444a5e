"""Reads that must be proved, over nodes that give a recorded chain."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from tests.support.proof_chain import LOGGING
from tests.support.proxy import Proxy, Reply
from tests.support.waiting import until
from tests.unit.dataplane.engine.test_proofs import CASE, HASH, NUMBER, Lie, changes, recorded

CONTRACT, NOBODY = CASE["proofs"]["full"]["address"], CASE["proofs"]["absent"]["address"]
KEPT = int(CASE["proofs"]["full"]["storageProof"][0]["value"], 16)
CODE = f"0x{LOGGING}"
READS: list[tuple[str, tuple[str, ...], str]] = [
    ("eth_getBalance", (CONTRACT,), "0x0"),
    ("eth_getTransactionCount", (CONTRACT,), "0x1"),
    ("eth_getCode", (CONTRACT,), CODE),
    ("eth_getStorageAt", (CONTRACT, "0x0"), f"0x{KEPT:064x}"),
    ("eth_getStorageAt", (CONTRACT, "0x" + "77" * 32), "0x" + "00" * 32),
    ("eth_getBalance", (NOBODY,), "0x0"),
    ("eth_getTransactionCount", (NOBODY,), "0x0"),
    ("eth_getCode", (NOBODY,), "0x"),
]
PROVE: dict[str, Any] = {"rules": {"eth_get*": {"prove": True}}, "agreement": {"share": 0}}
LACKS: Lie = lambda method, result: LookupError("no such method") if method == "eth_getProof" else result  # noqa: E731


async def nonce(proxy: Proxy, block: Any = NUMBER) -> Reply:
    return await proxy.call("eth_getTransactionCount", CONTRACT, block)


def proved(reply: Reply) -> str:
    return reply.headers.get("X-Rpcaccel-Proved", "")


@pytest.mark.parametrize(("method", "params", "result"), READS)
@pytest.mark.parametrize("block", [NUMBER, "latest", HASH, {"blockHash": HASH}, None])
async def test_what_a_proof_shows_is_given_in_the_form_of_the_method(
    method: str, params: tuple[str, ...], result: str, block: Any
) -> None:
    asked = [*params, *([] if block is None else [block])]
    async with recorded(1, **PROVE) as (proxy, _, _):
        first, second = [await proxy.call(method, *asked) for _ in range(2)]
        assert (first.result, second.result) == (result, result)
        assert (proved(first), proved(second), second.cache) == (HASH, HASH, "memory")
        third = await proxy.call(method, *asked)  # from the memo of calls
        assert (third.result, proved(third)) == (result, HASH)
        assert proxy.asked("eth_getProof") == 1


async def test_reads_of_one_account_share_its_proof() -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        assert (await nonce(proxy)).cache == "miss"
        balance = await proxy.call("eth_getBalance", CONTRACT.upper().replace("0X", "0x"), NUMBER)
        assert (balance.cache, balance.result, proved(balance)) == ("memory", "0x0", HASH)


async def test_callers_of_the_same_read_share_it() -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        replies = await asyncio.gather(*(nonce(proxy) for _ in range(5)))
        assert {(reply.result, proved(reply)) for reply in replies} == {("0x1", HASH)}
        assert proxy.asked("eth_getProof") == 1


async def test_a_batch_has_proved_answers() -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        calls = [
            {"jsonrpc": "2.0", "id": at, "method": method, "params": [*params, NUMBER]}
            for at, (method, params, _) in enumerate(READS)
        ]
        reply = await proxy.post(json.dumps(calls).encode())
        assert [one["result"] for one in reply.json] == [result for _, _, result in READS]


@pytest.mark.parametrize(
    "lie",
    [
        changes("eth_getProof", nonce="0x2"),
        changes("eth_getProof", accountProof=[]),
        changes("eth_getProof", address=CONTRACT),
        changes("eth_getProof", storageProof=[{"key": "0x0", "value": "0x0", "proof": []}]),
    ],
)
async def test_beside_a_node_that_lies_the_other_one_gives_the_proof(lie: Lie) -> None:
    async with recorded(2, **PROVE) as (proxy, nodes, told):
        assert (await nonce(proxy)).result == "0x1"  # by now it is known how this chain proves
        nodes[0].lie = nodes[1].lie = lie
        refused = await proxy.call("eth_getTransactionCount", NOBODY, NUMBER)
        assert refused.status == 502
        nodes[1].lie = None
        reply = await proxy.call("eth_getTransactionCount", NOBODY, NUMBER)
        assert (reply.result, proved(reply), reply.node) == ("0x0", HASH, "node-1")
        assert all(one.minority != ("node-1",) or one.method == "eth_getProof" for one in told if isinstance(one, Case))


async def test_a_node_whose_answer_is_no_proof_is_passed_over() -> None:
    async with recorded(2, **PROVE) as (proxy, nodes, _):
        nodes[0].lie = lambda method, result: {"address": CONTRACT} if method == "eth_getProof" else result
        reply = await nonce(proxy)
        assert (reply.result, proved(reply), reply.node) == ("0x1", HASH, "node-1")


async def test_a_proof_of_another_branch_is_no_lie_before_its_block_is_final() -> None:
    other = CASE["proofs"]["absent"]["accountProof"][1:]
    for final, lies in ((3, 1), (2, 0)):
        async with recorded(2, final=final, **PROVE) as (proxy, nodes, told):
            await proxy.call("eth_getBalance", NOBODY, NUMBER)  # by now it is known how this chain proves
            nodes[0].lie = nodes[1].lie = changes("eth_getProof", accountProof=other)
            assert (await nonce(proxy)).status == 502
            nodes[1].lie = None
            assert (proved(await nonce(proxy)), len(told) > 0) == (HASH, bool(lies))


async def test_a_node_without_proofs_is_passed_over() -> None:
    async with recorded(2, **PROVE) as (proxy, nodes, _):
        nodes[0].lie = LACKS
        reply = await nonce(proxy)
        assert (reply.result, proved(reply), reply.node) == ("0x1", HASH, "node-1")


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (LACKS, "no such method"),
        (
            lambda method, result: {"address": CONTRACT} if method == "eth_getProof" else result,
            "what the nodes gave could not be proved",
        ),
        (
            lambda method, result: None if method == "eth_getBlockByNumber" else result,
            "what the nodes gave could not be proved",
        ),
    ],
)
async def test_where_no_proof_can_be_had_the_error_says_why(lie: Lie, why: str) -> None:
    async with recorded(2, **PROVE) as (proxy, nodes, _):
        for node in nodes:
            node.lie = lie
        reply = await nonce(proxy)
        said = f'networks.{proxy.network}.rules."eth_get*" wants eth_getTransactionCount to be proved'
        assert (reply.status, reply.error["code"]) == (502, -32603)
        assert reply.error["message"] == f"{said}, and there is no proof at block 3: {why}"
        for node in nodes:
            node.lie = None
        assert (await nonce(proxy)).result == "0x1"  # no error is kept


async def test_what_is_pending_has_no_proof() -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        reply = await nonce(proxy, "pending")
        assert "what is pending belongs to no block" in reply.error["message"]
        assert proxy.asked("eth_getProof") == 0


@pytest.mark.parametrize("params", [["0x12", NUMBER], [], {"address": CONTRACT}, [7, NUMBER]])
async def test_a_read_that_names_no_account_is_refused(params: Any) -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": params}).encode()
        reply = await proxy.post(body)
        assert reply.error["code"] == -32602
        assert reply.error["message"].startswith("eth_getBalance: ")


async def test_a_node_that_gives_other_code_is_told_of_and_another_is_asked() -> None:
    async with recorded(2, **PROVE) as (proxy, nodes, told):
        nodes[0].lie = lambda method, result: "0x6001" if method == "eth_getCode" else result
        reply = await proxy.call("eth_getCode", CONTRACT, NUMBER)
        assert (reply.result, proved(reply)) == (CODE, HASH)
        (case,) = [one for one in told if isinstance(one, Case)]
        assert (case.method, case.minority, case.disproved) == ("eth_getCode", ("node-0",), True)
    async with recorded(1, **PROVE) as (proxy, nodes, _):
        nodes[0].lie = lambda method, result: "0x6001" if method == "eth_getCode" else result
        reply = await proxy.call("eth_getCode", CONTRACT, NUMBER)
        assert reply.error["message"].endswith("node-0 gave other code than that whose hash is proved")


async def test_no_unproved_answer_is_taken_for_a_proved_one() -> None:
    unproved = {"rules": {"eth_getCode": {"prove": True}}, "agreement": {"share": 0}}
    async with recorded(1, **unproved) as (proxy, nodes, _):
        nodes[0].lie = lambda method, result: "0x9" if method == "eth_getTransactionCount" else result
        reply = await nonce(proxy)
        assert (reply.result, proved(reply)) == ("0x9", "")
        plan, wanted = [
            proxy.worker.state.networks[proxy.network].plan(method, json.dumps([CONTRACT, NUMBER]).encode())
            for method in ("eth_getTransactionCount", "eth_getCode")
        ]
        assert plan.key is not None
        assert wanted.key is not None
        assert (b":p.n:" in plan.key, b":p.n:" in wanted.key) == (False, True)
        assert (wanted.shared_keys, wanted.lasting_key) == ((), None)


@pytest.mark.parametrize("tier", ["memory", "disk"])
async def test_a_proof_that_a_tier_has_falsely_is_asked_for_anew(tier: str, tmp_path: Path) -> None:
    false = b'{"balance":"0x5","nonce":"0x5"}'
    disk = {"path": str(tmp_path / "cache"), "read_timeout": 10}
    async with recorded(1, **PROVE, disk=disk) as (proxy, _, _):
        network, engine = proxy.worker.state.networks[proxy.network], proxy.worker.engine
        proof = network.plan("eth_getProof", json.dumps([CONTRACT, [], NUMBER]).encode())
        engine.keep(network, proof, false, 3)
        if tier == "disk":
            await until(lambda: engine.disk.stats().writes == 1)
            engine.memory.purge(Selection())
        reply = await proxy.call("eth_getBalance", CONTRACT, NUMBER)
        assert (reply.result, reply.cache, proved(reply)) == ("0x0", "miss", HASH)
        kept = engine.answer_now(network, proof)
        assert kept is not None
        assert kept.result != false


async def test_with_the_cache_off_each_read_is_proved_anew() -> None:
    off = {**PROVE, "rules": {"eth_get*Count": {"prove": True, "cache": "off"}}}
    async with recorded(1, **off) as (proxy, _, _):
        assert [((reply := await nonce(proxy)).cache, proved(reply)) for _ in range(2)] == [("miss", HASH)] * 2
        assert proxy.asked("eth_getProof") == 2


async def test_after_a_restart_the_proof_that_the_disk_has_answers_the_read(tmp_path: Path) -> None:
    disk = {"path": str(tmp_path / "cache"), "read_timeout": 10}
    async with recorded(1, **PROVE, disk=disk) as (proxy, _, _):
        await nonce(proxy)
    async with recorded(1, **PROVE, disk=disk) as (proxy, nodes, _):
        nodes[0].lie = LACKS
        reply = await nonce(proxy)
        assert (reply.result, proved(reply)) == ("0x1", HASH)
        assert reply.cache in {"disk", "memory"}, "memory: it was read ahead already"


async def test_explain_says_that_the_read_is_proved() -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        found = await proxy.worker.explain("", "eth_getBalance", json.dumps([CONTRACT, NUMBER]).encode())
        assert found is not None
        assert found.keeping[0].startswith("proved by the state root of its block, or not answered: ")
        assert found.keeping[0].endswith(f'(networks.{proxy.network}.rules."eth_get*")')


async def test_the_hash_of_an_older_block_is_told_by_the_nodes_that_are_there() -> None:
    async with recorded(2, **PROVE) as (proxy, nodes, _):
        await nodes[1].stop()
        heads = (
            NodeHead(id="node-0", head=3, chain_ok=True, answering=True),
            NodeHead(id="node-1", head=-1, chain_ok=True, note="down"),
        )
        served = Served(head=3, final=3, doubted=1)  # so that no hash is known any more
        proxy.worker.see(NetworkHeads(network=proxy.network, served=served, nodes=heads, eth_chain_id=31337))
        reply = await nonce(proxy)
        assert (reply.result, proved(reply), reply.node) == ("0x1", HASH, "node-0")


@pytest.mark.parametrize("tag", ["safe", "finalized", "earliest"])
async def test_a_block_that_only_a_tag_names_is_refused_without_a_call(tag: str) -> None:
    async with recorded(1, **PROVE) as (proxy, _, _):
        reply = await nonce(proxy, tag)
        assert (reply.status, proxy.asked("eth_getProof")) == (502, 0)
        assert "no block is named but by a tag" in reply.error["message"]
