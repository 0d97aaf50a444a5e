"""The load generator's HTTP client: connections to one target, each with one request at a time; and whether a reply is
a good answer, for which HTTP 200 is not enough (JSON-RPC 2.0, section 5).

The client speaks HTTP/1.1 over asyncio's bare protocols, which takes about 15 µs a call; aiohttp's client takes about
100, which would be measured along. Secrets of a target's URL are sent and never shown.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Self, cast
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Raw, Struct

from rpcaccel.config.secrets import NodeUrl
from rpcaccel.core.wire.http_reply import HttpReplyReader, MalformedReply, TooLong
from rpcaccel.core.wire.json_text import UNREADABLE


class LoadTarget(Struct, frozen=True):
    """One endpoint that calls are sent to."""

    host: str
    port: int
    tls: bool
    shown: str
    """Scheme, host and port: a path may hold a key."""
    head: bytes
    """A request up to the value of Content-Length."""
    keep: bool = True
    """Whether connections are kept for further calls; otherwise each call opens a connection, as `ab` does."""

    def request(self, body: bytes) -> bytes:
        """The bytes of a request."""
        return b"%b%d\r\n\r\n%b" % (self.head, len(body), body)

    @property
    def local(self) -> bool:
        """Whether the target is on this machine, by its address."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def parse(url: str, *, keep: bool = True) -> LoadTarget:
    """The target of a URL. Raises ValueError for a text that is no URL; the error holds no secret."""
    shown = NodeUrl(url).shown
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = port == (443 if tls else 80)
    name = f"[{host}]" if ":" in host else host
    lines = [f"POST {path} HTTP/1.1", f"Host: {name if usual else f'{name}:{port}'}", "Content-Type: application/json"]
    if not keep:
        lines.append("Connection: close")
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append(f"Authorization: Basic {b64encode(secret.encode()).decode()}")
    head = "\r\n".join((*lines, "Content-Length: ")).encode("latin-1")
    return LoadTarget(host, port, tls, shown, head, keep)


class LoadReply(Struct, frozen=True, gc=False):
    """One reply."""

    status: int
    body: bytes
    cache: str = ""
    """The value of X-Rpcaccel-Cache; empty where there is none."""
    keep: bool = True
    """Whether the connection may carry another request."""
    retry_after: str = ""
    """The value of Retry-After; empty where there is none, and with status 200."""


Outcome = LoadReply | str
"""A reply, or the kind of trouble: connect, closed, timeout, malformed."""
Done = Callable[[Outcome], None]

_LONGEST = 1 << 40
"""Bytes of a body: more than any reply has."""
_SWEEP = 0.05
"""Seconds between looks for requests whose time is over: no timer for each."""


class _Request(Struct):
    data: bytes
    done: Done
    deadline: float
    repeated: bool = False


class _Connection(asyncio.Protocol):
    """One connection of a pool."""

    __slots__ = ("_pool", "_reader", "request", "transport", "used")

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._reader = HttpReplyReader(_LONGEST)
        self.request: _Request | None = None
        self.transport: asyncio.Transport | None = None
        self.used = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass

    def send(self, request: _Request) -> None:
        assert self.transport is not None
        self.request = request
        self._reader = HttpReplyReader(_LONGEST)
        self.transport.write(request.data)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            if self.request is not None and not reader.feed(data):
                return
        except (MalformedReply, TooLong):
            self.end("malformed")
            return
        if self.request is None or reader.overrun:  # more bytes than the request's reply has are a fault
            self.end("malformed")
        else:
            self.end(_reply(reader))

    def connection_lost(self, _error: Exception | None) -> None:
        request, reader = self.request, self._reader
        if request is None:
            self.end("closed")
            return
        try:
            if reader.end():
                self.end(_reply(reader))
                return
        except MalformedReply:
            self.end("malformed")
            return
        # A server may close an idle connection just as a request comes: any client asks again on a new one.
        if not self.used or reader.begun or request.repeated:
            self.end("closed")
            return
        self.request, request.repeated = None, True
        self._pool.forget(self)
        self._pool.serve(request)

    def end(self, outcome: Outcome) -> None:
        """Settle the request, if there is one, and keep the connection where it can carry another."""
        request, self.request = self.request, None
        assert self.transport is not None
        self.used = True
        if isinstance(outcome, LoadReply) and outcome.keep and self._pool.target.keep:
            self._pool.idle.append(self)
        else:
            self._pool.forget(self)
            (self.transport.close if isinstance(outcome, LoadReply) else self.transport.abort)()
        if request is not None:
            request.done(outcome)
        self._pool.serve()


def _reply(reader: HttpReplyReader) -> LoadReply:
    pause = "" if reader.status == 200 else reader.header("retry-after")
    return LoadReply(reader.status, reader.body, reader.header("x-rpcaccel-cache"), reader.keep, pause)


