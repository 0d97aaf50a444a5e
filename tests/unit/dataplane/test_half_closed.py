"""A client that closes its sending half gets the answers to all it asked whole, on both lanes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import HEAD, Conversation, Left, call
from tests.support.proxy import Proxy, Reply, proxying
from tests.support.waiting import until

BLOCK = "hmyv2_getBlockByNumber"
LANES = pytest.mark.parametrize("odd", [(), (b"TE: trailers",)], ids=["short lane", "complete lane"])


def asks(number: int, *odd: bytes) -> bytes:
    """A call that nobody asked before."""
    return call(number, BLOCK, *odd, params=[number, {}])


@asynccontextmanager
async def talking(latency: str = "0ms") -> AsyncIterator[tuple[Proxy, Conversation]]:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes) as proxy,
        Conversation.open(proxy.worker.port) as conversation,
    ):
        nodes[0].knobs.turn({"latency": latency})
        yield proxy, conversation


async def half_close(proxy: Proxy, conversation: Conversation) -> None:
    """Send no more, and wait until the worker knows."""
    conversation.writer.write_eof()
    await until(lambda: all(lane._ended for lane in proxy.worker._lanes.open))


async def told(conversation: Conversation, answers: int) -> list[Reply]:
    """Exactly so many answers, and the end."""
    said = [await conversation.answer() for _ in range(answers)]
    assert await conversation.ended()
    return said


@LANES
async def test_a_miss_is_answered_and_then_the_connection_ends(odd: tuple[bytes, ...]) -> None:
    async with talking("300ms") as (proxy, conversation):
        conversation.send(asks(7, *odd))
        await until(lambda: len(proxy.worker.engine.flights) == 1)
        await half_close(proxy, conversation)
        (answer,) = await told(conversation, 1)
        assert answer.json["result"]["number"] == 7
        assert proxy.worker.report().tally.in_flight == 0


@LANES
@pytest.mark.parametrize("together", [True, False], ids=["end comes with it", "end comes later"])
async def test_a_hit_is_answered_and_then_the_connection_ends(odd: tuple[bytes, ...], together: bool) -> None:
    async with talking() as (proxy, conversation):
        await proxy.call(BLOCK, 7, {})
        conversation.send(asks(7, *odd))
        if together:
            conversation.writer.write_eof()
        else:
            await until(lambda: proxy.worker.report().tally.requests == 2)
            conversation.writer.write_eof()
        (answer,) = await told(conversation, 1)
        assert answer.json["result"]["number"] == 7


@LANES
async def test_a_batch_of_hits_and_misses_is_answered_whole(odd: tuple[bytes, ...]) -> None:
    async with talking("100ms") as (proxy, conversation):
        await proxy.call(BLOCK, 1, {})
        items = [{"jsonrpc": "2.0", "id": at, "method": BLOCK, "params": [at, {}]} for at in range(6)]
        body, lines = orjson.dumps(items), b"".join(line + b"\r\n" for line in odd)
        conversation.send(HEAD + lines + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        conversation.writer.write_eof()
        (answer,) = await told(conversation, 1)
        assert [one["result"]["number"] for one in answer.json] == list(range(6))


@LANES
@pytest.mark.parametrize("rest", [b"", b"POST / HT", HEAD + b"Content-Length: 9\r\n\r\n{"])
async def test_all_whole_requests_are_answered_and_a_part_of_one_is_not_waited_for(
    odd: tuple[bytes, ...], rest: bytes
) -> None:
    async with talking("50ms") as (proxy, conversation):
        await proxy.call(BLOCK, 2, {})
        conversation.send(b"".join(asks(number, *odd) for number in range(5)) + rest)
        conversation.writer.write_eof()
        answers = await told(conversation, 5)
        assert [one.json["result"]["number"] for one in answers] == list(range(5))


@LANES
@pytest.mark.parametrize("rest", [b"", b"POST / HT", HEAD + b"Content-Length: 9\r\n\r\n{", asks(9), asks(8) + asks(9)])
async def test_what_came_before_the_answer_to_a_miss_is_answered_after_it(odd: tuple[bytes, ...], rest: bytes) -> None:
    async with talking("300ms") as (proxy, conversation):
        conversation.send(asks(7, *odd))
        await until(lambda: len(proxy.worker.engine.flights) == 1)
        conversation.send(rest)
        await half_close(proxy, conversation)
        assert len(await told(conversation, 1 + rest.count(b"id"))) == 1 + rest.count(b"id")


@pytest.mark.parametrize(
    "part",
    [
        b"POST",
        HEAD,
        asks(1)[:-1],
        asks(1, b"TE: trailers")[:-1],
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"GET / HTTP/1.1\r\nHost",
    ],
)
async def test_a_part_of_a_request_ends_the_connection_at_once(part: bytes) -> None:
    async with talking() as (proxy, conversation):
        conversation.send(part)
        conversation.writer.write_eof()
        with pytest.raises(Left):
            await conversation.answer()
        await until(lambda: proxy.worker.report().tally.in_flight == 0)
        assert not proxy.worker._lanes.open


async def test_what_is_no_call_is_answered_as_well() -> None:
    async with talking() as (_, conversation):
        conversation.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        conversation.writer.write_eof()
        (answer,) = await told(conversation, 1)
        assert answer.body == b"alive\n"


async def test_an_idle_connection_ends_when_its_client_says_that_it_sends_no_more() -> None:
    async with talking() as (proxy, conversation):
        for request in (b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", asks(1)):
            conversation.send(request)
            await conversation.answer()
        conversation.writer.write_eof()
        assert await conversation.ended()
        await until(lambda: not proxy.worker._lanes.open)


@LANES
async def test_a_client_that_closed_altogether_is_noticed_with_its_answer(odd: tuple[bytes, ...]) -> None:
    async with talking("300ms") as (proxy, conversation):
        conversation.send(asks(7, *odd))
        await until(lambda: len(proxy.worker.engine.flights) == 1)
        conversation.close()
        await until(lambda: not proxy.worker._lanes.open)
        assert proxy.worker.report().tally.in_flight == 0
        assert (await proxy.call(BLOCK, 7, {})).cache == "memory"


async def test_a_large_answer_is_read_whole_after_the_sending_half_was_closed() -> None:
    async with talking("50ms") as (proxy, conversation):
        call_ = b'{"id":1,"method":"hmyv2_getBlocks","params":[0,199,{"withSigners":false}]}'
        body = b"[" + b",".join([call_] * 40) + b"]"
        conversation.send(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        conversation.writer.write_eof()
        await until(lambda: any(lane.writing_paused for lane in proxy.worker._lanes.open))
        await asyncio.sleep(0)
        (answer,) = await told(conversation, 1)
        assert len(answer.json) == 40
