"""When the head moves, popular reads are there before they are asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import gated_nodes
from tests.support.manual_clock import ManualClock
from tests.support.proxy import Proxy, proxying, settings_for
from tests.support.waiting import until

ALL = {"refresh": 1.0}
GAS = "eth_gasPrice"
BALANCE = ("eth_getBalance", "0x" + "a5" * 20, "latest")


async def moved(proxy: Proxy) -> int:
    """Move the head, let what that begins end; how many node calls it made."""
    before = sum(node.counts.calls for node in proxy.nodes)
    proxy.nodes[0].chain.advance()
    others = asyncio.all_tasks()
    proxy.see()
    await asyncio.wait(asyncio.all_tasks() - others)  # what is popular is looked up in turns of the loop
    while len(proxy.worker.engine.flights):
        await asyncio.sleep(0)
    return sum(node.counts.calls for node in proxy.nodes) - before


async def popular(proxy: Proxy, *call: str, times: int = 3) -> list[str]:
    return [(await proxy.call(*call)).cache for _ in range(times)]


async def test_popular_reads_stay_hits_over_a_new_head() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=ALL) as proxy:
        for call in ((GAS,), BALANCE):
            assert await popular(proxy, *call) == ["miss", "memory", "memory"]
        assert await moved(proxy) == 2
        for call in ((GAS,), BALANCE):
            reply = await proxy.call(*call)
            assert reply.cache == "memory"
            assert int(reply.headers["X-Rpcaccel-Block"]) == nodes[0].head
        fresh = await nodes[0].ask(BALANCE[0], BALANCE[1], hex(nodes[0].head))
        assert (await proxy.call(*BALANCE)).result == fresh
        cells = {cell.method: cell for cell in proxy.worker.report().tally.cells}
        assert (cells[GAS].refreshed, cells[BALANCE[0]].refreshed) == (1, 1)


async def test_a_call_that_many_make_at_once_is_popular() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net=ALL) as proxy:
        for _ in range(2):
            answers = await asyncio.gather(*(proxy.call(GAS) for _ in range(20)))
            assert {reply.cache for reply in answers} <= {"miss", "flight", "memory"}
            assert await moved(proxy) == 1


async def test_a_caller_who_comes_meanwhile_joins_the_flight() -> None:
    async with gated_nodes() as nodes, proxying(nodes, net=ALL) as proxy:
        await popular(proxy, GAS)
        nodes[0].hold(GAS)
        nodes[0].chain.advance()
        proxy.see()
        await nodes[0].arrived.wait()
        joining = asyncio.create_task(proxy.call(GAS))
        await until(lambda: proxy.worker.report().tally.in_flight == 1)
        nodes[0].release()
        assert (await joining).cache == "flight"
        assert proxy.asked(GAS) == 2


async def test_what_nobody_asked_for_any_more_is_not_fetched_on_and_on() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=ALL) as proxy:
        await popular(proxy, GAS)
        assert [await moved(proxy) for _ in range(3)] == [1, 0, 0]


async def test_what_was_asked_once_and_what_does_not_turn_over_is_left_alone() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=ALL) as proxy:
        await proxy.call(GAS)
        for call in (("hmyv2_getBlockByNumber", 7, {}), ("eth_blockNumber",), ("net_peerCount",), ("foo_bar",)):
            for _ in range(3):
                await proxy.call(*call)  # type: ignore[arg-type]
        assert await moved(proxy) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"http": {"deny": ["eth_gas*"]}},
        {"clients": {"anonymous": {"deny": ["eth_gas*"]}}},
        {"clients": {"anonymous": {"rate": 0.001, "burst": 1}}},
    ],
)
async def test_what_was_refused_to_all_who_asked_is_not_fetched(settings: dict[str, Any]) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=ALL, **settings) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 7, {})  # pays for a refresh
        for _ in range(3):
            assert (await proxy.call(GAS)).error["code"] in (-32601, -32005)
        assert await moved(proxy) == 0
        assert proxy.asked(GAS) == 0


async def test_it_takes_no_more_than_its_share_of_the_node_calls_the_hottest_first() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"refresh": 0.25}) as proxy:
        for number in range(8):
            await popular(proxy, "eth_getBalance", f"0x{number:040x}", "latest", times=3 + (number == 5))
        assert await moved(proxy) == 2
        assert (await proxy.call("eth_getBalance", f"0x{5:040x}", "latest")).cache == "memory"


@pytest.mark.parametrize("happens", ["nothing", "new settings", "no head for an hour"])
async def test_calls_of_long_ago_pay_for_no_refreshes(happens: str) -> None:
    share = {"refresh": 0.05}
    clock = ManualClock(1000.0)
    async with harmony_nodes(1) as nodes, proxying(nodes, net=share, clock=clock.now) as proxy:
        for number in range(100, 400):
            await proxy.call("eth_getBalance", f"0x{number:040x}", "latest")
        if happens != "no head for an hour":
            await moved(proxy)
        clock.advance(3600)
        if happens == "new settings":
            proxy.worker.adopt(settings_for(nodes, net=share), 2)
        for number in range(60):
            await popular(proxy, "eth_getBalance", f"0x{number:040x}", "latest")
        assert await moved(proxy) <= 3


async def test_it_is_off_at_0() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"refresh": 0}) as proxy:
        await popular(proxy, GAS)
        assert await moved(proxy) == 0


async def test_a_node_that_fails_at_the_new_head_harms_nobody() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net=ALL) as proxy:
        await popular(proxy, GAS)
        nodes[0].knobs.turn({"faults": {"error": 1.0}})
        await moved(proxy)
        nodes[0].knobs.turn({"faults": {}})
        assert (await proxy.call(GAS)).cache == "miss"
