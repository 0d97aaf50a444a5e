"""Calls with directives, by header and over a WebSocket, over simulated nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel import chains
from rpcaccel.core import client_limits
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.directives import DIRECTIVE_NAMES
from rpcaccel.core.plan.planner import MOST_CHANGED_METHODS
from rpcaccel.dataplane.http.request_head import RequestHead
from rpcaccel.dataplane.rpc.admission import MAX_DIRECTED_ROUTES
from rpcaccel.simnode.server.factories import ethereum_chain, ethereum_nodes, harmony_nodes
from tests.support.fleet import GatedNode, gated_nodes
from tests.support.proxy import Proxy, Reply, proxying
from tests.support.waiting import until
from tests.support.wallet import signed
from tests.unit.dataplane.engine.test_full_proofs import FULL, hash_of, unknown
from tests.unit.dataplane.engine.test_proofs import BY_NUMBER, HASH, NUMBER, PLAIN, TRANSACTION, changes, recorded

KEY = client_limits.make(bytes(32))
MAY: dict[str, Any] = {"clients": {"anonymous": {"directives": list(DIRECTIVE_NAMES)}}}
BLOCK = "hmyv2_getBlockByNumber", 5, {}
BALANCE = "eth_getBalance", f"0x{1:040x}", "0x64"


async def say(proxy: Proxy, call: tuple[Any, ...], path: str = "/", **directives: str) -> Reply:
    """One call, with directives and other headers."""
    body = aiohttp.JsonPayload({"jsonrpc": "2.0", "id": 1, "method": call[0], "params": list(call[1:])})
    names = {f"X-Rpcaccel-{name.title()}" if name in DIRECTIVE_NAMES else name: value
             for name, value in directives.items()}  # fmt: skip
    return await proxy.post(body._value, path, **names)


async def test_no_store_is_answered_by_a_node_and_keeps_nothing() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **MAY) as proxy:
        for _ in range(2):
            assert (await say(proxy, BLOCK, cache="no-store")).cache == "miss"
        assert (await say(proxy, BLOCK)).cache == "miss", "nothing was kept"
        assert (await say(proxy, BLOCK)).cache == "memory"
        assert (await say(proxy, BLOCK, cache="no-store")).cache == "miss"
        assert proxy.asked(BLOCK[0]) == 4


async def test_a_refresh_replaces_what_was_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **MAY) as proxy:
        nodes[0].knobs.lies = {"old_state": 1.0}
        false = (await say(proxy, BALANCE)).result
        nodes[0].knobs.lies = {}
        assert (await say(proxy, BALANCE)).result == false, "a hit"
        fresh = await say(proxy, BALANCE, cache="refresh")
        assert (fresh.cache, fresh.result) == ("miss", await nodes[0].ask(*BALANCE))
        again = await say(proxy, BALANCE)
        assert (again.cache, again.result) == ("memory", fresh.result)


async def test_a_refresh_of_a_range_replaces_its_pieces() -> None:
    async with ethereum_nodes(1, head=300) as nodes, proxying(nodes, net={"chain": "ethereum"}, **MAY) as proxy:
        logs = "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0xff"}
        nodes[0].knobs.lies = {"truncated_logs": 1.0}
        kept = (await say(proxy, logs)).result
        nodes[0].knobs.lies = {}
        fresh = await say(proxy, logs, cache="refresh")
        assert len(fresh.result) > len(kept)
        again = await say(proxy, logs)
        assert (again.cache, again.result) == ("memory", fresh.result)


async def test_only_asks_no_node(tmp_path: Path) -> None:
    disk = {"disk": {"path": str(tmp_path), "read_timeout": 10}}
    async with harmony_nodes(1) as nodes, proxying(nodes, **MAY, **disk) as proxy:
        for call in (BLOCK, ("eth_sendRawTransaction", "0x01"), ("eth_blockNumber", "x"), ("foo_bar",)):
            refused = await say(proxy, call, cache="only")
            assert refused.error["code"] == -32001, call
            assert "X-Rpcaccel-Cache: only asks no node" in refused.error["message"]
        assert proxy.asked(BLOCK[0]) == proxy.asked("foo_bar") == 0
        assert (await say(proxy, ("eth_blockNumber",), cache="only")).cache == "local"
        await say(proxy, BLOCK)
        assert (await say(proxy, BLOCK, cache="only")).cache == "memory"
        await until(lambda: proxy.worker.engine.disk.stats().writes == 1)
        proxy.worker.engine.memory.purge(Selection())
        assert (await say(proxy, BLOCK, cache="only")).cache == "disk"
        assert proxy.asked(BLOCK[0]) == 1


async def test_only_asks_no_node_for_what_is_stale_either() -> None:
    now = [1000.0]
    net = {"rules": {"net_peerCount": {"max_age": "5s", "stale": "30s"}}}
    async with harmony_nodes(1) as nodes, proxying(nodes, net=net, clock=lambda: now[0], **MAY) as proxy:
        await say(proxy, ("net_peerCount",))
        now[0] += 10
        assert (await say(proxy, ("net_peerCount",), cache="only")).cache == "memory"
        await until(lambda: not len(proxy.worker.engine.flights))
        assert proxy.asked("net_peerCount") == 1


async def test_no_more_nodes_agree_than_a_call_names() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, **MAY) as proxy:
        refused = await say(proxy, BALANCE, agree="2", node="node-1")
        assert refused.status == 400
        assert refused.error["message"].endswith(
            "expected at most 1, the nodes that X-Rpcaccel-Node names in harmony-s0"
        )
        assert proxy.worker.engine.tally.network("harmony-s0").failed == {}


async def test_a_node_is_named_by_its_id_or_a_tag() -> None:
    async with harmony_nodes(3) as nodes:
        listed = [{"id": node.name, "url": node.url, "tags": ["paid"] if at else []} for at, node in enumerate(nodes)]
        async with proxying(nodes, net={"nodes": listed}, **MAY) as proxy:
            await say(proxy, BLOCK)
            for _ in range(4):
                assert (await say(proxy, BLOCK, node="node-0")).node == "node-0"
                assert (await say(proxy, BLOCK, node="paid")).node in {"node-1", "node-2"}
            unknown = await say(proxy, BLOCK, node="node-9")
            assert (unknown.status, unknown.error["code"]) == (400, -32600)
            assert unknown.error["message"] == "X-Rpcaccel-Node: expected the id or a tag of a node of harmony-s0"
            await nodes[0].kill()
            dead = await say(proxy, BLOCK, node="node-0")
            assert (dead.status, proxy.worker.engine.tally.refusals) == (502, {"directive": 1})


async def test_a_transaction_goes_to_the_named_node_alone() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, **MAY) as proxy:
        await say(proxy, ("eth_sendRawTransaction", "0x01"), node="node-2")
        assert [node.counts.asked("eth_sendRawTransaction") for node in nodes] == [0, 0, 1]


async def test_a_transaction_joins_none_of_the_same_bytes_that_another_call_sent_to_a_node_of_its_choice() -> None:
    send = "eth_sendRawTransaction", signed()
    async with gated_nodes(3) as nodes, proxying(nodes, **MAY) as proxy:
        nodes[0].hold(send[0])
        chosen = asyncio.create_task(say(proxy, send, node="node-0"))
        await nodes[0].arrived.wait()
        assert (await asyncio.wait_for(say(proxy, send), 30)).cache == "miss"
        assert nodes[1].counts.asked(send[0]) + nodes[2].counts.asked(send[0])
        nodes[0].release()
        await chosen


async def test_several_nodes_agree_for_one_call_and_the_answer_is_kept_for_such_calls() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, **MAY) as proxy:
        await say(proxy, BALANCE)
        agreed = await say(proxy, BALANCE, agree="2")
        assert (agreed.cache, agreed.headers["X-Rpcaccel-Agreed"]) == ("miss", "2/2")
        assert (await say(proxy, BALANCE, agree="2")).cache == "memory"
        nodes[0].knobs.lies = nodes[1].knobs.lies = {"old_state": 1.0}
        refused = await say(proxy, BALANCE, agree="3", cache="no-store")
        assert refused.error["message"].startswith("X-Rpcaccel-Agree wants 3 nodes to give the same answer to eth_get")
        many = await say(proxy, BALANCE, agree="4")
        assert (many.status, many.error["message"]) == (
            400, "X-Rpcaccel-Agree: expected at most 3, the nodes of harmony-s0")  # fmt: skip


@pytest.mark.parametrize("setting", ["off", "cheap", "full"])
async def test_a_call_is_proved_whatever_the_setting_of_its_network(setting: str) -> None:
    async with recorded(2, prove=setting, **MAY) as (proxy, _, _):
        proved = await say(proxy, BY_NUMBER, prove="1")
        assert proved.headers["X-Rpcaccel-Proved"] == HASH
        assert (await say(proxy, BY_NUMBER, prove="1")).cache == "memory"
        plain = await say(proxy, BY_NUMBER)
        assert ("X-Rpcaccel-Proved" in plain.headers) == (setting == "full")


async def test_a_liar_that_a_call_names_decides_no_hash_by_which_others_are_judged() -> None:
    async with recorded(3, **FULL, **MAY) as (proxy, nodes, _):
        proxy.worker.see(unknown(nodes))
        forged = {**PLAIN, "extraData": "0x55"}
        forged["hash"] = hash_of(forged)
        nodes[0].lie = changes("eth_getBlockByNumber", **forged)
        for asked in ({"prove": "1"}, {}):
            assert "X-Rpcaccel-Proved" not in (await say(proxy, BY_NUMBER, node="node-0", **asked)).headers
        assert nodes[1].counts.asked(BY_NUMBER[0]) > 0, "others were asked whether they have that block"
        true = await say(proxy, BY_NUMBER)
        assert (true.result, true.headers["X-Rpcaccel-Proved"]) == (PLAIN, HASH)


async def test_what_a_call_has_anew_is_judged_by_what_was_proved_before() -> None:
    async with recorded(1, **FULL, **MAY) as (proxy, _, _):
        await say(proxy, ("eth_getBlockByNumber", NUMBER, True))
        asked = proxy.asked("eth_getBlockByNumber")
        fresh = await say(proxy, ("eth_getTransactionReceipt", TRANSACTION["hash"]), cache="no-store")
        assert (fresh.cache, fresh.headers["X-Rpcaccel-Proved"]) == ("miss", HASH)
        assert proxy.asked("eth_getBlockByNumber") == asked


@pytest.mark.parametrize(
    "directives", [{"cache": "refresh"}, {"cache": "no-store"}, {"cache": "refresh", "agree": "2"}]
)
@pytest.mark.parametrize("call", [BY_NUMBER, ("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0xff"})])
async def test_nothing_is_taken_from_the_disk_for_a_call_that_wants_it_anew(
    call: tuple[Any, ...], directives: dict[str, str], tmp_path: Path
) -> None:
    disk = {"disk": {"path": str(tmp_path), "read_timeout": 10}}
    net = {"chain": "ethereum", "ranges": {"segment": 16}}
    async with ethereum_nodes(3, head=300) as nodes, proxying(nodes, net=net, **MAY, **disk) as proxy:
        await say(proxy, call, **{name: value for name, value in directives.items() if name == "agree"})
        await until(lambda: proxy.worker.engine.disk.stats().writes > 0)
        for forget in (Selection(), None):
            if forget:
                proxy.worker.engine.memory.purge(forget)
            assert (await say(proxy, call, **directives)).cache == "miss"


async def test_a_call_that_wants_its_answer_anew_joins_none_that_is_under_way() -> None:
    async with gated_nodes() as nodes, proxying(nodes, **MAY) as proxy:
        nodes[0].hold(BLOCK[0])
        calls = [asyncio.create_task(say(proxy, BLOCK, **asked)) for asked in ({}, {"cache": "refresh"}, {})]
        await until(lambda: proxy.worker.engine.tally.in_flight == 3)
        nodes[0].release()
        assert sorted([(await call).cache for call in calls]) == ["flight", "miss", "miss"]
        assert proxy.asked(BLOCK[0]) == 2


@pytest.mark.parametrize("cache", ["refresh", "no-store"])
async def test_an_answer_of_a_branch_that_was_left_is_asked_for_again(cache: str) -> None:
    net = {"chain": "ethereum"}
    async with (
        GatedNode(ethereum_chain(200), name="node-0") as node,
        proxying([node], net=net, final=100, **MAY) as proxy,
    ):
        node.hold("eth_getBlockByNumber")
        call = asyncio.create_task(say(proxy, ("eth_getBlockByNumber", "0xc0", False), cache=cache))
        await node.arrived.wait()
        proxy.see(final=100, fork_epoch=1)
        node.release()
        assert (await call).result["number"] == "0xc0"
        assert proxy.asked("eth_getBlockByNumber") == 2


async def test_directives_are_refused_where_nobody_allowed_them() -> None:
    settings = {"clients": {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)], "directives": ["cache"]}}}}
    async with harmony_nodes(1) as nodes, proxying(nodes, **settings) as proxy:
        refused = await say(proxy, BLOCK, cache="no-store")
        assert (refused.status, refused.error["code"]) == (400, -32600)
        assert refused.error["message"].startswith("X-Rpcaccel-Cache is not allowed for you")
        assert (await say(proxy, BLOCK, X_Api_Key=KEY, cache="no-store")).cache == "miss"
        assert (await say(proxy, BLOCK, X_Api_Key=KEY, agree="2")).status == 400
        assert (await say(proxy, BLOCK, X_Api_Key=KEY)).status == 200


async def test_a_key_may_have_the_cache_off_or_a_tag_of_its_own() -> None:
    async with harmony_nodes(2) as nodes:
        listed = [{"id": node.name, "url": node.url, "tags": ["premium"] if at else []}
                  for at, node in enumerate(nodes)]  # fmt: skip
        key = {"hashes": [client_limits.hashed(KEY)], "tag": "premium"}
        async with proxying(nodes, net={"nodes": listed}, clients={"keys": {"dapp": key}}) as proxy:
            asked = {(await say(proxy, ("hmyv2_getBlockByNumber", n, {}), X_Api_Key=KEY)).node for n in range(8)}
            assert asked == {"node-1"}
            assert (await say(proxy, ("hmyv2_getBlockByNumber", 3, {}))).cache == "memory", "it is as true for others"
        async with proxying(nodes, clients={"keys": {"dapp": {**key, "tag": "", "cache": "off"}}}) as proxy:
            await say(proxy, BLOCK)
            assert (await say(proxy, BLOCK)).cache == "memory"
            assert (await say(proxy, BLOCK, X_Api_Key=KEY)).cache == "miss"


async def test_a_call_for_any_node_joins_none_that_goes_to_the_tag_of_a_key() -> None:
    key = {"hashes": [client_limits.hashed(KEY)], "tag": "premium"}
    async with gated_nodes(2) as nodes:
        listed = [{"id": node.name, "url": node.url, "tags": ["premium"] * at, "tier": at}
                  for at, node in enumerate(nodes)]  # fmt: skip
        async with proxying(nodes, net={"nodes": listed}, clients={"keys": {"dapp": key}}) as proxy:
            nodes[1].hold(BLOCK[0])
            premium = asyncio.create_task(say(proxy, BLOCK, X_Api_Key=KEY))
            await nodes[1].arrived.wait()
            assert (await asyncio.wait_for(say(proxy, BLOCK), 30)).node == "node-0"
            nodes[1].release()
            await premium


@pytest.mark.parametrize("by", ["parameters", "headers"])
async def test_a_websocket_has_its_directives_from_the_handshake(by: str) -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, **MAY) as proxy, aiohttp.ClientSession() as http:
        query = "?token=x&cache=no-store&node=node-1" if by == "parameters" else ""
        headers = {} if query else {"X-Rpcaccel-Cache": "no-store", "X-Rpcaccel-Node": "node-1"}
        call = {"jsonrpc": "2.0", "id": 1, "method": BLOCK[0], "params": list(BLOCK[1:])}
        async with http.ws_connect(f"{proxy.url}/harmony-s0{query}", headers=headers) as socket:
            for _ in range(3):
                await socket.send_json(call)
                assert (await socket.receive_json(timeout=60))["result"]["number"] == 5
        assert [node.counts.asked(BLOCK[0]) for node in nodes] == [0, 3]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(f"{proxy.url}/?cache=never")
        assert refused.value.status == 400


async def test_a_post_may_have_parameters_in_its_url() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, **MAY) as proxy:
        for path in ("/?node=node-1", "/harmony-s0?x=%20&node=node%2D1"):
            assert (await say(proxy, BLOCK, path)).node == "node-1"
        assert (await say(proxy, BLOCK, "/?node=nobody")).status == 400


async def test_items_of_a_batch_have_the_directives_of_their_request() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, **MAY) as proxy:
        items = [{"jsonrpc": "2.0", "id": n, "method": BLOCK[0], "params": [n, {}]} for n in range(6)]
        for _ in range(2):
            reply = await proxy.post(aiohttp.JsonPayload(items)._value, X_Rpcaccel_Node="node-0")
            assert [one["result"]["number"] for one in reply.json] == list(range(6))
            assert reply.node == "node-0"


async def test_only_so_many_routes_are_remembered_as_clients_choose_directives() -> None:
    async with harmony_nodes(5) as nodes, proxying(nodes, **MAY) as proxy:
        route = proxy.worker._front.routes["/"]
        for cache in ("no-store", "refresh"):
            for agree in range(1, 6):
                for prove in "01":
                    for call in (BLOCK, *(("hmyv2_getBlockByNumber", n, {}) for n in range(3)), ("eth_chainId",)):
                        await say(proxy, call, cache=cache, agree=str(agree), prove=prove)
                    assert len(route.by_directives) <= MAX_DIRECTED_ROUTES
        assert not any(head.query or head.headers.get("x-rpcaccel-cache", "") for head in heads(proxy)), (
            "a head has one"
        )


def heads(proxy: Proxy) -> list[RequestHead]:
    return [head for head in proxy.worker._lanes.heads._heads.values() if head is not None]


async def test_a_directed_route_remembers_a_few_methods() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **MAY) as proxy:
        methods = [rule.method for rule in chains.load("harmony").rules if rule.kind == "read"][:60]
        for method in methods:
            await say(proxy, (method,), cache="no-store")
        (route,) = proxy.worker._front.routes["/"].by_directives.values()
        assert len(route.accepted) <= MOST_CHANGED_METHODS
        assert len(route.network.planner._readers) <= MOST_CHANGED_METHODS
