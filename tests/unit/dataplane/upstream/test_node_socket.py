"""A WebSocket to a node, over loopback, against a node that does what the test says."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from rpcaccel import chains
from rpcaccel.config.model import NodeSettings
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure
from rpcaccel.dataplane.upstream.node_socket import MAX_MESSAGES_A_SECOND, MESSAGES_A_TURN, NodeSocket, places
from tests.support.dataplane.raw_socket import PING, PONG
from tests.support.waiting import until

KEY = "aVerySecretKeyOf32Characters0123"
Script = Callable[[web.WebSocketResponse, asyncio.Transport], Awaitable[None]]


def node(**settings: Any) -> NodeSettings:
    return NodeSettings.model_validate({"id": "n", "url": "http://127.0.0.1:1", "connect_timeout": 2.0, **settings})


class Listening:
    """A node on loopback: what it was asked, and by whom."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.path = ""


@asynccontextmanager
async def listening(
    script: Script | None = None, answer: web.Response | None = None, *, autoping: bool = True
) -> AsyncIterator[Listening]:
    """A node whose WebSocket runs `script`, or that answers the upgrade with `answer`."""
    seen = Listening()

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.headers, seen.path = dict(request.headers), request.path
        if answer is not None:
            return answer
        socket = web.WebSocketResponse(autoping=autoping)
        await socket.prepare(request)
        if script is not None:
            assert isinstance(request.transport, asyncio.Transport)
            await script(socket, request.transport)
        else:
            async for message in socket:
                seen.asked.append(json.loads(message.data))
                await serve(socket, seen.asked[-1])
        return socket

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    seen.url = f"ws://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield seen
    finally:
        await runner.cleanup()


