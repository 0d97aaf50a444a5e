"""Reads and writes JSON-RPC over HTTP as a Go node does, bytes in and bytes out (docs/harmony.md section 4).

Ids are echoed byte for byte, the order of keys is jsonrpc, id, result or error, `jsonrpc` is not checked, and the text
behind the first JSON value is ignored. A body below 2 kB has a length, a longer one comes in chunks, and both are
compressed with gzip for clients that accept it.
"""

from __future__ import annotations

import json
import zlib

import msgspec
from aiohttp import web
from msgspec import UNSET, Raw, Struct, UnsetType

from rpcaccel.simnode.chain.knobs import Knobs

PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}'
EMPTY_BATCH = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"empty batch"}}'
INVALID = b'{"code":-32600,"message":"invalid request"}'


class Message(Struct):
    """One request object with the raw text of its members."""

    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET


class RequestItem(Struct, frozen=True):
    """One call of a request, or a member that is not valid."""

    method: str
    """The method; empty when the request is not valid."""
    params: bytes
    id: bytes | None
    """The raw text of the id; None for a notification."""


class DropConnection(Exception):
    """The request crashes the node's handler: a lone null, or one in a batch."""


class Parsed(Struct, frozen=True):
    """The calls of a request body."""

    calls: list[RequestItem]
    batch: bool


_MESSAGE = msgspec.json.Decoder(Message)
_BATCH = msgspec.json.Decoder(list[Raw])


def parse(body: bytes, *, null_kills: bool = True) -> Parsed:
    """The calls in a body. Raises msgspec.DecodeError for bad JSON, DropConnection for what kills the handler; without
    `null_kills` a null is one more request that is not valid."""
    body = body.strip()
    if body[:1] == b"[":
        try:
            members = _BATCH.decode(body)
        except msgspec.DecodeError:
            members = _BATCH.decode(first_value(body))
        return Parsed([_call(bytes(member), null_kills) for member in members], batch=True)
    try:
        return Parsed([_call(body, null_kills)], batch=False)
    except msgspec.DecodeError:
        return Parsed([_call(first_value(body), null_kills)], batch=False)


def parse_failure(body: bytes) -> bytes | None:
    """What a WebSocket gets to read of a message that is no JSON; None for one that only ends too early."""
    try:
        written = body.decode()
        json.loads(written)
    except json.JSONDecodeError as error:
        if error.pos >= len(written.rstrip()):
            return None
        words = f"invalid character '{written[error.pos]}' looking for beginning of value"
    except (ValueError, RecursionError):
        words = "parse error"
    else:
        words = "parse error"
    return failure(b"null", json.dumps({"code": -32700, "message": words}, separators=(",", ":")).encode())


def first_value(body: bytes) -> bytes:
    """The first JSON value of a body that has more text behind it. Raises msgspec.DecodeError when there is none."""
    try:
        written = body.decode()
        _, end = json.JSONDecoder().raw_decode(written)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return written[:end].encode()


def _call(member: bytes, null_kills: bool) -> RequestItem:
    try:
        message = _MESSAGE.decode(member)
    except msgspec.ValidationError:
        if null_kills and member == b"null":
            raise DropConnection from None
        return RequestItem("", b"", b"null")
    sent_id = None if message.id is UNSET else bytes(message.id)
    if sent_id is not None and sent_id[:1] in (b"{", b"["):
        return RequestItem("", b"", b"null")
    method = b"" if message.method is UNSET else bytes(message.method)
    name = json.loads(method) if method[:1] == b'"' else ""
    if not name:
        return RequestItem("", b"", sent_id or b"null")
    return RequestItem(name, b"" if message.params is UNSET else bytes(message.params), sent_id)


def success(call_id: bytes, result: bytes) -> bytes:
    """A reply with a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, result)


def failure(call_id: bytes, error: bytes) -> bytes:
    """A reply with an error object."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, error)


HEADERS = {"Content-Type": "application/json", "Vary": "Origin"}
CHUNK_FROM = 2048
"""Bytes of a body from which Go's server sends it in chunks."""


def plain(status: int, written: str = "", *, content_type: str = "text/plain") -> web.Response:
    """A short answer that is not JSON-RPC."""
    return web.Response(status=status, text=written, content_type=content_type)


def cut(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def send(request: web.BaseRequest, body: bytes, knobs: Knobs) -> web.StreamResponse:
    """The JSON-RPC answer with HTTP 200."""
    response = web.Response(body=body, headers=HEADERS)
    if knobs.gzip and body and "gzip" in request.headers.get("Accept-Encoding", ""):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        response.headers["Content-Encoding"] = "gzip"
        response.body = packer.compress(body) + packer.flush()
    if len(body) >= CHUNK_FROM:
        response.enable_chunked_encoding()
    return response
