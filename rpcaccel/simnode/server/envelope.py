"""Reads and writes JSON-RPC as a Go node does, bytes in and bytes out (docs/harmony.md section 4).

Ids are echoed byte for byte, the order of keys is jsonrpc, id, result or error, `jsonrpc` is not checked, and the text
behind the first JSON value is ignored.
"""

from __future__ import annotations

import json

import msgspec
from msgspec import Raw, Struct

PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}'
EMPTY_BATCH = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"empty batch"}}'
INVALID = b'{"code":-32600,"message":"invalid request"}'


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
    calls: list[RequestItem]
    batch: bool


_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_BATCH = msgspec.json.Decoder(list[Raw])
_NOT_VALID = RequestItem("", b"", b"null")


def parse(body: bytes, *, null_kills: bool = True) -> Parsed:
    """The calls in a body. Raises msgspec.DecodeError for bad JSON, DropConnection for what kills the handler; without
    `null_kills` a null is one more request that is not valid."""
    body = body.strip()
    try:
        return _parsed(body, null_kills)
    except msgspec.DecodeError:
        return _parsed(first_value(body), null_kills)


def _parsed(body: bytes, null_kills: bool) -> Parsed:
    batch = body[:1] == b"["
    members = _BATCH.decode(body) if batch else [body]
    return Parsed([_call(bytes(member), null_kills) for member in members], batch)


def _call(member: bytes, null_kills: bool) -> RequestItem:
    try:
        members = _MEMBERS.decode(member)
    except msgspec.ValidationError:
        if null_kills and member == b"null":
            raise DropConnection from None
        return _NOT_VALID
    sent_id, method, params = (bytes(members[name]) if name in members else None for name in ("id", "method", "params"))
    if sent_id is not None and sent_id[:1] in (b"{", b"["):
        return _NOT_VALID
    name = json.loads(method) if method and method[:1] == b'"' else ""
    return RequestItem(name, params or b"", sent_id) if name else RequestItem("", b"", sent_id or b"null")


def parse_failure(body: bytes) -> bytes | None:
    """What a WebSocket gets to read of a message that is no JSON; None for one that only ends too early."""
    words = "parse error"
    try:
        written = body.decode()
        json.loads(written)
    except json.JSONDecodeError as error:
        if error.pos >= len(written.rstrip()):
            return None
        words = f"invalid character '{written[error.pos]}' looking for beginning of value"
    except (ValueError, RecursionError):
        pass
    return failure(b"null", json.dumps({"code": -32700, "message": words}, separators=(",", ":")).encode())


def first_value(body: bytes) -> bytes:
    """The first JSON value of a body that has more text behind it. Raises msgspec.DecodeError when there is none."""
    try:
        written = body.decode()
        _, end = json.JSONDecoder().raw_decode(written)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return written[:end].encode()


def success(call_id: bytes, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, result)


def failure(call_id: bytes, error: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, error)


def joined(replies: list[bytes], *, batch: bool) -> bytes:
    """The body that answers a request: nothing where there is no reply to give."""
    if not replies:
        return b""
    return b"[" + b",".join(replies) + b"]" if batch else replies[0]
