"""Every kind of trouble, over real sockets on loopback, against a node that misbehaves on purpose."""

import asyncio
import socket
import ssl
from typing import Any

import pytest

from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from tests.support.dataplane.raw_node import Call, Connect, RawNode, Resolver, ask, failure, node_settings, says
from tests.support.services import SUPPORT
from tests.support.waiting import until

# A key nobody trusts, for a server nobody should trust.
CERTIFICATE = SUPPORT / "loopback.pem"

# -- nothing was sent --------------------------------------------------------------------------------------------


async def test_a_refused_connection_sent_nothing(connect: Connect) -> None:
    got = await failure(connect("http://127.0.0.1:1/"))
    assert (got.kind, got.sent) == (FailureKind.CONNECT, False)
    assert got.text == "no connection to http://127.0.0.1:1: connection refused"


async def test_a_certificate_nobody_vouches_for_is_a_tls_failure(connect: Connect) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server = RawNode()
    await server.start(context)
    got = await failure(connect(f"https://127.0.0.1:{server.port}/"))
    await server.stop()
    assert (got.kind, got.sent, server.calls) == (FailureKind.TLS, False, [])
    assert got.text.startswith(f"no TLS with https://127.0.0.1:{server.port}: ")


async def test_a_server_that_speaks_no_tls_is_a_tls_failure(connect: Connect) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        got = await failure(connect(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
    assert (got.kind, got.sent) == (FailureKind.TLS, False)


@pytest.mark.parametrize("trouble", [OSError(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_a_name_without_an_address_is_a_dns_failure(connect: Connect, trouble: Exception) -> None:
    got = await failure(connect("http://node.example:9500/", resolver=Resolver(0, trouble)))
    assert (got.kind, got.sent) == (FailureKind.DNS, False)
    assert got.text == "no address for the name in http://node.example:9500"


async def test_a_name_service_that_hangs_is_a_dns_failure(connect: Connect) -> None:
    got = await failure(connect("http://node.example:9500/", resolver=Resolver(0, hang=True), connect_timeout=0.05))
    assert (got.kind, got.sent) == (FailureKind.DNS, False)
    assert got.text == "no address for the name in http://node.example:9500 within 0.05 s"


async def test_a_host_that_does_not_take_the_connection_is_given_up_in_time(connect: Connect) -> None:
    # A listening socket whose backlog is full lets the handshake hang, as a firewall does.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
            fillers.append(filler)
        got = await failure(connect(f"http://127.0.0.1:{deaf.getsockname()[1]}/", connect_timeout=0.1))
        for filler in fillers:
            filler.close()
    assert (got.kind, got.sent) == (FailureKind.CONNECT, False)
    assert got.text.endswith(" within 0.1 s")


async def test_when_every_connection_is_in_use_the_node_is_busy_not_broken(node: RawNode, connect: Connect) -> None:
    release = asyncio.Event()

    async def script(call: Call) -> None:
        await release.wait()
        call.ok()

    upstream = connect(max_connections=1, connect_timeout=0.05)
    while not isinstance(await ask(upstream), Answer):
        pass  # a busy machine takes longer than that to connect, and the connection is kept
    node.script, before = script, len(node.calls)
    first = asyncio.create_task(ask(upstream))
    await until(lambda: len(node.calls) > before)
    got = await failure(upstream)
    assert (got.kind, got.sent) == (FailureKind.BUSY, False)
    release.set()
    assert isinstance(await first, Answer)


async def test_a_call_without_time_is_not_made(node: RawNode, connect: Connect) -> None:
    got = await failure(connect(), 0.0)
    assert (got.kind, got.sent, node.calls) == (FailureKind.TIMEOUT, False, [])


# -- something may have been sent --------------------------------------------------------------------------------


async def test_a_node_that_does_not_answer_in_time_is_a_timeout(node: RawNode, connect: Connect) -> None:
    async def script(_call: Call) -> None:
        await asyncio.Event().wait()

    node.script = script
    upstream = connect()
    got = await failure(upstream, 0.5)
    assert (got.kind, got.sent, got.text) == (FailureKind.TIMEOUT, True, "no answer within 0.5 s")
    await until(lambda: upstream.cell.connections_open == 0)


class RecordingLoop(asyncio.SelectorEventLoop):
    """Remembers for how long timers were set."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def call_at(self, when: float, *rest: Any, **named: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.delays.append(when - self.time())
        return super().call_at(when, *rest, **named)


class StandingLoop(RecordingLoop):
    """No time passes: what a timer is set for is what was asked for."""

    def time(self) -> float:
        return 1000.6


def test_a_long_timeout_is_not_rounded_up() -> None:
    # Waiting for a late end would take seconds: what aiohttp asks of the loop tells the same.
    async def call() -> None:
        server = RawNode()
        await server.start()
        upstream = HttpNodeClient(node_settings(f"http://127.0.0.1:{server.port}/", timeout=5.75, connect_timeout=5.75))
        assert isinstance(await ask(upstream, 5.75), Answer)
        await upstream.close()
        await server.stop()

    loop = StandingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(call())
    assert [delay for delay in loop.delays if 3.0 < delay <= 5.75], "what connecting took is off, and nothing is added"
    assert not [delay for delay in loop.delays if 5.75 < delay <= 7.0]


NO_HTTP = "what the node answered is not HTTP"
MIDDLE = "the connection broke off in the middle of the answer"
OK_LINE = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK_LINE + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the node closed a new connection without an answer"),
    "half a head": (OK_LINE + b"Content-Le", "the connection broke off in the headers of the answer"),
    "half a body": (OK_LINE + b'Content-Length: 100\r\n\r\n{"jsonrpc":"2.0"', MIDDLE),
    "a chunk shorter than told": (CHUNKED + b"5\r\n{}\r\n0\r\n\r\n!", NO_HTTP),
    "half of a chunk": (CHUNKED + b"5\r\n{}", MIDDLE),
    "another protocol": (b"\x00\x01SSH-2.0-OpenSSH\r\n\r\n", NO_HTTP),
    "a long line": (OK_LINE + b"X: " + b"x" * 9000 + b"\r\n\r\n", NO_HTTP),
    "many lines": (OK_LINE + b"X: y\r\n" * 200 + b"\r\n", NO_HTTP),
    "two lengths": (OK_LINE + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", NO_HTTP),
    "a negative length": (OK_LINE + b"Content-Length: -1\r\n\r\n", NO_HTTP),
    "a null byte": (OK_LINE + b"X: a\x00b\r\n\r\n", NO_HTTP),
    "another packing": (OK_LINE + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain", NO_HTTP),
    "no size of a chunk": (CHUNKED + b"zz\r\n", NO_HTTP),
    "no end of a chunk": (CHUNKED + b"2\r\n{}XX", NO_HTTP),
}
"""What a node sends before it closes the connection, and what the failure says."""


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_no_whole_reply_is_a_broken_one_and_nothing_is_sent_again(
    node: RawNode, connect: Connect, what: str
) -> None:
    sent, text = BROKEN[what]
    node.script, upstream = says(sent, close=True), connect()
    got = await failure(upstream)
    assert (got.kind, got.sent, got.text) == (FailureKind.BROKEN_REPLY, True, text)
    assert len(node.calls) == 1
    await until(lambda: upstream.cell.connections_open == 0)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (OK_LINE + b"Content-Le", FailureKind.BROKEN_REPLY),
        (b"HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", FailureKind.RATE_LIMITED),
    ],
)
async def test_on_a_kept_connection_a_part_of_a_reply_is_no_reset_and_a_rate_limit_says_how_long(
    node: RawNode, connect: Connect, sent: bytes, kind: FailureKind
) -> None:
    upstream = connect()
    await ask(upstream)
    node.script = says(sent, close=True)
    got = await failure(upstream)
    assert (got.kind, got.retry_after) == (kind, 7.0 if kind is FailureKind.RATE_LIMITED else None)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_kept_connection_that_ends_without_a_byte_is_a_reset_before_the_reply(
    node: RawNode, connect: Connect, how: str
) -> None:
    upstream = connect()
    await ask(upstream)

    async def script(call: Call) -> None:
        getattr(call, how)()

    node.script = script
    got = await failure(upstream)
    assert (got.kind, got.sent) == (FailureKind.RESET_BEFORE_REPLY, True)
    assert [call.connection for call in node.calls] == [0, 0], "it was not sent again"


async def test_a_redirect_is_not_followed(node: RawNode, connect: Connect) -> None:
    async def script(call: Call) -> None:
        call.reply(b"", status=307, headers=f"Location: http://127.0.0.1:{node.port}/other\r\n")

    node.script = script
    assert (await failure(connect())).kind is FailureKind.MISCONFIGURED
    assert len(node.calls) == 1
