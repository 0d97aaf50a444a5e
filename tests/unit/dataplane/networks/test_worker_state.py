"""A worker's state: adopted whole, node state carried over by id."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import count
from typing import Any

from rpcaccel.core.dispatch.batching import MOST_ITEMS
from rpcaccel.core.dispatch.dispatch_policy import Hedging
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.dataplane.upstream.batcher import Batcher
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.raw_node import Call, RawNode
from tests.support.proxy import proxying, settings_for
from tests.support.waiting import until


async def test_a_changed_weight_keeps_the_nodes_state_and_its_connections() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 1, {})
        network = proxy.worker.state.networks["harmony-s0"]
        before = {node.id: node for node in network.pool.nodes}
        upstreams = dict(network.pool.upstreams)
        weights = [{"id": node.name, "url": node.url, "weight": 5} for node in nodes]
        proxy.worker.adopt(settings_for(nodes, net={"nodes": weights}), 2)
        after = proxy.worker.state.networks["harmony-s0"]
        assert proxy.worker.state.revision == 2
        assert all(node is before[node.id] and node.weight == 5 for node in after.pool.nodes)
        assert dict(after.pool.upstreams) == upstreams
        assert after.view == network.view


async def test_a_removed_node_gets_no_more_calls_and_a_new_one_does() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes[:1]) as proxy:
        assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).node == nodes[0].name
        proxy.worker.adopt(settings_for(nodes[1:]), 2)
        proxy.nodes = nodes[1:]
        proxy.see()
        assert (await proxy.call("hmyv2_getBlockByNumber", 2, {})).node == nodes[1].name


async def test_heads_of_a_network_that_is_not_served_are_ignored() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        before = proxy.worker.state.networks["harmony-s0"].view
        proxy.network = "gone"
        proxy.see(5)
        assert proxy.worker.state.networks["harmony-s0"].view is before


async def test_the_same_heads_again_make_no_plan_anew() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        network = proxy.worker.state.networks["harmony-s0"]
        serial = network.view.serial
        proxy.see()
        assert network.view.serial == serial
        nodes[0].chain.advance()
        proxy.see()
        assert network.view.serial == serial + 1


async def test_a_node_answers_no_probe_only_once_one_has_ended() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        (node,) = proxy.worker.state.networks["harmony-s0"].pool.nodes
        assert node.answering is True
        for said, answering in ((NodeHead(id=node.id), None), (NodeHead(id=node.id, note="no connection"), False)):
            proxy.worker.see(NetworkHeads(network="harmony-s0", served=Served(9, 9), nodes=(said,)))
            assert node.answering is answering


async def test_behind_a_new_address_under_an_old_id_nothing_known_of_the_old_node_counts() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        moved = [{"id": nodes[0].name, "url": nodes[1].url}, {"id": nodes[1].name, "url": nodes[1].url}]
        proxy.worker.adopt(settings_for(nodes, net={"nodes": moved}), 2)
        new, old = proxy.worker.state.networks["harmony-s0"].pool.nodes
        assert (new.head, new.chain_ok) == (-1, None)
        assert (old.head, old.chain_ok) == (nodes[1].head, True)
        await proxy.call("hmyv2_getBlockByNumber", 2, {})  # the old connector gets its moment to close


async def test_with_another_chain_id_nothing_known_of_the_network_counts() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        proxy.worker.adopt(settings_for(nodes, net={"chain_id": 1666600000}), 2)
        network = proxy.worker.state.networks["harmony-s0"]
        assert not network.view.known
        assert network.pool.nodes[0].chain_ok is None


async def test_a_call_that_began_under_the_old_settings_learns_of_the_new_head() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        before = proxy.worker.state.networks["harmony-s0"]
        proxy.worker.adopt(settings_for(nodes, net={"attempts": 1}), 2)
        nodes[0].chain.advance()
        proxy.see()
        assert before.view.head == nodes[0].head


def with_settings(nodes: list[SimNode], *each: dict[str, Any], **net: Any) -> dict[str, Any]:
    """Network settings with something more said of each node."""
    said = zip(nodes, each, strict=True)
    return {"nodes": [{"id": node.name, "url": node.url, **more} for node, more in said], **net}


async def test_the_paid_node_is_asked_while_the_own_one_is_down_and_given_up_when_it_is_back() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=with_settings(nodes, {}, {"tier": 1})) as proxy:
        asked = iter(range(100))

        async def who() -> str:
            return (await proxy.call("hmyv2_getBlockByNumber", next(asked), {})).node

        assert {await who() for _ in range(5)} == {nodes[0].name}
        await nodes[0].kill()
        assert {await who() for _ in range(8)} == {nodes[1].name}
        await nodes[0].start()
        proxy.see()
        assert {await who() for _ in range(5)} == {nodes[0].name}


async def test_routed_methods_go_to_tagged_nodes_and_others_anywhere() -> None:
    async with harmony_nodes(3) as nodes:
        net = with_settings(nodes, {}, {"tags": ["logs"]}, {}, routes=[{"methods": ["*_getLogs"], "tag": "logs"}])
        async with proxying(nodes, net=net) as proxy:
            logs = [await proxy.call("eth_getLogs", {"fromBlock": hex(n), "toBlock": hex(n)}) for n in range(6)]
            blocks = [await proxy.call("hmyv2_getBlockByNumber", n, {}) for n in range(6)]
            assert {reply.node for reply in logs} == {nodes[1].name}
            assert {reply.node for reply in blocks} == {node.name for node in nodes}


async def test_a_quota_that_is_used_up_leaves_the_calls_to_others_and_is_reported() -> None:
    async with (
        harmony_nodes(2) as nodes,
        proxying(nodes, net=with_settings(nodes, {"quota": {"month": 3}}, {})) as proxy,
    ):
        replies = [await proxy.call("hmyv2_getBlockByNumber", n, {}) for n in range(12)]
        assert sum(reply.node == nodes[0].name for reply in replies) == 3
        report = proxy.worker.report().nodes[0]
        assert (report.quota[0].window, report.quota[0].used, report.quota[0].limit) == ("month", 3, 3)
        assert "has used up its quota" in report.refusal


async def test_the_calls_of_a_batch_cost_each_what_its_method_does() -> None:
    costs = {"hmyv2_getBlockByNumber": 20, "hmyv2_getBalance": 0.5, "*": 7}
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes, net=with_settings(nodes, {"quota": {"month": 1e6, "costs": costs}})) as proxy,
    ):
        calls = [("hmyv2_getBlockByNumber", [n, {}]) for n in range(3)] + [("hmyv2_getBalance", ["0x" + "1a" * 20])]
        batch = [{"jsonrpc": "2.0", "id": n, "method": m, "params": p} for n, (m, p) in enumerate(calls)]
        await proxy.post(json.dumps(batch).encode())
        await proxy.call("unheard_of")
        (use,) = proxy.worker.report().nodes[0].quota
        (cell,) = proxy.worker.report().tally.nodes
    assert use.used == cell.credits == 3 * 20 + 0.5 + 7
    assert cell.credited == cell.calls == 5


async def test_what_was_used_stays_used_when_the_limits_change() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        (node,) = proxy.worker.state.networks["harmony-s0"].pool.nodes
        for revision, quota in enumerate([{"day": 10}, {"day": 5}, {}], 2):
            net = with_settings(nodes, {"quota": quota})
            proxy.worker.adopt(settings_for(nodes, net=net), revision)
            if quota:
                assert node.quota
                assert node.quota.settings.day == quota["day"]
                node.quota.spend("eth_call", False, 0.0)
                assert node.quota.uses(0.0)[0].used == revision - 1
        assert node.quota is None


async def test_when_every_node_is_spent_the_client_is_told_when_to_come_again() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=with_settings(nodes, {"quota": {"day": 1}})) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 1, {})
        reply = await proxy.call("hmyv2_getBlockByNumber", 2, {})
        assert (reply.status, reply.error["code"]) == (429, -32005)
        assert 0 < int(reply.headers["Retry-After"]) <= 86_400


async def test_calls_that_wait_for_a_node_that_is_left_alone_are_asked_of_others() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        pool = proxy.worker.state.networks["harmony-s0"].pool
        pool.hedging = Hedging(at_least=25.0)
        for block in range(80):  # what the method takes on each node is known then
            await proxy.call("hmyv2_getBlockByNumber", block, {})
        nodes[0].knobs.turn({"faults": {"hang": 1.0}})
        asked = [proxy.call("hmyv2_getBlockByNumber", 100 + number, {}) for number in range(4)]
        asked += [proxy.call("eth_getLogs", {"fromBlock": hex(n), "toBlock": hex(n)}) for n in range(4)]
        calls = [*map(asyncio.create_task, asked)]
        async with asyncio.timeout(20):
            while not (pool.nodes[0].in_flight and sum(call.done() for call in calls) == 8 - pool.nodes[0].in_flight):
                await asyncio.sleep(0.001)
            held = pool.nodes[0].in_flight
            assert pool.nodes[0].held[Bulkhead.HEAVY]
            pool.nodes[0].ejected_until = pool.clock() + 100.0
            assert {(await call).status for call in calls} == {200}
        (cell,) = [cell for cell in proxy.worker.report().tally.nodes if cell.node == nodes[0].name]
        assert (sum(cell.failures.values()), "timeout" in cell.failures) == (held, False), "nobody waited for that"


async def test_a_call_under_way_when_the_settings_change_leaves_a_node_that_hangs() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        network = proxy.worker.state.networks["harmony-s0"]
        network.pool.hedging = Hedging(at_least=4.0, samples=1)
        for node in network.pool.nodes:
            node.pace.answered("hmyv2_getBlockByNumber", 0.001, 0.0)
        for told in nodes:
            told.knobs.turn({"latency": "60s"})
        call = asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", 1, {}))
        async with asyncio.timeout(20):
            while not any(node.in_flight for node in network.pool.nodes):
                await asyncio.sleep(0)
            proxy.worker.adopt(settings_for(nodes, net={"deadline": "7s"}), 2)
            pool = proxy.worker.state.networks["harmony-s0"].pool
            (hanging, other) = sorted(pool.nodes, key=lambda node: -node.in_flight)
            pool.abandon(hanging.id)
            while not other.in_flight:
                await asyncio.sleep(0)
        assert hanging.in_flight == 1, "beside, and not after, what the other has"
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


@dataclass
class Behind:
    """A node as `proxying` wants one, with a script behind it."""

    raw: RawNode
    name: str = "a"
    head: int = 10_000

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.raw.port}"


async def test_a_changed_timeout_counts_for_later_calls_while_those_under_way_keep_theirs(node: RawNode) -> None:
    may_answer = asyncio.Event()

    async def script(call: Call) -> None:
        number = json.loads(call.body)["params"][0]
        await (may_answer if number < 100 else asyncio.Event()).wait()
        call.reply(b'{"id":%d,"result":{"number":%d}}' % (call.id, number))

    def timeout(said: str) -> dict[str, Any]:
        return {"nodes": [{"id": "a", "url": behind.url, "gather": False, "timeout": said}]}

    node.script, behind = script, Behind(node)
    async with proxying([behind], net=timeout("20s")) as proxy, asyncio.timeout(15):  # type: ignore[list-item]
        (known,) = proxy.worker.state.networks["harmony-s0"].pool.nodes
        known.pace.answered("hmyv2_getBlockByNumber", 0.5, 0.0)
        early = [asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", n, {})) for n in range(20)]
        await until(lambda: len(node.calls) == len(early))
        proxy.worker.adopt(settings_for([behind], net=timeout("50ms")), 2)  # type: ignore[list-item]
        assert (known.timeout, known.in_flight) == (0.05, len(early))
        late = await asyncio.gather(*(proxy.call("hmyv2_getBlockByNumber", 100 + n, {}) for n in range(2)))
        assert {reply.status for reply in late} == {504}
        assert not any(call.done() for call in early)
        may_answer.set()
        assert {(await call).status for call in early} == {200}
        assert proxy.worker.state.networks["harmony-s0"].pool.nodes == [known]
        assert known.in_flight == 0
        (cell,) = proxy.worker.report().tally.nodes
        assert (cell.calls, cell.failures) == (len(node.calls), {"timeout": len(node.calls) - len(early)})


async def test_what_was_found_of_a_node_bounds_the_calls_and_the_batches_that_it_gets() -> None:
    async with harmony_nodes(2, head=1000) as nodes, proxying(nodes) as proxy:
        network = proxy.worker.state.networks["harmony-s0"]
        found = Examination(at=1.0, head=1000, state_from=872, batch_most=16, batch_tried=64)

        def tell(head: int, **first: Any) -> None:
            about = {"head": head, "chain_ok": True, "answering": True}
            told = (NodeHead(id=nodes[0].name, **about, **first), NodeHead(id=nodes[1].name, **about))
            proxy.worker.see(NetworkHeads(network="harmony-s0", served=Served(head, head), nodes=told))

        async def who(block: int) -> str:
            return (await proxy.call("hmyv2_getBalanceByBlockNumber", f"0x{next(asked):040x}", block)).node

        asked = count()
        tell(1000, examining=True)
        assert {await who(990) for _ in range(20)} == {nodes[1].name}
        tell(1000, examination=found)
        assert {await who(990) for _ in range(20)} == {nodes[0].name, nodes[1].name}
        assert {await who(871) for _ in range(20)} == {nodes[1].name}
        nodes[0].chain.advance(50)
        tell(1050, examination=found)
        assert {await who(921) for _ in range(20)} == {nodes[1].name}, "what it keeps has moved on with its head"
        batcher = network.pool.upstreams[nodes[0].name]
        assert isinstance(batcher, Batcher)
        assert batcher.state.most == 16
        tell(1050)
        assert batcher.state.most == MOST_ITEMS
        assert nodes[0].name in {await who(5) for _ in range(20)}
