"""One request and its reply on a connection of aiohttp's pool: what comes back, what becomes of the connection, and
what of aiohttp is relied on without being documented."""

import asyncio
import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import ClientRequest, ClientTimeout, StreamReader, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from yarl import URL

from rpcaccel.dataplane.upstream.node_client import Exchange
from tests.support.dataplane.raw_node import Call, RawNode
from tests.support.services import SUPPORT
from tests.support.waiting import until

CERTIFICATE = SUPPORT / "loopback.pem"
REQUEST = b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{"id":7}'
MOST = 1 << 20
REPLY = b"HTTP/1.1 200 OK\r\nX-Who: me\r\nContent-Length: 3\r\n\r\nabc"
Take = Callable[[], Awaitable[Connection]]


def pool(node: RawNode, connector: TCPConnector, scheme: str = "http") -> Take:
    request = ClientRequest("POST", URL(f"{scheme}://127.0.0.1:{node.port}/"), loop=asyncio.get_running_loop())
    return lambda: connector.connect(request, [], ClientTimeout(connect=5))


@pytest.fixture
async def take(node: RawNode) -> AsyncIterator[Take]:
    async def script(call: Call) -> None:
        call.writer.write(REPLY)

    node.script = script
    connector = TCPConnector(limit=4)
    yield pool(node, connector)
    await connector.close()


async def silence(_call: Call) -> None:
    """Answer nothing."""


def handler(connection: Connection) -> ResponseHandler:
    assert connection.protocol is not None
    return connection.protocol


# -- what comes back, and what becomes of the connection ---------------------------------------------------------


async def test_a_request_goes_out_as_written_and_its_connection_is_used_again(node: RawNode, take: Take) -> None:
    for _ in range(2):
        exchange = Exchange(await take())
        head = await exchange.ask(REQUEST)
        assert (head.code, head.headers["x-who"]) == (200, "me")
        assert await exchange.read(MOST) == b"abc"
        exchange.finish()
    assert node.connections == 1
    assert [call.head + call.body for call in node.calls] == [REQUEST] * 2
    assert "127.0.0.1" in repr(exchange)


async def test_what_is_broken_off_is_not_used_again(node: RawNode, take: Take) -> None:
    first = Exchange(await take())
    await first.ask(REQUEST)
    first.break_off()
    second = Exchange(await take())
    await second.ask(REQUEST)
    second.break_off()
    assert node.connections == 2


async def test_an_answer_that_was_not_read_keeps_its_connection_from_the_pool(node: RawNode, take: Take) -> None:
    async def script(call: Call) -> None:
        call.writer.write(REPLY.replace(b"3", b"300"))

    node.script = script
    for _ in range(2):
        exchange = Exchange(await take())
        await exchange.ask(REQUEST)
        exchange.finish()
    assert node.connections == 2


async def test_what_was_not_sent_when_the_answer_came_is_not_sent_any_more(node: RawNode, take: Take) -> None:
    seen = asyncio.Event()

    async def read_no_further(_call: Call) -> None:
        await seen.wait()

    node.script = read_no_further
    connection = await take()
    exchange, protocol, transport = Exchange(connection), handler(connection), connection.transport
    assert transport is not None
    closed = protocol.closed
    assert closed is not None
    asked = asyncio.create_task(exchange.ask(REQUEST + b" " * 32_000_000))
    await until(lambda: transport.get_write_buffer_size() > 0)
    protocol.data_received(REPLY)
    assert (await asked).code == 200
    assert await exchange.read(MOST) == b"abc"
    exchange.finish()
    await closed
    seen.set()


async def test_a_connection_that_ended_meanwhile_is_written_to_no_more(node: RawNode, take: Take) -> None:
    connection = await take()
    assert connection.transport is not None
    connection.transport.abort()
    await until(lambda: connection.transport is None)
    exchange = Exchange(connection)
    with pytest.raises(ConnectionResetError):
        await exchange.ask(REQUEST)
    exchange.break_off()
    assert node.calls == []


async def test_a_connection_that_spoke_without_being_asked_is_written_to_no_more(node: RawNode, take: Take) -> None:
    first = Exchange(await take())
    await first.ask(REQUEST)
    await first.read(MOST)
    first.finish()
    connection = await take()
    handler(connection).data_received(REPLY)
    second = Exchange(connection)
    with pytest.raises(ConnectionResetError):
        await second.ask(REQUEST)
    second.break_off()
    assert len(node.calls) == 1


# -- whoever waits can be told that it is in vain ----------------------------------------------------------------


async def test_a_wait_for_the_head_ends_with_the_trouble_that_is_told(node: RawNode, take: Take) -> None:
    node.script = silence
    exchange = Exchange(await take())
    asked = asyncio.create_task(exchange.ask(REQUEST))
    await until(lambda: len(node.calls) == 1)
    exchange.fail(TimeoutError("told"))
    with pytest.raises(TimeoutError, match="told"):
        await asyncio.wait_for(asked, 5.0)
    exchange.break_off()


