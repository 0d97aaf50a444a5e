"""Transactions, told to simulated nodes over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcaccel.core.hashing import rlp
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_chain, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support import wallet
from tests.support.fleet import GatedNode, gated_nodes
from tests.support.proxy import HARMONY_ID, Proxy, Reply, proxying
from tests.support.waiting import until

SEND = "eth_sendRawTransaction"


def signed(nonce: int = 0, *, chain_id: int = HARMONY_ID, value: int = 7) -> tuple[str, str]:
    """A wallet's transaction and its hash, both in hex."""
    raw = wallet.signed(chain_id, gas=30000, nonce=nonce, value=value)
    return raw, "0x" + keccak256(bytes.fromhex(raw[2:])).hex()


def in_harmonys_form(nonce: int = 0) -> tuple[str, str]:
    """A transaction with the two shards after the gas limit; its signature is not looked at closely."""
    raw, _ = signed(nonce)
    fields: Any = rlp.decode(bytes.fromhex(raw[2:]))
    encoded = rlp.encode([*fields[:3], b"", b"", *fields[3:]])
    return "0x" + encoded.hex(), "0x" + keccak256(encoded).hex()


async def settled(proxy: Proxy) -> None:
    """Until what goes on behind the answer has ended."""
    while len(proxy.worker.engine.broadcasts):
        await asyncio.sleep(0.01)


def counted(proxy: Proxy) -> tuple[dict[str, int], dict[str, int]]:
    cell = proxy.worker.report().tally.networks[0]
    return cell.broadcasts, cell.told


async def test_a_transaction_is_told_to_two_thirds_and_answered_with_its_hash() -> None:
    async with harmony_nodes(6) as nodes, proxying(nodes) as proxy:
        raw, named = signed()
        reply = await proxy.call(SEND, raw)
        await settled(proxy)
        assert (reply.result, reply.cache) == (named, "miss")
        assert sorted(node.counts.asked(SEND) for node in nodes) == [0, 0, 1, 1, 1, 1]
        ends, told = counted(proxy)
        assert sum(ends.values()) == 1
        assert told == {"accepted": 1, "known": 3, "refused": 0, "failed": 0}


async def test_the_first_acceptance_answers_while_a_slow_node_is_still_being_told() -> None:
    chain = harmony_chain(200)
    async with (
        GatedNode(chain, name="slow") as slow,
        SimNode(chain, name="quick") as quick,
        proxying([slow, quick]) as proxy,
    ):
        slow.hold(SEND)
        reply = await proxy.call(SEND, signed()[0])
        assert reply.node == "quick"
        assert len(proxy.worker.engine.broadcasts) == 1
        slow.release()
        await settled(proxy)
        assert slow.counts.asked(SEND) == 1


async def test_the_share_told_is_a_setting() -> None:
    net = {"transactions": {"share": 1.0}}
    async with harmony_nodes(4) as nodes, proxying(nodes, net=net) as proxy:
        await proxy.call(SEND, signed()[0])
        await settled(proxy)
        assert [node.counts.asked(SEND) for node in nodes] == [1] * 4


async def test_byte_identical_sends_under_way_share_one_flight_and_others_do_not() -> None:
    async with gated_nodes(2) as nodes, proxying(nodes) as proxy:
        for node in nodes:
            node.hold(SEND)
        (one, one_hash), (two, two_hash) = signed(0), signed(0, value=8)
        calls = [asyncio.create_task(proxy.call(SEND, one, id=number)) for number in range(5)]
        calls.append(asyncio.create_task(proxy.call(SEND, two)))
        await until(lambda: proxy.worker.report().tally.in_flight == 6)
        for node in nodes:
            node.release()
        replies = await asyncio.gather(*calls)
        await settled(proxy)
        assert [reply.result for reply in replies[:5]] == [one_hash] * 5
        assert replies[5].json.get("result", two_hash) == two_hash
        assert proxy.asked(SEND) == 4


async def test_a_transaction_sent_twice_succeeds_twice_even_when_it_was_mined() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        raw, named = signed()
        for _ in range(2):
            assert (await proxy.call(SEND, raw)).result == named
            await settled(proxy)
        nodes[0].chain.advance(2)
        proxy.see()
        assert (await proxy.call(SEND, raw)).result == named
        assert proxy.asked(SEND) == 6, "never answered from the cache"


