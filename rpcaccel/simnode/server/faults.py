"""The HTTP answers of a simulated node: right ones, and its faults (knobs.FAULTS), each as it looks on the wire."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable

from aiohttp import web

from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.envelope import Parsed, RequestItem, failure, joined
from rpcaccel.simnode.server.responder import LIMITER_REFUSAL, Responder

HEADERS = {"Content-Type": "application/json", "Vary": "Origin"}
CHUNKED_FROM_BYTES = 2048
"""The size of a body from which Go's server sends it in chunks."""
HTML = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>\r\n"
_PAGES = {
    "html": (502, HTML, "text/html"),
    "too_many": (429, "too many requests\n", "text/plain"),
    "unavailable": (503, "service unavailable\n", "text/plain"),
}
"""Status, text and content type of the faults that are no JSON."""
_BODIES = {"empty": b"", "garbage": b'{"jsonrpc":"2.0","id":1,"result":{"number":'}
_NO_ID = b'"no id at all"'
_IDS: dict[str, Callable[[RequestItem], bytes | None]] = {
    "half_body": lambda call: call.id,
    "wrong_id": lambda call: None if call.id is None else b'"somebody else"',
    "missing_id": lambda call: None if call.id is None else _NO_ID,
}
"""The faults that run the calls, and the id under which each call is answered."""


def plain(status: int, written: str = "", *, content_type: str = "text/plain") -> web.Response:
    """A short answer that is not JSON-RPC."""
    return web.Response(status=status, text=written, content_type=content_type)


def cut(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def rpc_answer(request: web.BaseRequest, body: bytes, knobs: Knobs) -> web.Response:
    """The JSON-RPC answer with HTTP 200: with gzip for clients that accept it, and in chunks where it is long."""
    response = web.Response(body=body, headers=HEADERS)
    if knobs.gzip and body and "gzip" in request.headers.get("Accept-Encoding", ""):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        response.headers["Content-Encoding"] = "gzip"
        response.body = packer.compress(body) + packer.flush()
    if len(body) >= CHUNKED_FROM_BYTES:
        response.enable_chunked_encoding()
    return response


async def faulty_answer(request: web.BaseRequest, fault: str, parsed: Parsed, brain: Responder) -> web.StreamResponse:
    """Answer a request with `fault`. Its calls are counted, and only the faults that send a result run them."""
    if fault in _IDS:
        calls = [RequestItem(call.method, call.params, _IDS[fault](call)) for call in parsed.calls]
        replies = [reply for call in calls if (reply := await brain.reply(call)) is not None]
        body = _body(replies, parsed)
        if fault == "half_body":
            return await _half_of(request, body)
        return web.Response(body=body.replace(b'"id":' + _NO_ID + b",", b""), headers=HEADERS)
    for call in parsed.calls:
        brain.note(call)
    if fault == "hang":
        # The wait ends when the client leaves, since aiohttp then cancels the handler, or when the node is stopped.
        await asyncio.get_running_loop().create_future()
    if fault in _PAGES:
        status, written, kind = _PAGES[fault]
        response = plain(status, written, content_type=kind)
        if fault != "html":
            response.headers["Retry-After"] = f"{brain.knobs.retry_after:g}"
        return response
    if fault == "reset":
        return cut(request)
    return web.Response(body=_BODIES[fault] if fault in _BODIES else _refusals(fault, parsed, brain), headers=HEADERS)


def _refusals(fault: str, parsed: Parsed, brain: Responder) -> bytes:
    """Replies of equal kind to all calls: errors, or neither result nor error."""
    if fault == "invalid_reply":
        ids = [json.loads(call.id or b"null") for call in parsed.calls]
        return _body([json.dumps({"jsonrpc": "2.0", "id": one}).encode() for one in ids], parsed)
    knobs = brain.knobs
    limited = fault == "rate_limit"
    error = RpcError(LIMITER_REFUSAL) if limited else RpcError(knobs.error_text, knobs.error_code)
    brain.counts.errors += len(parsed.calls)
    return _body([failure(call.id, error.encode()) for call in parsed.calls if call.id is not None], parsed)


def _body(replies: list[bytes], parsed: Parsed) -> bytes:
    body = joined(replies, batch=parsed.batch)
    return body and body + b"\n"


async def _half_of(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """Announce a body and close the connection in the middle of it."""
    response = web.StreamResponse(headers=HEADERS)
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
