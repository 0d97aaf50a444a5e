"""The HTTP side, on real sockets (facts: harmony.md section 4)."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import pytest

from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.factories import knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock

Post = Callable[..., Awaitable[tuple[int, bytes]]]
OnLoop = Callable[[Coroutine[Any, Any, None]], None]
HEAD = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_blockNumber", "params": []}


async def test_a_reply_ends_with_a_line_and_has_gos_order_of_keys(served: SimNode, post: Post) -> None:
    assert await post(served, HEAD) == (200, b'{"jsonrpc":"2.0","id":1,"result":178}\n')


@pytest.mark.parametrize("sent", [b"1.50", b'"x\\u0041"', b"123456789012345678901234567890", b"true", b"null", b"-0"])
async def test_an_id_is_echoed_byte_for_byte(sent: bytes, served: SimNode, post: Post) -> None:
    _, body = await post(served, b'{"id":%b,"method":"eth_chainId"}' % sent)
    assert body == b'{"jsonrpc":"2.0","id":%b,"result":"0x6357d2e0"}\n' % sent


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b'{"method":"hmyv2_blockNumber"}', b""),
        (b'[{"method":"hmyv2_blockNumber"}]', b""),
        (b"[]", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"empty batch"}}\n'),
        (b"[" * 5000, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}\n'),
        (b"{oh", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}\n'),
        (b"5", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}\n'),
        (b'{"id":{}}', b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}\n'),
        (b'{"id":9,"method":4}', b'{"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"invalid request"}}\n'),
        (b'{"id":1,"method":"hmyv2_blockNumber"} and more', b'{"jsonrpc":"2.0","id":1,"result":178}\n'),
    ],
)
async def test_odd_bodies_get_http_200_and_the_nodes_answer(
    sent: bytes, answered: bytes, served: SimNode, post: Post
) -> None:
    assert await post(served, sent) == (200, answered)


async def test_a_batch_is_answered_in_order_without_its_notifications(served: SimNode, post: Post) -> None:
    batch = [HEAD, {"method": "hmyv2_gasPrice"}, 7, {**HEAD, "id": 1, "method": "nope"}]
    replies = json.loads((await post(served, batch))[1])
    assert [reply.get("result", reply.get("error", {}).get("code")) for reply in replies] == [178, -32600, -32601]
    assert [reply["id"] for reply in replies] == [1, None, 1]
    counts = served.counts.view()
    assert (counts["requests"], counts["batches"], counts["batch_items"], counts["calls"]) == (1, 1, 4, 3)


@pytest.mark.parametrize("sent", [b"null", b"[null]"])
async def test_a_null_drops_the_connection(sent: bytes, served: SimNode, post: Post) -> None:
    with pytest.raises(aiohttp.ClientError):
        await post(served, sent)


async def test_only_post_of_json_is_a_call(served: SimNode, post: Post, session: aiohttp.ClientSession) -> None:
    status, body = await post(served, HEAD, Content_Type="text/plain")
    assert (status, body) == (415, b"invalid content type, only application/json is supported\n")
    assert (await post(served, HEAD, Content_Type="application/json-rpc; charset=utf-8"))[0] == 200
    large = io.BytesIO(b"x" * (5 << 20) + b"y")
    async with session.post(served.url, data=large, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 413
    for method, status in (("GET", 200), ("OPTIONS", 200), ("PUT", 405), ("DELETE", 405)):
        async with session.request(method, served.url + "/any/path") as response:
            assert response.status == status
    assert served.counts.requests == 1


async def test_answers_are_compressed_for_those_who_accept_it_and_large_ones_come_in_chunks(
    served: SimNode, session: aiohttp.ClientSession
) -> None:
    large = {**HEAD, "method": "hmyv2_getBlocks", "params": [1, 3, {}]}
    for body in (HEAD, large):
        async with session.post(served.url, json=body, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert response.headers["Vary"] == "Origin"
            assert (await response.json())["id"] == 1
    async with session.post(served.url, json=large, headers={"Accept-Encoding": "identity"}) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert len((await response.json())["result"]) == 3


async def test_a_connection_is_kept_and_counted_once(served: SimNode, post: Post) -> None:
    for _ in range(3):
        await post(served, HEAD)
    assert (served.counts.connections, served.counts.requests) == (1, 3)
    assert repr(served.counts) == "<Counts 3 calls, 3 requests, 1 connections>"


async def test_a_killed_node_cuts_its_connections_and_returns_on_its_port(node: SimNode, post: Post) -> None:
    url = await node.start()
    assert await node.start() == url
    node.knobs.next_faults = ["hang"]
    hanging = asyncio.ensure_future(post(node, HEAD))
    await node.counts.until(lambda counts: counts.faults["hang"] == 1)
    await node.kill()
    with pytest.raises(aiohttp.ClientError):
        await hanging
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(node, HEAD)
    assert "down" in repr(node)
    assert await node.start() == url
    assert (await post(node, HEAD))[0] == 200
    assert "up" in repr(node)
    await node.stop()
    await node.stop()


@pytest.mark.parametrize("turns", range(6))
def test_a_killed_node_cuts_a_connection_however_far_its_acceptance_is(turns: int, on_each_loop: OnLoop) -> None:
    async def story() -> None:
        node = SimNode()
        await node.start()
        with socket.create_connection(("127.0.0.1", node.port)) as client:
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await node.kill()
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 10) == b""

    on_each_loop(story())


async def test_latency_is_drawn_once_for_each_request(chain: SimChain, post: Post) -> None:
    clock = ManualClock()
    async with SimNode(chain, clock=clock, knobs=knobs(latency="2s")) as node:
        waiting = asyncio.ensure_future(post(node, [HEAD, HEAD]))
        await node.counts.until(lambda counts: counts.requests == 1)
        assert not node.counts.calls
        clock.advance(2.0)
        assert (await waiting)[0] == 200


async def test_knobs_are_turned_over_http(served: SimNode, session: aiohttp.ClientSession, post: Post) -> None:
    at = served.url + "/simnode/"
    async with session.post(at + "knobs", json={"lag": 8, "latency": "1ms"}) as response:
        assert (await response.json())["lag"] == 8
    assert json.loads((await post(served, HEAD))[1])["result"] == 170
    async with session.get(at + "knobs") as response:
        assert (await response.json())["latency"]["mean"] == 0.001
    async with session.get(at + "counts") as response:
        assert (await response.json())["methods"] == {"hmyv2_blockNumber": 1}
    async with session.delete(at + "counts") as response:
        assert served.counts.calls == 0
    async with session.post(at + "advance", json={"blocks": 2}) as response:
        assert await response.json() == {"head": 180}
    async with session.post(at + "reorg", json={"depth": 2}) as response:
        assert served.chain.branch.turns == ((179, 1),)
    for path, body in (
        ("knobs", {"lagg": 1}),
        ("knobs", {"lag": "x"}),
        ("knobs", {"branch": 2}),
        ("reorg", {"depth": 0}),
        ("reorg", {"depth": 181}),
        ("reorg", {"depth": "x"}),
        ("advance", {"blocks": -1}),
    ):
        async with session.post(at + path, json=body) as response:
            assert response.status == 400, path
            assert "expected" in (said := (await response.text()).lower()) or "no knob" in said
    async with session.get(at + "nothing") as response:
        assert response.status == 404


async def test_a_body_is_read_as_it_came_whatever_its_header_says(
    served: SimNode, session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with session.post(served.url, data=b"no gzip", headers=headers) as response:
        assert (response.status, b"-32700" in await response.read()) == (200, True)
    assert not caplog.records


async def test_asking_in_process_counts_nothing(node: SimNode) -> None:
    result: Any = await node.ask("hmyv2_getBlockByNumber", 5, {})
    assert (result["number"], node.counts.calls) == (5, 0)
