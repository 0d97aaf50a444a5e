"""One node over HTTP: calls out as bytes, answers back as raw JSON, and every way in which that fails as a value.

The only file that knows aiohttp's client errors: foreign exceptions are translated here, once. Nothing is ever sent
twice from here. A request needs no task: it is written on a connection that is held, and its reply is told by a
callback. A connection is held for LINGER seconds after a reply before aiohttp's pool has it back, and only the opening
of one, or taking it out of the pool, is a task.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.connector import Connection
from msgspec.structs import replace
from yarl import URL

from rpcaccel.config.value_types import format_size
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.wire.http_reply import RATIO, HttpReplyReader, MalformedReply, TooLong
from rpcaccel.dataplane.upstream.connector import ConnectTrace, Counters, CountingConnector, NodeConnection
from rpcaccel.dataplane.upstream.http_messages import (
    Endpoint,
    HttpReply,
    call_text,
    post_text,
    read_batch,
    read_reply,
    request_head,
    weigh,
)
from rpcaccel.dataplane.upstream.pool import Deadlines
from rpcaccel.dataplane.upstream.redaction import Secrecy

LINGER = 0.5
"""Seconds for which an idle connection is held before the pool has it back."""
_clock = time.perf_counter
_DNS_SECONDS = 30
_EXACT = 86_400.0
"""aiohttp rounds timers longer than this many seconds up to whole ones; a deadline must be met, so none is longer."""
_TLS_LEAKS = sys.version_info < (3, 12, 7) or (3, 13) <= sys.version_info < (3, 13, 1)
"""Pythons on which closed TLS transports may stay open (python/cpython#118960) unless aiohttp aborts them."""
_TROUBLE = (aiohttp.ClientError, OSError, UnicodeError)
"""What taking a connection raises; UnicodeError comes from the IDNA encoding of a name that is none."""
_BEFORE_SENDING = {
    "start": (FailureKind.CONNECT, "no connection to"),
    "queued": (FailureKind.BUSY, "no free connection to"),
    "dns": (FailureKind.DNS, "no address for the name in"),
    "connect": (FailureKind.CONNECT, "no connection to"),
}
"""By phase: what trouble means as long as there was no socket, so that nothing was sent."""
_OK = 200
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
Told = Callable[[HttpReply | Failure], None]
Done = Callable[[Answer | Failure], None]
"""Told the reply to a call, once and not before the call that asked has returned. Must not raise."""
BatchDone = Callable[[list[Answer | Failure]], None]


class Post:
    """One HTTP request under way: it waits for a connection, and then for its reply."""

    __slots__ = ("_client", "attempt", "connected", "connection", "reused", "started", "taker", "text", "timeout",
                 "told")  # fmt: skip

    def __init__(self, client: HttpNodeClient, text: bytes, timeout: float, told: Told) -> None:
        self._client = client
        self.text = text
        self.timeout = timeout
        """Seconds from its beginning to its end."""
        self.told: Told | None = told
        """None once it was told, or nobody wants the reply."""
        self.started = self.connected = _clock()
        self.connection: NodeConnection | None = None
        """None as long as it waits for one."""
        self.reused = True
        """Was the connection used before?"""
        self.attempt: ConnectTrace | None = None
        self.taker: asyncio.Task[None] | None = None
        """How far the opening of a connection came, and what opens it; None where one was there."""

    def __repr__(self) -> str:
        return f"<post {'asked' if self.connection else 'waiting'} for {_clock() - self.started:.3f} s>"

    def cancel(self) -> None:
        """Nobody wants the reply any more: the connection is closed, or not waited for."""
        self._client.leave(self)


class HttpNodeClient:
    """Calls to one node. Made inside a running loop; what `call` and `batch` are told is never an exception."""

    def __init__(
        self, settings: Endpoint, *, counters: Counters | None = None, resolver: AbstractResolver | None = None
    ) -> None:
        address = settings.url.reveal()
        url = URL(address, encoded="%" in address)  # what is encoded already is sent as it was written
        self.id = settings.id
        self.counters = Counters() if counters is None else counters
        self.shown = f"{url.scheme}://{url.host_port_subcomponent}"
        """Scheme, host and port: all of the address that may be shown."""
        self._request = aiohttp.ClientRequest("POST", url.with_user(None), loop=asyncio.get_running_loop())
        """Says where to connect to, and nothing else: what is written there begins with the head."""
        self._head = request_head(url, settings.headers)
        self._secrecy = Secrecy(url, settings.headers)
        self._connect_timeout = settings.connect_timeout
        self._max_answer = settings.max_answer
        self._limits = self._limits_of(settings.timeout)
        self._warm = min(settings.warm, settings.max_connections)
        self._ids = itertools.count(1)
        self._closing = False
        self._connector = CountingConnector(
            self.counters,
            limit=settings.max_connections,
            keepalive_timeout=settings.keepalive - 2 * min(LINGER, settings.keepalive / 4),
            ttl_dns_cache=_DNS_SECONDS,
            resolver=resolver,
            timeout_ceil_threshold=_EXACT,
            enable_cleanup_closed=_TLS_LEAKS,
        )
        self._under_way: Deadlines[Post] = Deadlines(self._too_late)
        self._waiting: dict[Post, None] = {}
        """Requests without a connection, in order."""
        self._takers: set[asyncio.Task[None]] = set()
        self._idle: list[NodeConnection] = []
        """Connections that are held, the longest idle first."""
        self._linger = min(LINGER, settings.keepalive / 4)  # looked at as often: held twice as long at the most
        self._giving_back: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<HttpNodeClient {self.id} {self.shown} {self.counters.in_use} in use, {self.counters.idle} idle>"

    def call(
        self, method: str, params: bytes, *, timeout: float, done: Done, span: str = "", id: int | None = None
    ) -> Post:
        """One call, sent once at the most; within `timeout` seconds `done` is told. `params` is raw JSON.

        Args:
            span: what the node is told of the trace that the call belongs to (a traceparent); empty: nothing.
        """
        number = next(self._ids) if id is None else id
        return self._post(call_text(number, method, params), timeout, partial(self._read_one, done, number), span)

    def batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float, done: BatchDone) -> Post:
        """Several (method, params), at least one, as one HTTP request, matched by id; `done` is told the replies in
        the order of `calls`."""
        numbers = [next(self._ids) for _ in calls]
        self.counters.batches += 1
        self.counters.gathered += len(calls)
        texts = [call_text(number, *call) for number, call in zip(numbers, calls, strict=True)]
        body = b"[" + b",".join(texts) + b"]"
        return self._post(body, timeout, partial(self._read_all, done, numbers), "")

    async def send(
        self, method: str, params: bytes, *, timeout: float, span: str = "", id: int | None = None
    ) -> Answer | Failure:
        """One call, waited for. Raises nothing but its caller's cancellation."""
        reply: asyncio.Future[Answer | Failure] = asyncio.get_running_loop().create_future()
        post = self.call(method, params, timeout=timeout, done=partial(_set, reply), span=span, id=id)
        return await _landed(reply, post)

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        """A batch, waited for."""
        if not calls:
            return []
        replies: asyncio.Future[list[Answer | Failure]] = asyncio.get_running_loop().create_future()
        return await _landed(replies, self.batch(calls, timeout=timeout, done=partial(_set, replies)))

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
        """Close every socket after `grace` seconds, or when cancelled. Until then calls are taken: those that began
        under the settings of before may still come, from where they wait for room, company or the second tier."""
        try:
            await asyncio.sleep(grace)
        finally:
            self._closing = True
            for post in [*self._under_way]:  # what is not finished is cut off: a failure for its own caller
                self._break_off(post, ConnectionAbortedError())
            for post in [*self._waiting]:
                sent = post.attempt is not None and post.attempt.phase == "sent"
                self._settle(post, self._failure(FailureKind.BUSY, "the node was taken out of use", sent=sent))
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            if self._giving_back is not None:
                self._giving_back.cancel()
            for taker in self._takers:
                taker.cancel()
            await self._connector.close()
            await asyncio.gather(*self._takers, return_exceptions=True)

    async def _open(self, opened: list[Connection]) -> None:
        with suppress(*_TROUBLE):  # the first call meets the same trouble and tells it
            opened.append(await self._connector.take(self._request, ConnectTrace(self.counters), self._limits))

    def leave(self, post: Post) -> None:
        """Nobody wants the reply of a request any more."""
        post.told = None
        attempt, taker = post.attempt, post.taker
        # A taker in the pool's queue may have been woken already, and aiohttp wakes no other in its place.
        if taker is not None and attempt is not None and attempt.phase != "queued":
            taker.cancel()
        if post.connection is not None:
            post.connection.close()
        self._settle(post, None)

    # -- a request ------------------------------------------------------------------------------------------------

    def _post(self, body: bytes, timeout: float, told: Told, span: str) -> Post:
        """One HTTP request, its reply read to its end."""
        self.counters.requests += 1
        self.counters.bytes_out += len(body)
        post = Post(self, post_text(self._head, body, span), timeout, told)
        loop = asyncio.get_running_loop()
        if self._closing:
            failure = self._failure(FailureKind.BUSY, "the node is being taken out of use", sent=False)
            loop.call_soon(self._settle, post, failure)
        elif timeout <= 0:
            failure = self._failure(FailureKind.TIMEOUT, "no time was left to ask the node", sent=False)
            loop.call_soon(self._settle, post, failure)
        elif (connection := self._held()) is not None:
            self.counters.reused += 1
            self._ask(post, connection)
        else:
            post.attempt = ConnectTrace(self.counters)
            self._waiting[post] = None
            post.taker = loop.create_task(self._take(post, post.attempt))
            self._takers.add(post.taker)
            post.taker.add_done_callback(self._takers.discard)
        return post

    def _held(self) -> NodeConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _take(self, post: Post, attempt: ConnectTrace) -> None:
        """Take a connection out of the pool for a request, or for whichever waits by then."""
        limits = self._limits if post.timeout == self._limits.total else self._limits_of(post.timeout)
        try:
            taken = await self._connector.take(self._request, attempt, limits)
            connection = NodeConnection(taken, self, self._max_answer, reused=attempt.reused)
        except _TROUBLE as error:
            error.__traceback__ = None  # knows the frames that hold the request, and one of them knows the error
            if post in self._waiting:
                self._settle(post, self._translate(error, attempt, limits))
            return
        except Exception as error:  # or the request would wait for ever
            if post in self._waiting:
                self._settle(post, self._unforeseen(error))
            return
        post.taker = None
        if post in self._waiting:
            post.reused = attempt.reused
            self._ask(post, connection)
        elif self._closing:
            connection.close()
        else:
            self._free(connection)

    def _ask(self, post: Post, connection: NodeConnection) -> None:
        self._waiting.pop(post, None)
        post.connection, post.connected = connection, _clock()
        self.counters.in_use += 1
        self._under_way.add(post, post.timeout - (post.connected - post.started))
        connection.ask(post.text, post)

    def replied(self, connection: NodeConnection, asked: Post, reply: HttpReplyReader) -> None:
        """The whole reply to a request came."""
        done = _clock()
        self.counters.count_reply(asked.connected, connection.headed or done, done, len(reply.body))
        if connection.usable:
            self._free(connection)
        ok = 200 <= reply.status < 300
        headers = _NO_HEADERS if ok else {name: reply.header(name.lower()) for name in ("Retry-After", "Date")}
        self._settle(asked, HttpReply(reply.status, headers, reply.body, done - asked.started))

    def broke(self, _connection: NodeConnection, asked: Post, reply: HttpReplyReader, trouble: Exception) -> None:
        """No reply to a request will come."""
        self._settle(asked, self._broken(asked, reply, trouble))

    def _too_late(self, post: Post) -> None:
        self._break_off(post, TimeoutError())

    def _break_off(self, post: Post, trouble: Exception) -> None:
        connection = post.connection
        assert connection is not None
        reply = connection.reply
        connection.close()
        self._settle(post, self._broken(post, reply, trouble))

    def _settle(self, post: Post, what: HttpReply | Failure | None) -> None:
        """The request is over."""
        self._waiting.pop(post, None)
        if post.connection is not None:
            post.connection = None
            self.counters.in_use -= 1
            self._under_way.drop(post)
        told, post.told = post.told, None
        if told is not None and what is not None:
            told(what)

    def _free(self, connection: NodeConnection) -> None:
        """A connection is idle: whichever request has waited longest has it."""
        for post in self._waiting:
            if post.attempt is not None:  # what was taken for it goes to whichever request waits by then
                post.attempt.served_otherwise()
            self.counters.reused += 1
            self._ask(post, connection)
            return
        connection.idle_since = _clock()
        self._idle.append(connection)
        if self._giving_back is None:
            self._giving_back = asyncio.get_running_loop().call_later(self._linger, self._give_back)

    def _give_back(self) -> None:
        """The pool may have what has been idle for long."""
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

    # -- replies --------------------------------------------------------------------------------------------------

    def _read_one(self, done: Done, number: int, reply: HttpReply | Failure) -> None:
        answer: Answer | Failure
        try:
            if isinstance(reply, Failure):
                answer = reply
            else:
                answer = read_reply(reply, number)
                if reply.status != _OK or isinstance(answer, Failure) or answer.error is not None:
                    answer = self._weighed(reply, answer)
        except Exception as error:  # or whoever waits would wait for ever
            answer = self._unforeseen(error)
        done(answer)

    def _read_all(self, done: BatchDone, numbers: list[int], reply: HttpReply | Failure) -> None:
        answers: list[Answer | Failure]
        try:
            if isinstance(reply, Failure):
                answers = [reply for _ in numbers]
            else:
                answers = read_batch(reply, numbers)
                for at, answer in enumerate(answers):
                    if reply.status != _OK or isinstance(answer, Failure) or answer.error is not None:
                        answers[at] = self._weighed(reply, answer)
        except Exception as error:
            answers = [self._unforeseen(error) for _ in numbers]
        done(answers)

    # -- failures -------------------------------------------------------------------------------------------------

    def _unforeseen(self, error: Exception) -> Failure:
        return self._failure(FailureKind.UNKNOWN, f"the call failed in an unforeseen way: {type(error).__name__}")

    def _broken(self, post: Post, reply: HttpReplyReader, trouble: Exception) -> Failure:
        """What it means that a request was written and no whole reply came."""
        if isinstance(trouble, TimeoutError):
            what = "only a part of the answer came" if reply.status else "no answer"
            return self._failure(FailureKind.TIMEOUT, f"{what} within {post.timeout:g} s")
        if isinstance(trouble, TooLong):
            packed, bound = f"packed so that each byte makes more than {RATIO}", format_size(self._max_answer)
            why = packed if trouble.packed else f"longer than {bound}"
            return self._failure(FailureKind.OVERSIZED, f"the node's answer is {why}: it was cut off")
        if isinstance(trouble, MalformedReply):
            return self._failure(FailureKind.BROKEN_REPLY, "what the node answered is not HTTP")
        if reply.status:
            return self._failure(FailureKind.BROKEN_REPLY, "the connection broke off in the middle of the answer")
        if reply.begun:
            return self._failure(FailureKind.BROKEN_REPLY, "the connection broke off in the headers of the answer")
        return self._unanswered(reused=post.reused)

    def _unanswered(self, *, reused: bool) -> Failure:
        if reused:
            return self._failure(FailureKind.RESET_BEFORE_REPLY, "the node had closed a connection it kept open for us")
        return self._failure(FailureKind.BROKEN_REPLY, "the node closed a new connection without an answer")

    def _translate(self, error: Exception, attempt: ConnectTrace, limits: aiohttp.ClientTimeout) -> Failure:
        """The one place where an exception of aiohttp becomes a Failure."""
        if attempt.phase in _BEFORE_SENDING:
            return self._translate_unsent(error, attempt.phase, limits)
        return self._unanswered(reused=attempt.reused)

    def _translate_unsent(self, error: Exception, phase: str, limits: aiohttp.ClientTimeout) -> Failure:
        kind, text = _BEFORE_SENDING[phase]
        if isinstance(error, TimeoutError):
            seconds = min(limits.connect or 0.0, limits.total or 0.0)
            return self._failure(kind, f"{text} {self.shown} within {seconds:g} s", sent=False)
        if isinstance(error, aiohttp.ClientConnectorDNSError | UnicodeError):
            return self._failure(FailureKind.DNS, f"no address for the name in {self.shown}", sent=False)
        if isinstance(error, aiohttp.ClientSSLError):
            why = getattr(error.__cause__, "verify_message", None) or getattr(error.__cause__, "reason", None)
            return self._failure(FailureKind.TLS, f"no TLS with {self.shown}: {why or 'handshake failed'}", sent=False)
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        return self._failure(FailureKind.CONNECT, f"no connection to {self.shown}: {_system_words(cause)}", sent=False)

    def _failure(self, kind: FailureKind, text: str, *, sent: bool = True) -> Failure:
        return Failure(kind, text, sent=sent, node=self.id)

    def _weighed(self, reply: HttpReply, answer: Answer | Failure) -> Answer | Failure:
        """What the body says, seen together with the HTTP status; a failure names the node, and what its text or a
        node's error may have echoed is hidden."""
        answer = weigh(reply, answer)
        if answer.error is not None:
            answer = replace(answer, error=self._secrecy.error(answer.error))
        if isinstance(answer, Answer):
            return answer
        return replace(answer, text=self._secrecy.text(answer.text), node=self.id)

    def _limits_of(self, timeout: float) -> aiohttp.ClientTimeout:
        connect = min(self._connect_timeout, timeout)
        return aiohttp.ClientTimeout(total=timeout, connect=connect, ceil_threshold=_EXACT)


T = TypeVar("T")


def _set(future: asyncio.Future[T], reply: T) -> None:
    if not future.done():
        future.set_result(reply)


async def _landed(future: asyncio.Future[T], post: Post) -> T:
    """What comes of a request; it is broken off when its caller leaves."""
    try:
        return await future
    except asyncio.CancelledError:
        post.cancel()
        raise


def _system_words(cause: BaseException) -> str:
    """Why a socket could not be opened; the event loop's own text holds the address once more."""
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return getattr(cause, "strerror", None) or type(cause).__name__