async def test_trouble_in_the_turn_in_which_the_head_comes_is_not_lost(node: RawNode, take: Take) -> None:
    node.script = silence
    connection = await take()
    exchange = Exchange(connection)
    asked = asyncio.create_task(exchange.ask(REQUEST))
    await until(lambda: len(node.calls) == 1)
    handler(connection).data_received(REPLY[:-1])
    exchange.fail(TimeoutError("told"))
    with pytest.raises(TimeoutError, match="told"):
        await asyncio.wait_for(asked, 5.0)
    exchange.break_off()


async def test_a_wait_for_the_body_ends_with_the_trouble_that_is_told(node: RawNode, take: Take) -> None:
    async def script(call: Call) -> None:
        call.writer.write(REPLY[:-1])

    node.script = script
    exchange = Exchange(await take())
    await exchange.ask(REQUEST)
    reading = asyncio.create_task(exchange.read(MOST))
    await asyncio.sleep(0)
    exchange.fail(TimeoutError("told"))
    with pytest.raises(TimeoutError, match="told"):
        await asyncio.wait_for(reading, 5.0)
    exchange.break_off()
    await until(lambda: all(call.writer.transport.is_closing() for call in node.calls))


async def test_trouble_after_the_connection_was_given_back_changes_nothing(node: RawNode, take: Take) -> None:
    exchange = Exchange(await take())
    await exchange.ask(REQUEST)
    await exchange.read(MOST)
    exchange.finish()
    exchange.fail(TimeoutError())
    again = Exchange(await take())
    assert (await again.ask(REQUEST)).code == 200
    again.break_off()
    assert node.connections == 1


# -- TLS ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def tls() -> AsyncIterator[tuple[RawNode, Take]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    node = RawNode()
    await node.start(context)
    connector = TCPConnector(ssl=ssl.create_default_context(cafile=str(CERTIFICATE)))
    yield node, pool(node, connector, "https")
    await connector.close()
    await node.stop()


async def test_over_tls_long_requests_and_answers_go_through_and_connections_are_kept(
    tls: tuple[RawNode, Take],
) -> None:
    async def script(call: Call) -> None:
        call.reply(call.body)

    node, take = tls
    node.script = script
    for size in (8, 300_000, 8):
        exchange = Exchange(await take())
        head = await exchange.ask(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size))
        assert (head.code, await exchange.read(MOST)) == (200, b"x" * size)
        exchange.finish()
    assert node.connections == 1


async def test_over_tls_nothing_of_a_call_that_is_over_is_sent(tls: tuple[RawNode, Take]) -> None:
    async def script(_call: Call) -> None:
        await asyncio.Event().wait()  # reads no further

    node, take = tls
    node.script = script
    connection = await take()
    closed = handler(connection).closed
    assert closed is not None
    exchange = Exchange(connection)
    asked = asyncio.create_task(exchange.ask(REQUEST + b" " * 32_000_000))
    await until(lambda: len(node.calls) == 1)
    exchange.fail(TimeoutError())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked, 5.0)
    exchange.break_off()
    await asyncio.wait_for(closed, 5.0)


# -- what is relied on without being documented ------------------------------------------------------------------


async def test_aiohttp_still_offers_what_is_relied_on(take: Take) -> None:
    connection = await take()
    protocol = handler(connection)
    why = "aiohttp changed what dataplane/exchange.py stands on: read its docstring before the version is taken"
    given = inspect.signature(protocol.set_response_params).parameters
    assert given["read_until_eof"].kind is inspect.Parameter.KEYWORD_ONLY, why
    assert given["auto_decompress"].default is True, why
    assert (given["timer"].default, given["read_timeout"].default) == (None, None), why
    limits = [given[name].default for name in ("max_line_size", "max_field_size", "max_headers")]
    assert limits == [8190, 8190, 128], why
    protocol.set_response_params(read_until_eof=True)
    assert len(protocol) == 0, why
    protocol.data_received(REPLY)
    assert len(protocol) == 1, why
    message, body = await protocol.read()
    assert (type(message), type(body)) == (RawResponseMessage, StreamReader), why
    assert (body.is_eof(), body.read_nowait(), len(protocol), protocol.should_close) == (True, b"abc", 0, False), why
    connection.release()


async def test_aiohttp_still_keeps_no_connection_that_failed(node: RawNode, take: Take) -> None:
    connection = await take()
    protocol = handler(connection)
    protocol.set_response_params(read_until_eof=True)
    protocol.set_exception(TimeoutError("told"))
    assert protocol.should_close
    with pytest.raises(TimeoutError, match="told"):
        await protocol.read()
    connection.release()
    other = await take()
    protocol = handler(other)
    protocol.set_response_params(read_until_eof=True)
    protocol.data_received(b"this is not HTTP\r\n\r\n")
    with pytest.raises(HttpProcessingError):
        await protocol.read()
    other.close()
    assert node.connections == 2