async def test_a_mined_transaction_that_geth_calls_too_low_a_nonce_is_found_by_its_hash() -> None:
    async with ethereum_nodes(2) as nodes, proxying(nodes, network="ethereum", net={"chain": "ethereum"}) as proxy:
        raw, named = signed(chain_id=1337)
        await proxy.call(SEND, raw)
        await settled(proxy)
        nodes[0].chain.advance(2)
        proxy.see()
        assert (await proxy.call(SEND, raw)).result == named
        assert counted(proxy)[0]["known"] == 1


async def test_another_transaction_of_a_used_nonce_is_refused_in_the_nodes_words() -> None:
    async with ethereum_nodes(2) as nodes, proxying(nodes, network="ethereum", net={"chain": "ethereum"}) as proxy:
        await proxy.call(SEND, signed(chain_id=1337)[0])
        await settled(proxy)
        nodes[0].chain.advance(2)
        proxy.see()
        reply = await proxy.call(SEND, signed(chain_id=1337, value=8)[0])
        assert reply.error["message"].startswith("nonce too low")
        assert counted(proxy)[0]["refused"] == 1


async def test_harmonys_own_form_is_confirmed_by_the_node_that_knows_it() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        raw, named = in_harmonys_form()
        first = await proxy.call("hmyv2_sendRawTransaction", raw)
        await settled(proxy)
        second = await proxy.call("hmyv2_sendRawTransaction", raw)
        assert (first.result, second.result) == (named, named)
        assert proxy.asked("hmyv2_getTransactionByHash") >= 1


async def test_a_wallets_form_sent_to_harmonys_method_keeps_the_name_that_harmony_gave_it() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        raw, named = signed()
        first = await proxy.call("hmyv2_sendRawTransaction", raw)
        await settled(proxy)
        assert first.result != named
        assert (await proxy.call("hmyv2_sendRawTransaction", raw)).result == first.result


@pytest.mark.parametrize("fault", ["reset", "html", "garbage", "rate_limit"])
async def test_a_node_that_fails_costs_the_client_nothing(fault: str) -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        nodes[0].knobs.turn({"faults": {fault: 1.0}})
        for nonce in range(3):
            raw, named = signed(nonce)
            assert (await proxy.call(SEND, raw)).result == named
        await settled(proxy)


async def test_a_busy_node_is_told_again() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        nodes[0].knobs.turn({"next_faults": ["rate_limit"]})
        raw, named = signed()
        assert (await proxy.call(SEND, raw)).result == named
        assert nodes[0].counts.asked(SEND) == 2


async def test_when_all_refuse_the_client_hears_why() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        nodes[1].knobs.turn({"faults": {"reset": 1.0}})
        reply = await proxy.call(SEND, signed(chain_id=5)[0])
        assert "invalid chain id" in reply.error["message"]
        assert "result" not in reply.json


async def test_when_all_are_gone_it_is_the_proxys_own_error() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        for node in nodes:
            await node.kill()
        reply: Reply = await proxy.call(SEND, signed()[0])
        assert (reply.status, reply.error["code"]) == (502, -32603)
        assert counted(proxy)[0] == {"failed": 1}


async def test_a_client_that_leaves_does_not_stop_the_telling() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        for node in nodes:
            node.knobs.turn({"latency": "100ms"})
        asked = proxy.worker.state.networks["harmony-s0"].pool.nodes
        sending = asyncio.create_task(proxy.call(SEND, signed()[0]))
        async with asyncio.timeout(20):
            while not any(node.in_flight for node in asked):
                await asyncio.sleep(0.001)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await settled(proxy)
        assert [node.counts.asked(SEND) for node in nodes] == [1, 1]


async def test_what_is_still_being_told_at_the_end_is_broken_off_and_leaves_nothing_open() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        nodes[0].knobs.turn({"faults": {"hang": 1.0}})
        await proxy.call(SEND, signed()[0])
        pool = proxy.worker.state.networks["harmony-s0"].pool
        assert "1 nodes" in repr(proxy.worker.engine.broadcasts)
        assert [node.in_flight for node in pool.nodes] == [1, 0]
        await proxy.worker.engine.broadcasts.close(0.01)
        assert [node.in_flight for node in pool.nodes] == [0, 0]
        assert counted(proxy)[1]["failed"] == 1
