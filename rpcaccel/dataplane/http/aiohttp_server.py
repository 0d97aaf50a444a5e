"""aiohttp's low-level server, for every request that dataplane.http.fast_protocol does not answer itself.

The parser (llhttp, strict) decides about framing: two Content-Lengths, Content-Length beside Transfer-Encoding, bare
line feeds, folded lines and the like are answered with 400, and the connection ends, so that no two programs in a row
can take different bytes for the next request.

aiohttp shares each connection with dataplane.http.fast_protocol: it writes to the connection, and only asks for it to
be closed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, cast

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.http_head import END
from rpcaccel.core.wire.jsonrpc import COPIED_UP_TO, SHARED_FROM, Invalid
from rpcaccel.dataplane.http.handler import SERVER, HttpAnswer, RequestHandler
from rpcaccel.dataplane.http.request_head import RequestHead

LINGER_SECONDS = 1.0
"""Seconds for which a refused client is still read from; what it sends is dropped."""
ENCODINGS = frozenset({"deflate", "gzip", "identity"})
"""The Content-Encodings of request bodies that are understood."""
MAX_PART_BYTES = 64 * 1024
"""Bytes of the longest body that fast_protocol takes in parts, and of the longest part of a request in which the end is
looked for here."""
WITHOUT_BODY = (b"GET ", b"HEAD ", b"OPTIONS ")
"""How a request begins that has no body, unless it says how long one is."""
_CONTENT_LENGTH = re.compile(rb"(?i)\ncontent-length:[ \t]*([0-9]{1,10})[ \t]*\r\n")
_CHUNKED = re.compile(rb"(?i)\ntransfer-encoding:")
_LAST_CHUNK = b"0\r\n\r\n"


def _end_of_request(data: bytes, start: int) -> int | None:
    """Where the request ends that begins here, which may be behind what came; None where that cannot be told yet."""
    end = data.find(END, start) + len(END)
    if end < len(END):
        return None
    if (length := _CONTENT_LENGTH.search(data, start, end)) is not None:
        return end + int(length[1])
    if _CHUNKED.search(data, start, end) is None:
        return end if data.startswith(WITHOUT_BODY, start) else len(data)  # a POST must say how long it is
    last = data.find(_LAST_CHUNK, end)
    return None if last < 0 else last + len(_LAST_CHUNK)


def _nobody() -> None:
    """Stands for the owner of a connection that has none."""


class Connection(web.RequestHandler):
    """The part of aiohttp in one connection of a client."""

    __slots__ = ("_answered", "_ended", "_latest_body", "_missing", "_part", "back", "begun", "on_malformed")

    def __init__(self, manager: web.Server, *, on_malformed: Callable[[], None], **options: Any) -> None:
        super().__init__(manager, **options)
        self.on_malformed = on_malformed
        self.begun: Callable[[], None] = _nobody
        """Called when the head of a request is there."""
        self.back: Callable[[], None] = _nobody
        """Called when the answer to a request is written whole and the connection goes on."""
        self._answered = 0
        self._latest_body: StreamReader = EMPTY_PAYLOAD
        self._ended = False
        self._part, self._missing = b"", 0
        """What came of a request whose end is not known yet, and the bytes that one with a known end lacks."""

    def data_received(self, data: bytes) -> None:
        """The client sent requests, or parts of them."""
        for piece in self._pieces(data):
            super().data_received(piece)
            if self._messages:
                self._latest_body = self._messages[-1][1]

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """What came, each request by itself as far as that can be told: of what is read in one piece the parser forgets
        the requests before something malformed. A wrong guess only makes more pieces."""
        text, known, end = self._part + data, len(self._part), self._missing
        ends = []
        while end < len(text) and (further := _end_of_request(text, end)) is not None:
            ends.append(end := further)
        self._missing = max(0, end - len(text))
        self._part = text[end:] if len(text) - end <= MAX_PART_BYTES else b""
        cuts = [0, *(cut - known for cut in ends if known < cut < len(text)), len(data)]
        return (data[first:last] for first, last in pairwise(cuts)) if len(cuts) > 2 else iter((data,))

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed. aiohttp's part of it refers to itself and may stay for long: nothing large is left
        with it, and nothing that others made."""
        super().connection_lost(exc)
        self._part, self._latest_body, self.begun, self.back = b"", EMPTY_PAYLOAD, _nobody, _nobody

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio's protocols may say that they go on
        """The client sends no more. True, so that the connection stays, while a whole request waits for its answer."""
        self._ended = True
        return self._whole() > 0

    def answers(self) -> bool:
        """Count an answer. True if it is the last one that this client can get."""
        self._answered += 1
        return self._ended and self._whole() <= 0

    def _whole(self) -> int:
        """The number of requests that came whole and are not answered."""
        return self._request_count - self._answered - (not self._latest_body.is_eof())

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no HTTP request, or when a bug of the proxy was met. The connection ends with it."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer is sent already")
        self.on_malformed()
        if status == 500:
            told = Invalid(jsonrpc.INTERNAL_ERROR, "internal error")
        elif isinstance(exc, LineTooLong):
            status = 431
            told = Invalid(jsonrpc.INVALID_REQUEST, f"a line of the header is longer than {exc.args[1]} bytes")
        else:
            # The parser quotes what it stumbled over on further lines: a client knows what it sent.
            reason = (message or "").partition("\n")[0].strip(" :")
            told = Invalid(jsonrpc.INVALID_REQUEST, f"malformed HTTP request: {reason[:120]}")
        response = web.Response(status=status, body=jsonrpc.refusal(told), content_type="application/json")
        response.headers["Server"] = SERVER
        response.force_close()
        return response


