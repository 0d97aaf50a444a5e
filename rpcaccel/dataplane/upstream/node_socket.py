"""One WebSocket to a node: calls and subscriptions of ours, never a byte of a client.

An unparsable frame, or `null` alone, ends the connection to some nodes and even their process, so every frame is one
call that is written here. Answers come out of order and are matched by id alone; what is not understood is dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
from aiohttp import ClientWebSocketResponse, TraceConfig, WSMsgType
from msgspec import Raw, Struct
from yarl import URL

from rpcaccel.chains.chain import LiveTable
from rpcaccel.config.model import NodeSettings
from rpcaccel.core.nodes.sliding_window import Inflow
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.wire.json_text import UNREADABLE, unmarked
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.node_failures import TROUBLE, RedirectedError, not_upgraded
from rpcaccel.dataplane.upstream.redaction import Secrecy, login

MAX_MESSAGE_BYTES = 16 << 20
"""Bytes of one message of a node; a longer one ends the connection."""
ANSWER_SECONDS = 5.0
"""Seconds that a node may take to answer a subscribe or any other call."""
_QUIET = 20.0
"""Seconds without a frame after which the node is sent a ping; half as long may pass until its pong."""
_CLOSING = 1.0
"""Seconds that a node may take to answer our close frame."""
MAX_MESSAGES_A_SECOND, MAX_BYTES_A_SECOND = 20_000, 2 * MAX_MESSAGE_BYTES
"""Messages and bytes (characters of a text) that a node may send within a second; beyond that the connection is ended.
The pending transactions of a busy chain that were held back for a moment come by the thousand."""
MESSAGES_A_TURN, READ_BYTES_A_TURN = 64, 1 << 20
"""Messages and bytes that are read one after the other before everything else in the process gets its turn."""
_LAST_PORT = 65535
_SHOWN = 120
"""Characters of a node's error message that are shown."""

OnNotification = Callable[[bytes], None]
"""Called with the `result` of a notification: raw JSON text."""


class _Params(Struct, gc=False):
    subscription: str = ""
    result: Raw = Raw(b"")


class _Frame(Struct, gc=False):
    """An answer or a notification."""

    id: int | str | float | None = None
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")
    params: _Params | None = None


_COUNTED = frozenset({WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG})
_FRAME = msgspec.json.Decoder(_Frame)


def places(node: NodeSettings, rule: str, live: LiveTable, nodes: Iterable[NodeSettings]) -> tuple[str, ...]:
    """The addresses at which the node's WebSocket is looked for, in order. They hold the secrets of its address.

    Args:
        rule: networks.*.websockets.
        live: the chain's usual hosts and ports.
        nodes: those of the network. Where one of them is reached, another node's WebSocket is not looked for.
    """
    named = node.ws.reveal()
    if rule == "off" or named:
        return (named,) if named and rule != "off" else ()
    if rule == "named":
        return ()
    address = node.url.reveal()
    url = URL(address, encoded="%" in address)
    same = url.with_scheme("wss" if url.scheme == "https" else "ws")
    found = [same]
    # Whoever listens elsewhere gets no key: keys are in the login, the path, the query and the headers.
    if url.user is None and not node.headers and url.raw_path_qs == "/":
        others = [URL(other.url.reveal()) for other in nodes if other.id != node.id]
        taken, port = {(other.host, other.port) for other in others}, url.explicit_port
        near = [same.with_port(port + offset) for offset in live.port_offsets if port and port + offset <= _LAST_PORT]
        host = live.hosts.get(url.host or "")
        near = [one for one in near if (one.host, one.port) not in taken]
        found = [same.with_host(host) if host else same, *near, same]
    return tuple(dict.fromkeys(str(one) for one in found))


