"""Who may open a WebSocket, how long it stays, and what a client may leave unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rpcaccel.core.client_limits import hashed, make
from rpcaccel.core.wire.websocket_frames import text_header
from rpcaccel.dataplane.http.handler import HttpAnswer
from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.http.websocket_writer import FAREWELL, SocketState
from rpcaccel.dataplane.live.live_session import LiveSession, MessageTurn
from rpcaccel.dataplane.rpc.calls import CallWait
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.raw_socket import CLOSE, PING, TEXT, RawSocket, frame, handshake, web_socket
from tests.support.fleet import gated_nodes
from tests.support.proxy import Proxy, proxying, settings_for
from tests.support.waiting import until

CHAIN = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}'
BLOCK = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
KIB, MIB = 1 << 10, 1 << 20


class Subscribed(LiveSession):
    """A session that has some subscriptions, and notes what it is told."""

    def __init__(self, socket: WebSocket, count: int = 1) -> None:
        super().__init__(socket, 200)
        self.subscriptions = count
        self.heard: list[str] = []
        socket.session = self

    @property
    def count(self) -> int:
        return self.subscriptions

    def turn(self) -> MessageTurn:
        return NotedTurn(self)

    def close(self) -> None:
        self.heard.append("closed")


class NotedTurn(MessageTurn):
    def drop(self) -> None:
        cast(Subscribed, self.session).heard.append("dropped")

    def settle(self) -> None:
        session = cast(Subscribed, self.session)
        session.heard.append("settled")
        session.sink.notify(b'"first', b' notification"')


def tally(proxy: Proxy) -> Any:
    return proxy.worker.report().tally


def sockets(proxy: Proxy) -> list[WebSocket]:
    return list(proxy.worker._lanes.websockets.open)


async def refused(proxy: Proxy, path: str = "/", **fields: str | None) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a handshake; the connection ends with it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
    client = RawSocket(reader, writer)
    client.send(handshake(path, **fields))
    status, headers = await client.head()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    assert await client.ended()
    writer.close()
    return status, headers, body


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"Sec_WebSocket_Version": "8"}, 426, b"the header Sec-WebSocket-Version must be 13"),
        ({"Sec_WebSocket_Key": "abc"}, 400, b"the header Sec-WebSocket-Key must be 16 bytes in base64"),
        ({"Sec_WebSocket_Key": None}, 400, b"the header Sec-WebSocket-Key must be 16 bytes in base64"),
        ({"Connection": "close"}, 400, b"the header Connection must name upgrade"),
        ({"Content_Length": "0,0"}, 400, b""),
    ],
)
async def test_a_handshake_that_is_wrong_is_told_why(fields: dict[str, str | None], status: int, words: bytes) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        told, headers, body = await refused(proxy, **fields)
        assert (told, words in body) == (status, True)
        if words:
            assert headers["sec-websocket-version"] == "13"
            assert tally(proxy).refusals == {"websocket": 1}


@pytest.mark.parametrize("first", [b"", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
async def test_a_handshake_where_none_can_be_taken_is_told_so(first: bytes) -> None:
    """A path that is not plain, or a connection that aiohttp has for good."""
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
        client = RawSocket(reader, writer)
        if first:
            client.send(first)
            _, headers = await client.head()
            await reader.readexactly(int(headers["content-length"]))
        client.send(handshake("/" if first else "/%2F"))
        assert (await client.head())[0] == 400
        words = await reader.read()
        assert b"on a connection of its own; its path may have no percent sign" in words
        writer.close()


async def test_websockets_may_be_turned_off() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"websocket": {"enabled": False}}) as proxy:
        for fields in ({}, {"Sec_WebSocket_Version": "8"}):
            status, _, body = await refused(proxy, **fields)
            assert (status, b"there are no WebSockets here" in body) == (403, True)
        assert tally(proxy).refusals == {"websocket-off": 2}


async def test_an_unknown_path_and_an_unknown_key_are_refused_as_for_post() -> None:
    keys = {"keys": {"shop": {"hashes": [hashed(make(b"\x07" * 32))]}}, "require_key": True}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=keys) as proxy:
        assert (await refused(proxy, "/nowhere"))[0] == 404
        for path in ("/", "/key/wrong/"):
            status, headers, body = await refused(proxy, path)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert body == (await proxy.post(CHAIN, path)).body


async def test_a_time_that_cannot_be_understood_is_refused_before_the_websocket_is_open() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        status, _, body = await refused(proxy, X_Rpcaccel_Timeout="soon")
        assert (status, b"X-Rpcaccel-Timeout" in body) == (400, True)


async def test_origins_are_let_in_as_for_post() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"cors_origins": ["https://dapp.example"]}) as proxy:
        assert (await refused(proxy, Origin="https://evil.example"))[0] == 403
        assert (await refused(proxy, Origin="null"))[0] == 403
        assert tally(proxy).refusals == {"websocket-origin": 2}
        for origin in ("https://dapp.example", None):
            async with RawSocket.open(proxy.worker.port, Origin=origin) as client:
                assert (await client.call(CHAIN))["id"] == 7


async def test_there_may_be_so_many_and_so_many_of_one_client() -> None:
    limits = {"websocket": {"connections": 3, "per_client": 2}}
    trusting = {"trusted_proxies": ["127.0.0.1"]}
    async with harmony_nodes(1) as nodes, proxying(nodes, http=limits, clients=trusting) as proxy:
        port = proxy.worker.port
        async with RawSocket.open(port, X_Forwarded_For="1.1.1.1"), RawSocket.open(port, X_Forwarded_For="1.1.1.1"):
            status, headers, _ = await refused(proxy, X_Forwarded_For="1.1.1.1")
            assert (status, headers["retry-after"]) == (429, "1")
            async with RawSocket.open(port, X_Forwarded_For="2001:db8::1"):
                assert "address:2001:db8::/64" in proxy.worker._lanes.websockets.by_holder
                assert (await refused(proxy, X_Forwarded_For="3.3.3.3"))[0] == 503
        await until(lambda: not sockets(proxy))
        assert proxy.worker._lanes.websockets.by_holder == {}
        assert tally(proxy).refusals == {"websocket-client": 1, "websocket-full": 1}


# -- subscriptions ----------------------------------------------------------------------------------------------------


async def test_what_a_message_subscribes_to_begins_behind_its_answer_and_ends_with_the_connection() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        async with RawSocket.open(proxy.worker.port) as client:
            (server,) = sockets(proxy)
            assert (server.session.most, server.session.sink) == (200, server)
            session = Subscribed(server)
            client.send(frame(CHAIN))
            assert (await client.got()).json["id"] == 7
            assert (await client.got()).json == "first notification"
            client.send(frame(b'{"method":"eth_chainId"}'))
            assert (await client.got()).json == "first notification"
        await until(lambda: not sockets(proxy))
        assert session.heard == ["settled", "settled", "closed"]
        assert session.sink.notify(b"x") is False


async def test_a_bug_that_is_met_later_is_told_with_the_id_and_what_was_subscribed_to_ends() -> None:
    async with web_socket(gated=True) as (proxy, client):
        (server,) = sockets(proxy)
        session = Subscribed(server)
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        client.send(frame(BLOCK.replace(b'"id":1', b'"id":"mine"')))
        await proxy.nodes[0].arrived.wait()
        (pending,) = server._running
        assert isinstance(pending, CallWait)
        pending.landed(ValueError("a bug"))
        told = (await client.got()).json
        assert (told["id"], told["error"]["message"]) == ("mine", "internal error")
        assert session.heard == ["dropped"]
        assert (tally(proxy).refusals, tally(proxy).in_flight) == ({"bug": 1}, 0)
        proxy.nodes[0].release()


async def test_a_subscriber_that_leaves_too_much_unread_is_told_and_closed() -> None:
    limits = {"websocket": {"queue": 256 * KIB}, "write_timeout": 60}
    async with web_socket(receives=4096, http=limits) as (proxy, client):
        (server,) = sockets(proxy)
        Subscribed(server)
        sent, text = 0, b'"%b"' % (b"x" * 10_000)
        while server.notify(text):
            sent += 1
            assert server.unread <= 300 * KIB
        for _ in range(sent):
            assert (await client.got()).payload == text
        code, reason = (await client.got()).closed
        assert code == 1013
        assert reason.startswith("too slow: ")
        assert tally(proxy).refusals == {"slow-subscriber": 1}
        assert tally(proxy).networks[0].cut == {"slow": 1}


async def test_answers_that_were_asked_for_do_not_count_against_notifications() -> None:
    async with web_socket(receives=4096, http={"websocket": {"queue": 64 * KIB}}) as (proxy, client):
        (server,) = sockets(proxy)
        server.pause_writing()
        server.write((text_header(10 * MIB), b"x" * 10 * MIB))
        assert server.notify(b"y" * 60_000)
        assert server.notify(b"y" * 60_000)
        assert not server.notify(b"y"), "more than 64 KiB of notifications are unread"
        assert [len((await client.got()).payload) for _ in range(3)] == [10 * MIB, 60_000, 60_000]
        assert (await client.got()).closed[0] == 1013
        assert tally(proxy).refusals == {"slow-reader": 1}


async def test_a_client_below_its_bounds_is_not_given_up_because_it_takes_little() -> None:
    async with web_socket(receives=4096, http={"write_timeout": 10}) as (proxy, client):
        (server,) = sockets(proxy)
        Subscribed(server)
        while not server.writing_paused:
            server.notify(b"x" * 10_000)
        began, settings = server._silence.heard, proxy.worker._front.settings
        slow = proxy.worker._lanes.slow
        slow.look(began + 1000.0, write_timeout=10.0, max_unsent=MIB)
        for after in (0.0, 31.0, 61.0, 74.0):
            server.look(began + after, settings)
        assert tally(proxy).refusals == {}
        server.look(began + 76.0, settings)
        assert server.state is SocketState.CLOSING
        assert tally(proxy).refusals == {"slow-subscriber": 1}
        while (came := await client.got()).opcode != CLOSE:
            assert came.opcode in (TEXT, PING)
        assert came.closed[0] == 1013


async def test_who_takes_something_is_there_without_a_word() -> None:
    async with web_socket(receives=4096) as (proxy, client):
        (server,) = sockets(proxy)
        Subscribed(server)
        while not server.writing_paused or server.unread < 3 * MIB:
            server.notify(b"x" * 10_000)
        began, settings = server._silence.heard, proxy.worker._front.settings
        server.look(began + 70.0, settings)
        for after in (71.0, 141.0, 211.0):
            left = server.unread
            while server.unread >= left:
                await client.got()
            assert server.writing_paused
            server.look(began + after, settings)
            assert server._silence.heard == began + after


async def test_a_client_that_must_make_room_is_counted_once_and_told() -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes) as proxy,
        RawSocket.open(proxy.worker.port, receives=4096) as client,
        RawSocket.open(proxy.worker.port, receives=4096) as larger,
    ):
        ours = client.writer.get_extra_info("sockname")[1]
        for server in sockets(proxy):
            Subscribed(server)
            assert server.transport is not None
            small = server.transport.get_extra_info("peername")[1] == ours
            while server.unread < (MIB if small else 2 * MIB):
                server.notify(b"x" * 10_000)
        now = next(iter(sockets(proxy)))._silence.heard + 1000.0
        for _ in range(2):
            proxy.worker._lanes.slow.look(now, write_timeout=10.0, max_unsent=MIB // 2)
        assert tally(proxy).refusals == {"unsent-too-much": 1}
        assert tally(proxy).networks[0].cut == {"slow": 1}
        while (came := await client.got()).opcode != CLOSE:
            pass
        assert came.closed[0] == 1013
        larger.writer.transport.abort()


async def test_a_client_that_is_closed_through_its_own_fault_is_named_in_the_log() -> None:
    key = make(b"\x07" * 32)
    keys = {"keys": {"shop": {"hashes": [hashed(key)]}}}
    with capture_logs() as lines:
        async with harmony_nodes(1) as nodes, proxying(nodes, clients=keys) as proxy:
            for _ in range(2):
                async with RawSocket.open(proxy.worker.port, f"/key/{key}/harmony-s0") as client:
                    client.send(frame(b"", 3))
                    assert (await client.got()).closed[0] == 1002
                    assert await client.ended()
            proxy.worker._lanes.websockets.next_line = 0.0
            async with RawSocket.open(proxy.worker.port) as client:
                (server,) = (one for one in sockets(proxy) if one.transport is not None)
                server.give_up("slow-reader")
    told = [line for line in lines if "WebSocket" in line["event"]]
    assert [(line["client"], line["network"], line["reason"], line["more"]) for line in told] == [
        ("key:shop", "harmony-s0", "the opcode 3 is reserved", 0),
        ("address:127.0.0.1", "harmony-s0", "slow-reader", 1),
    ]
    assert key not in str(lines)


async def test_a_client_that_reads_nothing_is_broken_off_when_its_time_is_over() -> None:
    limits = {"websocket": {"queue": 64 * KIB}, "write_timeout": 10}
    async with web_socket(receives=4096, http=limits) as (proxy, _):
        (server,) = sockets(proxy)
        Subscribed(server)
        while server.notify(b"x" * 60_000):
            pass
        assert server.transport is not None
        settings = proxy.worker._front.settings
        server.look(server.gives_up - 0.1, settings)
        assert not server.transport.is_closing()
        server.look(server.gives_up + 0.1, settings)
        await until(lambda: not sockets(proxy))


async def test_what_all_subscribers_leave_unread_is_bounded() -> None:
    limits = {"max_unsent": 2 * MIB, "websocket": {"queue": MIB}}
    async with harmony_nodes(1) as nodes, proxying(nodes, http=limits) as proxy:
        opened = [RawSocket.open(proxy.worker.port, receives=4096) for _ in range(12)]
        clients = [await one.__aenter__() for one in opened]
        servers = sockets(proxy)
        for server in servers:
            Subscribed(server)
        text = b"x" * 20_000
        for _ in range(400):
            for server in servers:
                server.notify(text)
            await asyncio.sleep(0)
            assert sum(server.unread for server in servers) <= 4 * MIB
        told = tally(proxy)
        assert told.refusals["unsent-too-much"] > 0
        assert told.networks[0].cut["slow"] == told.refusals["unsent-too-much"] + told.refusals.get(
            "slow-subscriber", 0
        )
        for client in clients:
            client.writer.transport.abort()


async def test_who_asks_for_answers_and_does_not_read_is_not_read_from() -> None:
    async with web_socket(receives=4096) as (proxy, client):
        await proxy.post(BLOCK)
        (slot,) = proxy.worker._memory._slots.values()
        assert slot.entry is not None
        slot.entry = replace(slot.entry, result=b'"%b"' % (b"x" * 128 * KIB))
        client.send(frame(BLOCK) * 90)
        (server,) = sockets(proxy)
        await until(lambda: server.writing_paused)
        assert server.transport is not None
        assert not server.transport.is_reading()
        assert server.unread < 3 * MIB
        for _ in range(90):
            assert len((await client.got()).payload) > 128 * KIB


async def test_answers_that_were_asked_for_may_wait_where_notifications_may_not() -> None:
    async with web_socket(gated=True, receives=4096, http={"websocket": {"queue": 64 * KIB}}) as (proxy, client):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        client.send(frame(BLOCK))
        await proxy.nodes[0].arrived.wait()
        (server,) = sockets(proxy)
        assert server.notify(b"x" * 10 * MIB)
        assert server.unread > 64 * KIB
        proxy.nodes[0].release()
        await until(lambda: tally(proxy).in_flight == 0)
        assert not server.notify(b"x")
        assert len((await client.got()).payload) == 10 * MIB
        assert (await client.got()).json["id"] == 1
        assert (await client.got()).closed[0] == 1013


async def test_a_flood_of_pings_makes_no_one_hold_more() -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes) as proxy,
        RawSocket.open(proxy.worker.port, receives=4096) as client,
        RawSocket.open(proxy.worker.port) as other,
    ):
        server = next(one for one in sockets(proxy) if one.transport.get_extra_info("peername")[1]
                      == client.writer.get_extra_info("sockname")[1])  # type: ignore[union-attr]  # fmt: skip
        flood = frame(b"p" * 125, PING) * 1000
        for _ in range(2000):
            client.send(flood)
            await asyncio.sleep(0)
            if server.writing_paused:
                break
        assert server.writing_paused
        assert server.unread < 200 * KIB
        assert (await other.call(CHAIN))["id"] == 7
        client.writer.transport.abort()


async def test_parts_of_messages_of_all_clients_together_are_bounded() -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes, http={"max_unsent": MIB}) as proxy,
        RawSocket.open(proxy.worker.port) as first,
        RawSocket.open(proxy.worker.port) as second,
    ):
        watched = proxy.worker._lanes.websockets
        first.send(frame(CHAIN.ljust(700 * KIB), fin=False))
        await until(lambda: watched.partial == 700 * KIB)
        second.send(frame(CHAIN.ljust(300 * KIB), fin=False))
        await until(lambda: watched.partial == 1000 * KIB)
        second.send(frame(b" " * (100 * KIB), 0, fin=False))
        assert (await first.got()).closed[0] == 1013, "it keeps the most, though the other sent what was too much"
        await until(lambda: watched.partial == 400 * KIB)
        second.send(frame(b"", 0))
        assert (await second.got()).json["id"] == 7
        assert watched.partial == 0
        second.send(frame(CHAIN, fin=False))
        await until(lambda: watched.partial == len(CHAIN))
        second.writer.transport.abort()
        await until(lambda: watched.partial == 0)
        assert tally(proxy).refusals == {"partial-too-much": 1}


async def test_a_message_must_come_in_time_whatever_pings_come_between() -> None:
    async with web_socket() as (proxy, client):
        (server,) = sockets(proxy)
        settings = proxy.worker._front.settings
        client.send(frame(CHAIN) + frame(CHAIN[:5], fin=False))
        await until(lambda: server._since)
        began = server._since
        client.send(frame(b"", PING))
        assert [(await client.got()).opcode for _ in range(2)] == [TEXT, 10]
        assert server._since == began
        server.look(began + 29.0, settings)
        server.look(began + 31.0, settings)
        assert (await client.got()).closed == (1008, "a message did not arrive within 30 s")
        assert tally(proxy).refusals == {"slow-client": 1}


async def test_a_message_that_came_starts_the_time_of_the_next_anew() -> None:
    async with web_socket() as (proxy, _):
        (server,) = sockets(proxy)
        server.data_received(frame(CHAIN)[:5])
        began = server._since
        assert began
        server.data_received(frame(CHAIN)[5:] + frame(CHAIN)[:5])
        await until(lambda: server._since > began)
        server.data_received(frame(CHAIN)[5:])
        assert server._since == 0.0


# -- silence ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def looked_at(**websocket: Any) -> AsyncIterator[tuple[Proxy, WebSocket, RawSocket]]:
    async with web_socket(http={"websocket": {"ping": 30, "idle": 3600, **websocket}}) as (proxy, client):
        yield proxy, sockets(proxy)[0], client


async def test_a_silent_client_is_pinged_and_one_that_does_not_answer_is_closed() -> None:
    async with looked_at() as (proxy, server, client):
        settings, began = proxy.worker._front.settings, server._silence.heard
        server.look(began + 29.0, settings)
        server.look(began + 31.0, settings)
        server.look(began + 32.0, settings)
        assert await client.got() == (PING, b"", False)
        client.send(frame(b"", 10))
        await until(lambda: server._silence.spoke)
        for after in (40.0, 200.0, 201.0, 202.0):
            server.look(began + after, settings)
        assert [(await client.got()).opcode for _ in range(2)] == [PING, PING]
        assert (await client.got()).closed == (1011, "the pings are not answered")


async def test_who_neither_calls_nor_subscribes_is_closed_after_a_while() -> None:
    async with looked_at(ping=3600, idle=100) as (proxy, server, client):
        settings, began = proxy.worker._front.settings, server._silence.used
        session = Subscribed(server)
        server.look(began + 150.0, settings)
        session.subscriptions = 0
        server.look(began + 200.0, settings)
        await client.call(CHAIN)
        server.look(began + 299.0, settings)
        server.look(began + 398.0, settings)
        server.look(began + 400.0, settings)
        assert (await client.got()).json == "first notification"
        assert (await client.got()).closed[0] == 1001


async def test_pings_are_answered_while_as_many_calls_hang_as_there_may_be() -> None:
    async with web_socket(gated=True, http={"websocket": {"at_once": 2}}) as (proxy, client):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        for number in range(3):
            client.send(frame(BLOCK.replace(b"26", b"%d" % number).replace(b'"id":1', b'"id":%d' % number)))
        client.send(frame(b"there?", PING))
        assert await client.got() == (10, b"there?", False)
        client.send(frame(b"still there?", PING) + frame(CHAIN) + frame(b"behind a call", PING))
        assert (await client.got()).payload == b"still there?"
        assert tally(proxy).requests == 2
        proxy.nodes[0].release()
        came = [await client.got() for _ in range(5)]
        assert {one.json["id"] for one in came if one.opcode == TEXT} == {0, 1, 2, 7}
        assert [one.payload for one in came if one.opcode != TEXT] == [b"behind a call"]


async def test_a_change_of_the_number_of_subscriptions_holds_for_open_connections() -> None:
    async with web_socket() as (proxy, _):
        (server,) = sockets(proxy)
        proxy.worker.adopt(settings_for(proxy.nodes, http={"websocket": {"subscriptions": 3}}), 2)
        server.look(server._silence.heard, proxy.worker._front.settings)
        assert server.session.most == 3


async def test_a_bug_of_one_look_does_not_end_the_watch() -> None:
    bugs: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: bugs.append(about["exception"]))
    async with looked_at(ping=0.05) as (proxy, server, client):
        sound, server.session = server.session, cast(LiveSession, None)
        await until(lambda: bugs)
        server.session = sound
        assert {type(bug) for bug in bugs} == {AttributeError}
        assert (await client.got()).opcode == PING
        assert proxy.worker._lanes.websockets.open == {server}


async def test_the_worker_looks_by_itself() -> None:
    async with looked_at(ping=0.05) as (_, _, client):
        assert [(await client.got()).opcode for _ in range(2)] == [PING, PING]
        assert (await client.got()).closed[0] == 1011


async def test_a_client_that_does_not_answer_a_close_is_broken_off() -> None:
    async with looked_at() as (proxy, server, client):
        server.close(1012, "because")
        server.close(1011, "again")
        assert (await client.got()).closed == (1012, "because")
        client.send(frame(CHAIN) + frame(b"", PING))
        await until(lambda: server._silence.spoke)
        assert server.notify(b"x") is False
        server.look(server.gives_up + 0.1, proxy.worker._front.settings)
        assert await client.ended()
        assert FAREWELL < 30.0


# -- the end ----------------------------------------------------------------------------------------------------------


async def test_a_worker_that_drains_answers_what_it_has_and_closes() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        async with RawSocket.open(proxy.worker.port) as idle, RawSocket.open(proxy.worker.port) as busy:
            for server in sockets(proxy):
                Subscribed(server)
            nodes[0].hold("hmyv2_getBlockByNumber")
            busy.send(frame(BLOCK))
            await nodes[0].arrived.wait()
            draining = asyncio.create_task(proxy.worker.drain(60.0, linger=60.0))
            assert (await idle.got()).closed == (1012, "restarting: connect again")
            idle.send(frame(b"\x03\xf4", CLOSE))
            assert await idle.ended()
            nodes[0].release()
            assert (await busy.got()).json["id"] == 1
            assert (await busy.got()).json == "first notification"
            assert (await busy.got()).closed[0] == 1012
            busy.send(frame(b"\x03\xf4", CLOSE))
            assert await busy.ended()
            await draining
        assert tally(proxy).networks[0].cut == {"drained": 2}


async def test_a_client_may_read_what_it_was_answered_before_it_is_closed_because_the_worker_drains() -> None:
    async with web_socket() as (proxy, client):
        (server,) = sockets(proxy)
        server.pause_writing()
        server.data_received(frame(CHAIN))
        server.leave()
        assert tally(proxy).requests == 0
        assert server.notify(b'"still here"')
        server.resume_writing()
        assert (await client.got()).json == "still here"
        assert (await client.got()).json["id"] == 7
        assert (await client.got()).closed[0] == 1012


async def test_draining_ends_in_time_whatever_clients_do() -> None:
    async with web_socket(gated=True) as (proxy, busy):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        busy.send(frame(BLOCK))
        await proxy.nodes[0].arrived.wait()
        Subscribed(sockets(proxy)[0])
        await proxy.worker.drain(0.05)
        assert (await busy.got()).closed == (1012, "restarting: connect again")
        assert await busy.ended()
        assert tally(proxy).in_flight == 0
        assert tally(proxy).networks[0].cut == {"drained": 1}
        proxy.nodes[0].release()


async def test_nobody_opens_a_websocket_while_the_worker_drains() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        proxy.worker._front.draining = True
        status, headers, _ = await refused(proxy)
        assert (status, headers["retry-after"]) == (503, "1")


async def test_a_change_of_the_bound_holds_for_open_connections() -> None:
    async with web_socket(receives=4096) as (proxy, _):
        (server,) = sockets(proxy)
        Subscribed(server)
        proxy.worker.adopt(settings_for(proxy.nodes, http={"websocket": {"queue": 64 * KIB}}), 2)
        while server.notify(b"x" * 10_000):
            assert server.unread < 100 * KIB
        assert not isinstance(server.session.turn(), HttpAnswer)
