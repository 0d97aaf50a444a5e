"""aiohttp's low-level server, for every request that dataplane.http.fast_protocol does not answer itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import COPIED_UP_TO, SHARED_FROM, Invalid
from rpcaccel.dataplane.http.aiohttp_protocol import Connection, Listener
from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler
from rpcaccel.dataplane.http.request_head import RequestHead

LINGER_SECONDS = 1.0
"""Seconds for which a refused client is still read from; what it sends is dropped."""
ENCODINGS = frozenset({"deflate", "gzip", "identity"})
"""The Content-Encodings of request bodies that are understood."""

OnRefusal = Callable[[web.BaseRequest], None]


def _nobody(_request: web.BaseRequest) -> None:
    """Stands for a listener where there is none."""


def server(front: RequestHandler, *, begun: OnRefusal = _nobody, done: OnRefusal = _nobody) -> Listener:
    """Make a factory of protocols that answer by a request handler.

    `begun` is called when the head of a request is there, `done` when its answer has been written whole and the
    connection goes on.
    """

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        begun(request)
        reply = await _answer(front, request)
        lines = (line.split(": ", 1) for line in reply.headers.split("\r\n") if line)
        response = _response(reply, dict(lines))
        # The parser drops what stands behind a request for another protocol: nobody may wait for an answer to it.
        if _last(request) or reply.close or "Upgrade" in request.headers:
            response.force_close()
        await response.prepare(request)
        for piece in () if isinstance(response, web.Response) else _pieces(reply.parts):
            await response.write(piece)
        await response.write_eof()
        if response.keep_alive:
            done(request)
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


def _last(request: web.BaseRequest) -> bool:
    """Count an answer. True if it is the last one to a client that sends no more."""
    return isinstance(request.protocol, Connection) and request.protocol.answers()


async def _answer(front: RequestHandler, request: web.BaseRequest) -> HttpAnswer:
    named = request.headers
    if sum(len(name) + len(value) for name, value in request.raw_headers) > front.settings.max_header:
        return front.header_too_large(named)
    if request.method != "POST":
        return front.other(request.method, request.path, named)
    visit = front.enter(RequestHead(request.path, named), request.remote)
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
