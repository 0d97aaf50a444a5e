"""Answers that clients do not take, over real sockets: bounded in bytes when they are written, and shared while they
wait. On both event loops: each tells in its own way that a client does not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import monotonic

import orjson
import pytest
from msgspec.structs import replace

from rpcaccel.dataplane.http.handler import HttpAnswer, Visit
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import Conversation, call
from tests.support.fleet import gated_nodes
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

MIB = 1 << 20
BLOCK = "hmyv2_getBlockByNumber"
LANES = pytest.mark.parametrize("odd", [(), (b"TE: trailers",)], ids=["short lane", "complete lane"])


@asynccontextmanager
async def keeping(size: int, max_unsent: int) -> AsyncIterator[Proxy]:
    """A proxy that keeps an answer of so many bytes to the call about block 7, and knows the call."""
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"max_unsent": max_unsent}) as proxy:
        for _ in range(2):
            await proxy.call(BLOCK, 7, {})
        (slot,) = proxy.worker._memory._slots.values()
        assert slot.entry is not None
        slot.entry = replace(slot.entry, result=b'"%b"' % (b"x" * size))
        yield proxy


@contextlib.contextmanager
def deaf(proxy: Proxy) -> Iterator[socket.socket]:
    """A client that asks and never reads."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", proxy.worker.port))
        sock.setblocking(False)
        yield sock


def unsent(proxy: Proxy) -> int:
    """Bytes that are held for clients; what is held for one that is broken off is let go in the same turn."""
    transports = [lane.transport for lane in proxy.worker._lanes.open if lane.transport is not None]
    return sum(transport.get_write_buffer_size() for transport in transports if not transport.is_closing())


@LANES
async def test_too_much_is_not_held_at_any_time(odd: tuple[bytes, ...]) -> None:
    async with keeping(8 * MIB, 20 * MIB) as proxy, contextlib.AsyncExitStack() as stack:
        for number in range(8):
            sock = stack.enter_context(deaf(proxy))
            sock.send(call(number, BLOCK, *odd, params=[7, {}]))
            await until(lambda number=number: proxy.worker.report().tally.requests == number + 3)  # type: ignore[misc]
            assert unsent(proxy) <= 28 * MIB
        assert proxy.worker.report().tally.refusals.get("unsent-too-much", 0) >= 4


@LANES
async def test_an_answer_larger_than_the_bound_reaches_a_client_that_reads(odd: tuple[bytes, ...]) -> None:
    async with (
        keeping(40 * MIB, 1 * MIB) as proxy,
        Conversation.open(proxy.worker.port) as conversation,
    ):
        conversation.send(call(1, BLOCK, *odd, params=[7, {}]))
        answering = asyncio.create_task(conversation.answer())
        while not answering.done():
            proxy.worker._lanes.slow.look(monotonic(), write_timeout=60, max_unsent=MIB)
            await asyncio.sleep(0.001)
        assert (await answering).body == b'{"jsonrpc":"2.0","id":1,"result":"%b"}' % (b"x" * 40 * MIB)
        assert proxy.worker.report().tally.refusals == {}


@pytest.mark.parametrize("accepts", [(), (b"Accept-Encoding: gzip",)], ids=["plain", "gzip"])
@LANES
async def test_a_client_that_reads_is_served_beside_many_that_do_not(
    odd: tuple[bytes, ...], accepts: tuple[bytes, ...]
) -> None:
    async with keeping(4 * MIB, 10 * MIB) as proxy, contextlib.AsyncExitStack() as stack:
        for number in range(10):
            stack.enter_context(deaf(proxy)).send(call(number, BLOCK, *odd, params=[7, {}]))
        async with Conversation.open(proxy.worker.port) as reader:
            reader.send(call(77, BLOCK, *odd, *accepts, params=[7, {}]))
            assert len((await reader.answer()).body) > (1000 if accepts else 4 * MIB)
        for number in range(5):
            stack.enter_context(deaf(proxy)).send(call(number, BLOCK, *odd, params=[7, {}]))
        assert (await proxy.call("eth_chainId")).status == 200


async def test_a_client_that_does_not_read_yet_is_answered_later_whichever_lane_its_next_request_needs() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy, Conversation.open(proxy.worker.port) as client:
        nodes[0].hold(BLOCK)
        client.send(call(1, BLOCK, params=[7, {}]))
        await nodes[0].arrived.wait()
        (lane,) = proxy.worker._lanes.open
        client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: lane._buffer)
        lane.pause_writing()
        nodes[0].release()
        assert (await client.answer()).status == 200
        lane.resume_writing()
        assert (await client.answer()).body == b"alive\n"
        client.send(call(2))
        assert (await client.answer()).json["id"] == 2


async def test_more_requests_than_one_are_answered_no_faster_than_their_client_reads() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, Conversation.open(proxy.worker.port) as client:
        client.send(call(1))
        await client.answer()
        (lane,) = proxy.worker._lanes.open
        lane.pause_writing()
        lane.data_received(call(2) + call(3) + call(4))
        assert orjson.loads((await client.answer()).body)["id"] == 2
        with pytest.raises(TimeoutError):
            await client.answer(within=0.05)
        lane.resume_writing()
        assert [orjson.loads((await client.answer()).body)["id"] for _ in range(2)] == [3, 4]


async def test_what_waits_for_many_is_kept_once() -> None:
    async with keeping(4 * MIB, 1 << 40) as proxy:
        (slot,) = proxy.worker._memory._slots.values()
        assert slot.entry is not None
        result, lanes = slot.entry.result, proxy.worker._lanes
        head, _, body = call(1, BLOCK, params=[7, {}]).partition(b"\r\n\r\n")
        asked = lanes.heads.read(head + b"\r\n\r\n")
        assert asked is not None
        known = lanes.front.hit(asked, body, "")
        assert isinstance(known, tuple)
        assert known[1] is result
        front = lanes.front
        visit = front.enter(asked, "")
        assert isinstance(visit, Visit)
        reply = front.reply(visit, await front.calls.answer(body, visit.route))
        front.leave(visit)
        assert isinstance(reply, HttpAnswer)
        assert reply.parts[1] is result


@LANES
async def test_an_answer_in_parts_is_what_a_short_one_would_be(odd: tuple[bytes, ...]) -> None:
    said = []
    for size in (60_000, 70_000):
        async with keeping(size, MIB) as proxy, Conversation.open(proxy.worker.port) as conversation:
            for number in (5, 6):
                conversation.send(call(number, BLOCK, *odd, params=[7, {}]))
                answer = await conversation.answer()
                assert orjson.loads(answer.body) == {"jsonrpc": "2.0", "id": number, "result": "x" * size}
            said.append(sorted(answer.headers.keys() - {"Server-Timing"}))
    assert said[0] == said[1]
