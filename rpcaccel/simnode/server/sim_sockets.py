"""The WebSocket side of a simulated node: calls, subscriptions, and what is pushed to them, with the knobs' faults.

Frames, errors and ends of connections are those of a Harmony node, or of geth on an EVM chain (docs/harmony.md section
4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec
from aiohttp import WSMsgType, web

from rpcaccel.simnode.methods.registry import RpcError, text
from rpcaccel.simnode.server import envelope
from rpcaccel.simnode.server.envelope import DropConnection, Parsed, RequestItem
from rpcaccel.simnode.server.faults import plain
from rpcaccel.simnode.server.pushes import BlockWatch, ChainMove, PushTopic, notices, read_token, read_topic
from rpcaccel.simnode.server.responder import Responder

MAX_MESSAGE_BYTES = {"harmony": 5 << 20, "ethereum": 32 << 20}
"""The size of the largest message that a node takes."""
FRAGMENT_BYTES = 1024
"""The size from which Harmony sends a message in fragments: its buffer for writing."""
_TURNS = 8
"""Turns of the event loop by which an answer is late at the most where answers overtake one another."""


def framed(message: bytes, *, harmony: bool) -> bytes:
    """A text message on the wire, from a server. Harmony's library sends its buffer when that is full, a message of
    more than two buffers without copying it, and an empty final fragment behind that."""
    if not harmony or len(message) <= FRAGMENT_BYTES:
        return _frame(0x81, message)
    cut = FRAGMENT_BYTES if len(message) <= 2 * FRAGMENT_BYTES else len(message)
    return _frame(0x01, message[:cut]) + _frame(0x80, message[cut:])


def _frame(first: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2, "big") + payload
    return bytes((first, 127)) + size.to_bytes(8, "big") + payload


class SimSocket:
    def __init__(self, brain: Responder, transport: asyncio.WriteTransport) -> None:
        self._brain = brain
        self._transport = transport
        self._harmony = brain.chain.spec.kind == "harmony"
        self._held: bytes | None = None
        self.topics: dict[str, PushTopic] = {}

    def send(self, message: bytes) -> None:
        """Send a text message, as long as the connection is open."""
        if not self._transport.is_closing():
            line = message + b"\n" if self._harmony else message
            self._transport.write(framed(line, harmony=self._harmony))

    def push(self, space: str, token: str, result: bytes) -> None:
        """Send a notification, or what a fault makes of it."""
        head = b'{"jsonrpc":"2.0","method":"%b_subscription","params":{"subscription":"%b","result":'
        message = head % (space.encode(), token.encode()) + result + b"}}"
        fault = self._brain.knobs.push_fault(self._brain.rng)
        if fault:
            self._brain.counts.faults[fault] += 1
        if fault == "cut":
            self.end()
        elif fault == "disorder" and self._held is None:
            self._held = message
        elif fault != "drop":
            held, self._held = self._held, None
            self._brain.counts.pushed += 1 + (held is not None)
            for one in (message, message if fault == "duplicate" else None, held):
                if one is not None:
                    self.send(one)

    def unsubscribe(self, token: str) -> None:
        """End a subscription. Raises RpcError where there is none of that id."""
        if self.topics.pop(token, None) is None:
            raise RpcError("subscription not found")

    def end(self) -> None:
        """End the connection without a close frame, behind what was sent."""
        self._transport.close()


class SimSockets:
    """The WebSockets of one node. `crash` ends all connections of the node, as the death of its process does."""

    def __init__(self, brain: Responder, crash: Callable[[], None]) -> None:
        self._brain = brain
        self._crash = crash
        self._kind = brain.chain.spec.kind
        self._open: dict[SimSocket, web.WebSocketResponse] = {}
        self._watch: BlockWatch | None = None
        self._late: set[asyncio.Task[None]] = set()

    @property
    def open(self) -> int:
        return len(self._open)

    @property
    def subscriptions(self) -> int:
        return sum(len(socket.topics) for socket in self._open)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer an upgrade, and serve the WebSocket until its end."""
        if (refused := self._refusal(request)) is not None:
            self._brain.counts.refused += 1
            self._brain.counts.settle()
            return refused
        response = web.WebSocketResponse(compress=False, max_msg_size=MAX_MESSAGE_BYTES[self._kind])
        await response.prepare(request)
        transport = request.transport
        if transport is None:
            return response
        socket = SimSocket(self._brain, cast("asyncio.WriteTransport", transport))
        self._brain.counts.sockets += 1
        self._brain.counts.settle()
        running: set[asyncio.Task[None]] = set()
        self._open[socket] = response
        self._watch = self._watch or BlockWatch(self._brain, self._moved)
        try:
            async for message in response:
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    continue
                body = message.data.encode() if isinstance(message.data, str) else message.data
                parsed = self._parsed(socket, body)
                if parsed is None:
                    break
                task = asyncio.create_task(self._answer(socket, parsed))
                running.add(task)
                task.add_done_callback(running.discard)
        finally:
            for task in running:
                task.cancel()
            await self._leave(socket)
        if self._kind == "harmony":
            socket.end()
        return response

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        state = self._brain.knobs.websocket
        if state == "off":
            return plain(200)
        if state == "refused":
            return plain(403, "Forbidden\n")
        if self._kind == "ethereum" and request.path != "/":
            return plain(404, "not found")
        return None

    async def _leave(self, socket: SimSocket) -> None:
        self._open.pop(socket, None)
        self._brain.counts.settle()
        if not self._open and self._watch is not None:
            watch, self._watch = self._watch, None
            await watch.stop()
            for task in self._late:
                task.cancel()

    async def close(self) -> None:
        """End all WebSockets as a node does that is told to stop: geth says goodbye."""
        for socket, response in list(self._open.items()):
            if self._kind == "ethereum":
                await response.close()
            socket.end()

    # -- calls -----------------------------------------------------------------------------------------------------

    def _parsed(self, socket: SimSocket, body: bytes) -> Parsed | None:
        """The calls of a message; None when the message ends the connection."""
        try:
            return envelope.parse(body, null_kills=self._kind == "harmony")
        except DropConnection:
            self._crash()
        except (msgspec.DecodeError, RecursionError):
            if (words := envelope.parse_failure(body)) is not None:
                socket.send(words)
        return None

    async def _answer(self, socket: SimSocket, parsed: Parsed) -> None:
        counts, knobs = self._brain.counts, self._brain.knobs
        counts.requests += 1
        latency = knobs.latency.draw(self._brain.rng)
        if latency:
            await self._brain.clock.sleep(latency)
        if knobs.overtake:
            for _ in range(self._brain.rng.randrange(_TURNS)):
                await asyncio.sleep(0)
        begun: dict[str, PushTopic] = {}
        replies = [reply for call in parsed.calls if (reply := await self._reply(socket, call, begun)) is not None]
        if parsed.batch:
            counts.batches += 1
            counts.batch_items += len(parsed.calls)
        # No await between the answer and the subscriptions: no notification comes before its id.
        if answer := envelope.joined(replies, batch=parsed.batch) or (b"" if parsed.calls else envelope.EMPTY_BATCH):
            socket.send(answer)
        socket.topics |= begun
        counts.settle()

    async def _reply(self, socket: SimSocket, call: RequestItem, begun: dict[str, PushTopic]) -> bytes | None:
        """The reply to one call. What it subscribes to is added to `begun`."""
        space, _, name = call.method.rpartition("_")
        if not space or name not in ("subscribe", "unsubscribe"):
            return await self._brain.reply(call)
        self._brain.note(call)
        try:
            if name == "subscribe":
                topic = read_topic(self._kind, space, call.params)
                token = f"0x{self._brain.rng.getrandbits(128):x}"
                begun[token] = topic
                self._brain.counts.subscriptions += 1
                result = text(token)
            else:
                socket.unsubscribe(read_token(call.params))
                result = b"true"
        except RpcError as error:
            self._brain.counts.errors += 1
            return None if call.id is None else envelope.failure(call.id, error.encode())
        muted = name == "subscribe" and self._brain.knobs.mute_subscribe
        return None if call.id is None or muted else envelope.success(call.id, result)

    # -- pushes ----------------------------------------------------------------------------------------------------

    def _moved(self, move: ChainMove) -> None:
        """Push what happened, at once or with the delay of the knobs."""
        delay = self._brain.knobs.push_delay.draw(self._brain.rng)
        if not delay:
            self._push(move)
            return
        task = asyncio.create_task(self._push_later(move, delay))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _push_later(self, move: ChainMove, delay: float) -> None:
        await self._brain.clock.sleep(delay)
        self._push(move)

    def _push(self, move: ChainMove) -> None:
        if self._brain.knobs.silent:
            return
        for kind, full, result in notices(move, self._brain.view):
            written = text(result)
            for socket in list(self._open):
                for token, topic in list(socket.topics.items()):
                    if (topic.kind, topic.full) == (kind, full) and (kind != "logs" or topic.takes(result)):
                        socket.push(topic.space, token, written)
        self._brain.counts.settle()
