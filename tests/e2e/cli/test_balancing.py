"""How calls spread over nodes, measured over HTTP, and what clients notice of a node that dies: nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.factories import running
from tests.support import waiting
from tests.support.fleet import STEADY, Fleet
from tests.support.proxy import Reply
from tests.support.running import Running, Serve, until
from tests.support.services import Program


def distinct(count: int, first: int = 1) -> list[tuple[str, list[int]]]:
    """Calls no two of which are alike, about blocks that every node has."""
    return [("hmyv2_getBlockTransactionCountByNumber", [number]) for number in range(first, first + count)]


def by_node(replies: list[Reply]) -> Counter[str]:
    assert all("result" in reply.json for reply in replies)
    return Counter(reply.node for reply in replies)


def weights(*of_nodes: int) -> dict[str, dict[str, int]]:
    return {f"node-{number}": {"weight": weight} for number, weight in enumerate(of_nodes)}


async def test_nodes_get_their_share_by_weight(fleet: Fleet) -> None:
    await fleet.set(nodes=weights(1, 2, 5))
    shares = by_node(await fleet.proxy.load(distinct(400), at_once=16))
    # To a call or two: where in its round the balancer is depends on the calls before.
    assert shares == pytest.approx({"node-0": 50, "node-1": 100, "node-2": 250}, abs=3)
    asked = [node.counts.asked("hmyv2_getBlockTransactionCountByNumber") for node in fleet.nodes]
    assert asked == [shares[node.name] for node in fleet.nodes]


async def test_a_node_of_weight_0_is_probed_and_gets_no_call(fleet: Fleet) -> None:
    await fleet.set(nodes=weights(0, 1, 1))
    before = (await fleet.proxy.metrics()).sum("rpcaccel_node_calls_total", node="node-0")
    head = fleet.nodes[0].chain.advance()
    assert set(by_node(await fleet.proxy.load(distinct(40)))) == {"node-1", "node-2"}
    await fleet.look()
    idle = await fleet.proxy.node_in("cordoned", "node-0")
    assert (idle["head"], idle["calls_total"]) == (head, before)


async def test_consistent_hash_keeps_a_method_on_its_node_and_moves_it_when_the_node_is_gone(fleet: Fleet) -> None:
    await fleet.set(balancer="consistent_hash")
    (home,) = by_node(await fleet.proxy.load(distinct(30), at_once=3))
    (gone,) = [node for node in fleet.nodes if node.name == home]
    await gone.kill()
    (away,) = by_node(await fleet.proxy.load(distinct(30, first=100), at_once=3))
    assert away != home
    await gone.start()
    await fleet.look(gone)

    fresh = itertools.count(200)

    async def back() -> bool:
        return by_node(await fleet.proxy.load(distinct(1, first=next(fresh)))) == {home: 1}

    await until("its node back at work", back)


async def test_consistent_hash_by_params_spreads_a_method_and_keeps_each_call_on_its_node(fleet: Fleet) -> None:
    await fleet.set(balancer="consistent_hash", hash_key="params")
    await fleet.proxy.changed({"memory": {"size": 0}})
    homes: dict[str, set[str]] = {}
    for _ in range(3):
        for method, params in distinct(40):
            reply = await fleet.proxy.call(method, *params)
            homes.setdefault(str(params), set()).add(reply.node)
    assert all(len(nodes) == 1 for nodes in homes.values())
    assert len(set.union(*homes.values())) == 3


async def test_peak_ewma_prefers_the_quick_nodes(fleet: Fleet) -> None:
    for node, latency in zip(fleet.nodes, ("4ms", "4ms", "1s"), strict=True):
        node.knobs.turn({"latency": latency})
    await fleet.set(balancer="peak_ewma")
    shares = by_node(await fleet.proxy.load(distinct(300), at_once=12))
    assert 2 * shares["node-2"] < min(shares["node-0"], shares["node-1"])


async def test_a_node_killed_under_load_costs_no_call(
    serve: Serve, new_program: Callable[..., Program], free_port: Callable[[], int]
) -> None:
    port = free_port()
    victim = new_program("simnode", "--port", str(port), measured=False)
    await asyncio.to_thread(victim.wait_for, "knobs at")
    async with running(SimChain(ChainSpec())) as nodes:  # the victim's chain, of which the date alone tells the head
        proxy = await serve([nodes[0], f"http://127.0.0.1:{port},id=node-1", nodes[2]], env=STEADY)
        await killed_under_load(proxy, victim)


async def killed_under_load(proxy: Running, victim: Program) -> None:
    replies: list[Reply] = []

    async def kill_one() -> None:
        await waiting.until(lambda: len(replies) >= 300)
        await asyncio.to_thread(victim.kill)

    killing = asyncio.create_task(kill_one())
    await proxy.load(distinct(1000), at_once=32, into=replies)
    await killing
    replies += await proxy.load(distinct(60, first=2000))
    shares = by_node(replies)  # every one of them has a result
    assert min(shares.values()) > 60  # about 100 had been its part when it died
    assert {reply.node for reply in replies[-60:]} == {"node-0", "node-2"}

    async def shut_out() -> bool:
        """The prober knows it a moment before the workers have told."""
        node = (await proxy.nodes())["node-1"]
        return bool(node["state"] == "failing" and not node["eligible"])

    await until("node-1 shut out", shut_out)
    measured = await proxy.metrics()
    assert measured.sum("rpcaccel_node_failures_total", node="node-1") > 0
    assert measured.sum("rpcaccel_calls_total", outcome="error") == 0
