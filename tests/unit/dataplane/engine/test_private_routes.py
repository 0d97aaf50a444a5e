"""Transactions that a route keeps from all nodes but one, over simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcaccel.dataplane.upstream.broadcaster import MAX_WAITING
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until
from tests.support.wallet import signed

SEND, LOOKUP = "eth_sendRawTransaction", "eth_getTransactionByHash"


@asynccontextmanager
async def private(count: int = 4, *, relays: int = 1, **route: Any) -> AsyncIterator[Proxy]:
    """A proxy before nodes of which the first are relays, to which alone transactions are sent."""
    routes = [{"methods": ["*_sendRawTransaction"], "tag": "relay", "broadcast": False, **route}]
    async with harmony_nodes(count, gossip=600.0) as nodes:
        listed = [{"id": node.name, "url": node.url, "tags": ["relay"] if at < relays else []}
                  for at, node in enumerate(nodes)]  # fmt: skip
        async with proxying(nodes, net={"nodes": listed, "routes": routes}) as proxy:
            yield proxy


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


async def test_a_transaction_that_no_block_has_is_told_to_all_after_so_many_blocks() -> None:
    async with private(fallback=3) as proxy:
        head = proxy.nodes[0].head
        await proxy.call(SEND, signed())
        proxy.see(head + 2)
        for block in range(5):
            await proxy.call("hmyv2_getBlockByNumber", block, {})
        assert (told(proxy), proxy.asked(LOOKUP)) == ([1, 0, 0, 0], 0)
        proxy.see(head + 3)
        await until(lambda: sum(told(proxy)) > 1)
        await until(lambda: not len(proxy.worker.engine.broadcasts))
        assert sum(told(proxy)[1:]) >= 2, "two thirds of all nodes"
        assert proxy.worker.engine.tally.network("harmony-s0").broadcasts["fallback"] == 1
        proxy.see(head + 9)
        assert (await proxy.call("eth_blockNumber")).result == hex(head + 9)
        assert proxy.worker.engine.tally.network("harmony-s0").broadcasts["fallback"] == 1


async def test_a_transaction_in_a_block_is_told_to_nobody_more() -> None:
    async with private(fallback=3) as proxy:
        head = proxy.nodes[0].head
        await proxy.call(SEND, signed())
        for node in proxy.nodes:
            node.chain.advance(3)
        proxy.see(head + 3)
        await until(lambda: proxy.asked(LOOKUP) == 1)
        proxy.see(head + 9)
        await until(lambda: not proxy.worker.engine.broadcasts.waiting)
        assert told(proxy) == [1, 0, 0, 0]


async def test_a_transaction_is_told_to_nobody_while_it_cannot_be_looked_up() -> None:
    async with private(fallback=1) as proxy:
        head = proxy.nodes[0].head
        await proxy.call(SEND, signed())
        for node in proxy.nodes:
            node.knobs.faults = {"error": 1.0}
        proxy.see(head + 1)
        await until(lambda: proxy.asked(LOOKUP) > 0)
        await until(lambda: not len(proxy.worker.engine.flights))
        for node in proxy.nodes:
            node.knobs.faults = {}
        assert told(proxy) == [1, 0, 0, 0]
        proxy.see(head + 2)
        await until(lambda: sum(told(proxy)) > 1)


@pytest.mark.parametrize("refused", ["dead", "without fallback"])
async def test_nothing_waits_that_is_not_to_be_told_later(refused: str) -> None:
    async with private(fallback=5 if refused == "dead" else 0) as proxy:
        if refused == "dead":
            await proxy.nodes[0].kill()
        await proxy.call(SEND, signed())
        assert proxy.worker.engine.broadcasts.waiting == 0


async def test_only_so_many_transactions_wait() -> None:
    async with private(1, fallback=5) as proxy:
        broadcasts = proxy.worker.engine.broadcasts

        async def wait() -> None:
            await asyncio.Event().wait()

        for _ in range(MAX_WAITING):
            broadcasts.later(wait(), 100)
        await proxy.call(SEND, signed())
        assert broadcasts.waiting == MAX_WAITING
        await broadcasts.close()
        assert broadcasts.waiting == 0
