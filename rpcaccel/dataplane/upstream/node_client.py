"""One node over HTTP: calls go out as bytes, answers come back as raw JSON, and what fails comes back as a Failure.

Nothing is ever sent twice from here. A request needs no task: it is written on a connection that is held, and its reply
comes by a callback. A connection is held for IDLE_HOLD_SECONDS after a reply before aiohttp's pool has it back; only to
open a connection, or to take one out of the pool, takes a task.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import MappingProxyType

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.connector import Connection
from msgspec import Struct
from yarl import URL

from rpcaccel.config.model import NodeSettings
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.wire.http_reply import HttpReplyReader, MalformedReply, TooLong
from rpcaccel.dataplane.event_loop import OneATurn, in_turns
from rpcaccel.dataplane.upstream.connector import (
    ConnectionState,
    ConnectTrace,
    CountingConnector,
    NodeConnection,
)
from rpcaccel.dataplane.upstream.http_messages import (
    HttpReply,
    NodeCall,
    body_text,
    read_replies,
    read_usual,
    reply_steps,
    request_head,
    traced_head,
)
from rpcaccel.dataplane.upstream.node_failures import TROUBLE, NodeFailures
from rpcaccel.dataplane.upstream.pool import Deadlines, OnReply
from rpcaccel.dataplane.upstream.redaction import Secrecy

IDLE_HOLD_SECONDS = 0.5
"""Seconds for which an idle connection is held before the pool has it back."""
_clock = time.perf_counter
_DNS_SECONDS = 30
_EXACT = 86_400.0
"""aiohttp rounds timers longer than this many seconds up to whole ones; a deadline must be met, so none is longer."""
_TLS_LEAKS = sys.version_info < (3, 12, 7) or (3, 13) <= sys.version_info < (3, 13, 1)
"""Pythons on which closed TLS transports may stay open (python/cpython#118960) unless aiohttp aborts them."""
_ASSEMBLER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="assembler")
"""Puts long answers together, one at a time: several threads would keep the loop from its processor."""
_OK = 200
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Post(Struct, eq=False):
    """One HTTP request under way: it waits for a connection, and then for its reply."""

    client: HttpNodeClient
    calls: Sequence[NodeCall]
    """The calls that the request carries; none once it is over."""
    first: int
    """The id of the first call; the others have those that follow."""
    text: bytes
    timeout: float
    """Seconds from the beginning of the request to its end."""
    told: OnReply | None
    """None once called, or when the request was given up."""
    started: float
    connected: float = 0.0
    """When the request had a connection."""
    connection: NodeConnection | None = None
    """None as long as the request waits for a connection."""
    reused: bool = True
    """Was the connection used before?"""
    attempt: ConnectTrace | None = None
    """How far the opening of a connection came; None where one was there."""
    taker: asyncio.Task[None] | None = None
    """The task that opens a connection; None where one was there."""

    def __repr__(self) -> str:
        return f"<post {'asked' if self.connection else 'waiting'} for {_clock() - self.started:.3f} s>"

    def cancel(self) -> None:
        """Give the request up: its connection is closed, or not waited for."""
        self.client.leave(self)


class _Call(Struct):
    """A call whose reply a coroutine waits for."""

    method: str
    params: bytes
    reply: asyncio.Future[Answer | Failure]

    @staticmethod
    def told(calls: Sequence[_Call], replies: Sequence[Answer | Failure]) -> None:
        """Pass the reply on to the coroutine, if it still waits."""
        (call,), (reply,) = calls, replies
        if not call.reply.done():
            call.reply.set_result(reply)


