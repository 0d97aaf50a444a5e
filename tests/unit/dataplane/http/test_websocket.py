"""Calls over a WebSocket: answered as over POST, in the order in which the answers land."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import aiohttp
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.core.client_limits import hashed, make
from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.http.websocket_writer import SocketState
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.raw_socket import (
    BINARY,
    BLOCK,
    CHAIN,
    CLOSE,
    PING,
    PONG,
    TEXT,
    RawSocket,
    frame,
    handshake,
    squeezed,
    tally,
    web_socket,
)
from tests.support.fleet import gated_nodes
from tests.support.properties import examples
from tests.support.proxy import BreakingClock, Proxy, proxying, settings_for
from tests.support.waiting import threads_held, until

BLOCKS = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlocks","params":[0,150,{"withSigners":false}]}'
BODIES = [
    BLOCK,
    b'{"id":"x","method":"eth_chainId"}',
    b'{"id":1.50,"method":"eth_chainId"}',
    b'{"id":123456789012345678901234567890,"method":"eth_chainId"}',
    b'{"id":true,"method":"eth_chainId"}',
    b'{"id":{},"method":"eth_chainId"}',
    b'{"id":1,"method":"nowhere_to_be_found"}',
    b"[" + BLOCK + b"," + BLOCK + b",7,null,[]]",
    b"[]",
    b"[null]",
    b"null",
    b"",
    b" ",
    b"{",
    b"hello",
    b'{"id":1,"method":""}',
    b'{"id":1,"method":"hmyv2_setNodeToBackupMode","params":[true]}',
    b'{"id":1,"method":"hmyv2_getBalance","params":["zzz"]}',
    b'{"id":1,"method":"eth_chainId"}{"id":2}',
]


def socket_of(proxy: Proxy) -> WebSocket:
    """The worker's end of the only WebSocket."""
    (found,) = proxy.worker._lanes.websockets.open
    return found


@pytest.mark.parametrize("body", BODIES)
async def test_an_answer_is_what_a_post_would_have_got(body: bytes) -> None:
    async with web_socket() as (proxy, client):
        posted = await proxy.post(body)
        client.send(frame(body))
        assert await client.got() == (TEXT, posted.body, False)
        client.send(frame(body, BINARY))
        assert await client.got() == (TEXT, posted.body, False)


async def test_binary_data_that_is_no_text_is_answered_as_a_post_is() -> None:
    body = b'{"id":"\xff","method":"eth_chainId"}'
    async with web_socket() as (proxy, client):
        posted = await proxy.post(body)
        client.send(frame(body, BINARY))
        assert await client.got() == (TEXT, posted.body, False)


@pytest.mark.parametrize("path", ["/api/v1/hmy/v2", "/harmony-s0", "/harmony-s0/api/v1/eth", "/?x=1"])
async def test_a_path_means_what_it_means_for_post(path: str) -> None:
    call = b'{"id":1,"method":"getBlockByNumber","params":["0x1a",false]}'
    async with web_socket(path) as (proxy, client):
        client.send(frame(call))
        assert (await client.got()).payload == (await proxy.post(call, path)).body


async def test_nothing_is_said_to_notifications_and_they_are_counted() -> None:
    async with web_socket() as (proxy, client):
        client.send(frame(b'{"method":"eth_chainId"}') + frame(b'[{"method":"eth_chainId"}]'))
        assert (await client.call(CHAIN))["id"] == 7
        assert (tally(proxy).requests, tally(proxy).batches, tally(proxy).in_flight) == (3, 1, 0)


async def test_nothing_is_said_to_notifications_where_answers_of_any_length_are_compressed() -> None:
    async with web_socket(Sec_WebSocket_Extensions="permessage-deflate", http={"gzip_from": 0}) as (_, client):
        client.send(frame(b'{"method":"eth_chainId"}') + frame(b"", PING))
        assert (await client.got()).opcode == PONG