class NodeSocket:
    """A WebSocket to one node, from `open` to `close`. Nothing raises for what the node does."""

    def __init__(self, node: NodeSettings, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`address`: one of `places`; it is shown nowhere."""
        self._node = node
        self._clock = clock
        url = URL(address, encoded="%" in address)
        self._url = url.with_user(None)
        self._shown = f"{url.scheme}://{url.host_port_subcomponent}"
        self._secrecy = Secrecy(url, node.headers)
        self._headers = {name: value.reveal() for name, value in node.headers.items()}
        if url.user is not None:
            self._headers.setdefault("Authorization", f"Basic {login(url.user, url.password or '')}")
        self._session: aiohttp.ClientSession | None = None
        self._socket: ClientWebSocketResponse | None = None
        self._reading: asyncio.Task[str] | None = None
        self._asked: dict[int, tuple[asyncio.Future[_Frame], OnNotification | None]] = {}
        """The calls under way by id; those that subscribe with what is called for each notification."""
        self._next_id = 1
        self._heard: dict[str, OnNotification] = {}
        self._flooded = False
        """Was the connection ended because the node sent too much?"""

    def __repr__(self) -> str:
        return f"<NodeSocket {self._node.id} {self._shown} {len(self._heard)} subscriptions>"

    async def open(self) -> str:
        """Connect; returns why that failed, in words that follow "its WebSocket", or an empty text."""
        within = self._node.connect_timeout
        tracing = TraceConfig()
        tracing.on_request_redirect.append(_refuse)
        session = self._session = aiohttp.ClientSession(
            headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[tracing], auto_decompress=False
        )
        limits = aiohttp.ClientWSTimeout(ws_close=_CLOSING)
        try:
            async with asyncio.timeout(within):
                self._socket = await session.ws_connect(
                    self._url,
                    heartbeat=_QUIET,
                    max_msg_size=MAX_MESSAGE_BYTES,
                    timeout=limits,
                    autoclose=False,
                    autoping=False,
                )
        except (*TROUBLE, ValueError) as error:  # ValueError: a header cannot be sent
            return not_upgraded(error, within)
        self._reading = asyncio.create_task(self._read(self._socket), name=f"socket of {self._node.id}")
        return ""

    async def send(self, method: str, params: bytes, *, timeout: float = ANSWER_SECONDS) -> Answer | Failure:
        """Send one call and wait for its answer, at most `timeout` seconds; `params` is raw JSON."""
        frame = await self._ask(method, params, timeout)
        if isinstance(frame, str):
            return Failure(FailureKind.BROKEN_REPLY, frame, node=self._node.id)
        if frame.error and bytes(frame.error) != b"null":
            return Answer(error=self._secrecy.error(bytes(frame.error)))
        return Answer(result=bytes(frame.result) or b"null")

    async def follow(self, namespace: str, kind: str, heard: OnNotification) -> str:
        """Subscribe; returns why that failed, in words that follow "its WebSocket", or an empty text."""
        frame = await self._ask(f"{namespace}_subscribe", b'["%b"]' % kind.encode(), ANSWER_SECONDS, heard)
        if isinstance(frame, str):
            return frame
        if not _subscription(frame):
            message = error_parts(bytes(frame.error))[1] if frame.error else ""
            text = printable(self._secrecy.text(message[:_SHOWN])) or "without a message"
            return f"refuses to push {kind}: {text}"
        return ""

    async def ended(self) -> str:
        """Wait for the end of the connection; returns why it ended, in words that follow "its WebSocket"."""
        return "is not open" if self._reading is None else await asyncio.shield(self._reading)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._flooded and self._session is not None:
            await self._session.close()  # before the handshake of closing, which reads all that the node still sends
        if self._socket is not None and not self._socket.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await self._socket.close()
        if self._session is not None:
            await self._session.close()

    async def _ask(
        self, method: str, params: bytes, timeout: float, heard: OnNotification | None = None
    ) -> _Frame | str:
        """Send a call; returns the answer, or why there is none."""
        socket, reading = self._socket, self._reading
        if socket is None or reading is None or reading.done():
            return "is not open"
        number, self._next_id = self._next_id, self._next_id + 1
        answer: asyncio.Future[_Frame] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer, heard
        text = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (number, method.encode(), params)
        try:
            async with asyncio.timeout(timeout):
                await socket.send_str(text.decode())
                either: tuple[asyncio.Future[Any], ...] = (answer, reading)
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return f"does not answer {method} within {timeout:g} s"
        except TROUBLE:
            return "broke off"
        finally:
            del self._asked[number]
        return answer.result() if answer.done() else "broke off"

    async def _read(self, socket: ClientWebSocketResponse) -> str:
        """Read until the connection ends, or the node sends too much; returns why it ended."""
        inflow, messages, size = Inflow("messages", MAX_MESSAGES_A_SECOND, MAX_BYTES_A_SECOND), 0, 0
        while True:
            message = await socket.receive()
            kind = message.type
            if kind not in _COUNTED:
                return _end(message)
            if why := inflow.take(len(message.data), self._clock()):
                self._flooded = True
                return f"sends {why}"
            if kind is WSMsgType.PING:
                try:
                    await socket.pong(message.data)
                except TROUBLE:
                    return "broke off"
            elif kind is not WSMsgType.PONG:
                self._hear(message.data)
            messages, size = messages + 1, size + len(message.data)
            if messages >= MESSAGES_A_TURN or size >= READ_BYTES_A_TURN:
                messages = size = 0
                await asyncio.sleep(0)

    def _hear(self, data: str | bytes) -> None:
        try:
            frame = _FRAME.decode(data.lstrip("\ufeff") if isinstance(data, str) else unmarked(data))
        except UNREADABLE:
            return
        if frame.params is not None:
            self._tell(self._heard.get(frame.params.subscription), bytes(frame.params.result))
            return
        answer, heard = self._asked.get(frame.id, (None, None)) if isinstance(frame.id, int) else (None, None)
        if answer is None or answer.done():
            return
        answer.set_result(frame)
        if heard is not None and (name := _subscription(frame)):  # at once: its notification may be the next frame
            self._heard[name] = heard

    def _tell(self, heard: OnNotification | None, result: bytes) -> None:
        """Pass a notification on; one of an unknown subscription, or of one that was ended, is dropped."""
        try:
            if heard is not None:
                heard(result)
        except Exception as error:  # a bug of the listener is no reason to stop reading
            told = {"message": "what a node pushed is not passed on", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)


def _end(message: aiohttp.WSMessage) -> str:
    """Why a connection ended, by the last message of it."""
    if message.type is WSMsgType.CLOSE:
        return f"was closed by the node ({message.data})"
    if message.type is WSMsgType.ERROR:
        if isinstance(message.data, aiohttp.WebSocketError) and message.data.code == 1009:
            return "sent too long a message"
        if isinstance(message.data, TimeoutError):
            return "fell silent"
    return "broke off"


def _subscription(frame: _Frame) -> str:
    """The id of a subscription that an answer tells; empty when it tells none."""
    try:
        return msgspec.json.decode(frame.result, type=str) if frame.result else ""
    except UNREADABLE:
        return ""


async def _refuse(*_: object) -> None:
    raise RedirectedError
