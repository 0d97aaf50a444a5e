"""Reads that several nodes must answer alike, over simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.dispatch.dispatch_policy import Hedging
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from tests.support.dataplane.saying import all_saying
from tests.support.proxy import proxying, settings_for
from tests.support.waiting import until

WHO = f"0x{1:040x}"
TWO: dict[str, Any] = {"rules": {"eth_*": {"agree": 2}}, "agreement": {"share": 0}}


async def test_two_nodes_are_asked_at_once_and_equal_answers_go_out() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net=TWO) as proxy:
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert reply.result == await nodes[0].ask("eth_getBalance", WHO, "0x64")
        assert reply.headers["X-Rpcaccel-Agreed"] == "2/2"
        assert len(reply.node.split(", ")) == 2
        assert proxy.asked("eth_getBalance") == 2


async def test_a_third_node_decides() -> None:
    told: list[Any] = []
    async with harmony_nodes(3) as nodes, proxying(nodes, net=TWO, on_hint=told.append) as proxy:
        nodes[0].knobs.lies = {"old_state": 1.0}
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert reply.result == await nodes[1].ask("eth_getBalance", WHO, "0x64")
        assert (reply.headers["X-Rpcaccel-Agreed"], reply.node) == ("2/3", "node-1, node-2")
        (case,) = [one for one in told if isinstance(one, Case)]
        assert (case.minority, case.wrong) == (("node-0",), ())


async def test_no_two_equal_answers_are_an_error_that_says_so() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=TWO) as proxy:
        nodes[0].knobs.lies = {"old_state": 1.0}
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert (reply.status, reply.headers["X-Rpcaccel-Agreed"]) == (502, "0/2")
        assert reply.error == {
            "code": -32603,
            "message": 'networks.harmony-s0.rules."eth_*" wants 2 nodes to give the same answer to eth_getBalance, and '
            "those that answered differ: node-0, node-1",
        }


async def test_one_node_that_can_be_asked_is_too_few() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=TWO) as proxy:
        nodes[1].knobs.faults = {"error": 1.0}
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert reply.status == 502
        assert "only node-0 answered: " in reply.error["message"]


async def test_a_node_that_fails_is_replaced_by_another() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net=TWO) as proxy:
        nodes[0].knobs.faults = {"unavailable": 1.0}
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert (reply.status, reply.headers["X-Rpcaccel-Agreed"], reply.node) == (200, "2/2", "node-1, node-2")


async def test_the_agreed_answer_is_kept_and_no_answer_of_one_node_is_taken_for_it() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net={"agreement": {"share": 0}}) as proxy:
        assert (await proxy.call("eth_getBalance", WHO, "0x64")).cache == "miss"
        proxy.worker.adopt(settings_for(nodes, net=TWO), 2)
        proxy.see()
        first, second = [await proxy.call("eth_getBalance", WHO, "0x64") for _ in range(2)]
        assert (first.cache, second.cache) == ("miss", "memory")
        assert first.headers["X-Rpcaccel-Agreed"] == "2/2"


async def test_callers_of_the_same_read_share_it() -> None:
    async with harmony_nodes(3, latency="5ms") as nodes, proxying(nodes, net=TWO) as proxy:
        replies = await asyncio.gather(*(proxy.call("eth_getBalance", WHO, "0x64") for _ in range(5)))
        assert len({reply.body for reply in replies}) == 1
        assert proxy.asked("eth_getBalance") == 2
        assert all(reply.headers["X-Rpcaccel-Agreed"] == "2/2" for reply in replies)


async def test_the_pieces_of_a_range_are_agreed_in_one_by_one_and_kept() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net=TWO) as proxy:
        nodes[1].knobs.lies = {"truncated_logs": 1.0}
        asked = {"fromBlock": "0x20", "toBlock": "0x6f"}
        reply = await proxy.call("eth_getLogs", asked)
        assert reply.result == await nodes[0].ask("eth_getLogs", asked)
        assert reply.headers["X-Rpcaccel-Agreed"] in {"2/2", "2/3"}
        assert (await proxy.call("eth_getLogs", asked)).cache == "memory"


async def test_errors_that_every_node_would_give_are_agreed_in() -> None:
    async with ethereum_nodes(2) as nodes, proxying(nodes, net={**TWO, "chain": "ethereum"}) as proxy:
        reply = await proxy.call("eth_getBalance", "no address", "0x64")
        assert reply.error["code"] == -32602
        assert reply.headers["X-Rpcaccel-Agreed"] == "2/2"


async def test_a_transaction_is_sent_as_ever() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net=TWO) as proxy:
        reply = await proxy.call("eth_sendRawTransaction", "0x00")
        assert "X-Rpcaccel-Agreed" not in reply.headers


async def test_a_route_asks_for_agreement_of_the_nodes_with_its_tag() -> None:
    async with harmony_nodes(3) as nodes:
        listed = [
            {"id": node.name, "url": node.url, "tags": ["sure"] if node is not nodes[0] else []} for node in nodes
        ]
        routes = [{"methods": ["eth_getBalance"], "tag": "sure", "agree": 2}]
        async with proxying(nodes, net={"nodes": listed, "routes": routes, "agreement": {"share": 0}}) as proxy:
            reply = await proxy.call("eth_getBalance", WHO, "0x64")
            assert (reply.headers["X-Rpcaccel-Agreed"], reply.node) == ("2/2", "node-1, node-2")


async def test_the_deadline_of_the_call_holds() -> None:
    net = {**TWO, "deadline": 0.2, "attempts": 1}
    async with harmony_nodes(2) as nodes, proxying(nodes, net=net) as proxy:
        nodes[1].knobs.faults = {"hang": 1.0}
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert reply.status == 502
        await until(lambda: not any(node.in_flight for node in proxy.worker.report().nodes), within=5)


def always(members: bytes) -> Callable[[str, bytes], bytes]:
    return lambda _method, _params: members


def reverts(word: int) -> Callable[[str, bytes], bytes]:
    return always(b'"error":{"code":3,"message":"execution reverted","data":"0x%064x"}' % word)


async def test_reverts_with_other_data_are_other_answers() -> None:
    net = {**TWO, "chain": "ethereum"}
    async with all_saying(reverts(1), reverts(2)) as nodes, proxying(nodes, net=net) as proxy:
        reply = await proxy.call("eth_call", {"to": WHO}, "0x40")
        assert (reply.status, reply.headers["X-Rpcaccel-Agreed"]) == (502, "0/2")
    async with all_saying(reverts(1), reverts(2), reverts(2)) as nodes, proxying(nodes, net=net) as proxy:
        reply = await proxy.call("eth_call", {"to": WHO}, "0x40")
        assert reply.headers["X-Rpcaccel-Agreed"] in {"2/2", "2/3"}
        assert reply.error["data"] == f"0x{2:064x}"


async def test_a_range_that_is_too_large_for_one_node_is_asked_for_in_halves() -> None:
    async with ethereum_nodes(2) as nodes:
        nodes[0].knobs.logs_results = 60
        net = {**TWO, "chain": "ethereum", "ranges": {"segment": 16}}
        async with proxying(nodes, net=net, final=180) as proxy:
            asked = {"fromBlock": "0x20", "toBlock": "0x8f"}
            reply = await proxy.call("eth_getLogs", asked)
            assert reply.result == await nodes[1].ask("eth_getLogs", asked)
            assert reply.headers["X-Rpcaccel-Agreed"] == "2/2"


async def test_of_agreed_answers_the_one_without_false_hashes_goes_out_and_is_kept() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=TWO) as proxy:
        (log, *_) = await nodes[1].ask("eth_getLogs", {"fromBlock": "0x60", "toBlock": "0x70"})
        nodes[0].knobs.false_hashes = True
        replies = [await proxy.call("eth_getTransactionReceipt", log["transactionHash"]) for _ in range(2)]
        assert {reply.result["blockHash"] for reply in replies} == {
            inside["blockHash"] for reply in replies for inside in reply.result["logs"]
        }
        assert replies[1].cache == "memory"


async def test_an_answer_of_an_older_head_is_not_kept_for_the_newest_one() -> None:
    net = {"rules": {"hmyv2_*": {"agree": 2}}, "agreement": {"share": 0}, "attempts": 1, "block_time": "100ms"}
    async with harmony_nodes(3) as nodes, proxying(nodes, net=net) as proxy:
        head = nodes[0].head
        nodes[0].knobs.faults = {"reset": 1.0}
        proxy.see(nodes=[head, head - 1, head - 1], serve=head, final=head)
        replies = [await proxy.call("hmyv2_getStakingNetworkInfo") for _ in range(2)]
        assert [(reply.cache, reply.headers["X-Rpcaccel-Block"]) for reply in replies] == [("miss", f"{head - 1}")] * 2


async def test_a_node_that_was_overtaken_is_asked_again_where_nobody_else_is_left() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net=TWO) as proxy:
        pool = proxy.worker.state.networks["harmony-s0"].pool
        pool.hedging = Hedging(at_least=0.3, samples=1)
        for node in pool.nodes:
            node.pace.answered("eth_getBalance", 0.01, pool.clock())
        nodes[0].knobs.next_faults = ["hang"]
        nodes[1].knobs.lies = {"old_state": 1.0}
        reply = await proxy.call("eth_getBalance", WHO, "0x64")
        assert (reply.headers["X-Rpcaccel-Agreed"], reply.node) == ("2/3", "node-0, node-2")


async def test_the_inner_calls_of_an_agreed_read_are_compared_once() -> None:
    told: list[Any] = []
    net = {**TWO, "agreement": {"share": 1, "budget": 1e6}}
    async with harmony_nodes(4) as nodes, proxying(nodes, net=net, on_hint=told.append) as proxy:
        nodes[0].knobs.lies = {"old_state": 1.0}
        await proxy.call("eth_getBalance", WHO, "0x64")
        assert len([one for one in told if isinstance(one, Case)]) == 1
        assert proxy.asked("eth_getBalance") == 3