STREAM = b"".join(
    (
        frame(CHAIN),
        frame(b"[" + CHAIN + b"]", BINARY),
        frame(CHAIN[:9], fin=False),
        frame(b"p", PING),
        frame(CHAIN[9:], 0),
        squeezed(CHAIN),
        frame(b"\x0f\xa0", CLOSE),
    )
)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=12))
def test_however_the_bytes_are_cut_the_answers_are_the_same(cuts: set[int]) -> None:
    async def talk() -> None:
        async with web_socket(Sec_WebSocket_Extensions="permessage-deflate") as (proxy, client):
            server, edges = socket_of(proxy), [0, *sorted(cuts), len(STREAM)]
            for start, end in pairwise(edges):
                server.data_received(STREAM[start:end])
            came = [await client.got() for _ in range(6)]
            assert [one.opcode for one in came] == [TEXT, TEXT, PONG, TEXT, TEXT, CLOSE]
            assert came[0].json == came[1].json[0] == came[3].json == came[4].json
            assert await client.ended()

    asyncio.run(talk())


async def test_the_handshake_and_calls_may_come_at_once_and_in_pieces() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
        client = RawSocket(reader, writer)
        whole = handshake() + frame(CHAIN)
        for start in range(0, len(whole), 50):
            client.send(whole[start : start + 50])
            await asyncio.sleep(0)
        assert (await client.head())[0] == 101
        assert (await client.got()).json["id"] == 7
        writer.close()


async def test_a_connection_may_be_used_by_post_before_it_becomes_a_websocket() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, aiohttp.ClientSession() as http:
        for _ in range(2):
            await (await http.get(f"{proxy.url}/healthz")).read()
            await (await http.post(proxy.url, data=CHAIN)).read()
        assert tally(proxy).connections == 1
        async with http.ws_connect(proxy.url) as client:
            assert (tally(proxy).connections, tally(proxy).websockets) == (1, 1)
            await client.send_bytes(BLOCK)
            assert orjson.loads((await client.receive()).data)["result"]["number"] == 26
        await until(lambda: tally(proxy).websockets == tally(proxy).connections == 0)


async def test_who_does_not_read_its_answers_yet_is_not_read_from_as_a_websocket_either() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, aiohttp.ClientSession() as http:
        await (await http.post(proxy.url, data=CHAIN)).read()
        (lane,) = proxy.worker._lanes.open
        lane.pause_writing()
        lane.data_received(handshake() + frame(CHAIN))
        server = socket_of(proxy)
        assert server.writing_paused
        assert tally(proxy).requests == 1
        server.resume_writing()
        assert tally(proxy).requests == 2


async def test_a_handshake_of_a_client_that_sends_no_more_ends_the_connection() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        nodes[0].hold("hmyv2_getBlockByNumber")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(BLOCK), BLOCK))
        await nodes[0].arrived.wait()
        writer.write(handshake())
        writer.write_eof()
        (lane,) = proxy.worker._lanes.open
        await until(lambda: lane._ended)
        nodes[0].release()
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b" 101 " not in answer
        assert tally(proxy).websockets == 0
        writer.close()


async def test_answers_overtake_one_another() -> None:
    async with web_socket(gated=True) as (proxy, client):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        client.send(frame(BLOCK) + frame(CHAIN))
        assert (await client.got()).json["id"] == 7
        assert tally(proxy).in_flight == 1
        proxy.nodes[0].release()
        assert (await client.got()).json["result"]["number"] == 26
        assert tally(proxy).in_flight == 0


async def test_no_more_messages_are_read_than_may_be_answered_at_once() -> None:
    async with web_socket(gated=True, http={"websocket": {"at_once": 3}}) as (proxy, client):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        for number in range(8):
            client.send(frame(BLOCK.replace(b"26", b"%d" % number).replace(b'"id":1', b'"id":%d' % number)))
        await until(lambda: tally(proxy).requests == 3)
        transport = socket_of(proxy).transport
        assert transport is not None
        await until(lambda: not transport.is_reading())
        assert tally(proxy).requests == 3
        proxy.nodes[0].release()
        assert {(await client.got()).json["id"] for _ in range(8)} == set(range(8))
        assert transport.is_reading()


async def test_who_sends_many_at_once_lets_others_have_their_turn() -> None:
    async with web_socket() as (proxy, client):
        server, turns = socket_of(proxy), 0
        server.data_received(frame(CHAIN) * 2000)
        assert server.transport is not None
        assert not server.transport.is_reading(), "what was read is answered first"
        while tally(proxy).requests < 2000:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 3
        for _ in range(2000):
            assert (await client.got()).json["id"] == 7
        assert server.transport.is_reading()


