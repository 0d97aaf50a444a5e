"""Connections: what malformed requests are told, and what slow and leaving clients cost. Over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from rpcaccel.testing.factories import harmony_nodes
from tests.hostile.raw import HEAD, Conversation, call
from tests.proxy import Proxy, proxying
from tests.stores.settings import until

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
    async with talking(read_timeout=0.1, keepalive=60) as (proxy, conversation):
        for number in range(2):
            conversation.send(call(number))
            assert (await conversation.answer()).json["id"] == number
            await asyncio.sleep(0.3)
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
    async with talking() as (proxy, staying), Conversation.open(proxy.worker.port) as leaving:
        proxy.nodes[0].knobs.turn({"latency": "1500ms"})
        leaving.send(call(1, BLOCK, *odd, params=[26, {}]))
        await until(lambda: len(proxy.worker.engine.flights) == 1)
        staying.send(call(2, BLOCK, params=[26, {}]))
        await until(lambda: proxy.worker.report().tally.in_flight == 2)
        leaving.reset()
        await until(lambda: proxy.worker.report().tally.in_flight == 1)
        assert "result" in (await staying.answer()).json
        assert proxy.asked(BLOCK) == 1


@pytest.mark.parametrize("odd", [(), (b"TE: trailers",)], ids=["short lane", "complete lane"])
async def test_a_write_goes_on_when_its_client_breaks_off(odd: tuple[bytes, ...]) -> None:
    async with talking() as (proxy, leaving):
        proxy.nodes[0].knobs.turn({"latency": "1000ms"})
        leaving.send(call(1, "made_up_write", *odd))
        await until(lambda: proxy.worker.report().nodes[0].in_flight == 1)
        leaving.reset()
        await until(lambda: proxy.worker.report().tally.in_flight == 0)
        assert proxy.worker.report().nodes[0].in_flight == 1
        await until(lambda: proxy.worker.report().nodes[0].in_flight == 0)
        (cell,) = proxy.worker.report().tally.nodes
        assert cell.latency.count == 1


async def test_a_bug_of_ours_is_a_500_without_a_word_about_it() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        proxy.worker._front.routes = None  # type: ignore[assignment] - as a bug would
        reply = await proxy.post(b"{}")
        assert (reply.status, reply.error) == (500, {"code": -32603, "message": "internal error"})
