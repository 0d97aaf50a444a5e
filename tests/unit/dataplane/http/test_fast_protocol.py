"""Two lanes, one answer: what the short lane says is, byte for byte, what the complete one would have said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.dataplane.http.aiohttp_server import SharedTransport
from rpcaccel.dataplane.http.fast_protocol import NEXT, READING, FastProtocol, RequestState
from rpcaccel.dataplane.http.request_head import HeadMemo
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import gated_nodes
from tests.support.properties import examples
from tests.support.proxy import BreakingClock, Proxy, proxying

CHANGING = re.compile(rb"(Date|Server-Timing|X-Rpcaccel-Cache): [^\r]*")
BLOCK = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
BODIES = [
    BLOCK,
    b'{"id":"x","method":"eth_chainId"}',
    b'{"method":"eth_chainId"}',
    b"[" + BLOCK + b"," + BLOCK + b",7]",
    b"[]",
    b"null",
    b"",
    b"{",
    b'{"id":1,"method":"hmyv2_setNodeToBackupMode","params":[true]}',
    b'{"id":1,"method":"hmyv2_getBalance","params":["zzz"]}',
]
HEADERS = [
    b"",
    b"Origin: https://dapp.example\r\n",
    b"Accept-Encoding: gzip, deflate\r\n",
    b"Accept-Encoding: gzip;q=0\r\n",
    b"X-Anything:  spaced \r\n",
    b"Origin: https://dapp.example\r\nAccept-Encoding: gzip\r\n",
]
PATHS = [b"/", b"/harmony-s0", b"/api/v1/hmy/v2", b"/nowhere"]


def request(path: bytes, header: bytes, body: bytes, *, last: bytes = b"") -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%b%b\r\n" % (path, len(body), header, last)
    return head + body


class Line:
    """A raw connection that reads one answer at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, data: bytes) -> tuple[bytes, bytes]:
        """Head and body of the answer."""
        self.writer.write(data)
        return await self.answer()

    async def answer(self) -> tuple[bytes, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])  # type: ignore[index]
        return head, await self.reader.readexactly(length)


@asynccontextmanager
async def line(proxy: Proxy) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


def lane_of(proxy: Proxy) -> FastProtocol:
    """The lane of the newest connection that said something."""
    return max(proxy.worker._lanes.open, key=lambda lane: lane._touched)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PATHS), st.sampled_from(HEADERS), st.sampled_from(BODIES))
def test_both_lanes_write_the_same_bytes(path: bytes, header: bytes, body: bytes) -> None:
    async def compare() -> None:
        async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
            await proxy.post(BLOCK)
            async with line(proxy) as short, line(proxy) as complete:
                answer = await short.ask(request(path, header, body))
                # Nothing follows from announcing trailers, but the short lane does not read such a request.
                other = await complete.ask(request(path, header, body, last=b"TE: trailers\r\n"))
            masked = [(CHANGING.sub(b"", head), text) for head, text in (answer, other)]
            assert masked[0] == masked[1]

    asyncio.run(compare())


GET = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
VALID = [
    (request(b"/", b"", b'{"id":1,"method":"eth_chainId"}'), 200),
    (
        request(b"/", b"Origin: https://dapp.example\r\n", b'{"id":"x","method":"hmyv2_getBalance","params":["zzz"]}'),
        200,
    ),
    (request(b"//harmony-s0", b"", BLOCK), 200),
    (request(b"/nowhere", b"", BLOCK), 404),
    (request(b"/", b"", b"{"), 200),
    (GET, 200),
    (request(b"/", b"", BLOCK, last=b"TE: trailers\r\n"), 200),
    (
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BLOCK), BLOCK),
        200,
    ),
    (b"OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n", 204),
]
GARBAGE = [
    b"garbage",
    b"\x16\x03\x01\x02\x00\x01",
    b"\0\0\0\0\r\n\r\n",
    b'{"id":1,"method":"eth_chainId"}',
    b"POST / HTTP/9.9\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    b"GET /healthz HTTP/1.1\r\nHost : h\r\n\r\n",
]


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(VALID), min_size=1, max_size=6),
    st.sampled_from(GARBAGE),
    st.lists(st.integers(0, 1500), max_size=6).map(sorted),
)
def test_requests_are_answered_before_the_garbage_behind_them_however_they_come(
    valid: list[tuple[bytes, int]], garbage: bytes, cuts: list[int]
) -> None:
    async def send() -> list[bytes]:
        async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, line(proxy) as client:
            stream = b"".join(text for text, _ in valid) + garbage
            for start, end in pairwise([0, *cuts, len(stream)]):
                if start < end:
                    client.writer.write(stream[start:end])
                    await client.writer.drain()
                    await asyncio.sleep(0)
            return re.findall(rb"HTTP/1.[01] (\d+) ", await asyncio.wait_for(client.reader.read(), 10))

    assert asyncio.run(send()) == [b"%d" % status for _, status in valid] + [b"400"]