async def test_a_client_that_leaves_has_its_waits_cancelled_and_counted_out() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        async with RawSocket.open(proxy.worker.port) as client:
            nodes[0].hold("hmyv2_getBlockByNumber")
            client.send(frame(BLOCK))
            await nodes[0].arrived.wait()
        await until(lambda: tally(proxy).websockets == 0)
        assert tally(proxy).in_flight == 0
        nodes[0].release()


async def test_long_answers_are_compressed_for_clients_that_offered_it() -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes) as proxy,
        RawSocket.open(proxy.worker.port) as plain,
        RawSocket.open(proxy.worker.port, Sec_WebSocket_Extensions="permessage-deflate") as packed,
    ):
        for body, compressed in ((CHAIN, False), (BLOCK, True), (BLOCKS, True)):
            for client in (plain, packed):
                client.send(frame(body))
            told, other = await plain.got(), await packed.got()
            assert told.payload == other.payload
            assert (told.compressed, other.compressed) == (False, compressed)
        packed.send(squeezed(BLOCK))
        assert (await packed.got()).json["result"]["number"] == 26
        assert tally(proxy).in_flight == 0


async def test_a_client_that_leaves_as_its_answer_is_compressed_is_counted_out() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.post(BLOCKS)
        async with RawSocket.open(proxy.worker.port, Sec_WebSocket_Extensions="permessage-deflate") as client:
            server = socket_of(proxy)
            with threads_held():
                client.send(frame(BLOCKS))
                await until(lambda: any(isinstance(one, asyncio.Task) for one in server._running))
                server.connection_lost(None)
        await until(lambda: tally(proxy).in_flight == 0)


async def test_pings_are_answered_with_what_they_say() -> None:
    async with web_socket() as (_, client):
        for payload in (b"", b"x" * 125):
            client.send(frame(payload, PING))
            assert await client.got() == (PONG, payload, False)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(b"{}", mask=None), 1002),
        (frame(b"{}", bits=0x40), 1002),
        (frame(b"{}", bits=0x20), 1002),
        (frame(b"{}", 0), 1002),
        (frame(b"", 3), 1002),
        (frame(b"x" * 126, PING), 1002),
        (frame(b"\x03\xed", CLOSE), 1002),
        (frame(b"\x03", CLOSE), 1002),
        (frame(b"\x03\xe8\xff", CLOSE), 1007),
        (frame(b'{"id":"\xff","method":"eth_chainId"}'), 1007),
        (frame(b"x" * 1001)[:20], 1009),
    ],
)
async def test_who_breaks_the_rules_is_told_and_closed_and_others_are_not(sent: bytes, code: int) -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes, http={"max_body": 1000}) as proxy,
        RawSocket.open(proxy.worker.port) as other,
        RawSocket.open(proxy.worker.port) as client,
    ):
        client.send(sent + b"and whatever it says then")
        told, reason = (await client.got()).closed
        assert (told, bool(reason)) == (code, True)
        assert await client.ended()
        assert (await other.call(CHAIN))["id"] == 7
        assert tally(proxy).refusals == {"malformed-websocket": 1}


async def test_a_compressed_bomb_is_refused() -> None:
    async with web_socket(Sec_WebSocket_Extensions="permessage-deflate") as (_, client):
        client.send(squeezed(b" " * (200 << 20)))
        assert (await client.got()).closed[0] == 1009


async def test_the_largest_message_is_taken() -> None:
    async with web_socket(http={"max_body": 1000}) as (_, client):
        assert (await client.call(CHAIN.ljust(1000)))["id"] == 7


@pytest.mark.parametrize("payload", [b"\x03\xe8", b"\x03\xe9bye", b"\x0f\xa0", b""])
async def test_a_close_is_answered_with_its_code_and_the_connection_ends(payload: bytes) -> None:
    async with web_socket() as (proxy, client):
        client.send(frame(payload, CLOSE) + frame(CHAIN))
        assert await client.got() == (CLOSE, payload[:2], False)
        assert await client.ended()
        assert tally(proxy).requests == 0


