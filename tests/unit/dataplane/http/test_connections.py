"""Connections: what malformed requests are told, and what slow and leaving clients cost. Over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson
import pytest

from rpcaccel.simnode.server.factories import harmony_chain, harmony_nodes
from tests.support.dataplane.conversation import HEAD, Conversation, call
from tests.support.fleet import GatedNode
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

BLOCK = "hmyv2_getBlockByNumber"


def refusals(proxy: Proxy) -> dict[str, int]:
    return proxy.worker.report().tally.refusals


@asynccontextmanager
async def talking(**http: Any) -> AsyncIterator[tuple[Proxy, Conversation]]:
    """A proxy over one node, and a connection to it."""
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes, http=http) as proxy,
        Conversation.open(proxy.worker.port) as conversation,
    ):
        yield proxy, conversation


@asynccontextmanager
async def waiting(method: str) -> AsyncIterator[tuple[Proxy, GatedNode]]:
    """A proxy over a node that keeps calls of `method` waiting until they are released."""
    async with GatedNode(harmony_chain(200), name="node-0") as node, proxying([node]) as proxy:
        node.hold(method)
        yield proxy, node
        node.release()


def conversing(proxy: Proxy) -> AbstractAsyncContextManager[Conversation]:
    """A connection to the proxy."""
    return Conversation.open(proxy.worker.port)


@pytest.mark.parametrize(
    ("first", "sent"),
    [(b"", b""), (b"", b"POST / HT"), (b"", HEAD + b"X: " + b"y" * 500), (call(), b"POST / HT"), (call(), HEAD)],
)
async def test_a_head_that_does_not_come_ends_the_connection(first: bytes, sent: bytes) -> None:
    async with talking(read_timeout=0.2) as (proxy, conversation):
        if first:
            conversation.send(first)
            await conversation.answer()
        conversation.send(sent)
        assert await conversation.ended()
        assert refusals(proxy) == {"slow-head": 1}


async def test_a_head_a_byte_at_a_time_is_no_way_around_it() -> None:
    async with talking(read_timeout=0.3) as (proxy, conversation):

        async def drip() -> None:
            while True:
                conversation.send(b"X")
                await asyncio.sleep(0.02)

        conversation.send(HEAD)
        dripping = asyncio.create_task(drip())
        assert await conversation.ended()
        dripping.cancel()
        assert refusals(proxy) == {"slow-head": 1}


async def test_an_idle_connection_is_kept_longer_than_a_head_may_take() -> None:
    async with talking(read_timeout=0.5, keepalive=60) as (proxy, conversation):
        for number in range(2):
            conversation.send(call(number))
            assert (await conversation.answer()).json["id"] == number
            await asyncio.sleep(1.0)  # an idle connection is what is tested: longer than a head may take
        assert refusals(proxy) == {}
        assert proxy.worker.report().tally.connections == 1


async def test_a_client_that_does_not_read_is_let_go_of_and_holds_up_nobody() -> None:
    async with talking(write_timeout=1.5, max_batch=5000) as (proxy, _):
        await proxy.call(BLOCK, 26, {})
        item = {"jsonrpc": "2.0", "id": 1, "method": BLOCK, "params": [26, {}]}
        body = orjson.dumps([item] * 5000)
        with socket.create_connection(("127.0.0.1", proxy.worker.port)) as deaf:
            await asyncio.to_thread(deaf.sendall, HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            await until(lambda: max(unsent(proxy)) > 5_000_000)
            assert (await proxy.call("eth_chainId")).status == 200
            await until(lambda: refusals(proxy) == {"slow-reader": 1})
            await until(lambda: max(unsent(proxy)) == 0)


def unsent(proxy: Proxy) -> list[int]:
    """Bytes each connection has yet to take."""
    transports = [connection.transport for connection in proxy.worker._lanes.open]
    return [transport.get_write_buffer_size() for transport in transports if transport is not None]


@pytest.mark.parametrize("odd", [(), (b"TE: trailers",)], ids=["short lane", "complete lane"])
async def test_a_client_that_breaks_off_takes_its_read_back_and_not_what_others_wait_for(
    odd: tuple[bytes, ...],
) -> None:
    async with waiting(BLOCK) as (proxy, node), conversing(proxy) as staying, conversing(proxy) as leaving:
        leaving.send(call(1, BLOCK, *odd, params=[26, {}]))
        await until(lambda: len(proxy.worker.engine.flights) == 1)
        staying.send(call(2, BLOCK, params=[26, {}]))
        await until(lambda: proxy.worker.report().tally.in_flight == 2)
        leaving.reset()
        await until(lambda: proxy.worker.report().tally.in_flight == 1)
        node.release()
        assert "result" in (await staying.answer()).json
        assert proxy.asked(BLOCK) == 1


@pytest.mark.parametrize("odd", [(), (b"TE: trailers",)], ids=["short lane", "complete lane"])
async def test_a_write_goes_on_when_its_client_breaks_off(odd: tuple[bytes, ...]) -> None:
    async with waiting("made_up_write") as (proxy, node), conversing(proxy) as leaving:
        leaving.send(call(1, "made_up_write", *odd))
        await until(lambda: proxy.worker.report().nodes[0].in_flight == 1)
        leaving.reset()
        await until(lambda: proxy.worker.report().tally.in_flight == 0)
        assert proxy.worker.report().nodes[0].in_flight == 1
        node.release()
        await until(lambda: proxy.worker.report().nodes[0].in_flight == 0)
        (cell,) = proxy.worker.report().tally.nodes
        assert cell.latency.count == 1
