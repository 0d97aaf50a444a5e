"""How calls spread over nodes, measured over HTTP, and what clients notice of a node that dies: nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from rpcaccel.testing.factories import harmony_nodes
from tests.e2e.conftest import Serve
from tests.e2e.running import until
from tests.proxy import Reply
from tests.services import Program

pytestmark = pytest.mark.e2e

HEAD = 4000


def distinct(count: int, first: int = 1) -> list[tuple[str, list[int]]]:
    """Calls no two of which are alike, about blocks that every node has."""
    return [("hmyv2_getBlockTransactionCountByNumber", [number]) for number in range(first, first + count)]


def by_node(replies: list[Reply]) -> Counter[str]:
    assert all("result" in reply.json for reply in replies)
    return Counter(reply.node for reply in replies)


async def test_nodes_get_their_share_by_weight(serve: Serve) -> None:
    async with harmony_nodes(3, head=HEAD) as nodes:
        urls = [f"{node.url},weight={weight},id={node.name}" for node, weight in zip(nodes, (1, 2, 5), strict=True)]
        proxy = await serve(urls, measured=False)
        shares = by_node(await proxy.load(distinct(800), at_once=16))
        # Not to the call: on a busy machine a slow answer is asked of a second node as well.
        assert shares == pytest.approx({"node-0": 100, "node-1": 200, "node-2": 500}, abs=40)
        asked = [node.counts.asked("hmyv2_getBlockTransactionCountByNumber") for node in nodes]
        assert asked == pytest.approx([shares[node.name] for node in nodes], abs=40)


async def test_a_node_of_weight_0_is_probed_and_gets_no_call(serve: Serve) -> None:
    async with harmony_nodes(2) as nodes:
        proxy = await serve([f"{nodes[0].url},weight=0,id=idle", f"{nodes[1].url},id=busy"])
        assert set(by_node(await proxy.load(distinct(40)))) == {"busy"}
        await proxy.node_in("serving", "busy")
        idle = (await proxy.nodes())["idle"]
        assert (idle["state"], idle["head"], idle["calls_total"]) == ("cordoned", 200, 0)


async def test_consistent_hash_keeps_a_method_on_its_node_and_moves_it_when_the_node_is_gone(serve: Serve) -> None:
    async with harmony_nodes(3, head=HEAD) as nodes:
        proxy = await serve(nodes, "--balancer", "consistent_hash")
        (home,) = by_node(await proxy.load(distinct(30), at_once=3))
        (gone,) = [node for node in nodes if node.name == home]
        await gone.kill()
        (away,) = by_node(await proxy.load(distinct(30, first=100), at_once=3))
        assert away != home
        await gone.start()

        fresh = itertools.count(200)

        async def back() -> bool:
            return by_node(await proxy.load(distinct(1, first=next(fresh)))) == {home: 1}

        await until("its node back at work", back)


async def test_consistent_hash_by_params_spreads_a_method_and_keeps_each_call_on_its_node(serve: Serve) -> None:
    async with harmony_nodes(3, head=HEAD) as nodes:
        net = "RPCACCEL_NETWORKS__HARMONY_S0__"
        told = {f"{net}HASH_KEY": "params", f"{net}HEDGE__QUANTILE": "0"}  # a hedge goes to another node than the home
        flags = ("--balancer", "consistent_hash", "--memory", "0")
        proxy = await serve(nodes, *flags, env=told)
        homes: dict[str, set[str]] = {}
        for _ in range(3):
            for method, params in distinct(40):
                reply = await proxy.call(method, *params)
                homes.setdefault(str(params), set()).add(reply.node)
        assert all(len(nodes) == 1 for nodes in homes.values())
        assert len(set.union(*homes.values())) == 3


async def test_peak_ewma_prefers_the_quick_nodes(serve: Serve) -> None:
    async with harmony_nodes(3, head=HEAD, latency="4ms") as nodes:
        nodes[2].knobs.turn({"latency": "80ms"})
        proxy = await serve(nodes, "--balancer", "peak_ewma", measured=False)
        shares = by_node(await proxy.load(distinct(600), at_once=12))
        assert 2 * shares["node-2"] < min(shares["node-0"], shares["node-1"])


async def test_a_node_killed_under_load_costs_no_call(
    serve: Serve, new_program: Callable[..., Program], free_port: Callable[[], int]
) -> None:
    ports = [free_port() for _ in range(3)]
    simulated = [new_program("simnode", "--port", str(port), "--latency", "2ms", measured=False) for port in ports]
    for program in simulated:
        await asyncio.to_thread(program.wait_for, "knobs at")
    proxy = await serve([f"http://127.0.0.1:{port},id=node-{i}" for i, port in enumerate(ports)], measured=False)
    replies: list[Reply] = []

    async def kill_one() -> None:
        while len(replies) < 1000:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(simulated[1].kill)

    killing = asyncio.create_task(kill_one())
    await proxy.load(distinct(3000), at_once=32, into=replies)
    await killing
    shares = by_node(replies)  # every one of them has a result
    assert min(shares.values()) > 200  # about 333 had been its part when it died
    assert {reply.node for reply in replies[-250:]} == {"node-0", "node-2"}

    async def shut_out() -> bool:
        """The prober knows it a moment before the workers have told."""
        node = (await proxy.nodes())["node-1"]
        return bool(node["state"] == "failing" and not node["eligible"])

    await until("node-1 shut out", shut_out)
    measured = await proxy.metrics()
    assert measured.sum("rpcaccel_node_failures_total", node="node-1") > 0
    assert measured.sum("rpcaccel_calls_total", outcome="error") == 0