class Listener(web.Server):
    """Makes the protocols of aiohttp for the connections of one worker."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], on_malformed: Callable[[], None], **options: Any):
        # A client that leaves frees what it held: its handler is cancelled. Flights and writes are not the handler's.
        super().__init__(handler, handler_cancellation=True, **options)
        self._on_malformed = on_malformed

    def __call__(self) -> Connection:
        """Make the protocol for one more connection."""
        return Connection(self, on_malformed=self._on_malformed, loop=self._loop, **self._kwargs)


class SharedTransport:
    """The transport of a connection as aiohttp has it: the real one, but closing it is left to the owner."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self.close = self.abort = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def server(front: RequestHandler) -> Listener:
    """Make a factory of protocols that answer by a request handler."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Connection, request.protocol)
        connection.begun()
        reply = await _answer(front, request)
        lines = (line.split(": ", 1) for line in reply.headers.split("\r\n") if line)
        response = _response(reply, dict(lines))
        # The parser drops what stands behind a request for another protocol: nobody may wait for an answer to it.
        if connection.answers() or reply.close or "Upgrade" in request.headers:
            response.force_close()
        await response.prepare(request)
        for piece in () if isinstance(response, web.Response) else _pieces(reply.parts):
            await response.write(piece)
        await response.write_eof()
        if response.keep_alive:
            connection.back()
        return response

    settings = front.settings
    return Listener(
        handle,
        front.malformed,
        keepalive_timeout=settings.keepalive,
        max_line_size=settings.max_header,
        max_field_size=settings.max_header,
        lingering_time=LINGER_SECONDS,
        access_log=None,
        logger=Quiet(),
    )


def _response(reply: HttpAnswer, named: dict[str, str]) -> web.StreamResponse:
    """The response to an answer. Its body goes with it, but for a long one in parts: these are written one after the
    other, as the client takes them."""
    if len(reply.parts) <= 1 or reply.size < SHARED_FROM:
        return web.Response(status=reply.status, headers=named, body=b"".join(reply.parts))
    response = web.StreamResponse(status=reply.status, headers=named)
    response.content_length = reply.size
    return response


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a long answer, short ones joined until they are worth a write."""
    joined: list[bytes] = []
    size = 0
    for part in parts:
        if joined and (len(part) > COPIED_UP_TO or size >= SHARED_FROM):
            yield b"".join(joined)
            joined, size = [], 0
        joined.append(part)
        size += len(part)
    yield b"".join(joined)


async def _answer(front: RequestHandler, request: web.BaseRequest) -> HttpAnswer:
    named = request.headers
    if sum(len(name) + len(value) for name, value in request.raw_headers) > front.settings.max_header:
        return front.header_too_large(named)
    if request.method != "POST":
        return front.other(request.method, request.path, named)
    path = f"{request.path}?{request.rel_url.raw_query_string}"
    visit = front.enter(RequestHead(path, named), request.remote)
    if isinstance(visit, HttpAnswer):
        return visit
    try:
        body = await _read(front, request)
        if isinstance(body, HttpAnswer):
            return body
        answered = await front.calls.answer(body, visit.route, visit.caller)
        reply = front.reply(visit, answered)
        return reply if isinstance(reply, HttpAnswer) else await reply
    finally:
        front.leave(visit)


async def _read(front: RequestHandler, request: web.BaseRequest) -> bytes | HttpAnswer:
    """Read the body of a request within its limits of bytes (after gzip) and seconds."""
    limit, chunks, size = front.settings.max_body, [], 0
    if (request.content_length or 0) > limit:
        return front.too_large(request.headers)
    refused = _framing(front, request)
    if refused is not None:
        return refused
    try:
        async with asyncio.timeout(front.settings.read_timeout):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > limit:
                    return front.too_large(request.headers)
                chunks.append(chunk)
                if size > SHARED_FROM:  # what is there already is unpacked chunk by chunk, without a wait between them
                    await asyncio.sleep(0)
    except TimeoutError:
        return front.too_slow(request.headers)
    except (HttpProcessingError, web.RequestPayloadError):
        message = "the body does not fit its Content-Encoding or Transfer-Encoding"
        return front.refuse(request.headers, "malformed", 400, Invalid(jsonrpc.PARSE_ERROR, message))
    return b"".join(chunks)


def _framing(front: RequestHandler, request: web.BaseRequest) -> HttpAnswer | None:
    """The refusal of a framing that is not understood. Answers Expect (RFC 9110 section 10.1.1, RFC 9112 section 6)."""
    told = request.headers
    coding = told.get("Transfer-Encoding")
    if coding is not None and (coding.strip().lower() != "chunked" or request.version < HttpVersion11):
        message = "the only Transfer-Encoding understood is chunked, and none before version 1.1"
        return _malformed(front, request, 501, message)
    if told.get("Content-Encoding", "identity").strip().lower() not in ENCODINGS:
        message = f"the Content-Encodings understood are {', '.join(sorted(ENCODINGS))}"
        return _malformed(front, request, 415, message)
    expected = told.get("Expect")
    if expected is None or request.version < HttpVersion11:
        return None
    if expected.strip().lower() != "100-continue":
        return _malformed(front, request, 417, "the only expectation that can be met is 100-continue")
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None


def _malformed(front: RequestHandler, request: web.BaseRequest, status: int, message: str) -> HttpAnswer:
    return front.refuse(request.headers, "malformed-http", status, Invalid(jsonrpc.INVALID_REQUEST, message))


class Quiet:
    """A log that writes nothing, for aiohttp: a malformed request of a stranger is not worth a traceback."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None
