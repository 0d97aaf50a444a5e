"""One node over HTTP: calls out as bytes, answers back as raw JSON, and every way in which that fails as a value.

The only file that knows aiohttp's client errors: foreign exceptions are translated here, once. Nothing is ever sent
twice from here: aiohttp repeats idempotent HTTP methods only, and a call is a POST.

One request and its reply on a connection of aiohttp's pool, without what its session makes for each: a request, a
response, cookies, a task for the body, a timer. That is most of the time a lone call takes.

aiohttp still pools and opens connections, and reads replies: its parser, its limits, unpacking and back-pressure. Of
what it does not document, this relies on `Connection.protocol`: `set_response_params` readies it for a reply,
`len` is the replies nobody has read, `read` gives the next one's head and body or raises, `set_exception` makes it
raise, and `Connection.release` keeps no connection on which anything is left (`should_close`). The tests hold each.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import aiohttp
from aiohttp import StreamReader
from aiohttp.abc import AbstractResolver
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from msgspec.structs import replace
from yarl import URL

from rpcaccel.config.value_types import format_size
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.connector import Attempt, Counters, CountingConnector
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
from rpcaccel.dataplane.upstream.trace_context import FORWARDED

RATIO = 200
"""Bytes that one byte of a packed body may unpack to. gzip can make 1,000 of one; the most repetitive of honest answers
are traces that show a contract's memory at each step."""
UNPACKED_FREELY = 32 << 20
"""Bytes up to which a body may unpack at any ratio."""
_MOST_INTERIM = 32
_SWITCHING_PROTOCOLS = 101
_FINAL = 200


class TooLongError(Exception):
    """A reply is longer than it may be; the text says how long that is."""


class Exchange:
    """What goes out and comes back once. Whoever has taken the connection makes it before the next await, and ends it
    by `finish` or `break_off` in any case; both are synchronous."""

    __slots__ = ("_body", "_connection", "_trouble")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._body: StreamReader | None = None
        self._trouble: Exception | None = None

    def __repr__(self) -> str:
        return f"<Exchange on {self._connection}>"

    async def ask(self, request: bytes) -> RawResponseMessage:
        """Write a request, head and body; returns the reply's head, whatever came before it passed over (1xx, RFC 9110
        section 15.2). Raises what the connection met, what `fail` was told, and HttpProcessingError for a reply that
        does not begin."""
        protocol, transport = self._connection.protocol, self._connection.transport
        if protocol is None or transport is None or len(protocol):  # gone, or it spoke without having been asked
            raise ConnectionResetError
        protocol.set_response_params(read_until_eof=True)
        transport.write(request)
        for _ in range(_MOST_INTERIM):
            message, self._body = await protocol.read()
            if self._trouble is not None:
                raise self._trouble
            if message.code >= _FINAL or message.code == _SWITCHING_PROTOCOLS:
                return message
        raise HttpProcessingError(message="interim replies without an end")

    async def read(self, most: int) -> bytes:
        """The body to its end, unpacked. Raises TooLongError for one of more than `most` bytes, or packed too well.

        The body is read as it comes, and not by the reader's own `read`, which takes in whatever comes and switches off
        aiohttp's bound of what is unpacked at once.
        """
        body = self._body
        if body is None:
            return b""
        if body.is_eof():  # all of it is in the reader's buffer, which is much smaller than any bound
            return body.read_nowait()
        pieces: list[bytes] = []
        size = 0
        while piece := await body.readany():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise TooLongError(f"longer than {format_size(most)}")
            if size > UNPACKED_FREELY and size > RATIO * body.total_raw_bytes:
                raise TooLongError(f"packed so that each byte makes more than {RATIO}")
        return b"".join(pieces)

    def fail(self, trouble: Exception) -> None:
        """Whoever waits for the reply, or will, meets this trouble: its time is over, or the node was taken away."""
        self._trouble = trouble
        if (protocol := self._connection.protocol) is not None:
            protocol.set_exception(trouble)
        if self._body is not None:
            self._body.set_exception(trouble)

    def finish(self) -> None:
        """The reply was read: the connection goes back to the pool, unless it is of no more use."""
        transport = self._connection.transport
        if transport is not None and transport.get_write_buffer_size():  # answered before it was asked to the end
            self.break_off()
        else:
            self._connection.release()

    def break_off(self) -> None:
        """Close the connection. What was not sent by then is not sent, since nobody waits for its answer: TLS does not
        tell how much that is."""
        if (transport := self._connection.transport) is not None:
            transport.abort()
        self._connection.close()
        self._body = self._trouble = None  # an exception knows the frames it went through, and they know this


