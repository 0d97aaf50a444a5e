"""Transactions that a route keeps from all nodes but one, over simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcaccel.core.heads.recent_writes import MAX_PRIVATE, PrivateSend
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import Proxy, proxying, settings_for
from tests.support.waiting import until
from tests.support.wallet import signed
from tests.unit.dataplane.rpc.test_directives import MAY, say

SEND, LOOKUP = "eth_sendRawTransaction", "eth_getTransactionByHash"


ROUTE: dict[str, Any] = {"methods": ["*_sendRawTransaction"], "tag": "relay", "broadcast": False}


def listed(nodes: Sequence[SimNode], relays: int) -> list[dict[str, Any]]:
    """The nodes as settings name them, of which the first are relays."""
    return [
        {"id": node.name, "url": node.url, "tags": ["relay"] if at < relays else []} for at, node in enumerate(nodes)
    ]


@asynccontextmanager
async def private(
    count: int = 4, *, relays: int = 1, clients: dict[str, Any] | None = None, **route: Any
) -> AsyncIterator[Proxy]:
    """A proxy before nodes of which the first are relays, to which alone transactions are sent."""
    async with harmony_nodes(count, gossip=600.0) as nodes:
        net = {"nodes": listed(nodes, relays), "routes": [{**ROUTE, **route}]}
        async with proxying(nodes, net=net, **(clients or {})) as proxy:
            yield proxy


def waiting(proxy: Proxy) -> int:
    return len(proxy.worker.engine.private)


def told(proxy: Proxy) -> list[int]:
    return [node.counts.asked(SEND) for node in proxy.nodes]


async def test_one_relay_is_told_and_no_other_node() -> None:
    async with private(relays=3) as proxy:
        sent = await proxy.call(SEND, signed())
        assert sent.node in {"node-0", "node-1", "node-2"}
        await asyncio.gather(*(proxy.call(LOOKUP, sent.result) for _ in range(4)))
        assert sum(told(proxy)) == 1


async def test_another_relay_takes_the_place_of_one_that_fails_and_a_plain_node_does_not() -> None:
    async with private(relays=2) as proxy:
        await proxy.nodes[0].kill()
        assert (await proxy.call(SEND, signed())).node == "node-1"
        await proxy.nodes[1].kill()
        assert (await proxy.call(SEND, signed(nonce=1))).error["code"] == -32603
        assert told(proxy)[2:] == [0, 0]


async def test_a_node_that_a_call_names_is_one_of_the_relays_or_none() -> None:
    async with private(relays=2, clients=MAY) as proxy:
        refused = await say(proxy, (SEND, signed()), node="node-3")
        assert refused.error["code"] == -32603
        assert told(proxy) == [0, 0, 0, 0]
        assert (await say(proxy, (SEND, signed()), node="node-1")).node == "node-1"
        assert told(proxy) == [0, 1, 0, 0]


async def test_a_transaction_that_no_block_has_is_told_to_all_after_so_many_blocks() -> None:
    async with private(fallback=3) as proxy:
        head, cell = proxy.nodes[0].head, proxy.worker.engine.tally.network("harmony-s0")
        for _ in range(2):
            await proxy.call(SEND, signed())
        proxy.see(head + 2)
        assert (told(proxy), proxy.asked(LOOKUP), waiting(proxy)) == ([2, 0, 0, 0], 0, 1)
        proxy.see(head + 3)
        await until(lambda: sum(told(proxy)) > 2)
        await until(lambda: not len(proxy.worker.engine.broadcasts))
        assert sum(told(proxy)[1:]) >= 2, "two thirds of all nodes"
        proxy.see(head + 9)
        assert (cell.broadcasts["fallback"], waiting(proxy)) == (1, 0)


async def test_a_transaction_in_a_block_is_told_to_nobody_more() -> None:
    async with private(fallback=3) as proxy:
        head = proxy.nodes[0].head
        await proxy.call(SEND, signed())
        for node in proxy.nodes:
            node.chain.advance(3)
        proxy.see(head + 3)
        await until(lambda: proxy.asked(LOOKUP) == 1 and not len(proxy.worker.engine.broadcasts))
        assert (told(proxy), waiting(proxy)) == ([1, 0, 0, 0], 0)


async def test_a_transaction_is_told_to_nobody_while_it_cannot_be_looked_up() -> None:
    async with private(fallback=1) as proxy:
        head = proxy.nodes[0].head
        await proxy.call(SEND, signed())
        for node in proxy.nodes:
            node.knobs.faults = {"error": 1.0}
        proxy.see(head + 1)
        await until(lambda: proxy.asked(LOOKUP) > 0 and not len(proxy.worker.engine.broadcasts))
        assert (told(proxy), waiting(proxy)) == ([1, 0, 0, 0], 1)
        for node in proxy.nodes:
            node.knobs.faults = {}
        proxy.see(head + 2)
        await until(lambda: sum(told(proxy)) > 1)


@pytest.mark.parametrize("now", ["no fallback", "broadcast", "no route", "no network"])
async def test_what_the_settings_no_longer_say_is_not_done(now: str) -> None:
    async with private(fallback=1) as proxy:
        head = proxy.nodes[0].head
        await proxy.call(SEND, signed())
        routes = {
            "no fallback": [{**ROUTE, "fallback": 0}],
            "broadcast": [{**ROUTE, "broadcast": True}],
            "no route": [],
            "no network": [],
        }[now]
        network = "other" if now == "no network" else "harmony-s0"
        settings = settings_for(proxy.nodes, network, net={"nodes": listed(proxy.nodes, 1), "routes": routes})
        proxy.worker.adopt(settings, 2)
        proxy.network = network
        proxy.see(head + 1)
        await until(lambda: not len(proxy.worker.engine.broadcasts))
        assert (told(proxy), proxy.asked(LOOKUP), waiting(proxy)) == ([1, 0, 0, 0], 0, 0)


@pytest.mark.parametrize("refused", ["dead", "without fallback"])
async def test_nothing_waits_that_is_not_to_be_told_later(refused: str) -> None:
    async with private(fallback=5 if refused == "dead" else 0) as proxy:
        if refused == "dead":
            await proxy.nodes[0].kill()
        await proxy.call(SEND, signed())
        assert waiting(proxy) == 0


async def test_what_finds_no_room_to_wait_is_counted() -> None:
    async with private(1, fallback=5) as proxy:
        for number in range(MAX_PRIVATE):
            assert proxy.worker.engine.private.add(PrivateSend("x", b"%d" % number, "m", b"[]", 1))
        await proxy.call(SEND, signed())
        assert proxy.worker.engine.tally.network("harmony-s0").broadcasts == {"accepted": 1, "no-room": 1}
