"""How long a WebSocket stays: silent clients, and the end of the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from rpcaccel.dataplane.http.websocket import WebSocket
from rpcaccel.dataplane.http.websocket_writer import FAREWELL_SECONDS
from rpcaccel.dataplane.live.live_session import LiveSession
from tests.support.dataplane.raw_socket import (
    BLOCK,
    CHAIN,
    CLOSE,
    PING,
    TEXT,
    RawSocket,
    Subscribed,
    frame,
    sockets,
    tally,
    web_socket,
)
from tests.support.fleet import gated_nodes
from tests.support.proxy import Proxy, proxying, settings_for
from tests.support.waiting import until


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
        assert FAREWELL_SECONDS < 30.0


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