@pytest.mark.parametrize("path", [b"//", b"//harmony-s0", b"/harmony-s0//", b"///api//v1///hmy/v2"])
async def test_slashes_in_a_row_are_one(path: bytes) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, line(proxy) as client:
        for last in (b"", b"TE: trailers\r\n"):  # aiohttp reads the second one
            head, body = await client.ask(request(path, b"", b'{"id":1,"method":"eth_chainId"}', last=last))
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b'"result":"0x' in body


NUMBERED = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX: %d\r\n\r\n"


def test_a_head_is_read_once_and_those_that_are_remembered_are_bounded() -> None:
    heads = HeadMemo(lambda: 16_000)
    assert heads.read(NUMBERED % 1) is heads.read(NUMBERED % 1) is not None
    assert heads.read(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") is None
    assert heads.read(NUMBERED.replace(b"%d", b"x" * 20_000)) is None
    for number in range(5000):
        assert heads.read(NUMBERED % number) is not None
    assert len(heads._heads) <= 1024


async def test_an_ordinary_post_never_reaches_the_complete_lane() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, line(proxy) as client:
        for _ in range(3):
            await client.ask(request(b"/", b"", BLOCK))
        assert lane_of(proxy)._inner is None


async def test_a_connection_comes_back_after_a_whole_request_of_another_kind() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, line(proxy) as client:
        head, body = await client.ask(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"alive\n")
        lane = lane_of(proxy)
        assert lane.state is RequestState.IDLE
        assert (await client.ask(request(b"/", b"", BLOCK)))[0].startswith(b"HTTP/1.1 200")
        assert "idle" in repr(lane)


async def test_who_sends_on_while_it_waits_and_does_not_read_is_read_from_when_both_are_over() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy, line(proxy) as client:
        nodes[0].hold("hmyv2_getBlockByNumber")
        client.writer.write(request(b"/", b"", BLOCK))
        await nodes[0].arrived.wait()
        lane = lane_of(proxy)
        transport = lane.transport
        assert transport is not None
        client.writer.write(request(b"/", b"", b'{"id":"second","method":"eth_chainId"}' + b" " * 40_000))
        while transport.is_reading():
            await asyncio.sleep(0)
        lane.pause_writing()
        nodes[0].release()
        await client.answer()
        assert not transport.is_reading()
        lane.resume_writing()
        await client.answer()
        assert transport.is_reading()


async def test_draining_closes_idle_connections_and_lets_the_busy_finish() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy, line(proxy) as idle, line(proxy) as busy:
        await idle.ask(request(b"/", b"", b'{"id":1,"method":"eth_chainId"}'))
        nodes[0].hold("hmyv2_getBlockByNumber")
        busy.writer.write(request(b"/", b"", BLOCK))
        await nodes[0].arrived.wait()
        draining = asyncio.create_task(proxy.worker.drain(60.0))
        assert await idle.reader.read() == b""
        nodes[0].release()
        head, _ = await busy.answer()
        assert b"Connection: close" in head
        assert await busy.reader.read() == b""
        await draining


async def test_a_bug_is_answered_and_ends_the_connection() -> None:
    clock = BreakingClock()
    async with harmony_nodes(1) as nodes, proxying(nodes, clock=clock) as proxy, line(proxy) as client:
        clock.break_once()
        head, body = await client.ask(request(b"/", b"", BLOCK))
        assert head.startswith(b"HTTP/1.1 500")
        assert b"internal error" in body
        assert await client.reader.read() == b""


async def test_a_client_that_leaves_as_its_answer_is_to_be_compressed_is_counted_out() -> None:
    """Before the task for that has had a turn: nothing in it is ever told then."""
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, line(proxy) as client:
        await client.ask(request(b"/", b"", b'{"id":1,"method":"eth_chainId"}'))
        lane, tally = lane_of(proxy), proxy.worker._tally
        body = b'{"id":1,"method":"hmyv2_getBlocks","params":[0,150,{"withSigners":false}]}'
        lane.data_received(request(b"/", b"Accept-Encoding: gzip\r\n", body))
        assert lane.task is not None
        assert tally.in_flight == 1
        async with asyncio.timeout(20):
            while not isinstance(lane.task, asyncio.Task):  # the answer is there, and is to be compressed
                await asyncio.sleep(0)
            lane.connection_lost(None)
            while tally.in_flight:
                await asyncio.sleep(0.01)
        assert lane.task is None


async def test_a_client_whose_answer_will_not_come_is_not_left_waiting() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy, line(proxy) as client:
        nodes[0].hold("hmyv2_getBlockByNumber")
        client.writer.write(request(b"/", b"", BLOCK))
        await nodes[0].arrived.wait()
        lane = lane_of(proxy)
        assert lane.state is RequestState.ASKED
        assert lane.task is not None
        lane.task.cancel()
        async with asyncio.timeout(20):
            assert await client.reader.read() == b""
        assert proxy.worker._tally.in_flight == 0
        nodes[0].release()


async def test_draining_lets_a_client_read_what_it_was_answered() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, line(proxy) as client:
        call = b'{"id":1,"method":"hmyv2_getBlocks","params":[0,199,{"withSigners":false}]}'
        client.writer.write(request(b"/", b"", b"[" + b",".join([call] * 40) + b"]"))
        async with asyncio.timeout(20):
            while not any(lane.writing_paused for lane in proxy.worker._lanes.open):
                await asyncio.sleep(0.01)
            draining = asyncio.create_task(proxy.worker.drain(20.0))
            await client.reader.readexactly(100_000)
            assert not draining.done()
            rest = await client.reader.read()
            await draining
        assert rest.endswith(b"}]")


# -- the table of what a connection may do about the requests of its client --------------------------------------------


def reached_from(start: RequestState, *without: str) -> set[RequestState]:
    """Every state that some events lead to, these `without` aside."""
    found, new = set[RequestState](), {start}
    while new:
        found |= new
        new = {after for state in new for event, after in NEXT[state].items() if event not in without} - found
    return found


def test_every_state_has_its_events_and_is_reached_and_its_client_may_leave() -> None:
    assert set(NEXT) == set(RequestState) == reached_from(RequestState.IDLE)
    for state in set(RequestState) - {RequestState.CLOSED}:
        assert NEXT[state]["lost"] is RequestState.CLOSED
    assert reached_from(RequestState.CLOSED) == {RequestState.CLOSED}


def test_one_request_is_answered_at_a_time_and_only_a_lent_connection_comes_back() -> None:
    for state in (RequestState.ASKED, RequestState.FULL):
        assert NEXT[state].keys().isdisjoint({"wait", "whole", "lend", "give", "head", "body"})
    assert {state for state in RequestState if NEXT[state].keys() & {"lend", "give"}} <= READING
    assert reached_from(RequestState.IDLE, "lend", "give").isdisjoint({RequestState.LENT, RequestState.GIVEN})
    assert NEXT[RequestState.LENT]["back"] is RequestState.IDLE
    assert NEXT[RequestState.LENT]["more"] is RequestState.GIVEN
    assert reached_from(RequestState.GIVEN) == {RequestState.GIVEN, RequestState.CLOSED}


def test_an_illegal_event_raises_and_changes_nothing() -> None:
    connection = FastProtocol(cast(Any, None))
    with pytest.raises(KeyError):
        connection.back()
    assert connection.state is RequestState.IDLE


def test_aiohttp_may_only_ask_for_the_connection_to_be_closed() -> None:
    class Wire(asyncio.Transport):
        written = b""

        def write(self, data: Any) -> None:
            self.written += data

    wire, asked = Wire(), list[str]()
    shared = SharedTransport(wire, lambda: asked.append("close"))
    shared.write(b"x")
    shared.close()
    shared.abort()
    assert (wire.written, asked) == (b"x", ["close", "close"])