class ConnectionPool:
    """At most `limit` connections to one target, opened as they are needed. Belongs to the running loop."""

    def __init__(self, target: LoadTarget, limit: int) -> None:
        self.target = target
        self.limit = limit
        self.opened = 0
        """Connections opened so far."""
        self._loop = asyncio.get_running_loop()
        self._context = (
            ssl.create_default_context() if target.tls else None
        )  # the context trusts the certificates that SSL_CERT_FILE names
        self.idle: list[_Connection] = []
        """Connections that can carry a request."""
        self._all: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: deque[_Request] = deque()
        self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    def __repr__(self) -> str:
        counts = f"{len(self._all)} open, {len(self.idle)} idle, {len(self._waiting)} waiting"
        return f"<ConnectionPool {self.target.shown} {counts}>"

    def send(self, body: bytes, timeout: float, done: Done) -> bool:
        """Send a body; `done` is called once with its outcome. Returns False when the body waits for a free
        connection."""
        self.serve(_Request(self.target.request(body), done, self._loop.time() + timeout))
        return len(self._waiting) <= len(self._opening)

    async def post(self, body: bytes, timeout: float) -> Outcome:
        """Send a body and wait for its outcome."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self.send(body, timeout, lambda outcome: None if future.done() else future.set_result(outcome))
        return await future

    async def warm(self, count: int) -> None:
        """Open connections beforehand, unless the target keeps none: a measurement begins without handshakes."""
        if not self.target.keep:
            return
        missing = min(count, self.limit) - len(self._all) - len(self._opening)
        await asyncio.gather(*(self._open() for _ in range(missing)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cut all connections; requests under way end as closed."""
        self._sweeper.cancel()
        self._waiting.clear()
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for connection in list(self._all):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # the transports are closed in the next turn of the loop

    # -- for the connections ------------------------------------------------------------------------------------------

    def serve(self, *requests: _Request) -> None:
        """Give free connections to the requests that wait, and open others where more may be."""
        self._waiting.extend(requests)
        while self._waiting and self.idle:
            connection = self.idle.pop()
            if connection.transport is not None and not connection.transport.is_closing():
                connection.send(self._waiting.popleft())
        while len(self._waiting) > len(self._opening) < self.limit - len(self._all):
            task = self._loop.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def forget(self, connection: _Connection) -> None:
        """Drop a connection that is gone or is being closed."""
        self._all.discard(connection)
        with suppress(ValueError):
            self.idle.remove(connection)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        self.serve()  # after a failure, requests may still wait for a connection

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(10.0):
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(self), self.target.host, self.target.port, ssl=self._context
                )
        except (OSError, TimeoutError, UnicodeError):  # UnicodeError: a name that no host can have (IDNA)
            if self._waiting:
                self._waiting.popleft().done("connect")
            return
        self.opened += 1
        self._all.add(connection)
        self.idle.append(connection)
        self.serve()

    def _sweep(self) -> None:
        now = self._loop.time()
        for connection in list(self._all):
            if connection.request is not None and connection.request.deadline <= now:
                connection.end("timeout")
        while self._waiting and self._waiting[0].deadline <= now:
            self._waiting.popleft().done("timeout")
        self._sweeper = self._loop.call_later(_SWEEP, self._sweep)


# -- judging ----------------------------------------------------------------------------------------------------------

GOOD = ""


class _Error(Struct):
    code: int = 0


class _Envelope(Struct, gc=False):
    id: Raw | msgspec.UnsetType = msgspec.UNSET
    result: Raw | msgspec.UnsetType = msgspec.UNSET
    error: Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Envelope).decode
_decode_error = msgspec.json.Decoder(_Error).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode


def verdict(outcome: Outcome, call_id: bytes) -> str:
    """GOOD, or the kind of failure in a word or two: timeout, closed, http 502, rpc -32000, wrong id, no json …"""
    if isinstance(outcome, str):
        return outcome
    try:
        envelope = _decode(outcome.body)
    except UNREADABLE:
        return "no json" if outcome.status == 200 else f"http {outcome.status}"
    return _judge(envelope, call_id, outcome.status)


def batch_verdict(outcome: Outcome, ids: list[bytes]) -> str:
    """The verdict on a batch, in which every call must have its answer."""
    if isinstance(outcome, str):
        return outcome
    try:
        members = [_decode(member) for member in _decode_batch(outcome.body)]
    except UNREADABLE:
        return "no json" if outcome.status == 200 else f"http {outcome.status}"
    by_id = {bytes(member.id): member for member in members if not isinstance(member.id, msgspec.UnsetType)}
    for call_id in ids:
        member = by_id.get(call_id)
        found = "wrong id" if member is None else _judge(member, call_id, outcome.status)
        if found:
            return found
    return GOOD if len(members) == len(ids) else "wrong count"


def result_of(outcome: Outcome) -> bytes | None:
    """The raw text of the result; None where there is none."""
    if isinstance(outcome, str):
        return None
    try:
        result = _decode(outcome.body).result
    except UNREADABLE:
        return None
    return None if isinstance(result, msgspec.UnsetType) else bytes(result)


def _judge(envelope: _Envelope, call_id: bytes, status: int) -> str:
    if not isinstance(envelope.error, msgspec.UnsetType):
        try:
            return f"rpc {_decode_error(envelope.error).code}"
        except UNREADABLE:
            return "rpc"
    if status != 200:
        return f"http {status}"
    if isinstance(envelope.result, msgspec.UnsetType):
        return "neither result nor error"
    if isinstance(envelope.id, msgspec.UnsetType) or bytes(envelope.id) != call_id:
        return "wrong id"
    return GOOD
