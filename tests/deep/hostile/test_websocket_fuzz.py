"""Whatever a client of a WebSocket sends, and however slowly it reads: no exception escapes, nothing stays behind, and
other clients are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.core.wire.websocket_frames import FrameError, WebSocketReader
from rpcaccel.core.wire.websocket_handshake import read_handshake
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.deep.hostile.test_fuzz import bodies, spoilt
from tests.support.dataplane.raw_socket import BINARY, CLOSE, PING, PONG, TEXT, RawSocket, frame, handshake, squeezed
from tests.support.properties import examples
from tests.support.proxy import proxying
from tests.support.waiting import until

CHAIN = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}'
KIB, MIB = 1 << 10, 1 << 20


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Frames, mostly good ones, with some bytes spoilt."""
    sent = b""
    for _ in range(draw(st.integers(1, 6))):
        body = draw(bodies())
        opcode = draw(st.sampled_from([TEXT, TEXT, BINARY, 0, PING, PONG, CLOSE, 5]))
        if draw(st.booleans()):
            sent += squeezed(body)
        else:
            body = body[:125] if opcode in (PING, PONG, CLOSE) and draw(st.booleans()) else body
            sent += frame(body, opcode, fin=draw(st.integers(0, 5)) > 0)
    return spoilt(draw, sent) if draw(st.booleans()) else sent


@settings(max_examples=examples(2000))
@given(streams(), st.lists(st.integers(1, 300), max_size=10))
def test_the_reader_refuses_or_reads_and_never_raises_anything_else(sent: bytes, sizes: list[int]) -> None:
    def read(pieces: list[bytes]) -> tuple[list[Any], int]:
        reader, found = WebSocketReader(deflates=True), []
        try:
            for piece in pieces:
                reader.feed(piece)
                while (one := reader.next(64 * KIB)) is not None:
                    found.append(one)
        except FrameError as error:
            return found, error.code
        return found, 0

    pieces, at = [], 0
    for size in sizes:
        pieces.append(sent[at : at + size])
        at += size
    assert read([*pieces, sent[at:]]) == read([sent])


@settings(max_examples=examples(1000))
@given(st.data())
def test_a_spoilt_handshake_is_read_or_not(data: st.DataObject) -> None:
    text = data.draw(st.composite(lambda draw: spoilt(draw, handshake(Origin="x", Cookie="a=b")))())
    found = read_handshake(text)
    assert found is None or len(found.headers) > 3


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(streams(), min_size=1, max_size=4), st.booleans())
def test_whatever_comes_the_others_are_served_and_nothing_is_left(sent: list[bytes], packed: bool) -> None:
    async def talk() -> None:
        wrong: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, told: wrong.append(told))
        async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, RawSocket.open(proxy.worker.port) as other:
            offer = "permessage-deflate" if packed else None
            for stream in sent:
                async with RawSocket.open(proxy.worker.port, Sec_WebSocket_Extensions=offer) as client:
                    client.send(stream)
                    client.send(frame(b"", CLOSE))
                    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                        while (await client.got(0.3)).opcode != CLOSE:
                            pass
            assert (await other.call(CHAIN))["id"] == 7
            await until(lambda: len(proxy.worker._lanes.websockets.open) == 1)
            assert proxy.worker.report().tally.in_flight == 0
        assert wrong == []

    asyncio.run(talk())


async def test_a_subscriber_that_reads_gets_everything_beside_many_that_do_not() -> None:
    limits = {"max_unsent": 16 * MIB, "websocket": {"queue": MIB}}
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes, http=limits) as proxy,
        contextlib.AsyncExitStack() as stack,
    ):
        good = await stack.enter_async_context(RawSocket.open(proxy.worker.port))
        (reading,) = proxy.worker._lanes.websockets.open
        for number in range(200):
            slow = await stack.enter_async_context(RawSocket.open(proxy.worker.port, receives=4096))
            slow.send(frame(CHAIN) * (number % 50) + frame(b"p", PING) * 100 + frame(CHAIN)[: number % 30])
        deaf = list(proxy.worker._lanes.websockets.open - {reading})
        for number in range(1500):
            text = b'{"number":%d,"data":"%b"}' % (number, b"x" * 3000)
            for one in deaf:
                one.notify(text)
            assert reading.notify(text)
            assert (await good.got()).json["number"] == number
            assert sum(one.unread for one in deaf) < 32 * MIB
        assert proxy.worker.report().tally.refusals["unsent-too-much"] > 0
        for one in deaf:
            if one.transport is not None:
                one.transport.abort()
