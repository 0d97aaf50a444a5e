"""A client reads what it has written, whichever node it was given to."""

from __future__ import annotations

import asyncio

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.dataplane.engine.fetch_context import ReadYourWrites
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.stores.base import Store
from tests.support.fleet import gated_nodes
from tests.support.proxy import proxying
from tests.support.waiting import until
from tests.support.wallet import SENDER, signed

TOLD_TO_ONE = {"transactions": {"share": 0.01, "at_least": 1}}
LOOKUPS = [
    "eth_getTransactionByHash",
    "eth_getTransactionReceipt",
    "hmyv2_getTransactionByHash",
    "hmy_getTransactionReceipt",
    "hmyv2_getStakingTransactionByHash",
]


async def test_a_sent_transaction_is_looked_up_on_the_node_that_took_it() -> None:
    async with harmony_nodes(3, gossip=60.0) as nodes, proxying(nodes, net=TOLD_TO_ONE) as proxy:
        sent = await proxy.call("eth_sendRawTransaction", signed())
        for _ in range(6):
            found = await proxy.call("eth_getTransactionByHash", sent.result)
            assert (found.result["hash"], found.result["blockHash"], found.node) == (sent.result, None, sent.node)
        for method in LOOKUPS:
            assert (await proxy.call(method, sent.result)).node == sent.node


async def test_where_nodes_must_agree_a_sent_transaction_is_asked_of_its_node_alone() -> None:
    net = {**TOLD_TO_ONE, "rules": {"eth_getTransaction*": {"agree": 2}}}
    async with harmony_nodes(3, gossip=60.0) as nodes, proxying(nodes, net=net) as proxy:
        sent = await proxy.call("eth_sendRawTransaction", signed())
        for _ in range(4):
            found = await proxy.call("eth_getTransactionByHash", sent.result)
            assert (found.result["hash"], found.node) == (sent.result, sent.node)


async def test_a_transaction_told_to_several_is_looked_up_on_any_of_them() -> None:
    async with harmony_nodes(3, gossip=60.0) as nodes, proxying(nodes) as proxy:
        sent = await proxy.call("eth_sendRawTransaction", signed())
        while len(proxy.worker.engine.broadcasts):
            await asyncio.sleep(0.01)
        told = {node.name for node in nodes if node.counts.asked("eth_sendRawTransaction")}
        found = [await proxy.call("eth_getTransactionByHash", sent.result) for _ in range(6)]
        assert {reply.node for reply in found} == told
        assert len(told) == 2
        assert {reply.result["hash"] for reply in found} == {sent.result}


async def test_the_hash_may_be_written_in_capitals() -> None:
    async with harmony_nodes(3, gossip=60.0) as nodes, proxying(nodes, net=TOLD_TO_ONE) as proxy:
        sent = await proxy.call("eth_sendRawTransaction", signed())
        shouted = "0x" + sent.result[2:].upper()
        assert {(await proxy.call("eth_getTransactionByHash", shouted)).node for _ in range(4)} == {sent.node}


async def test_a_null_kept_before_the_transaction_was_sent_is_not_served_after() -> None:
    async with harmony_nodes(2, gossip=60.0) as nodes, proxying(nodes) as proxy, proxying(nodes) as aside:
        sent = await aside.call("eth_sendRawTransaction", signed())
        method = "eth_getTransactionReceipt"
        assert [(await proxy.call(method, sent.result)).cache for _ in range(2)] == ["miss", "memory"]
        proxy.worker.heard(Sent("harmony-s0", f'"{sent.result}"'.encode(), (sent.node,)))
        again = await proxy.call(method, sent.result)
        assert (again.cache, again.node) == ("miss", sent.node)


async def test_a_lookup_under_way_since_before_the_send_is_not_joined() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy, proxying(nodes) as aside:
        name = (await aside.call("eth_sendRawTransaction", signed())).result
        nodes[0].hold("eth_getTransactionReceipt")
        early = asyncio.create_task(proxy.call("eth_getTransactionReceipt", name))
        await nodes[0].arrived.wait()
        proxy.worker.heard(Sent("harmony-s0", f'"{name}"'.encode(), (nodes[0].name,)))
        late = asyncio.create_task(proxy.call("eth_getTransactionReceipt", name))
        await until(lambda: proxy.worker.report().tally.in_flight == 2)
        nodes[0].release()
        assert ((await late).cache, (await early).cache) == ("miss", "miss")


async def test_a_null_that_a_pool_may_fill_at_any_moment_is_not_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        unknown = "0x" + "11" * 32
        assert [(await proxy.call("eth_getTransactionByHash", unknown)).cache for _ in range(2)] == ["miss", "miss"]


async def test_once_it_is_mined_it_is_kept_like_any_other() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        sent = await proxy.call("eth_sendRawTransaction", signed())
        nodes[0].chain.advance()
        proxy.see()
        caches = [(await proxy.call("eth_getTransactionReceipt", sent.result)).cache for _ in range(3)]
        assert caches == ["miss", "memory", "memory"]


async def test_when_the_node_that_took_it_is_gone_the_others_are_asked() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        sent = await proxy.call("eth_sendRawTransaction", signed())
        await next(node for node in nodes if node.name == sent.node).kill()
        found = await proxy.call("eth_getTransactionByHash", sent.result)
        assert found.result["hash"] == sent.result
        assert found.node != sent.node


async def test_the_pending_nonce_is_read_where_the_client_sent_last() -> None:
    async with harmony_nodes(3, gossip=60.0) as nodes, proxying(nodes) as proxy:
        for nonce in range(4):
            await proxy.call("eth_sendRawTransaction", signed(nonce=nonce))
            asked = [await proxy.call("eth_getTransactionCount", SENDER, "pending") for _ in range(3)]
            assert len({reply.node for reply in asked}) == 1


async def test_a_refused_transaction_prefers_nobody() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        refused = await proxy.call("eth_sendRawTransaction", signed(gasPrice=5))
        assert "underpriced" in refused.error["message"]
        asked = {(await proxy.call("eth_getTransactionCount", SENDER, "pending")).node for _ in range(4)}
        assert asked == {node.name for node in nodes}


class Tier(Store):
    """A shared tier that remembers the keys of what is put."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        self.keys.append(key)


async def test_a_mark_for_other_hosts_is_of_one_chain_and_none_is_set_before_it_is_known_which() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        tier, network = Tier(), proxy.worker.state.networks[proxy.network]
        sends = ReadYourWrites(tier, lambda: 0.0, lambda _sent: None)
        for block_one in ("0x" + "22" * 32, None, ""):
            proxy.see(genesis="0x" + "11" * 32, block_one=block_one)
            sends.took(network, b'"0x%b"' % (b"ab" * 32), ("a",), "")
        assert [key.split(b":")[:2] for key in tier.keys] == [
            [b"harmony-s0@1666700000.111111111111.22222222", b"sent"],
            [b"harmony-s0@1666700000.111111111111", b"sent"],
        ]
