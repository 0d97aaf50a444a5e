"""The HTTP front: what a client sees of limits, batches, compression, origins and health."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from rpcaccel.dataplane.http.fast_protocol import FastProtocol
from rpcaccel.simnode.server.factories import harmony_chain, harmony_nodes
from tests.support.fleet import GatedNode, gated_nodes
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

BLOCK = {"jsonrpc": "2.0", "method": "hmyv2_getBlockByNumber", "params": [26, {}]}
CALL = orjson.dumps({**BLOCK, "id": 1})


def batch(*items: Any) -> bytes:
    return orjson.dumps(list(items))


async def test_a_batch_is_answered_in_order_and_one_bad_item_spoils_no_other() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        reply = await proxy.post(
            batch(
                {**BLOCK, "id": "a"},
                5,
                {"jsonrpc": "2.0", "id": "b", "method": "eth_chainId"},
                {**BLOCK, "id": "a"},
                {"jsonrpc": "2.0", "id": "c", "method": "hmyv2_getBalance", "params": ["zzz"]},
                {"jsonrpc": "2.0", "method": "eth_chainId"},
            )
        )
        said = reply.json
        assert [item["id"] for item in said] == ["a", None, "b", "a", "c"]
        assert said[0]["result"] == said[3]["result"]
        assert said[1]["error"]["code"] == -32600
        assert said[2]["result"] == "0x6357d2e0"
        assert said[4]["error"]["code"] == -32000
        assert reply.status == 200
        assert reply.cache in ("flight=1, local=2, miss=2", "local=2, memory=1, miss=2")


async def test_an_empty_batch_and_one_that_is_too_long_are_refused() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"max_batch": 3}) as proxy:
        assert (await proxy.post(b"[]")).error == {"code": -32600, "message": "empty batch"}
        long = await proxy.post(batch(*[BLOCK] * 4))
        assert long.error["message"] == "batch too long: more than 3 calls"
        assert nodes[0].counts.requests == 0


async def test_a_notification_is_carried_out_and_not_answered() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reply = await proxy.post(orjson.dumps(BLOCK))
        assert (reply.status, reply.body) == (200, b"")
        assert proxy.asked("hmyv2_getBlockByNumber") == 1
        assert (await proxy.post(batch(BLOCK, BLOCK))).body == b""


@pytest.mark.parametrize("body", [b"null", b"[null]", b"5", b'"x"', b"", b"{", b"\xff"])
async def test_what_is_no_call_never_reaches_a_node(body: bytes) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reply = await proxy.post(body)
        said = reply.json[0] if isinstance(reply.json, list) else reply.json
        assert said["error"]["code"] in (-32700, -32600)
        assert said["id"] is None
        assert nodes[0].counts.requests == 0


@pytest.mark.parametrize(
    ("path", "method", "asked"),
    [
        ("/", "hmyv2_getBalance", "hmyv2_getBalance"),
        ("/harmony-s0", "hmyv2_getBalance", "hmyv2_getBalance"),
        ("/api/v1/hmy/v2", "getBalance", "hmyv2_getBalance"),
        ("/api/v1/hmy/v1", "getBlockByNumber", "hmy_getBlockByNumber"),
        ("/harmony-s0/api/v1/eth", "gasPrice", "eth_gasPrice"),
        ("/api/v1/hmy/v2", "eth_gasPrice", "eth_gasPrice"),
    ],
)
async def test_paths_stand_for_networks_and_namespaces(path: str, method: str, asked: str) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.call(method, path=path)
        assert proxy.asked(asked) == 1


async def test_a_path_that_is_not_served_says_which_are() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reply = await proxy.post(b"{}", "/nowhere")
        assert reply.status == 404
        assert b"/harmony-s0" in reply.body
        assert (await proxy.get("/nowhere")).status == 404
        assert (await proxy.get("/")).status == 200


async def test_two_networks_are_kept_apart() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        settings = proxy.worker._settings
        both = settings.model_copy(update={"networks": {**settings.networks, "other": settings.networks["harmony-s0"]}})
        proxy.worker.adopt(both, 2)
        proxy.network = "other"
        proxy.see()
        caches = [(await proxy.call(BLOCK["method"], 26, {}, path=path)).cache for path in ("/", "/other", "/other")]
        assert caches == ["miss", "miss", "memory"]


async def test_a_body_over_the_limit_is_refused_also_after_gzip() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"max_body": 1000}) as proxy:
        plain = await proxy.post(b" " * 1001)
        packed = await proxy.post(gzip.compress(b" " * 100_000), Content_Encoding="gzip")
        for reply in (plain, packed):
            assert reply.status == 413
            assert reply.error == {"code": -32600, "message": "the body is larger than 1000 bytes"}


async def test_gzip_is_understood_and_given_to_those_who_take_it() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        asked = orjson.dumps({**BLOCK, "id": 1})
        plain = await proxy.post(asked, Accept_Encoding="identity")
        both = await proxy.post(gzip.compress(asked), Content_Encoding="gzip", Accept_Encoding="gzip")
        refused = await proxy.post(asked, Accept_Encoding="gzip;q=0")
        assert "Content-Encoding" not in plain.headers
        assert both.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in refused.headers
        assert plain.body == both.body == refused.body
        broken = await proxy.post(b"not gzip", Content_Encoding="gzip")
        assert broken.status == 400
        assert broken.error["code"] == -32700


async def test_origins_are_allowed_as_configured() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reply = await proxy.post(orjson.dumps({**BLOCK, "id": 1}), Origin="https://dapp.example")
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
        assert "X-Rpcaccel-Cache" in reply.headers["Access-Control-Expose-Headers"]
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"cors_origins": ["https://a.example"]}) as proxy:
        yes = await proxy.get("/", Origin="https://a.example")
        no = await proxy.get("/", Origin="https://b.example")
        assert yes.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert "Access-Control-Allow-Origin" not in no.headers
        async with proxy._http.options(
            proxy.url, headers={"Origin": "https://a.example", "Access-Control-Request-Headers": "content-type"}
        ) as preflight:
            assert preflight.status == 204
            assert preflight.headers["Access-Control-Allow-Headers"] == "content-type"
            assert "POST" in preflight.headers["Access-Control-Allow-Methods"]


async def test_health_is_about_the_process_and_readiness_about_the_networks() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert (await proxy.get("/healthz")).status == 200
        assert (await proxy.get("/readyz")).status == 200
        head = nodes[0].head
        proxy.see(nodes=[head - 3], serve=head)
        ready = await proxy.get("/readyz")
        assert ready.status == 503
        assert b"harmony-s0" in ready.body
        assert b"behind" in ready.body
        assert (await proxy.get("/healthz")).status == 200


async def test_other_methods_than_post_are_refused_with_the_allowed_ones() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, proxy._http.put(proxy.url, data=b"{}") as reply:
        assert reply.status == 405
        assert "POST" in reply.headers["Allow"]


async def test_calls_above_the_limit_at_once_are_told_to_come_back() -> None:
    async with gated_nodes() as nodes, proxying(nodes, http={"max_in_flight": 1}) as proxy:
        nodes[0].hold("hmyv2_getBlockByNumber")
        first = asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", 1, {}))
        await nodes[0].arrived.wait()
        for number in range(2):
            busy = await proxy.call("hmyv2_getBlockByNumber", 2 + number, {})
            assert (busy.status, busy.error["code"], busy.headers["Retry-After"]) == (503, -32005, "1")
        nodes[0].release()
        assert (await first).status == 200


async def test_a_client_that_sends_slowly_is_cut_off() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"read_timeout": 1}) as proxy:
        status, body = await _send_raw(proxy, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        assert status == 408
        assert b"did not arrive within 1 s" in body


async def test_a_header_over_the_limit_is_refused() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"max_header": 2048}) as proxy:
        status, body = await _send_raw(proxy, b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000 + b"\r\n\r\n")
        assert (status, body.count(b"longer than 2048 bytes")) == (431, 1)
        lines = b"".join(b"X-%d: %b\r\n" % (number, b"y" * 500) for number in range(5))
        status, body = await _send_raw(proxy, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + lines + b"\r\n")
        assert (status, body.count(b"larger than 2048 bytes")) == (431, 1)


@pytest.mark.parametrize(("shown", "seen"), [("cache", {"X-Rpcaccel-Cache"}), ("none", set())])
async def test_the_headers_about_an_answer_can_be_reduced(shown: str, seen: set[str]) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"headers": shown}) as proxy:
        reply = await proxy.post(orjson.dumps({**BLOCK, "id": 1}))
        assert {name for name in reply.headers if name.startswith("X-Rpcaccel") or name == "Server-Timing"} == seen


async def _send_raw(proxy: Proxy, data: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]), answer


@pytest.fixture
async def held() -> AsyncIterator[tuple[Proxy, GatedNode]]:
    """A proxy whose node keeps calls about a block waiting until they are released."""
    async with GatedNode(harmony_chain(200), name="held") as node, proxying([node]) as proxy:
        node.hold(BLOCK["method"])
        yield proxy, node
        node.release()


async def test_a_client_may_wait_for_less_time_than_the_network_would(held: tuple[Proxy, GatedNode]) -> None:
    proxy, node = held
    reply = await proxy.post(CALL, X_Rpcaccel_Timeout="100ms")
    assert (reply.status, reply.error["code"]) == (504, -32603)
    assert "within the time" in reply.error["message"]
    both = await proxy.post(
        batch({**BLOCK, "id": 1}, {"id": 2, "method": "eth_blockNumber"}), X_Rpcaccel_Timeout="100ms"
    )
    assert both.status == 200
    assert ["error" in item for item in both.json] == [True, False]
    node.release()
    assert "result" in (await proxy.post(CALL, X_Rpcaccel_Timeout="1m")).json


async def test_a_follower_obeys_its_own_deadline_and_leaves_the_flight_to_the_others(
    held: tuple[Proxy, GatedNode],
) -> None:
    proxy, node = held
    leading = asyncio.create_task(proxy.post(CALL))
    await node.arrived.wait()
    hasty = await proxy.post(CALL, X_Rpcaccel_Timeout="20ms")
    assert hasty.status == 504
    node.release()
    assert "result" in (await leading).json
    assert node.counts.calls == 1


async def test_a_leader_in_haste_leaves_the_flight_to_its_followers(held: tuple[Proxy, GatedNode]) -> None:
    proxy, node = held
    hasty = asyncio.create_task(proxy.post(CALL, X_Rpcaccel_Timeout="2s"))
    await node.arrived.wait()
    following = asyncio.create_task(proxy.post(CALL))
    await until(lambda: proxy.worker.report().tally.in_flight == 2)
    assert (await hasty).status == 504
    node.release()
    assert ((await following).cache, node.counts.calls) == ("flight", 1)


async def test_a_time_that_cannot_be_understood_is_refused_and_the_request_is_counted_out() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, clients={"anonymous": {"concurrency": 1}}) as proxy:
        for told in ("soon", "0", "-1s"):
            reply = await proxy.post(CALL, X_Rpcaccel_Timeout=told)
            assert (reply.status, reply.error["code"]) == (400, -32600)
            assert "X-Rpcaccel-Timeout" in reply.error["message"]
        assert (await proxy.post(CALL)).status == 200
        assert proxy.worker.report().tally.refusals == {"malformed": 3}


async def test_every_answer_while_draining_ends_its_connection() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        proxy.worker._front.draining = True
        replies = [await proxy.get("/healthz"), await proxy.get("/readyz"), await proxy.post(CALL)]
        assert [(reply.status, reply.headers["Connection"]) for reply in replies] == [
            (200, "close"),
            (503, "close"),
            (200, "close"),
        ]


async def test_closed_connections_are_freed_without_the_collector() -> None:
    def connections() -> int:
        return sum(isinstance(one, FastProtocol) for one in gc.get_objects())

    part = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nea60\r\n" + b" " * 1000
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        gc.collect()
        gc.disable()
        try:
            before = connections()
            for sent in (part, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
                writer.write(sent)
                if sent is part:
                    await until(lambda: connections() > before)
                    writer.transport.abort()
                else:
                    await reader.read()
                    writer.close()
                await until(lambda: connections() == before)
        finally:
            gc.enable()