async def test_keys_and_their_limits_hold_for_messages() -> None:
    key = make(b"\x07" * 32)
    limits = {
        "keys": {"shop": {"hashes": [hashed(key)], "deny": ["eth_chainId"], "rate": 1, "burst": 2}},
        "require_key": True,
    }
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=limits) as proxy:
        for path, fields in (
            (f"/key/{key}/", {}),
            ("/", {"X_Api_Key": key}),
            ("/", {"Authorization": f"Bearer {key}"}),
        ):
            async with RawSocket.open(proxy.worker.port, path, **fields) as client:
                refused = await client.call(CHAIN)
                assert (refused["id"], refused["error"]["code"]) == (7, -32601)
        async with RawSocket.open(proxy.worker.port, f"/key/{key}/harmony-s0") as client:
            told = [await client.call(b'{"id":%d,"method":"net_version"}' % number) for number in range(3)]
            assert [(one["id"], one.get("error", {}).get("code")) for one in told] == [
                (0, None),
                (1, None),
                (2, -32005),
            ]
            async with RawSocket.open(proxy.worker.port, X_Api_Key=key):
                assert proxy.worker._lanes.websockets.by_holder == {"key:shop": 2}


async def test_a_message_over_a_limit_is_refused_with_its_id_and_the_connection_stays() -> None:
    async with web_socket(gated=True, http={"max_in_flight": 1}) as (proxy, client):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        client.send(frame(BLOCK))
        await proxy.nodes[0].arrived.wait()
        for body, call_id in ((CHAIN, 7), (b"[" + CHAIN + b"]", None), (b"{", None), (b'{"method":"x"}', None)):
            refused = await client.call(body)
            assert (refused["id"], refused["error"]["code"]) == (call_id, -32005)
        proxy.nodes[0].release()
        assert (await client.got()).json["id"] == 1
        assert (await client.call(CHAIN))["result"]
        assert tally(proxy).refusals == {"in-flight": 4}


async def test_a_bug_is_answered_and_the_connection_stays() -> None:
    clock = BreakingClock()
    async with web_socket(clock=clock) as (proxy, ws):
        clock.break_once()
        refused = await ws.call(CHAIN)
        assert (refused["id"], refused["error"]["message"]) == (7, "internal error")
        assert (await ws.call(CHAIN))["result"]
        assert (tally(proxy).refusals, tally(proxy).in_flight) == ({"bug": 1}, 0)


async def test_the_time_that_a_client_will_wait_is_named_in_the_handshake() -> None:
    async with web_socket(gated=True, X_Rpcaccel_Timeout="20ms") as (proxy, client):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        assert "error" in await client.call(BLOCK)
        proxy.nodes[0].release()


async def test_a_network_that_is_gone_is_told_and_its_connections_are_closed() -> None:
    async with (
        harmony_nodes(1) as nodes,
        harmony_nodes(1) as others,
        proxying(nodes) as proxy,
        RawSocket.open(proxy.worker.port, "/harmony-s0") as client,
    ):
        proxy.worker.adopt(settings_for(others, "harmony-s1"), 2)
        server = socket_of(proxy)
        server.data_received(frame(CHAIN))
        assert server.state is SocketState.CLOSING
        assert (await client.got()).closed == (1012, "the network is no longer served here")


async def test_settings_changed_at_run_time_hold_for_open_connections() -> None:
    key = make(b"\x07" * 32)
    shop = {"keys": {"shop": {"hashes": [hashed(key)]}}, "require_key": True}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=shop) as proxy:
        for changed, code in (
            ({"clients": {**shop, "keys": {"other": {"hashes": [hashed("x")]}}}}, 1008),
            ({"clients": shop, "http": {"websocket": {"enabled": False}}}, 1008),
        ):
            proxy.worker.adopt(settings_for(nodes, clients=shop), 2)
            async with RawSocket.open(proxy.worker.port, X_Api_Key=key) as client:
                server = socket_of(proxy)
                proxy.worker.adopt(settings_for(nodes, **changed), 3)
                server.look(0.0, proxy.worker._front.settings)
                assert (await client.got()).closed[0] == code
            await until(lambda: not proxy.worker._lanes.websockets.open)


async def test_a_message_in_many_fragments_lets_others_have_their_turn() -> None:
    async with web_socket() as (proxy, client):
        server, turns = socket_of(proxy), 0
        server.data_received(frame(CHAIN[:9], fin=False) + frame(b"", 0, fin=False) * 5000 + frame(CHAIN[9:], 0))
        while not tally(proxy).requests:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 3
        assert (await client.got()).json["id"] == 7
