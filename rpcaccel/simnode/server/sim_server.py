"""A simulated node: a real HTTP and WebSocket server on loopback that answers as a Harmony (or geth) node answers.

    node = SimNode(chain)
    url = await node.start()
    node.knobs.next_faults = ["reset"]
    assert node.counts.asked("hmyv2_getBlocks") == 1

HTTP behaviour: docs/harmony.md section 4.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from weakref import WeakSet

import msgspec
from aiohttp import web

from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.chain.sim_chain import Clock, SimChain, WallClock
from rpcaccel.simnode.server.envelope import EMPTY_BATCH, PARSE_ERROR, DropConnection, Parsed, joined, parse
from rpcaccel.simnode.server.faults import cut, faulty_answer, plain, rpc_answer
from rpcaccel.simnode.server.responder import Responder
from rpcaccel.simnode.server.sim_connections import CutAtOnce, Opening, close_listener
from rpcaccel.simnode.server.sim_sockets import SimSockets

CONTENT_TYPES = ("application/json", "application/json-rpc", "application/jsonrequest")
MAX_BODY = 5 << 20
"""Bytes of a request that a node takes."""
MAX_ADVANCE = 1_000_000
"""Blocks by which one request may move the chain on."""


class SimNode:
    """One simulated node. `port=0` takes a free port and keeps it over restarts."""

    def __init__(
        self,
        chain: SimChain | None = None,
        *,
        name: str = "node",
        port: int = 0,
        knobs: Knobs | None = None,
        clock: Clock | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """With `tls`, a server's context, the node serves HTTPS instead of HTTP."""
        self.chain = chain or SimChain()
        self.name = name
        self.port = port
        self.knobs = knobs or Knobs()
        self.clock: Clock = clock or WallClock()
        self.brain = Responder(self.chain, name, self.knobs, self.clock)
        self.ask = self.brain.ask
        self.counts = self.brain.counts
        self.sockets = SimSockets(self.brain, self._cut_all)
        self._tls = tls
        self._opening: WeakSet[Opening] = WeakSet()
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None

    def __repr__(self) -> str:
        state = "up" if self._listener else "down"
        return f"<SimNode {self.name} {state} {self.url} head {self.head}>"

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def head(self) -> int:
        return self.brain.head

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self, host: str = "127.0.0.1") -> str:
        """Serve, and return the URL. After `stop` or `kill` it comes back on the same port."""
        if self._listener is not None:
            return self.url
        loop = asyncio.get_running_loop()
        self._web = web.Server(
            self._handle,
            keepalive_timeout=120,
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,  # a Go node does not unpack the body of a request
        )
        self._listener = await loop.create_server(self._accept, host, self.port, reuse_address=True)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self.url

    def _accept(self) -> asyncio.Protocol:
        self.counts.connections += 1
        if self._tls is None and not self.knobs.connect.mean:
            return self._serving()
        opening = Opening(self._serving, lambda: self.knobs.connect.draw(self.brain.rng), self.clock, self._tls)
        self._opening.add(opening)
        return opening

    def _serving(self) -> asyncio.Protocol:
        """HTTP on a connection; the connection is cut where the node stopped since it was accepted."""
        return CutAtOnce() if self._web is None else self._web()

    async def stop(self) -> None:
        """Stop serving: running calls get a moment to finish, connections are closed in order."""
        await self._close(1.0)

    async def kill(self) -> None:
        """Stop as a killed process does: every connection is cut at once, running calls get nothing."""
        await self._close(None)

    async def _close(self, grace: float | None) -> None:
        """Stop listening, then end the connections: after `grace` seconds, or at once where it is None."""
        listener, self._listener = self._listener, None
        server, self._web = self._web, None
        if listener is None or server is None:
            return
        await close_listener(listener)
        for opening in list(self._opening):
            opening.abort()
        if grace is None:
            _abort_all(server)
        else:
            await self.sockets.close()
        await server.shutdown(grace or 0.001)  # to aiohttp 0 means no limit

    def _cut_all(self) -> None:
        """Cut every connection, as when the node's process dies; whatever watches the process starts it again."""
        if self._web is not None:
            _abort_all(self._web)

    async def __aenter__(self) -> SimNode:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    # -- HTTP ------------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/simnode/"):
            return await self._control(request)
        if request.method == "GET" and request.headers.get("Upgrade", "").lower() == "websocket":
            return await self.sockets.serve(request)
        if (refused := self._without_body(request)) is not None:
            return refused
        return await self._serve(request, (await request.read())[:MAX_BODY])

    def _without_body(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to a request that is no JSON-RPC; None for one that is."""
        if request.method == "OPTIONS" or (request.method == "GET" and not request.query_string):
            return plain(200)
        if request.method != "POST":
            return plain(405, "method not allowed\n")
        if request.content_type not in CONTENT_TYPES:
            return plain(415, "invalid content type, only application/json is supported\n")
        if (request.content_length or 0) > MAX_BODY:
            return plain(413, f"content length too large ({request.content_length}>{MAX_BODY})\n")
        return None

    async def _serve(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        self.counts.requests += 1
        self.counts.settle()
        if not body.strip():
            return plain(200, content_type="application/json")
        try:
            parsed = parse(body)
        except (msgspec.DecodeError, RecursionError):
            return rpc_answer(request, PARSE_ERROR + b"\n", self.knobs)
        except DropConnection:
            return cut(request)
        fault = self.knobs.fault_for({call.method for call in parsed.calls}, self.brain.rng)
        latency = self.knobs.latency.draw(self.brain.rng)
        if latency:
            await self.clock.sleep(latency)
        if fault:
            self.counts.faults[fault] += 1
            self.counts.settle()
            return await faulty_answer(request, fault, parsed, self.brain)
        return rpc_answer(request, await self.answer(parsed), self.knobs)

    async def answer(self, parsed: Parsed) -> bytes:
        """The body for a request: strictly one call after the other (docs/harmony.md section 1, fact 8)."""
        if parsed.batch and not parsed.calls:
            return EMPTY_BATCH + b"\n"
        if parsed.batch:
            self.counts.batches += 1
            self.counts.batch_items += len(parsed.calls)
        replies = [reply for call in parsed.calls if (reply := await self.brain.reply(call)) is not None]
        return joined(replies, batch=parsed.batch) + b"\n" if replies else b""

    # -- the knobs, over HTTP ---------------------------------------------------------------------------------------

    async def _control(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = (request.method, request.path.removeprefix("/simnode/"))
        try:
            changes: dict[str, Any] = msgspec.json.decode(await request.read() or b"{}", type=dict[str, Any])
            view = self._turn(asked, changes)
        except (ValueError, TypeError) as error:
            return plain(400, f"{error}\n")
        if view is None:
            return plain(404, "knobs, counts, advance, reorg\n")
        return web.Response(body=msgspec.json.encode(view) + b"\n", content_type="application/json")

    def _turn(self, asked: tuple[str, str], changes: dict[str, Any]) -> dict[str, Any] | None:
        match asked:
            case ("GET" | "POST", "knobs"):
                _within(changes, "branch", -1, len(self.chain.branches) - 1)
                self.knobs.turn(changes)
                return self.knobs.positions()
            case ("GET", "counts"):
                now = {"open_sockets": self.sockets.open, "open_subscriptions": self.sockets.subscriptions}
                return {"name": self.name, "head": self.head, **self.counts.view(), **now}
            case ("DELETE", "counts"):
                self.counts.reset()
            case ("POST", "advance"):
                return {"head": self.chain.advance(_within(changes, "blocks", 0, MAX_ADVANCE))}
            case ("POST", "reorg"):
                self.chain.reorg(_within(changes, "depth", 1, self.chain.head))
            case _:
                return None
        return {}


def _abort_all(server: web.Server) -> None:
    for connection in server.connections:
        if connection.transport is not None:
            connection.transport.abort()


def _within(changes: dict[str, Any], name: str, least: int, most: int) -> int:
    """The whole number that was sent under a name, or 1. Raises ValueError when it is out of bounds."""
    value = changes.get(name, 1)
    if name in changes and (type(value) is not int or not least <= value <= most):
        raise ValueError(f"{name}: expected a whole number of {least} to {most}")
    return int(value)