_clock = time.perf_counter
_DNS_SECONDS = 30
_EXACT = 86_400.0
"""aiohttp rounds timers longer than this many seconds up to whole ones; a deadline must be met, so none is longer."""
_TLS_LEAKS = sys.version_info < (3, 12, 7) or (3, 13) <= sys.version_info < (3, 13, 1)
"""Pythons on which closed TLS transports may stay open (python/cpython#118960) unless aiohttp aborts them."""
_TROUBLE = (aiohttp.ClientError, HttpProcessingError, OSError, UnicodeError, TooLongError)
"""What aiohttp raises, and Exchange; UnicodeError comes from the IDNA encoding of a name that is none."""
_BEFORE_SENDING = {
    "start": (FailureKind.CONNECT, "no connection to"),
    "queued": (FailureKind.BUSY, "no free connection to"),
    "dns": (FailureKind.DNS, "no address for the name in"),
    "connect": (FailureKind.CONNECT, "no connection to"),
}
"""By phase: what trouble means as long as there was no socket, so that nothing was sent."""


class HttpNodeClient:
    """The session of one node. Made inside a running loop; `send` raises nothing but its caller's cancellation."""

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
            keepalive_timeout=settings.keepalive,
            ttl_dns_cache=_DNS_SECONDS,
            resolver=resolver,
            timeout_ceil_threshold=_EXACT,
            enable_cleanup_closed=_TLS_LEAKS,
        )
        self._under_way: Deadlines[Exchange] = Deadlines(_too_late)

    def __repr__(self) -> str:
        return f"<HttpNodeClient {self.id} {self.shown} {self.counters.in_use} in use, {self.counters.idle} idle>"

    async def send(self, method: str, params: bytes, *, timeout: float, id: int | None = None) -> Answer | Failure:
        """One call, sent once at the most. `params` is raw JSON; within `timeout` seconds there is a value."""
        number = next(self._ids) if id is None else id
        reply = await self._post(call_text(number, method, params), timeout)
        if isinstance(reply, Failure):
            return reply
        return self._finish(weigh(reply, read_reply(reply, number)))

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        """Several (method, params) as one HTTP request, matched by id; the list has the order of `calls`."""
        if not calls:
            return []
        numbers = [next(self._ids) for _ in calls]
        self.counters.batches += 1
        self.counters.gathered += len(calls)
        texts = [call_text(number, *call) for number, call in zip(numbers, calls, strict=True)]
        reply = await self._post(b"[" + b",".join(texts) + b"]", timeout)
        if isinstance(reply, Failure):
            return [reply for _ in calls]
        return [self._finish(weigh(reply, answer)) for answer in read_batch(reply, numbers)]

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
            for exchange in [*self._under_way]:  # what is not finished is cut off: a failure for its own caller
                exchange.fail(ConnectionAbortedError())
            await self._connector.close()

    async def _open(self, opened: list[Connection]) -> None:
        with suppress(*_TROUBLE):  # the first call meets the same trouble and tells it
            opened.append(await self._connector.take(self._request, Attempt(self.counters), self._limits))

    async def _post(self, body: bytes, timeout: float) -> HttpReply | Failure:
        """One HTTP request, read to its end."""
        if (refusal := self._refusal(timeout)) is not None:
            return refusal
        attempt = Attempt(self.counters)
        limits = self._limits if timeout == self._limits.total else self._limits_of(timeout)
        try:
            return await self._exchange(post_text(self._head, body, FORWARDED.get()), attempt, limits, timeout)
        except _TROUBLE as error:
            error.__traceback__ = None  # knows the frames that hold what was read, and one of them knows the error
            return self._translate(error, attempt, limits)
        except asyncio.CancelledError:
            if self._closing and not _cancelled_by_the_caller():
                # Not our caller but the closing connector cancelled what this call was waiting for.
                return self._failure(FailureKind.BUSY, "the node was taken out of use", sent=attempt.phase == "sent")
            raise
        finally:
            self.counters.requests += 1
            self.counters.bytes_out += len(body)

    async def _exchange(
        self, text: bytes, attempt: Attempt, limits: aiohttp.ClientTimeout, timeout: float
    ) -> HttpReply:
        """Send a request and read what comes back, on a connection that is the pool's again, or closed, in any case."""
        exchange = Exchange(await self._connector.take(self._request, attempt, limits))
        self._under_way.add(exchange, timeout - (attempt.connected - attempt.started))
        try:
            message = await exchange.ask(text)
            headed = _clock()
            attempt.phase = "replying"
            body = await exchange.read(self._max_answer)
        except BaseException:
            exchange.break_off()
            raise
        finally:
            self._under_way.drop(exchange)
        exchange.finish()
        done = _clock()
        self.counters.count_reply(attempt.connected, headed, done, len(body))
        return HttpReply(message.code, message.headers, body, done - attempt.started)

    def _refusal(self, timeout: float) -> Failure | None:
        if self._closing:
            return self._failure(FailureKind.BUSY, "the node is being taken out of use", sent=False)
        if timeout <= 0:  # aiohttp takes 0 for "no limit"
            return self._failure(FailureKind.TIMEOUT, "no time was left to ask the node", sent=False)
        return None

    def _translate(self, error: Exception, attempt: Attempt, limits: aiohttp.ClientTimeout) -> Failure:
        """The one place where an exception of aiohttp becomes a Failure."""
        if attempt.phase in _BEFORE_SENDING:
            return self._translate_unsent(error, attempt.phase, limits)
        if isinstance(error, TimeoutError):
            what = "no answer" if attempt.phase == "sent" else "only a part of the answer came"
            return self._failure(FailureKind.TIMEOUT, f"{what} within {limits.total:g} s")
        if isinstance(error, TooLongError):
            return self._failure(FailureKind.OVERSIZED, f"the node's answer is {error}: it was cut off")
        if isinstance(error, HttpProcessingError):
            return self._failure(FailureKind.BROKEN_REPLY, "what the node answered is not HTTP")
        if attempt.phase == "replying" or isinstance(error, aiohttp.ClientPayloadError):
            return self._failure(FailureKind.BROKEN_REPLY, "the connection broke off in the middle of the answer")
        if isinstance(error, aiohttp.ClientConnectionError | ConnectionError):
            return self._translate_broken(error, attempt)
        return self._failure(FailureKind.UNKNOWN, f"the call failed in an unforeseen way: {type(error).__name__}")

    def _translate_broken(self, error: Exception, attempt: Attempt) -> Failure:
        """A connection that ended before the reply's headers were complete."""
        if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):
            return self._failure(FailureKind.BROKEN_REPLY, "the connection broke off in the headers of the answer")
        if attempt.reused:
            return self._failure(FailureKind.RESET_BEFORE_REPLY, "the node had closed a connection it kept open for us")
        return self._failure(FailureKind.BROKEN_REPLY, "the node closed a new connection without an answer")

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

    def _finish(self, answer: Answer | Failure) -> Answer | Failure:
        """Name the node in a failure, and hide what its text or a node's error may have echoed."""
        if answer.error is not None:
            answer = replace(answer, error=self._secrecy.error(answer.error))
        if isinstance(answer, Answer):
            return answer
        return replace(answer, text=self._secrecy.text(answer.text), node=self.id)

    def _limits_of(self, timeout: float) -> aiohttp.ClientTimeout:
        connect = min(self._connect_timeout, timeout)
        return aiohttp.ClientTimeout(total=timeout, connect=connect, ceil_threshold=_EXACT)


def _cancelled_by_the_caller() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _too_late(exchange: Exchange) -> None:
    exchange.fail(TimeoutError())


def _system_words(cause: BaseException) -> str:
    """Why a socket could not be opened; the event loop's own text holds the address once more."""
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return getattr(cause, "strerror", None) or type(cause).__name__
