"""What HTTP allows and what goes wrong on the wire, over real sockets: each ends as the right value."""

import asyncio
import gc
import gzip
import socket
import zlib
from collections.abc import Callable

import pytest

from rpcaccel.config.secrets import Secret
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure
from rpcaccel.dataplane.upstream.node_client import Post
from tests.support.dataplane.raw_node import LONG, OK, Call, Connect, RawNode, ask, failure, says
from tests.support.waiting import until

SHORT = 0.1
PACKINGS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}


BODY = OK.rstrip() % 0  # one digit, as the ids of a new upstream
LENGTH = b"Content-Length: %x\r\n\r\n".replace(b"%x", b"%d" % len(BODY))
ANSWER = b"HTTP/1.1 200 OK\r\n" + LENGTH + OK.rstrip()

# -- what a node may say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"])
async def test_what_comes_before_the_reply_is_passed_over(node: RawNode, connect: Connect, before: bytes) -> None:
    node.script = says(before, before, ANSWER)
    assert isinstance(await ask(connect()), Answer)


@pytest.mark.parametrize("status", [204, 304])
async def test_a_reply_that_has_no_body_is_not_waited_for(node: RawNode, connect: Connect, status: int) -> None:
    node.script = says(b"HTTP/1.1 %b X\r\n\r\n".replace(b"%b", b"%d" % status))
    upstream = connect()
    got = await failure(upstream)
    assert got.text.endswith("an empty body")
    await failure(upstream)
    assert node.connections == 1


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_body_without_a_length_ends_with_the_connection(
    node: RawNode, connect: Connect, version: bytes
) -> None:
    node.script = says(b"HTTP/" + version + b" 200 OK\r\n\r\n", OK, close=True)
    assert isinstance(await ask(connect()), Answer)


@pytest.mark.parametrize("name", PACKINGS)
async def test_a_packed_answer_in_chunks_is_unpacked(node: RawNode, connect: Connect, name: str) -> None:
    async def script(call: Call) -> None:
        call.writer.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: %b\r\n\r\n" % name.encode()
        )
        for byte in PACKINGS[name](OK % call.id):
            call.writer.write(b"1;x=y\r\n%c\r\n" % byte)
        call.writer.write(b"0\r\nTrailer: x\r\n\r\n")

    node.script = script
    upstream = connect()
    assert isinstance(await ask(upstream), Answer)
    assert isinstance(await ask(upstream), Answer)
    assert node.connections == 1


@pytest.mark.parametrize("size", [300_000, 10_000_000])
async def test_a_long_answer_comes_whole(node: RawNode, connect: Connect, size: int) -> None:
    async def script(call: Call) -> None:
        call.reply(b'{"jsonrpc":"2.0","id":%d,"result":"%b"}' % (call.id, b"a" * size))

    node.script = script
    upstream = connect()
    got = await ask(upstream)
    assert isinstance(got, Answer)
    assert got.result is not None
    assert len(got.result) == size + 2
    await ask(upstream)
    assert node.connections == 1


async def test_a_protocol_it_did_not_ask_for_is_no_answer(node: RawNode, connect: Connect) -> None:
    node.script = says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x00")
    upstream = connect()
    assert isinstance(await ask(upstream, SHORT), Failure)
    await until(lambda: upstream.cell.connections_open == 0)


async def test_cookies_are_not_kept(node: RawNode, connect: Connect) -> None:
    node.script = says(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n" + LENGTH, OK.rstrip())
    upstream = connect()
    await ask(upstream)
    await ask(upstream)
    assert [call.header("cookie") for call in node.calls] == [None, None]


# -- which connections are used again ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"], ids=["close", "HTTP/1.0"]
)
async def test_a_connection_the_node_does_not_keep_is_not_used_again(
    node: RawNode, connect: Connect, start: bytes
) -> None:
    node.script = says(start + LENGTH + OK.rstrip())
    upstream = connect()
    for _ in range(2):
        assert isinstance(await ask(upstream), Answer)
    assert node.connections == 2


async def test_a_connection_with_bytes_behind_the_answer_is_not_used_again(node: RawNode, connect: Connect) -> None:
    node.script = says(ANSWER + ANSWER)
    upstream = connect()
    for _ in range(2):
        assert isinstance(await ask(upstream), Answer)
    assert node.connections == 2


async def test_an_answer_nobody_asked_for_is_not_given_to_the_next_call(node: RawNode, connect: Connect) -> None:
    node.script = says(ANSWER)
    upstream = connect()
    await ask(upstream)
    node.calls[0].ok()
    await until(lambda: upstream.cell.connections_open == 0)
    assert isinstance(await ask(upstream), Answer)
    assert node.connections == 2


async def test_nothing_is_kept_of_calls_that_are_over(node: RawNode, connect: Connect) -> None:
    async def silence(_call: Call) -> None:
        """Answer nothing."""

    gc.collect()
    upstream = connect()
    await ask(upstream)
    node.script = silence
    await failure(upstream, SHORT)
    await asyncio.sleep(0)  # this turn of the loop holds what woke the call
    assert not [thing for thing in gc.get_objects() if isinstance(thing, Post)]


async def test_a_caller_that_leaves_in_the_middle_of_an_answer_leaves_no_connection(
    node: RawNode, connect: Connect
) -> None:
    node.script = says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    upstream = connect()
    task = asyncio.create_task(ask(upstream))
    await until(lambda: len(node.calls) == 1)
    await asyncio.sleep(0.05)  # for the head to be read
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: upstream.cell.connections_open == 0)
    await until(lambda: upstream.cell.connections_idle == 0)


# -- what goes out -----------------------------------------------------------------------------------------------


async def test_a_host_header_of_the_operator_replaces_ours(node: RawNode, connect: Connect) -> None:
    await ask(connect(headers={"Host": Secret("rpc.example"), "X-Two": Secret("ü")}))
    assert node.calls[0].head.lower().count(b"host:") == 1
    assert (node.calls[0].header("host"), node.calls[0].header("x-two")) == ("rpc.example", "ü")


async def test_the_host_header_names_an_ipv6_address_in_brackets(connect: Connect) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    heads = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(serve, "::1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await failure(connect(f"http://[::1]:{port}/"))
    assert f"\r\nHost: [::1]:{port}\r\n".encode() in heads[0]


async def test_a_traced_call_tells_the_node_of_its_span_and_no_other_does(node: RawNode, connect: Connect) -> None:
    upstream, span = connect(), "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    await upstream.send("eth_blockNumber", b"[]", timeout=LONG, span=span)
    await ask(upstream)
    assert [call.header("traceparent") for call in node.calls] == [span, None]


async def test_proxies_of_the_environment_are_not_used(
    node: RawNode, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    assert isinstance(await ask(connect()), Answer)
    assert node.connections == 1
