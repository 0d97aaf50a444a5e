"""What a simulated node says that is not so: its lies, and what Harmony's nodes say wrongly of receipts and logs."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.methods.registry import RECEIPTS_KEPT, RpcError
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode

WHO = "0x" + "11" * 20


def pair(kind: str = "harmony", **positions: Any) -> tuple[SimNode, SimNode]:
    """A truthful node and another one, of one chain with many transactions."""
    chain = (harmony_chain if kind == "harmony" else ethereum_chain)(178, density=4)
    return SimNode(chain, name="true"), SimNode(chain, name="other", knobs=knobs(**positions))


async def test_truncated_logs_lack_the_last_ones() -> None:
    true, liar = pair("ethereum", lies={"truncated_logs": 1.0})
    span = {"fromBlock": "0x60", "toBlock": "0x68"}
    told, whole = await liar.ask("eth_getLogs", span), await true.ask("eth_getLogs", span)
    assert len(told) == len(whole) - len(whole) // 4 < len(whole)
    assert told == whole[: len(told)]
    assert await liar.ask("eth_getLogs", {"fromBlock": "0x60", "toBlock": "0x60"}) == []
    one = {"blockHash": whole[0]["blockHash"], "topics": [None, whole[0]["topics"][1]]}
    assert len(await true.ask("eth_getLogs", one)) == len(await liar.ask("eth_getLogs", one)) + 1


@pytest.mark.parametrize("kind", ["harmony", "ethereum"])
async def test_old_state_is_that_of_earlier_blocks(kind: str) -> None:
    true, liar = pair(kind, lies={"old_state": 1.0})
    contract = "0x" + true.chain.generator.contract.hex()
    word = {"to": contract, "data": "0x12345678"}
    assert await liar.ask("eth_getBalance", WHO, "0x64") == await true.ask("eth_getBalance", WHO, "0x54")
    assert await liar.ask("eth_call", word, "0x64") == await true.ask("eth_call", word, "0x54")
    assert await liar.ask("eth_getStorageAt", contract, "0x1", "0x64") == await true.ask(
        "eth_getStorageAt", contract, "0x1", "0x54"
    )
    sender = "0x" + true.chain.generator.accounts[0].hex()
    counts = [await node.ask("eth_getTransactionCount", sender, "0x64") for node in (liar, true)]
    assert int(counts[0], 16) < int(counts[1], 16)
    assert await liar.ask("eth_getBlockByNumber", "0x64", True) == await true.ask("eth_getBlockByNumber", "0x64", True)
    assert await liar.ask("eth_getBalance", WHO, "0x5") == await true.ask("eth_getBalance", WHO, "0x0")


async def test_old_state_reaches_harmonys_own_calls() -> None:
    true, liar = pair(lies={"old_state": 1.0})
    for method in ("hmyv2_getBalanceByBlockNumber", "hmyv2_getAccountNonce"):
        who = "0x" + true.chain.generator.accounts[0].hex()
        assert await liar.ask(method, who, 100) == await true.ask(method, who, 84) != await true.ask(method, who, 100)


async def test_a_dropped_receipt_is_null_or_missing_from_its_block() -> None:
    true, liar = pair(lies={"dropped_receipts": 1.0})
    block = await true.ask("eth_getBlockByNumber", "0x65", False)
    assert await liar.ask("eth_getTransactionReceipt", block["transactions"][0]) is None
    told, whole = [await node.ask("eth_getBlockReceipts", block["hash"]) for node in (liar, true)]
    assert len(told) == len(whole) - 1 > 0
    assert all(receipt in whole for receipt in told)
    assert await liar.ask("eth_getBlockReceipts", (await true.ask("eth_getBlockByNumber", "0x63", False))["hash"]) == []


async def test_a_lie_is_told_by_its_share_and_each_time_anew() -> None:
    true, liar = pair("ethereum", lies={"old_state": 0.1})
    calls = [("eth_getBalance", f"0x{number:040x}", "0x64") for number in range(400)]
    lied = [await liar.ask(*call) != await true.ask(*call) for call in calls]
    assert 20 < sum(lied) < 60
    assert lied[:50] == [await liar.ask(*call) != await true.ask(*call) for call in calls[:50]]
    other = SimNode(true.chain, name="another", knobs=knobs(lies={"old_state": 0.1}))
    assert lied != [await other.ask(*call) != await true.ask(*call) for call in calls]


async def test_the_proposer_gives_false_hashes_in_receipts_too_and_in_nothing_else() -> None:
    true, proposer = pair(false_hashes=True)
    block = await true.ask("eth_getBlockByNumber", "0x65", False)
    for method in ("eth_getBlockReceipts", "hmyv2_getBlockReceipts"):
        told, whole = [await node.ask(method, block["hash"]) for node in (proposer, true)]
        false = [log.pop("blockHash") for receipt in told for log in receipt["logs"]]
        real = [log.pop("blockHash") for receipt in whole for log in receipt["logs"]]
        assert told == whole
        assert set(real) == {block["hash"]}
        assert len(set(false) - {block["hash"]}) == len(real) > 1
    found = await proposer.ask("eth_getLogs", {"blockHash": block["hash"]})
    assert [log["blockHash"] for log in found] == false
    single = [await proposer.ask("eth_getTransactionReceipt", tx) for tx in block["transactions"]]
    assert [log["blockHash"] for receipt in single for log in receipt["logs"]] == false


async def test_a_node_proposes_its_share_of_blocks() -> None:
    true, proposer = pair(false_hashes=True, proposes=4)
    span = {"fromBlock": "0x10", "toBlock": "0xb2"}
    told, whole = [await node.ask("eth_getLogs", span) for node in (proposer, true)]
    false = {a["blockNumber"] for a, b in zip(told, whole, strict=True) if a != b}
    right = {a["blockNumber"] for a, b in zip(told, whole, strict=True) if a == b}
    assert not false & right
    assert 0.1 < len(false) / len(false | right) < 0.4
    assert await proposer.ask("eth_getLogs", span) == told


async def test_block_receipts_crash_on_harmony_once_logs_were_read() -> None:
    _, node = pair(crashed_receipts=True)
    block = await node.ask("eth_getBlockByNumber", "0x65", False)
    receipts = await node.ask("eth_getBlockReceipts", block["hash"])
    await node.ask("hmy_getLogs", {"blockHash": block["hash"]})
    assert await node.ask("eth_getBlockReceipts", block["hash"]) == receipts
    await node.ask("eth_getLogs", {"fromBlock": "0x64", "toBlock": "0x66"})
    for method in ("eth_getBlockReceipts", "hmy_getBlockReceipts", "hmyv2_getBlockReceipts"):
        with pytest.raises(RpcError, match="method handler crashed"):
            await node.ask(method, block["hash"])
    assert await node.ask("eth_getTransactionReceipt", block["transactions"][0]) == receipts[0]
    others = [await node.ask("eth_getBlockByNumber", hex(number), False) for number in range(20, 20 + RECEIPTS_KEPT)]
    for other in others:
        await node.ask("eth_getBlockReceipts", other["hash"])
    assert await node.ask("eth_getBlockReceipts", block["hash"]) == receipts


async def test_nothing_crashes_unless_it_is_asked_for() -> None:
    node, _ = pair()
    block = await node.ask("eth_getBlockByNumber", "0x65", False)
    await node.ask("eth_getLogs", {"blockHash": block["hash"]})
    assert await node.ask("eth_getBlockReceipts", block["hash"])
