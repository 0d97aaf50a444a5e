"""How calls spread over nodes, measured over HTTP, and what clients notice of a node that dies: nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.factories import running
from tests.support import waiting
from tests.support.fleet import STEADY
from tests.support.proxy import Reply
from tests.support.running import Running, Serve, until
from tests.support.services import Program


def distinct(count: int, first: int = 1) -> list[tuple[str, list[int]]]:
    """Calls no two of which are alike, about blocks that every node has."""
    return [("hmyv2_getBlockTransactionCountByNumber", [number]) for number in range(first, first + count)]


def by_node(replies: list[Reply]) -> Counter[str]:
    assert all("result" in reply.json for reply in replies)
    return Counter(reply.node for reply in replies)


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