class HttpNodeClient:
    """The requests to one node. Made inside a running loop; what becomes of a request is never an exception."""

    def __init__(
        self, settings: NodeSettings, cell: NodeCell | None = None, *, resolver: AbstractResolver | None = None
    ) -> None:
        """The client of the node with these settings; what it does is counted in `cell`, if there is one."""
        address = settings.url.reveal()
        url = URL(address, encoded="%" in address)  # what is encoded already is sent as it was written
        self.id = settings.id
        self.cell = NodeCell("", settings.id) if cell is None else cell
        self.shown = f"{url.scheme}://{url.host_port_subcomponent}"
        """Scheme, host and port: all of the address that may be shown."""
        self._request = aiohttp.ClientRequest("POST", url.with_user(None), loop=asyncio.get_running_loop())
        """Says where to connect to, and nothing else: what is written there begins with the head."""
        self._head = request_head(url, settings.headers)
        self._failures = NodeFailures(self.id, self.shown, Secrecy(url, settings.headers), settings.max_answer)
        self._connect_timeout = settings.connect_timeout
        self._max_answer = settings.max_answer
        self._limits = self._limits_of(settings.timeout)
        self._warm = min(settings.warm, settings.max_connections)
        self._next_id = 1
        self._closing = False
        self._connector = CountingConnector(
            self.cell,
            limit=settings.max_connections,
            keepalive_timeout=settings.keepalive - 2 * min(IDLE_HOLD_SECONDS, settings.keepalive / 4),
            ttl_dns_cache=_DNS_SECONDS,
            resolver=resolver,
            timeout_ceil_threshold=_EXACT,
            enable_cleanup_closed=_TLS_LEAKS,
        )
        self._under_way: Deadlines[Post] = Deadlines(self._too_late)
        self._waiting: dict[Post, None] = {}
        """Requests without a connection, in order."""
        self._takers: set[asyncio.Task[None]] = set()
        self._readers: set[asyncio.Task[None]] = set()
        """Tasks that read long replies."""
        self._idle: list[NodeConnection] = []
        """Connections that are held, the longest idle first."""
        self._turns = OneATurn()
        self._linger = min(
            IDLE_HOLD_SECONDS, settings.keepalive / 4
        )  # looked at as often: held twice as long at the most
        self._giving_back: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<HttpNodeClient {self.id} {self.shown} {len(self._under_way)} requests under way>"

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a connection."""
        return len(self._waiting)

    def post(self, calls: Sequence[NodeCall], timeout: float, told: OnReply, span: str = "") -> Post:
        """Send calls, at least one, as one HTTP request, and only once; `told` is called within `timeout` seconds.

        Args:
            span: what the node is told of the trace that the calls belong to (a traceparent); empty: nothing.
        """
        first, cell = self._next_id, self.cell
        self._next_id += len(calls)  # ids never repeat
        body = body_text(first, calls)
        if len(calls) > 1:
            cell.batches += 1
            cell.gathered += len(calls)
        head = traced_head(self._head, span) if span else self._head
        text = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        post = Post(self, calls, first, text, timeout, told, _clock())
        if self._closing or timeout <= 0:
            kind = FailureKind.BUSY if self._closing else FailureKind.TIMEOUT
            why = "the node is being taken out of use" if self._closing else "no time was left to ask the node"
            asyncio.get_running_loop().call_soon(self._settle, post, self._failures.make(kind, why, sent=False))
            return post
        while self._idle:
            if self._ask(post, self._idle.pop()):
                cell.reused += 1
                return post
        post.attempt = ConnectTrace(cell)
        self._waiting[post] = None
        post.taker = asyncio.get_running_loop().create_task(self._take(post, post.attempt))
        self._takers.add(post.taker)
        post.taker.add_done_callback(self._takers.discard)
        return post

    async def send(self, method: str, params: bytes, *, timeout: float, span: str = "") -> Answer | Failure:
        """Send one call and wait for its reply; `params` is raw JSON. Raises nothing but its caller's cancellation."""
        call = _Call(method, params, asyncio.get_running_loop().create_future())
        post = self.post((call,), timeout, _Call.told, span)
        try:
            return await call.reply
        except asyncio.CancelledError:
            post.cancel()
            raise

    async def warm(self, count: int | None = None) -> int:
        """Open connections (as many as the settings say if None) without sending a byte; returns how many came up."""
        wanted = self._warm if count is None else count
        if self._closing or wanted <= 0:
            return 0
        opened: list[Connection] = []
        try:
            await asyncio.gather(*(self._open(opened) for _ in range(wanted)))
        finally:  # also when the wait was cancelled: what is open by then goes to the pool, which closes it
            for connection in opened:
                connection.release()
        return len(opened)

    async def close(self, grace: float = 0.0) -> None:
        """Close every socket after `grace` seconds, or when cancelled. Until then calls are sent: those that began
        under earlier settings may still come, after they waited for room, for a batch or for the second tier."""
        try:
            await asyncio.sleep(grace)
        finally:
            self._closing = True
            for post in [*self._under_way]:  # what is not finished is cut off: a failure for its own caller
                self._break_off(post, ConnectionAbortedError())
            for post in [*self._waiting]:
                sent = post.attempt is not None and post.attempt.phase == "sent"
                self._settle(post, self._failures.make(FailureKind.BUSY, "the node was taken out of use", sent=sent))
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            if self._giving_back is not None:
                self._giving_back.cancel()
            for taker in self._takers:
                taker.cancel()
            await self._connector.close()
            await asyncio.gather(*self._takers, *self._readers, return_exceptions=True)

    async def _open(self, opened: list[Connection]) -> None:
        with suppress(*TROUBLE):  # the first call meets the same trouble and tells it
            opened.append(await self._connector.take(self._request, ConnectTrace(self.cell), self._limits))

    def leave(self, post: Post) -> None:
        """Give a request up."""
        post.told = None
        attempt, taker = post.attempt, post.taker
        # A taker in the pool's queue may have been woken already, and aiohttp wakes no other in its place.
        if taker is not None and attempt is not None and attempt.phase != "queued":
            taker.cancel()
        if post.connection is not None:
            post.connection.close()
        self._settle(post, None)

    # -- a request ------------------------------------------------------------------------------------------------

    async def _take(self, post: Post, attempt: ConnectTrace) -> None:
        """Take a connection out of the pool for a request, or for whichever request waits by then."""
        limits = self._limits if post.timeout == self._limits.total else self._limits_of(post.timeout)
        try:
            taken = await self._connector.take(self._request, attempt, limits)
            connection = NodeConnection(taken, self, self._max_answer, self._turns, reused=attempt.reused)
        except TROUBLE as error:
            error.__traceback__ = None  # knows the frames that hold the request, and one of them knows the error
            if post in self._waiting:
                self._settle(post, self._failures.translated(error, attempt, limits))
            return
        except Exception as error:  # or the request would wait for ever
            if post in self._waiting:
                self._settle(post, self._failures.unforeseen(error))
            return
        post.taker = None
        if post in self._waiting:
            post.reused = attempt.reused
            if self._ask(post, connection):
                del self._waiting[post]
            else:
                self._settle(post, self._failures.unanswered(reused=attempt.reused))
        elif self._closing:
            connection.close()
        elif not self._serve_waiting(connection):
            connection.give_back()

    def _ask(self, post: Post, connection: NodeConnection) -> bool:
        """Write a request; False when the connection has ended."""
        if not connection.ask(post.text, post):
            return False
        post.connection, post.connected = connection, _clock()
        self.cell.connections_idle -= 1
        self._under_way.add(post, post.timeout - (post.connected - post.started))
        return True

    def replied(self, connection: NodeConnection, post: Post, reply: HttpReplyReader) -> None:
        """Take the whole reply to a request. Its connection serves the next one before the reply is looked at."""
        done, cell, status = _clock(), self.cell, reply.status
        headed = connection.headed or done
        cell.wait_seconds += headed - post.connected
        cell.read_seconds += done - headed
        cell.connections_idle += 1
        post.connection = None
        self._under_way.pop(post, None)
        if connection.state is ConnectionState.IDLE and not (self._waiting and self._serve_waiting(connection)):
            connection.idle_since = done
            self._idle.append(connection)
            if self._giving_back is None:
                self._giving_back = asyncio.get_running_loop().call_later(self._linger, self._give_back)
        told, calls, post.told, post.calls = post.told, post.calls, None, ()
        if told is None:
            return
        replies: list[Answer | Failure]
        if status == _OK and len(calls) == 1 and not reply.in_pieces:
            usual = read_usual(reply.body, post.first, done - post.started)
            if usual is not None:
                told(calls, (usual,))
                return
        try:
            ok = 200 <= status < 300
            headers = _NO_HEADERS if ok else {name: reply.header(name.lower()) for name in ("Retry-After", "Date")}
            whole = HttpReply(status, headers, reply.body, done - post.started)
            replies = [] if reply.in_pieces else read_replies(whole, post.first, len(calls))
            for at, answer in enumerate(replies):
                if status != _OK or isinstance(answer, Failure) or answer.error is not None:
                    replies[at] = self._failures.weighed(whole, answer)
        except RecursionError:
            replies = []
        except Exception as error:  # or the calls would wait for ever
            replies = [self._failures.unforeseen(error)] * len(calls)
        if replies:
            told(calls, replies)
            return
        reading = asyncio.get_running_loop().create_task(self._read_in_turns(whole, reply, post, told, calls))
        self._readers.add(reading)
        reading.add_done_callback(self._readers.discard)

    async def _read_in_turns(
        self, whole: HttpReply, reply: HttpReplyReader, post: Post, told: OnReply, calls: Sequence[NodeCall]
    ) -> None:
        """Read a reply that is long or nests deeply. No timer limits this: all of the reply is there."""
        try:
            if reply.in_pieces:
                await asyncio.get_running_loop().run_in_executor(_ASSEMBLER, reply.assemble)
                whole.body = reply.body
            replies = await in_turns(reply_steps(whole, post.first, len(calls)))
            replies = [self._failures.weighed(whole, answer) for answer in replies]
        except (MalformedReply, TooLong) as trouble:
            replies = [self._failures.broken(reply, trouble, post.timeout, reused=post.reused)] * len(calls)
        except Exception as error:  # or the calls would wait for ever
            replies = [self._failures.unforeseen(error)] * len(calls)
        told(calls, replies)

    def broke(self, _connection: NodeConnection, post: Post, reply: HttpReplyReader, trouble: Exception) -> None:
        """Take note that no reply to a request will come."""
        self._settle(post, self._failures.broken(reply, trouble, post.timeout, reused=post.reused))

    def _too_late(self, post: Post) -> None:
        self._break_off(post, TimeoutError())

    def _break_off(self, post: Post, trouble: Exception) -> None:
        connection = post.connection
        assert connection is not None
        reply = connection.reply
        connection.close()
        self._settle(post, self._failures.broken(reply, trouble, post.timeout, reused=post.reused))

    def _settle(self, post: Post, failure: Failure | None) -> None:
        """End a request without a reply; None: the request was given up."""
        self._waiting.pop(post, None)
        if post.connection is not None:
            post.connection = None
            self.cell.connections_idle += 1
            self._under_way.pop(post, None)
        told, calls, post.told, post.calls = post.told, post.calls, None, ()
        if told is not None and failure is not None:
            told(calls, [failure] * len(calls))

    def _serve_waiting(self, connection: NodeConnection) -> bool:
        """Give an idle connection to the request that has waited longest; False when none waits or it has ended."""
        for post in self._waiting:
            if not self._ask(post, connection):
                return False
            del self._waiting[post]  # a connection that is opened for it goes to whichever request waits by then
            self.cell.reused += 1
            return True
        return False

    def _give_back(self) -> None:
        """Let the pool have the connections that have been idle for long."""
        self._giving_back = None
        due = _clock() - self._linger
        kept = []
        for connection in self._idle:
            if not connection.usable:
                continue
            if connection.idle_since <= due:
                connection.give_back()
            else:
                kept.append(connection)
        self._idle = kept
        if kept:
            self._giving_back = asyncio.get_running_loop().call_later(self._linger, self._give_back)

    def _limits_of(self, timeout: float) -> aiohttp.ClientTimeout:
        connect = min(self._connect_timeout, timeout)
        return aiohttp.ClientTimeout(total=timeout, connect=connect, ceil_threshold=_EXACT)
