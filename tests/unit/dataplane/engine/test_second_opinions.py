"""A share of the answers is asked of a second node, over simulated nodes of which one lies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.saying import all_saying
from tests.support.proxy import HARMONY_ID, Proxy, proxying
from tests.support.waiting import until

EACH: dict[str, Any] = {"agreement": {"share": 1, "budget": 1e6}}
"""Every answer is compared."""
CALLS = 1000
Call = tuple[str, list[Any]]
Make = Callable[[int], Call]


class Told(list[Any]):
    """What the worker tells the supervisor."""

    @property
    def cases(self) -> list[Case]:
        return [told for told in self if isinstance(told, Case)]


@asynccontextmanager
async def opened(nodes: list[SimNode], told: Told, **more: Any) -> AsyncIterator[Proxy]:
    kind = nodes[0].chain.spec.kind
    net = {**EACH, "chain": kind, **more.pop("net", {})}
    final = None if kind == "harmony" else nodes[0].head - 20
    async with proxying(nodes, on_hint=told.append, net=net, final=final, **more) as proxy:
        yield proxy


def cells(proxy: Proxy) -> dict[str, NodeCell]:
    return {cell.node: cell for cell in proxy.worker.report().tally.nodes}


def compared(proxy: Proxy) -> int:
    return sum(cell.compared for cell in cells(proxy).values())


def balance(number: int) -> Call:
    return "eth_getBalance", [f"0x{number:040x}", hex(100 + number % 60)]


async def test_an_honest_answer_is_compared_with_that_of_another_node_after_the_client_has_it() -> None:
    told = Told()
    async with harmony_nodes(3) as nodes, opened(nodes, told) as proxy:
        await proxy.call("eth_getBalance", f"0x{1:040x}", "0x64")
        await until(lambda: compared(proxy) == 2)
        assert not told.cases
        assert proxy.asked("eth_getBalance") == 2


async def test_without_a_share_or_with_one_node_nothing_is_compared() -> None:
    for count, share in ((3, 0), (1, 1)):
        async with harmony_nodes(count) as nodes, proxying(nodes, net={"agreement": {"share": share}}) as proxy:
            for number in range(20):
                await proxy.call(*flat(balance(number)))
            assert proxy.asked("eth_getBalance") == 20


async def test_what_may_still_change_or_differs_by_node_is_not_compared() -> None:
    async with harmony_nodes(3) as nodes, opened(nodes, Told()) as proxy:
        for method, params in (("hmyv2_getNodeMetadata", []), ("eth_gasPrice", []), ("hmyv2_getLeader", [])):
            await proxy.call(method, *params)
        await proxy.call("eth_getBalance", f"0x{1:040x}", "latest")
        await proxy.call("eth_getTransactionByHash", f"0x{1:064x}")
        await asyncio.sleep(0)
        assert compared(proxy) == 0


def logs(number: int) -> Call:
    first = 20 + number % 100
    return "eth_getLogs", [{"fromBlock": hex(first), "toBlock": hex(first + 5 + number // 100)}]


async def receipt_of(nodes: list[SimNode]) -> Make:
    """Receipts of known transactions, each called by a number."""
    blocks = [await nodes[0].ask("eth_getBlockByNumber", hex(number), False) for number in range(2, 1170)]
    hashes = [hash for block in blocks for hash in block["transactions"]]

    return lambda number: ("eth_getTransactionReceipt", [hashes[number % len(hashes)]])


def flat(call: Call) -> list[Any]:
    return [call[0], *call[1]]


@pytest.mark.parametrize(
    ("lie", "make"),
    [("old_state", balance), ("truncated_logs", logs), ("dropped_receipts", None)],
    ids=["old_state", "truncated_logs", "dropped_receipts"],
)
@pytest.mark.parametrize("kind", ["harmony", "ethereum"])
async def test_a_node_that_lies_is_found_within_a_thousand_calls_of_that_kind(
    lie: str, make: Make | None, kind: str
) -> None:
    told, nodes_of = Told(), harmony_nodes if kind == "harmony" else ethereum_nodes
    async with nodes_of(3, head=1200) as nodes:
        nodes[1].knobs.lies = {lie: 1.0}
        called = make or await receipt_of(nodes)
        usual = {"agreement": {"share": 0.005}, "ranges": {"enabled": False}, "hedge": {"quantile": 0}}
        async with opened(nodes, told, net=usual) as proxy:
            calls = 0
            while calls < CALLS and not told.cases:
                await proxy.call(*flat(called(calls)))
                calls += 1
            await until(lambda: bool(told.cases), within=5)
            assert {case.method for case in told.cases} == {called(0)[0]}
            assert all(case.minority == ("node-1",) for case in told.cases), told.cases
            assert cells(proxy)["node-1"].minority == len(told.cases)
            again = sum(cell.retries for cell in cells(proxy).values())
            assert sum(node.counts.calls for node in nodes) <= calls * 1.005 + 2 + again


async def test_a_node_on_another_branch_is_contradicted_about_settled_blocks() -> None:
    told = Told()
    async with ethereum_nodes(3) as nodes:
        nodes[0].chain.reorg(60)
        nodes[2].knobs.branch = 0
        async with opened(nodes, told) as proxy:
            for number in range(150, 175):
                await proxy.call("eth_getBlockByNumber", hex(number), False)
            await until(lambda: bool(told.cases), within=5)
            assert {case.minority for case in told.cases} == {("node-2",)}
            assert "result." in told.cases[0].difference


async def test_where_two_nodes_differ_and_there_is_no_third_nobody_is_blamed() -> None:
    told = Told()
    async with harmony_nodes(2) as nodes:
        nodes[1].knobs.lies = {"old_state": 1.0}
        async with opened(nodes, told) as proxy:
            await proxy.call(*flat(balance(1)))
            await until(lambda: bool(told.cases), within=5)
            (case,) = told.cases
            assert (case.minority, case.wrong) == ((), ())
            assert {(cell.compared, cell.minority, cell.undecided) for cell in cells(proxy).values()} == {(1, 0, 1)}
            assert [answer.node for answer in case.answers] == ["node-0", "node-1"]
            assert case.answers[0].text != case.answers[1].text


async def test_the_key_of_a_kept_answer_that_is_contradicted_is_told() -> None:
    told = Told()
    async with harmony_nodes(3) as nodes:
        nodes[0].knobs.lies = {"old_state": 1.0, "truncated_logs": 1.0}
        async with opened(nodes, told) as proxy:
            wrong = await proxy.call(*flat(balance(1)))
            assert wrong.node == "node-0"
            await until(lambda: bool(told.cases), within=5)
            assert await proxy.worker.explain("", *as_asked(balance(1))) is not None
            held = (await proxy.worker.explain("", *as_asked(balance(1)))).held  # type: ignore[union-attr]
            assert held[0].key in told.cases[0].wrong


async def test_a_piece_of_a_range_that_is_contradicted_is_told_by_its_keys() -> None:
    told = Told()
    async with harmony_nodes(3) as nodes:
        nodes[0].knobs.lies = {"truncated_logs": 1.0}
        async with opened(nodes, told, net={"ranges": {"segment": 16}}) as proxy:
            for first in range(32, 160, 16):  # heavy calls wait until they have saved up two
                await proxy.call("eth_getLogs", {"fromBlock": hex(first), "toBlock": hex(first + 15)})
            await until(lambda: any(case.wrong for case in told.cases), within=5)
            wrong = [key for case in told.cases for key in case.wrong]
            assert all(case.minority == ("node-0",) for case in told.cases)
            for key in wrong:
                assert (await proxy.worker.purge(Selection(key=key.encode()), dry=True)).memory == 1


def as_asked(call: Call) -> tuple[str, bytes]:
    return call[0], orjson.dumps(call[1])


async def test_a_node_whose_quota_is_nearly_used_is_asked_for_no_comparison() -> None:
    async with harmony_nodes(2) as nodes:
        listed = [{"id": node.name, "url": node.url, "quota": {"day": 10}} for node in nodes]
        async with opened(nodes, Told(), net={"nodes": listed}) as proxy:
            (use, *_) = proxy.worker.report().nodes[1].quota
            proxy.worker.bring([Brought(network="harmony-s0", node="node-1", window="day", used=9, since=use.since,
                                        renews=use.renews)])  # fmt: skip
            assert (await proxy.call(*flat(balance(1)))).node == "node-0"
            assert proxy.worker.state.networks["harmony-s0"].sampling.credit == 1.0, "nothing was paid for"


async def test_an_error_or_a_dead_second_node_ends_the_comparison_without_a_word() -> None:
    told = Told()
    async with harmony_nodes(2) as nodes, opened(nodes, told) as proxy:
        nodes[1].knobs.faults = {"error": 1.0}
        reply = await proxy.call(*flat(balance(1)))
        assert reply.node == "node-0"
        await until(lambda: nodes[1].counts.calls == 1, within=5)
        await until(lambda: not cells(proxy)["node-1"].in_flight, within=5)
        assert (compared(proxy), told.cases) == (0, [])


@pytest.mark.parametrize(
    "said", [b'"error":{"code":3,"message":"execution reverted"}', b'"result":null'], ids=["error", "dropped block"]
)
async def test_a_second_node_that_has_no_answer_is_no_reason_to_ask_a_third(said: bytes) -> None:
    answers = [lambda _method, _params, said=said: said for said in (b'"result":"0x1"', said, said)]
    async with all_saying(*answers) as nodes, proxying(nodes, net=EACH) as proxy:
        await proxy.call("eth_getBalance", f"0x{1:040x}", "0x40")
        await until(lambda: nodes[1].calls and not proxy.worker.engine.flights.alone)
        assert (len(nodes[2].calls), compared(proxy)) == (0, 0)


async def test_clients_of_every_kind_are_not_taken_for_liars() -> None:
    told = Told()
    async with ethereum_nodes(5) as nodes:
        for node, client in zip(nodes, ("geth", "erigon", "reth", "nethermind", "besu"), strict=True):
            node.knobs.client = client  # type: ignore[assignment]
        async with opened(nodes, told) as proxy:
            witness = SimNode(nodes[0].chain, name="witness")
            for number in range(100, 160):
                block = await witness.ask("eth_getBlockByNumber", hex(number), True)
                for transaction in block["transactions"]:
                    await proxy.call("eth_getTransactionReceipt", transaction["hash"])
                    await proxy.call("eth_getTransactionByHash", transaction["hash"])
                await proxy.call("eth_getBlockByNumber", hex(number), True)
                await proxy.call("eth_getBlockReceipts", hex(number))
            await until(lambda: compared(proxy) > 300, within=5)
            assert not told.cases


async def test_calls_that_reached_no_node_pay_for_no_comparison() -> None:
    async with harmony_nodes(2) as nodes:
        for node in nodes:
            node.knobs.faults = {"unavailable": 1.0}
        async with opened(nodes, Told(), net={"agreement": {"share": 0.01}}) as proxy:
            for number in range(300):
                await proxy.call(*flat(balance(number)))
            for node in nodes:
                node.knobs.faults = {}
            proxy.see()
            credit = proxy.worker.state.networks["harmony-s0"].sampling.credit
            assert credit == 0


async def test_a_node_of_a_higher_tier_is_not_asked_for_a_comparison() -> None:
    async with harmony_nodes(2) as nodes:
        listed = [{"id": node.name, "url": node.url, "tier": tier} for tier, node in enumerate(nodes)]
        async with opened(nodes, Told(), net={"nodes": listed}) as proxy:
            await proxy.call(*flat(balance(1)))
            await proxy.call(*flat(balance(2)))
            assert (compared(proxy), nodes[1].counts.calls) == (0, 0)


async def test_a_suspected_node_is_asked_last_for_what_it_was_found_wrong_in() -> None:
    async with harmony_nodes(3) as nodes, opened(nodes, Told(), net={"agreement": {"share": 0}}) as proxy:
        head = nodes[0].head
        heads = [NodeHead(id=node.name, head=head, chain_ok=True, answering=True) for node in nodes]
        served, wrong = Served(head=head, final=head), {"node-0": ("eth_getBalance",)}
        told = NetworkHeads(network="harmony-s0", served=served, nodes=tuple(heads), eth_chain_id=HARMONY_ID,
                            suspects=wrong)  # fmt: skip
        proxy.worker.see(told)
        for number in range(30):
            await proxy.call(*flat(balance(number)))
            await proxy.call("eth_getTransactionCount", f"0x{number:040x}", "0x64")
        assert nodes[0].counts.asked("eth_getBalance") == 0
        assert nodes[0].counts.asked("eth_getTransactionCount") >= 10, "it has its share of all else"
        proxy.worker.see(replace(told, nodes=(heads[0], *(replace(one, head=-1) for one in heads[1:]))))
        await proxy.call(*flat(balance(99)))
        assert nodes[0].counts.asked("eth_getBalance") == 1, "no other node has the block"


async def test_an_answer_of_a_suspected_node_is_not_kept() -> None:
    async with harmony_nodes(1) as nodes, opened(nodes, Told()) as proxy:
        head = nodes[0].head
        node = NodeHead(id="node-0", head=head, chain_ok=True, answering=True)
        proxy.worker.see(NetworkHeads(network="harmony-s0", served=Served(head=head, final=head), nodes=(node,),
                                      eth_chain_id=HARMONY_ID, suspects={"node-0": ()}))  # fmt: skip
        assert [(await proxy.call(*flat(balance(1)))).cache for _ in range(2)] == ["miss", "miss"]
        proxy.see()
        assert [(await proxy.call(*flat(balance(1)))).cache for _ in range(2)] == ["miss", "memory"]
