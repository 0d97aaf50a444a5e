"""What a client of a WebSocket may leave unread, and what it may send in parts."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from structlog.testing import capture_logs

from rpcaccel.core.client_limits import hashed, make
from rpcaccel.core.wire.websocket_frames import text_header
from rpcaccel.dataplane.http.handler import HttpAnswer
from rpcaccel.dataplane.http.websocket_writer import SocketState
from rpcaccel.dataplane.rpc.calls import CallWait
from rpcaccel.simnode.server.factories import harmony_nodes
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
from tests.support.proxy import proxying, settings_for
from tests.support.waiting import until

KIB, MIB = 1 << 10, 1 << 20


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
            proxy.worker._lanes.websockets.faults.next_line = 0.0
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


async def test_a_change_of_the_bound_holds_for_open_connections() -> None:
    async with web_socket(receives=4096) as (proxy, _):
        (server,) = sockets(proxy)
        Subscribed(server)
        proxy.worker.adopt(settings_for(proxy.nodes, http={"websocket": {"queue": 64 * KIB}}), 2)
        while server.notify(b"x" * 10_000):
            assert server.unread < 100 * KIB
        assert not isinstance(server.session.turn(), HttpAnswer)
