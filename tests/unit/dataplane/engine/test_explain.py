"""What a worker says of a call must be what it does with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from tests.support.proxy import Proxy, proxying

ADDRESS = "0x" + "a5" * 20
TOPIC = "0x" + "c7" * 32


async def explained(proxy: Proxy, method: str, *params: Any) -> Explanation:
    found = await proxy.worker.explain("", method, json.dumps(params).encode())
    assert found is not None
    return found


async def test_what_memory_holds_is_told_with_its_time() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        assert (await explained(proxy, "hmyv2_getBlockByNumber", 7, {})).held == ()
        await proxy.call("hmyv2_getBlockByNumber", 7, {})
        before = proxy.worker.report().tally.tiers
        (held,) = (await explained(proxy, "hmyv2_getBlockByNumber", "0x7", {})).held
        assert (held.tier, held.worker, held.block, held.left, held.served) == ("memory", "w1", 7, None, True)
        assert held.key == (await explained(proxy, "hmyv2_getBlockByNumber", 7, {})).key
        assert [tier.hits for tier in proxy.worker.report().tally.tiers] == [tier.hits for tier in before]


async def test_a_kept_block_that_holds_the_answer_is_told() -> None:
    async with ethereum_nodes(1) as nodes, proxying(nodes, net={"chain": "ethereum", "prove": "off"}) as proxy:
        block = (await proxy.call("eth_getBlockByNumber", "0x7", True)).result
        asked = "eth_getTransactionByHash", block["transactions"][0]["hash"]
        before = proxy.worker.report().tally.tiers
        found = await explained(proxy, *asked)
        assert [(tier.hits, tier.misses) for tier in proxy.worker.report().tally.tiers] == [
            (tier.hits, tier.misses) for tier in before
        ]
        assert (found.held[0].key, found.held[0].served) == (
            (await explained(proxy, "eth_getBlockByNumber", "0x7", True)).key,
            True,
        )
        assert any("taken out of what is kept of its whole block" in said for said in found.keeping)
        assert (await proxy.call(*asked)).cache == "memory"


async def test_how_an_answer_is_judged_follows_from_the_chain_and_the_settings() -> None:
    asked, ethereum = ("eth_getBlockByNumber", "0x7", False), {"chain": "ethereum"}
    async with ethereum_nodes(1) as nodes, proxying(nodes, net=ethereum) as proxy:
        assert (await explained(proxy, *asked)).proof == "proved by the hash of its block"
        assert (await explained(proxy, "eth_chainId")).proof == "", "no node is asked"
    async with ethereum_nodes(1) as nodes, proxying(nodes, net={**ethereum, "prove": "off"}) as proxy:
        assert "the settings switch it off" in (await explained(proxy, *asked)).proof
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert "the chain's headers cannot be rebuilt" in (await explained(proxy, *asked)).proof


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("eth_getBalance", ADDRESS, "latest"), "3 attempts in all at the most; the budget pays for 30 more retries "
         "now, for 64 after errors"),
        (("eth_newBlockFilter",), "where the first one certainly did nothing"),
        (("eth_chainId",), ""),
        (("eth_sendRawTransaction", "0x00"), "2 nodes are told of it at once"),
        (("admin_peers",), ""),
    ],
)  # fmt: skip
async def test_how_often_another_node_would_be_asked_is_told(call: tuple[str, ...], said: str) -> None:
    async with ethereum_nodes(2) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
        found = await explained(proxy, *call)
        assert (said in found.retries) if said else found.retries == ""
        assert bool(found.nodes) == (call[0] != "admin_peers"), "a refused call reaches no node"


async def test_a_head_answer_is_held_for_some_seconds_only() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.call("eth_gasPrice")
        (held,) = (await explained(proxy, "eth_gasPrice")).held
        assert held.left is not None
        assert 0 < held.left <= 30


async def test_nodes_are_told_in_the_order_they_are_asked_and_others_with_the_reason() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        proxy.see(nodes=[head, head - 2, head])
        for _ in range(4):
            found = await explained(proxy, "eth_getBalance", ADDRESS, "latest")
            assert [refused.id for refused in found.refused] == [nodes[1].name]
            assert "2 blocks behind" in found.refused[0].why
            assert (await proxy.call("eth_getBalance", "0x" + "b6" * 20, "latest")).node == found.nodes[0].id
            nodes[0].chain.advance()
            head += 1
            proxy.see(nodes=[head, head - 2, head])
        assert found.forwarded == json.dumps([ADDRESS, hex(head - 1)], separators=(",", ":"))


async def test_a_filter_and_a_sent_transaction_name_their_node() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        made = await proxy.call("eth_newBlockFilter")
        found = await explained(proxy, "eth_getFilterChanges", made.result)
        assert (found.nodes[0].id, found.nodes[0].preferred) == (made.node, True)
        name = "0x" + "ab" * 32
        await proxy.call("eth_getTransactionReceipt", name)
        proxy.worker.heard(Sent("harmony-s0", f'"{name}"'.encode(), (nodes[2].name,)))
        found = await explained(proxy, "eth_getTransactionReceipt", name)
        assert found.nodes[0].id == nodes[2].name
        assert [held.served for held in found.held] == [False]


async def test_a_subscribe_is_told_with_its_topic_and_what_feeds_it() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"websocket": {"replay": 20}}) as proxy:
        logs = {
            "address": ADDRESS.upper().replace("X", "x"),
            "topics": [None, [TOPIC]],
            "fromBlock": hex(nodes[0].head),
        }
        found = await explained(proxy, "eth_subscribe", "logs", logs)
        text = "; ".join(found.live)
        assert "answers it itself" in text
        assert "over HTTP it gets error -32000: notifications not supported" in text
        assert f'filter {{"address":["{ADDRESS}"],"topics":[null,["{TOPIC}"]]}}' in text
        assert "one hmy_getLogs for each block" in text
        assert f"since block {nodes[0].head} is sent first" in text
        assert (found.nodes, found.refused, found.keeping) == (
            (),
            (),
            ("not kept: its answer is the id of one client's subscription",),
        )
        assert "one eth_getBlockByNumber for each block" in "; ".join(
            (await explained(proxy, "eth_subscribe", "newHeads")).live
        )
        for params, words in (
            (["foo"], 'error -32601: no "foo"'),
            (["newHeads", {"fromBlock": "0x1"}], "more than 20 blocks"),
        ):
            assert words in (await explained(proxy, "eth_subscribe", *params)).live[0]
        assert "ends a subscription" in (await explained(proxy, "net_unsubscribe", "0x1")).live[0]
        assert (await explained(proxy, "eth_blockNumber")).live == ()
        assert (await proxy.call("eth_subscribe", "newHeads")).error["message"] == "notifications not supported"
        assert nodes[0].counts.calls == 0


async def test_what_a_subscribe_would_be_sent_is_told_as_it_is() -> None:
    async with ethereum_nodes(1) as nodes, proxying(nodes, network="chain", net={"chain": "ethereum"}) as proxy:
        whole, hashes = [
            (await explained(proxy, "eth_subscribe", "newPendingTransactions", full)).live[3] for full in (True, False)
        ]
        assert "hashes, for each of which the transaction is fetched" in whole
        assert hashes == "fed by what the nodes tell of their pools"
        ahead = nodes[0].head + 5
        found = await explained(proxy, "eth_subscribe", "newHeads", {"fromBlock": hex(ahead)})
        assert found.live[-1] == f"nothing before block {ahead}"


async def test_where_websockets_are_off_a_subscribe_is_told_so() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"websocket": {"enabled": False}}) as proxy:
        off, over_http = (await explained(proxy, "eth_subscribe", "newHeads")).live
        assert off.startswith("WebSockets are off (http.websocket.enabled)")
        assert over_http.startswith("over HTTP it gets error -32000")
        assert (await explained(proxy, "eth_unsubscribe", "0x1")).live == (off,)


async def test_no_node_is_asked_and_an_unknown_network_is_none() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert (await explained(proxy, "eth_blockNumber")).local == f'"{hex(nodes[0].head)}"'
        assert not (await explained(proxy, "foo_bar")).known
        assert nodes[0].counts.calls == 0
        assert await proxy.worker.explain("nowhere", "m", b"[]") is None


@pytest.mark.parametrize("method", ["hmyv2_getBlockByNumber", "eth_getBalance", "eth_gasPrice", "net_peerCount", "x_y"])
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(params=st.lists(st.one_of(st.integers(0, 300), st.just("latest"), st.just(ADDRESS), st.just({})), max_size=2))
async def test_what_is_said_to_be_held_is_what_is_served(method: str, params: list[Any]) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        for _ in range(2):
            found = await explained(proxy, method, *params)
            reply = await proxy.call(method, *params)
            assert bool(found.held) == (reply.cache == "memory")


async def test_what_is_refused_is_told_with_the_setting_that_takes_it() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"expose": ["evm_mine"]}) as proxy:
        refused, taken = await explained(proxy, "evm_revert"), await explained(proxy, "evm_mine")
        assert "http.expose" in refused.keeping[0]
        assert (refused.known, refused.origin) == (False, "chains/harmony.toml")
        assert "refused" not in taken.keeping[0]
