"""Calls over real sockets on loopback: what goes out, comes back, stays secret; sockets reused, counted, closed."""

import asyncio
import gzip
import itertools
import json
import socket

import pytest
from aiohttp.abc import ResolveResult

from rpcaccel.config.secrets import Secret
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from tests.support.dataplane.raw_node import (
    LONG,
    OK,
    Call,
    Connect,
    One,
    RawNode,
    Resolver,
    ask,
    failure,
    node_settings,
    together,
)
from tests.support.waiting import until

# -- what goes out and comes back --------------------------------------------------------------------------------


async def test_a_call_goes_out_once_with_few_headers_and_its_answer_comes_back_raw(
    node: RawNode, connect: Connect
) -> None:
    upstream = connect()
    got = await upstream.send("hmyv2_getBlocks", b'[1, 2,{"fullTx" :true}]', timeout=LONG)
    assert isinstance(got, Answer)
    assert (got.result, got.error, got.http_status) == (b'"0x1"', None, 200)
    assert 0 < got.elapsed < LONG
    (call,) = node.calls
    assert call.body == b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlocks","params":[1, 2,{"fullTx" :true}]}'
    assert call.head.startswith(b"POST / HTTP/1.1\r\n")
    names = sorted(line.split(":")[0].lower() for line in call.head.decode().split("\r\n")[1:-2])
    assert names == ["accept-encoding", "content-length", "content-type", "host", "user-agent"]


async def test_a_compressed_answer_is_unpacked(node: RawNode, connect: Connect) -> None:
    async def script(call: Call) -> None:
        call.reply(gzip.compress(OK % call.id), headers="Content-Encoding: gzip\r\n")

    node.script = script
    got = await ask(connect(headers={"Accept-Encoding": Secret("gzip")}))
    assert isinstance(got, Answer)
    assert got.result == b'"0x1"'
    assert node.calls[0].header("accept-encoding") == "gzip"


async def test_the_path_and_query_of_the_address_are_kept(node: RawNode, connect: Connect) -> None:
    await ask(connect(f"http://127.0.0.1:{node.port}/v3/key?x=1%2F2"))
    assert node.calls[0].head.startswith(b"POST /v3/key?x=1%2F2 HTTP/1.1\r\n")


async def test_a_batch_is_one_request_and_its_answers_are_matched_by_id(node: RawNode, connect: Connect) -> None:
    async def script(call: Call) -> None:
        first, _, third = (item["id"] for item in json.loads(call.body))
        call.reply(b'[{"id":%d,"result":3},{"id":%d,"error":{"code":-1,"message":"x"}}]' % (third, first))

    node.script = script
    got = await together(connect(), 3)
    assert [type(item) for item in got] == [Answer, Failure, Answer]
    assert isinstance(got[1], Failure)
    assert (got[1].kind, got[1].node) == (FailureKind.WRONG_ID, "a")
    assert isinstance(got[2], Answer)
    assert got[2].result == b"3"
    assert len(node.calls) == 1


async def test_a_batch_that_cannot_be_sent_fails_item_by_item(connect: Connect) -> None:
    got = await together(connect("http://127.0.0.1:1/"), 2)
    assert [item.kind for item in got if isinstance(item, Failure)] == [FailureKind.CONNECT] * 2


# -- secrets -----------------------------------------------------------------------------------------------------


async def test_credentials_reach_the_node_as_a_header_and_nobody_else(node: RawNode, connect: Connect) -> None:
    async def script(call: Call) -> None:
        call.reply(b"Cannot POST /v3/0123456789abcdef for joe hunter22 top-secret", status=404)

    node.script = script
    url = f"http://joe:hunter22@127.0.0.1:{node.port}/v3/0123456789abcdef"
    upstream = connect(url, headers={"X-Key": Secret("top-secret")})
    got = await failure(upstream)
    assert node.calls[0].header("authorization") == "Basic am9lOmh1bnRlcjIy"
    assert node.calls[0].header("x-key") == "top-secret"
    assert got.text == "there is no JSON-RPC at this URL: HTTP 404, Cannot POST *** for *** *** ***"
    assert upstream.shown == f"http://127.0.0.1:{node.port}"
    shown = repr(upstream) + repr(got)
    assert not [secret for secret in ("joe", "hunter22", "0123456789abcdef", "top-secret") if secret in shown]


async def test_a_nodes_error_names_no_key_also_under_a_bad_status(node: RawNode, connect: Connect) -> None:
    async def script(call: Call) -> None:
        call.reply(
            b'{"id":%d,"error":{"code":-32005,"message":"0123456789abcdef has no calls left"}}' % call.id, status=429
        )

    node.script = script
    got = await ask(connect(f"http://127.0.0.1:{node.port}/v3/0123456789abcdef"))
    assert isinstance(got, Answer)
    assert (got.http_status, got.error) == (429, b'{"code":-32005,"message":"*** has no calls left"}')
    assert "0123456789abcdef" not in repr(got)


async def test_a_failed_connection_names_no_credentials(connect: Connect) -> None:
    got = await failure(connect("http://joe:hunter22@127.0.0.1:1/0123456789abcdef"))
    assert got.text.startswith("no connection to http://127.0.0.1:1: ")
    assert "hunter22" not in repr(got)
    assert "0123456789abcdef" not in repr(got)


