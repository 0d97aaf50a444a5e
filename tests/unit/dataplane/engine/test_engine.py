"""The way of a call, over simulated nodes that know what is true."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import gated_nodes
from tests.support.proxy import proxying
from tests.support.waiting import until

ADDRESS = "one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3"


async def test_a_second_identical_call_asks_no_node_and_carries_the_callers_own_id() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        first = await proxy.call("hmyv2_getBlockByNumber", 26, {}, id=1)
        second = await proxy.post(
            b'{"jsonrpc":"2.0","id": 1.50 ,"method":"hmyv2_getBlockByNumber","params":["0x1a", {}]}'
        )
        assert (first.cache, second.cache) == ("miss", "memory")
        assert proxy.asked("hmyv2_getBlockByNumber") == 1
        assert second.body == first.body.replace(b'"id":1,', b'"id":1.50,')


async def test_an_answer_is_byte_for_byte_what_a_node_says() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reply = await proxy.call("hmyv2_getBalanceByBlockNumber", ADDRESS, 100)
        assert reply.result == await nodes[0].ask("hmyv2_getBalanceByBlockNumber", ADDRESS, 100)
        assert reply.body.startswith(b'{"jsonrpc":"2.0","id":1,"result":')
        assert b"e+" not in reply.body


async def test_the_head_and_the_chain_id_are_answered_by_the_proxy() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert (await proxy.call("eth_blockNumber")).result == hex(nodes[0].head)
        assert (await proxy.call("hmyv2_blockNumber")).result == nodes[0].head
        chain = await proxy.call("eth_chainId")
        assert (chain.result, chain.cache) == ("0x6357d2e0", "local")
        assert (await proxy.call("net_version")).result == "1666700000"
        assert nodes[0].counts.calls == 0


async def test_latest_turns_over_with_the_head_and_not_before() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        before = await proxy.call("eth_getBalance", "0x" + "a5" * 20, "latest")
        again = await proxy.call("eth_getBalance", "0x" + "a5" * 20, "latest")
        nodes[0].chain.advance()
        proxy.see()
        after = await proxy.call("eth_getBalance", "0x" + "a5" * 20, "latest")
        assert (before.cache, again.cache, after.cache) == ("miss", "memory", "miss")
        assert int(after.headers["X-Rpcaccel-Block"]) == int(before.headers["X-Rpcaccel-Block"]) + 1
        assert after.result == await nodes[0].ask("eth_getBalance", "0x" + "a5" * 20, hex(nodes[0].head))


async def test_a_lagging_node_is_not_asked_about_a_block_above_its_head() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        nodes[0].knobs.lag = 5
        head = nodes[1].head
        proxy.see(nodes=[head - 5, head])
        for index in range(10):
            reply = await proxy.call("hmyv2_call", {"to": "0x" + f"{index:040x}", "data": "0x"}, head)
            assert reply.node == nodes[1].name
        spread = {(await proxy.call("hmyv2_getBlockByNumber", 20 + index, {})).node for index in range(10)}
        assert spread == {nodes[0].name, nodes[1].name}


async def test_an_answer_about_a_block_no_node_has_yet_is_passed_on_and_not_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        above = nodes[0].head + 3
        early = await proxy.call("hmyv2_call", {"to": "0x" + "1" * 40, "data": "0x"}, above)
        assert early.result == "0x"
        for _ in range(3):
            nodes[0].chain.advance()
        proxy.see()
        late = await proxy.call("hmyv2_call", {"to": "0x" + "1" * 40, "data": "0x"}, above)
        assert late.cache == "miss"
        assert late.result == await nodes[0].ask("hmyv2_call", {"to": "0x" + "1" * 40, "data": "0x"}, above)


async def test_errors_are_passed_on_and_never_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        replies = [await proxy.call("hmyv2_getBalance", "zzz") for _ in range(2)]
        assert [reply.error for reply in replies] == [{"code": -32000, "message": "invalid address: zzz"}] * 2
        assert all("result" not in reply.json for reply in replies)
        assert proxy.asked("hmyv2_getBalance") == 2


async def test_identical_calls_under_way_make_one_node_call() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        nodes[0].hold("eth_gasPrice")
        calls = [asyncio.create_task(proxy.call("eth_gasPrice", id=number)) for number in range(40)]
        await until(lambda: proxy.worker.report().tally.in_flight == 40)
        nodes[0].release()
        replies = await asyncio.gather(*calls)
        assert proxy.asked("eth_gasPrice") == 1
        assert sorted(reply.cache for reply in replies) == ["flight"] * 39 + ["miss"]
        assert [reply.json["id"] for reply in replies] == list(range(40))
        assert len({reply.result for reply in replies}) == 1


async def test_an_unknown_method_is_asked_of_a_node_every_time() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        for _ in range(2):
            reply = await proxy.call("foo_bar")
            assert reply.error["code"] == -32601
        assert proxy.asked("foo_bar") == 2


async def test_a_node_that_is_down_is_passed_over() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes) as proxy:
        await nodes[0].kill()
        replies = [await proxy.call("hmyv2_getBlockByNumber", number, {}) for number in range(30)]
        assert {reply.status for reply in replies} == {200}
        assert {reply.node for reply in replies} == {nodes[1].name, nodes[2].name}
        assert {reply.headers["X-Rpcaccel-Attempts"] for reply in replies} >= {"1", "2"}


async def test_when_every_node_is_down_the_client_gets_an_error_and_the_reason() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        for node in nodes:
            await node.kill()
        reply = await proxy.call("hmyv2_getBlockByNumber", 5, {})
        assert reply.status == 502
        assert reply.error["code"] == -32603
        assert nodes[0].name in reply.error["message"] or "no connection" in reply.error["message"]


async def test_a_call_routed_to_nodes_of_which_none_answers_is_told_so_without_waiting() -> None:
    async with harmony_nodes(2) as nodes:
        told: list[dict[str, Any]] = [{"id": node.name, "url": node.url} for node in nodes]
        told[1]["tags"] = ["logs"]
        net = {"nodes": told, "routes": [{"methods": ["*_getLogs"], "tag": "logs"}]}
        async with proxying(nodes, net=net) as proxy:
            well = NodeHead(id=nodes[0].name, head=nodes[0].head, chain_ok=True, answering=True)
            gone = NodeHead(id=nodes[1].name, note="no connection")
            proxy.worker.see(NetworkHeads(network=proxy.network, served=Served(nodes[0].head, 0), nodes=(well, gone)))
            body = b'{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{}]}'
            reply = await proxy.post(body, X_Rpcaccel_Timeout="4s")  # less than it would wait for a head
            assert reply.status == 503
            assert "node node-1 serves another chain or shard, or has not said which" in reply.error["message"]


async def test_a_call_waits_for_a_node_at_the_block_it_needs_when_the_one_that_had_it_went() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        proxy.see(nodes=[head - 1, head - 1], serve=head)
        waiting = asyncio.create_task(proxy.call("eth_getBalance", "0x" + "a5" * 20, "latest"))
        while proxy.worker.engine.flights.started == 0:
            await asyncio.sleep(0)
        proxy.see(head)
        assert (await waiting).result == await nodes[0].ask("eth_getBalance", "0x" + "a5" * 20, hex(head))


async def test_denied_methods_never_reach_a_node() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"deny": ["debug_*"]}) as proxy:
        for method in ("hmyv2_setNodeToBackupMode", "debug_traceTransaction", "personal_unlockAccount", "evm_mine"):
            reply = await proxy.call(method, True)
            assert reply.error["code"] == -32601
            assert reply.error["message"].startswith(f"the method {method} is ")
            assert ("http.expose" in reply.error["message"]) is (method != "debug_traceTransaction")
            assert reply.cache == "refused"
            assert proxy.asked(method) == 0


async def test_what_is_for_operators_reaches_a_node_when_the_settings_name_it() -> None:
    http = {"expose": ["evm_*", "hmyv2_setNodeToBackupMode"], "deny": ["evm_revert"]}
    async with harmony_nodes(1) as nodes, proxying(nodes, http=http) as proxy:
        for method, asked in (("hmyv2_setNodeToBackupMode", 1), ("evm_mine", 1), ("evm_revert", 0), ("anvil_mine", 0)):
            await proxy.call(method, True)
            assert proxy.asked(method) == asked


@pytest.mark.parametrize("fault", ["reset", "half_body", "html", "empty", "garbage", "wrong_id", "unavailable"])
async def test_a_node_that_answers_badly_is_passed_over(fault: str) -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        nodes[0].knobs.turn({"faults": {fault: 1.0}})
        for number in range(6):
            reply = await proxy.call("hmyv2_getBlockByNumber", number, {})
            assert reply.result["number"] == number
            assert reply.node == nodes[1].name


async def test_a_null_is_kept_until_the_next_head_and_no_longer() -> None:
    unknown = "0x" + "11" * 32
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        caches = [(await proxy.call("eth_getTransactionReceipt", unknown)).cache for _ in range(2)]
        nodes[0].chain.advance()
        proxy.see()
        caches.append((await proxy.call("eth_getTransactionReceipt", unknown)).cache)
        assert caches == ["miss", "memory", "miss"]


async def test_what_memory_cannot_have_is_no_miss_of_memory() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        before = proxy.worker._memory.stats().misses
        await proxy.call("eth_newBlockFilter")
        await proxy.call("eth_getBalance", "0x" + "a5" * 20, "latest")
        assert proxy.worker._memory.stats().misses - before == 1
