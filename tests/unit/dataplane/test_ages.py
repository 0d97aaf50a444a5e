"""Ages that the operator allows or wants, on a clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import Proxy, proxying, settings_for

PEERS = {"net_peerCount": {"max_age": "5s", "stale": "10s"}}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@asynccontextmanager
async def aged(rules: dict[str, Any]) -> AsyncIterator[tuple[Proxy, Clock]]:
    clock = Clock()
    async with harmony_nodes(2) as nodes, proxying(nodes, net={"rules": rules}, clock=clock) as proxy:
        yield proxy, clock


async def landed(proxy: Proxy) -> None:
    while len(proxy.worker.engine.flights):
        await asyncio.sleep(0)


async def test_what_differs_by_node_is_asked_each_time_unless_an_age_is_allowed() -> None:
    async with aged({}) as (proxy, _):
        assert [(await proxy.call("net_peerCount")).cache for _ in range(2)] == ["miss", "miss"]


async def test_within_its_age_it_is_served_from_memory() -> None:
    async with aged(PEERS) as (proxy, clock):
        first = await proxy.call("net_peerCount")
        clock.time += 4.4
        second = await proxy.call("net_peerCount")
        assert (first.cache, second.cache, second.result) == ("miss", "memory", first.result)
        assert proxy.asked("net_peerCount") == 1


async def test_a_stale_answer_is_served_while_one_call_renews_it() -> None:
    async with aged(PEERS) as (proxy, clock):
        await proxy.call("net_peerCount")
        clock.time += 6
        for node in proxy.nodes:
            node.knobs.turn({"latency": "50ms"})
        stale = await asyncio.gather(*(proxy.call("net_peerCount") for _ in range(10)))
        assert {reply.cache for reply in stale} == {"memory"}
        await landed(proxy)
        assert proxy.asked("net_peerCount") == 2
        clock.time += 4.4
        assert (await proxy.call("net_peerCount")).cache == "memory"
        assert proxy.asked("net_peerCount") == 2


async def test_beyond_age_and_staleness_it_is_fetched_before_it_is_served() -> None:
    async with aged(PEERS) as (proxy, clock):
        await proxy.call("net_peerCount")
        clock.time += 15.1
        assert (await proxy.call("net_peerCount")).cache == "miss"


async def test_without_staleness_an_old_answer_is_a_miss() -> None:
    async with aged({"net_*": {"max_age": 5}}) as (proxy, clock):
        await proxy.call("net_peerCount")
        clock.time += 5.1
        assert (await proxy.call("net_peerCount")).cache == "miss"


async def test_when_no_node_answers_the_stale_answer_lasts_its_time() -> None:
    async with aged(PEERS) as (proxy, clock):
        await proxy.call("net_peerCount")
        for node in proxy.nodes:
            await node.kill()
        for _ in range(3):
            clock.time += 2.5
            assert (await proxy.call("net_peerCount")).cache == "memory"
            await landed(proxy)


async def test_an_age_makes_a_lasting_answer_last_less() -> None:
    async with aged({"hmyv2_getBlockByNumber": {"max_age": 60}}) as (proxy, clock):
        await proxy.call("hmyv2_getBlockByNumber", 7, {})
        clock.time += 50
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache == "memory"
        clock.time += 11
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache == "miss"


async def test_a_shorter_age_holds_for_what_is_kept_already() -> None:
    async with aged({}) as (proxy, clock):
        await proxy.call("hmyv2_getBlockByNumber", 7, {})
        proxy.worker.adopt(settings_for(proxy.nodes, net={"rules": {"hmyv2_*": {"max_age": 5}}}), 2)
        proxy.see()
        clock.time += 6
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache == "miss"


async def test_a_cache_that_is_off_keeps_and_shares_nothing() -> None:
    async with aged({"eth_gasPrice": {"cache": "off"}}) as (proxy, _):
        for node in proxy.nodes:
            node.knobs.turn({"latency": "20ms"})
        replies = await asyncio.gather(*(proxy.call("eth_gasPrice") for _ in range(3)))
        assert {reply.cache for reply in replies} == {"miss"}
        assert proxy.asked("eth_gasPrice") == 3
        cells = {cell.method: cell for cell in proxy.worker.report().tally.cells}
        assert cells["eth_gasPrice"].misses == {"off": 3}


async def test_a_lasting_answer_can_be_made_to_go_with_the_head() -> None:
    async with aged({"hmyv2_getBlockByNumber": {"cache": "head"}}) as (proxy, _):
        caches = [(await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache for _ in range(2)]
        proxy.nodes[0].chain.advance()
        proxy.see()
        caches.append((await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache)
        assert caches == ["miss", "memory", "miss"]


async def test_explain_tells_the_settings_and_what_follows_from_them() -> None:
    async with aged({**PEERS, "eth_*": {"cache": "off"}}) as (proxy, clock):
        await proxy.call("net_peerCount")
        clock.time += 16
        found = await proxy.worker.explain("", "net_peerCount", b"[]")
        assert found is not None
        assert found.origin == 'chains/harmony.toml, changed by networks.harmony-s0.rules."net_peerCount"'
        assert "for 5 s, and 10 s longer" in found.keeping[0]
        assert found.held == ()
        off = await proxy.worker.explain("", "eth_gasPrice", b"[]")
        assert off is not None
        assert off.keeping == ("not kept: the settings switch the cache off for this method",)