async def serve(socket: web.WebSocketResponse, call: dict[str, Any]) -> None:
    if call["method"].endswith("_subscribe"):
        await socket.send_json({"jsonrpc": "2.0", "id": call["id"], "result": "0x51"})
    elif call["method"] == "eth_chainId":
        await socket.send_str(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": "0x1"}) + "\n")


def pushed(result: object, name: str = "0x51") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": name, "result": result}}


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[NodeSocket]:
    socket = NodeSocket(node(**settings), url)
    assert await socket.open() == ""
    try:
        yield socket
    finally:
        await socket.close()


async def test_calls_are_answered_and_each_frame_is_one_call_of_ours() -> None:
    async with listening() as served, opened(served.url) as socket:
        said = await socket.send("eth_chainId", b"[]")
        assert isinstance(said, Answer)
        assert said.result == b'"0x1"'
        assert served.asked == [{"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}]


async def test_answers_out_of_order_are_matched_by_their_ids() -> None:
    async def script(socket: web.WebSocketResponse, _transport: asyncio.Transport) -> None:
        calls = [json.loads((await socket.receive()).data) for _ in range(3)]
        for call in reversed(calls):
            await socket.send_json({"id": call["id"], "result": call["params"][0]})
        await socket.receive()

    async with listening(script) as served, opened(served.url) as socket:
        said = await asyncio.gather(*(socket.send("x", b"[%d]" % number) for number in range(3)))
    assert [one.result for one in said if isinstance(one, Answer)] == [b"0", b"1", b"2"]


async def test_a_notification_right_behind_its_subscribe_is_heard_and_those_of_strangers_are_not() -> None:
    async def script(socket: web.WebSocketResponse, _transport: asyncio.Transport) -> None:
        call = json.loads((await socket.receive()).data)
        assert (call["method"], call["params"]) == ("eth_subscribe", ["newHeads"])
        await socket.send_json(pushed("too early"))
        await socket.send_json({"id": call["id"], "result": "0x51"})
        await socket.send_json(pushed({"number": "0x1"}))
        await socket.send_json(pushed("a stranger's", "0x52"))
        await socket.send_json(pushed("last"))
        await socket.receive()

    heard: list[bytes] = []
    async with listening(script) as served, opened(served.url) as socket:
        assert await socket.follow("eth", "newHeads", heard.append) == ""
        await until(lambda: len(heard) == 2)
    assert heard == [b'{"number": "0x1"}', b'"last"']


async def test_fragments_are_joined_and_odd_frames_are_dropped() -> None:
    async def script(socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        call = json.loads((await socket.receive()).data)
        await socket.send_json({"id": call["id"], "result": "0x51"})
        for odd in ("hello", "", "[", "null", "[1]", '{"id":99,"result":1}', '{"id":"1","result":1}', "[" * 5000):
            await socket.send_str(odd)
        text = json.dumps(pushed("0x" + "ab" * 600)).encode() + b"\n"
        transport.write(b"\x01\x7e" + (1024).to_bytes(2, "big") + text[:1024])  # a text frame that is not the last one
        transport.write(b"\x00\x7e" + len(text[1024:]).to_bytes(2, "big") + text[1024:] + b"\x80\x00")
        await socket.receive()

    heard: list[bytes] = []
    async with listening(script) as served, opened(served.url) as socket:
        assert await socket.follow("eth", "newHeads", heard.append) == ""
        await until(lambda: heard)
    assert heard == [b'"0x%b"' % (b"ab" * 600)]


@pytest.mark.parametrize("how", ["close 1000", "reset", "long"])
async def test_the_end_of_a_connection_is_told_however_it_ends(how: str) -> None:
    async def script(socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        call = json.loads((await socket.receive()).data)
        await socket.send_json({"id": call["id"], "result": "0x51"})
        if how == "close 1000":
            await socket.close(code=1000)
        elif how == "long":
            await socket.send_str('"' + "x" * (17 << 20) + '"')
            await socket.receive()
        else:
            transport.abort()

    async with listening(script) as served, opened(served.url) as socket:
        assert await socket.follow("eth", "newHeads", lambda _result: None) == ""
        why = await socket.ended()
        assert why == {"close 1000": "was closed by the node (1000)", "reset": "broke off"}.get(
            how, "sent too long a message"
        )
        said = await socket.send("eth_chainId", b"[]")
        assert isinstance(said, Failure)


NOTIFICATION = json.dumps(pushed("0x" + "ab" * 32)).encode()


def node_frame(payload: bytes, opcode: int = 1) -> bytes:
    """A frame as a node sends it."""
    size = len(payload)
    head = bytes((0x80 | opcode, size)) if size < 126 else bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")
    return head + payload


@pytest.mark.parametrize(
    ("sent", "times", "why"),
    [
        (node_frame(b"{}"), MAX_MESSAGES_A_SECOND, ""),
        (node_frame(b"{}"), MAX_MESSAGES_A_SECOND + 1, "sends more than 20000 messages a second"),
        (node_frame(b"", PING), MAX_MESSAGES_A_SECOND + 1, "sends more than 20000 messages a second"),
        (node_frame(b"", PONG), MAX_MESSAGES_A_SECOND + 1, "sends more than 20000 messages a second"),
        (node_frame(NOTIFICATION), MAX_MESSAGES_A_SECOND + 1, "sends more than 20000 messages a second"),
        (node_frame(b'"%b"' % (b"x" * (4 << 20))), 7, ""),
        (node_frame(b'"%b"' % (b"x" * (4 << 20))), 8, "sends more than 32 MiB of messages a second"),
    ],
)
async def test_a_node_that_sends_too_much_within_a_second_is_left(sent: bytes, times: int, why: str) -> None:
    async def script(socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        transport.write(sent * times)
        await socket.close(code=1000)

    async with listening(script) as served:
        socket = NodeSocket(node(), served.url, clock=lambda: 7.0)
        assert await socket.open() == ""
        assert await socket.ended() == (why or "was closed by the node (1000)")
        await socket.close()


async def test_all_others_get_their_turn_between_the_messages_of_a_node() -> None:
    turns, runs = 0, Counter[int]()

    async def script(socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        call = json.loads((await socket.receive()).data)
        await socket.send_json({"id": call["id"], "result": "0x51"})
        transport.write(node_frame(NOTIFICATION) * 2000)
        await socket.receive()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with listening(script) as served, opened(served.url) as socket:
        busy = asyncio.create_task(others())
        assert await socket.follow("eth", "newHeads", lambda _: runs.update([turns])) == ""
        await until(lambda: runs.total() == 2000)
        busy.cancel()
    assert max(runs.values()) <= MESSAGES_A_TURN


async def test_the_pings_of_a_node_are_answered() -> None:
    answered: list[web.WSMessage] = []

    async def script(socket: web.WebSocketResponse, _transport: asyncio.Transport) -> None:
        await socket.ping(b"who?")
        answered.append(await socket.receive())

    async with listening(script, autoping=False) as served, opened(served.url):
        await until(lambda: answered)
    assert [(one.type, one.data) for one in answered] == [(web.WSMsgType.PONG, b"who?")]


async def test_a_node_that_floods_is_left_without_a_handshake_that_reads_the_rest() -> None:
    told: list[web.WSMsgType] = []

    async def script(socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        transport.write(node_frame(b"{}") * (2 * MAX_MESSAGES_A_SECOND))
        told.append((await socket.receive()).type)

    async with listening(script) as served:
        socket = NodeSocket(node(), served.url, clock=lambda: 7.0)
        assert await socket.open() == ""
        assert await socket.ended() == "sends more than 20000 messages a second"
        await socket.close()
        await until(lambda: told)
    assert told != [web.WSMsgType.CLOSE]


async def test_a_node_that_never_stops_sending_cannot_keep_its_connection_from_being_closed() -> None:
    gone = asyncio.Event()

    async def script(_socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        while not transport.is_closing():
            transport.write(node_frame(b"{}") * 1000)
            await asyncio.sleep(0)
        gone.set()

    async with listening(script) as served:
        socket = NodeSocket(node(), served.url, clock=map(float, count()).__next__)  # each message has its own second
        assert await socket.open() == ""
        await socket.close()
        await gone.wait()


async def test_a_node_that_never_answers_is_not_waited_for_without_end() -> None:
    async def script(socket: web.WebSocketResponse, _transport: asyncio.Transport) -> None:
        await socket.receive()
        await socket.receive()

    async with listening(script) as served, opened(served.url) as socket:
        said = await socket.send("eth_chainId", b"[]", timeout=0.05)
        assert isinstance(said, Failure)
        assert said.text == "does not answer eth_chainId within 0.05 s"


async def test_a_refused_subscribe_is_told_without_the_secrets_that_the_node_echoes() -> None:
    async def script(socket: web.WebSocketResponse, _transport: asyncio.Transport) -> None:
        call = json.loads((await socket.receive()).data)
        await socket.send_json({"id": call["id"], "error": {"code": -32601, "message": f"not for {KEY}\x1b"}})
        await socket.receive()

    async with listening(script) as served, opened(f"{served.url}/{KEY}") as socket:
        why = await socket.follow("eth", "newHeads", lambda _result: None)
        assert why.startswith("refuses to push newHeads: not for ***")
        assert KEY not in repr(socket) + why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (web.Response(), "answers HTTP 200 to the upgrade"),
        (web.Response(status=403), "answers HTTP 403 to the upgrade"),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "answers with a redirect"),
    ],
)
async def test_what_is_no_websocket_is_told(answer: web.Response, why: str) -> None:
    async with listening(answer=answer) as served:
        socket = NodeSocket(node(), f"{served.url}/{KEY}")
        assert await socket.open() == why
        await socket.close()


async def test_a_port_where_nobody_listens_is_told_without_the_address() -> None:
    socket = NodeSocket(node(), f"ws://user:{KEY}@127.0.0.1:1/{KEY}")
    assert await socket.open() == "cannot be connected to: connection refused"
    assert await socket.follow("eth", "newHeads", lambda _result: None) == "is not open"
    assert await socket.ended() == "is not open"
    assert repr(socket) == "<NodeSocket n ws://127.0.0.1:1 0 subscriptions>"
    await socket.close()


async def test_the_headers_and_the_login_of_the_node_are_sent() -> None:
    async with listening() as served:
        address = served.url.replace("ws://", "ws://me:word@") + "/v3/key"
        async with opened(address, headers={"X-Api-Key": "k"}):
            assert served.path == "/v3/key"
            assert served.headers["X-Api-Key"] == "k"
            assert served.headers["Authorization"] == "Basic bWU6d29yZA=="
            assert "Sec-WebSocket-Extensions" not in served.headers


def found(url: str, rule: str = "auto", chain: str = "harmony", ws: str = "") -> tuple[str, ...]:
    return places(node(url=url, ws=ws), rule, chains.load(chain).live, ())


def test_the_usual_places_are_those_of_the_chain() -> None:
    assert found("http://h:9500") == ("ws://h:9500", "ws://h:9800")
    assert found("https://h:9501/") == ("wss://h:9501/", "wss://h:9801/")
    assert found("https://u:p@h/k") == ("wss://u:p@h/k",)
    assert found("https://api.s0.t.hmny.io") == ("wss://ws.s0.t.hmny.io", "wss://api.s0.t.hmny.io")
    assert found("http://[::1]:8545", chain="ethereum") == ("ws://[::1]:8545", "ws://[::1]:8546")


@pytest.mark.parametrize(("chain", "offset"), [("harmony", 300), ("ethereum", 1)])
@given(port=st.integers(1, 65535), host=st.sampled_from(["h", "10.0.0.5", "[::1]"]))
def test_whatever_the_port_of_a_node_its_websocket_is_looked_for_there_and_at_the_usual_distance(
    chain: str, offset: int, port: int, host: str
) -> None:
    ports = [port, port + offset] if port + offset <= 65535 else [port]
    looked = [URL(one) for one in found(f"http://{host}:{port}", chain=chain)]
    assert [(one.scheme, one.host, one.port) for one in looked] == [
        ("ws", URL(f"ws://{host}").host, one) for one in ports
    ]


def test_a_websocket_is_not_looked_for_where_another_node_is_reached() -> None:
    beside = [node(id=f"n{port}", url=f"http://h:{port}") for port in (8545, 8546, 8548)]
    live = chains.load("ethereum").live
    assert [places(one, "auto", live, beside) for one in beside] == [
        ("ws://h:8545",),
        ("ws://h:8546", "ws://h:8547"),
        ("ws://h:8548", "ws://h:8549"),
    ]


@pytest.mark.parametrize("place", ["api.s0.t.hmny.io", "h:9500"])
def test_no_other_host_or_port_is_told_a_key(place: str) -> None:
    keyed = node(url=f"https://{place}", headers={"X-Api-Key": "k"})
    assert places(keyed, "auto", chains.load("harmony").live, ()) == (f"wss://{place}",)
    for key in (f"u:p@{place}", f"{place}/v3/key", f"{place}?key=k"):
        (only,) = found(f"https://{key}")
        assert only.replace("/?", "?") == f"wss://{key}"


def test_a_named_address_is_the_only_place_and_nothing_is_tried_where_that_is_not_wanted() -> None:
    assert found("http://h:9500", ws="wss://w/k") == ("wss://w/k",)
    assert found("http://h:9500", "named", ws="wss://w/k") == ("wss://w/k",)
    assert found("http://h:9500", "named") == ()
    assert found("http://h:9500", "off", ws="wss://w/k") == ()