# -- sockets -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("node")
async def test_connections_are_reused_and_counted(connect: Connect) -> None:
    upstream = connect()
    for _ in range(3):
        await ask(upstream)
    cell = upstream.cell
    assert (cell.connects, cell.reused, cell.tls) == (1, 2, 0)
    assert (cell.connections_open, cell.connections_idle) == (1, 1)
    assert cell.wait_seconds > 0
    assert cell.read_seconds > 0
    await upstream.close()
    await until(lambda: (cell.connections_open, cell.connections_idle) == (0, 0))


async def test_names_are_looked_up_once_and_lookups_are_counted(node: RawNode, connect: Connect) -> None:
    upstream = connect(f"http://node.example:{node.port}/", resolver=Resolver(node.port))
    assert await upstream.warm(3) == 3
    await ask(upstream)
    assert (upstream.cell.dns, upstream.cell.connects) == (1, 3)
    assert node.calls[0].header("host") == f"node.example:{node.port}"


async def test_warm_connections_are_opened_without_a_byte_and_used_by_the_first_calls(
    node: RawNode, connect: Connect
) -> None:
    upstream = connect(warm=3)
    assert await upstream.warm() == 3
    await until(lambda: node.connections == 3)
    assert (upstream.cell.connections_idle, node.calls) == (3, [])
    got = await asyncio.gather(*(ask(upstream) for _ in range(3)))
    assert [type(item) for item in got] == [Answer] * 3
    assert (node.connections, upstream.cell.connects, upstream.cell.reused) == (3, 3, 3)


async def test_warming_a_node_that_is_down_opens_nothing_and_raises_nothing(connect: Connect) -> None:
    upstream = connect("http://127.0.0.1:1/", warm=2)
    assert await upstream.warm() == 0
    assert await upstream.warm(0) == 0


async def test_never_more_connections_than_allowed(node: RawNode, connect: Connect) -> None:
    upstream = connect(max_connections=2)
    got = await asyncio.gather(*(ask(upstream) for _ in range(12)))
    assert [type(item) for item in got] == [Answer] * 12
    assert node.connections == 2


async def test_time_spent_on_reading_is_not_taken_for_waiting_though_others_wait(
    node: RawNode, connect: Connect
) -> None:
    async def script(call: Call) -> None:
        text = OK % call.id
        call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text))
        await asyncio.sleep(0.1)  # the time is the subject
        call.writer.write(text)

    node.script = script
    upstream = connect(max_connections=1)
    await asyncio.gather(*(ask(upstream) for _ in range(3)))
    assert upstream.cell.read_seconds > 0.25


async def test_a_slot_that_comes_free_as_a_reply_comes_goes_to_the_next_that_waits(
    node: RawNode, connect: Connect
) -> None:
    async def script(call: Call) -> None:
        if len(node.calls) > 3:
            call.ok()

    node.script = script
    upstream, told = connect(max_connections=2, connect_timeout=LONG), []
    posts = [upstream.post([One()], LONG, lambda _calls, replies: told.extend(replies)) for _ in range(4)]
    await until(lambda: upstream.waiting == 2 and len(node.calls) == 2)
    text, answered = OK % 2, posts[1].connection
    posts[0].cancel()
    assert answered is not None
    answered.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
    await until(lambda: len(told) == 2)
    assert [type(got) for got in told] == [Answer] * 2


async def test_a_bug_in_taking_a_connection_is_a_failure_in_time(connect: Connect) -> None:
    got = await failure(connect("http://node.example:9500/", resolver=NamesNothing(0)))
    assert got.kind is FailureKind.UNKNOWN


class NamesNothing(Resolver):
    """A name service that answers with an empty list, of which aiohttp makes a StopIteration."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return []


async def test_the_clients_of_one_node_count_in_one_cell(node: RawNode, connect: Connect) -> None:
    before = connect()
    await ask(before)
    after = HttpNodeClient(node_settings(f"http://127.0.0.1:{node.port}/"), before.cell)
    await ask(after)
    await until(lambda: before.cell.connections_idle == 2)
    await after.close()
    await until(lambda: before.cell.connections_open == 1)
    assert before.cell.connects == 2


# -- closing -----------------------------------------------------------------------------------------------------


async def test_until_it_closes_calls_under_way_finish_and_others_still_come(node: RawNode, connect: Connect) -> None:
    upstream = connect()
    closing = asyncio.create_task(upstream.close(grace=LONG))
    await asyncio.sleep(0)
    assert isinstance(await ask(upstream), Answer)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    late = await failure(upstream)
    assert (late.kind, late.sent) == (FailureKind.BUSY, False)
    assert await upstream.warm(2) == 0
    assert (len(node.calls), upstream.cell.connections_open) == (1, 0)


async def test_closing_cuts_off_what_does_not_finish_in_time(node: RawNode, connect: Connect) -> None:
    async def script(_call: Call) -> None:
        await asyncio.Event().wait()

    node.script = script
    upstream = connect(max_connections=1)
    under_way = asyncio.create_task(failure(upstream))
    await until(lambda: len(node.calls) == 1)
    waiting = asyncio.create_task(failure(upstream))
    await until(lambda: upstream.waiting == 1)
    await upstream.close(grace=0.05)
    assert (await under_way).sent
    assert not (await waiting).sent
    await until(lambda: (upstream.cell.connections_open, upstream.cell.connections_idle) == (0, 0))


async def test_ids_never_repeat_on_one_upstream(node: RawNode, connect: Connect) -> None:
    upstream = connect()
    await asyncio.gather(*itertools.repeat(ask(upstream), 1), *(ask(upstream) for _ in range(5)))
    assert len({call.id for call in node.calls}) == 6
