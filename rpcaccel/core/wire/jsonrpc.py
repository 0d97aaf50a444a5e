"""JSON-RPC 2.0 envelopes: decodes requests into calls, encodes results and errors into replies.

`id` and `params` stay the raw JSON text that the caller sent (architecture section 4): parsing and re-encoding would
change ids like `1.50` and integers of 30 digits. Error codes follow section 5.1 of the JSON-RPC 2.0 specification.

The template of a call is its text without its id: clients repeat calls, and only the id differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from rpcaccel.core.wire import json_text

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
LIMIT_EXCEEDED = -32005
"""The code that nodes and providers use for "too much" (EIP-1474); JSON-RPC 2.0 does not define it."""
RESPONSE_TOO_LARGE = -32003
"""The code that geth uses for calls of a batch whose answers would make the reply too long."""
SHARED_FROM = 64 * 1024
"""Bytes from which a result is written to the socket by itself, next to its envelope: copying a long result for each
client would cost more than separate writes."""
COPIED_UP_TO = 4 * 1024
"""Bytes of the longest value that is copied into the reply to a batch."""
MAX_METHOD_BYTES = 256
"""Bytes (UTF-8) of the longest method name. Names are remembered and logged; real ones have some dozen bytes."""


class Call(Struct, frozen=True, gc=False):
    """One well-formed call."""

    method: str
    params: bytes
    """Raw JSON text, an array or an object; b"[]" when missing or null."""
    id: bytes | None
    """Raw JSON text of the caller's id; None for a notification."""


class Invalid(Struct, frozen=True, gc=False):
    """A malformed call: the error that its caller gets."""

    code: int
    message: str
    id: bytes = b"null"


NOT_JSON = Invalid(PARSE_ERROR, "parse error: the body is not one JSON text in UTF-8")
EMPTY_BODY = Invalid(PARSE_ERROR, "parse error: the body is empty")
EMPTY_BATCH = Invalid(INVALID_REQUEST, "empty batch")
TOO_MANY = Invalid(INVALID_REQUEST, "batch too long")
"""Stands for a batch of more members than were allowed. Its caller, who knows how many that are, says so."""
TOO_DEEP = Invalid(INVALID_REQUEST, "invalid request: nested too deeply")
NOT_AN_OBJECT = Invalid(INVALID_REQUEST, "invalid request: expected an object or an array of objects")


class _Envelope(Struct, gc=False):
    method: str
    id: Raw | msgspec.UnsetType = msgspec.UNSET
    params: Raw | msgspec.UnsetType = msgspec.UNSET


class _LooseEnvelope(Struct, gc=False):
    method: Raw | msgspec.UnsetType = msgspec.UNSET
    id: Raw | msgspec.UnsetType = msgspec.UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_loose = msgspec.json.Decoder(_LooseEnvelope).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode
_DEEP_STEPS = 20_000
"""Brackets that are followed in a request that nests too deeply for msgspec. No honest request does; finding the other
members of its batch may take some milliseconds and no more."""
_SPACE = b" \t\r\n"
OPENING = b'{"jsonrpc":"2.0","id":'
"""Every reply up to the caller's id."""
_NEXT = b"}," + OPENING
RESULT = b',"result":'
ERROR = b',"error":'
_COMPOUND = (b"{", b"[")


def decode(body: bytes, most: int = 100_000) -> Call | Invalid | list[Raw]:
    """Decode a request body: one call, one malformed call, or the raw members of a batch (at least one).

    The members of a batch are decoded one by one with `decode_member`. A batch of more than `most` members is TOO_MANY,
    and is not read beyond the first one that is too many. An object in ASCII, the usual body, may be given to
    `decode_member` at once.
    """
    if not json_text.is_utf8(body):
        return NOT_JSON
    body = json_text.unmarked(body)
    stripped = body.lstrip(_SPACE)
    if not stripped:
        return EMPTY_BODY
    return _split_batch(stripped, most) if stripped.startswith(b"[") else decode_member(body)


def decode_member(text: bytes | Raw) -> Call | Invalid:
    """Decode one call; `text` must be valid UTF-8."""
    try:
        envelope = _decode_envelope(text)
    except msgspec.DecodeError:
        return _explain(text)
    except RecursionError:
        return _explain_deep(text)
    call_id = envelope.id
    raw_id: bytes | None = None
    if call_id is not msgspec.UNSET:
        raw_id = bytes(call_id)
        if raw_id.startswith(_COMPOUND):
            return Invalid(INVALID_REQUEST, "invalid request: id must be a string, a number, a boolean or null")
    if not envelope.method:
        return Invalid(INVALID_REQUEST, "invalid request: method is empty", raw_id or b"null")
    if len(envelope.method) > MAX_METHOD_BYTES or (not envelope.method.isascii() and _is_long(envelope.method)):
        message = f"invalid request: the method's name is longer than {MAX_METHOD_BYTES} bytes"
        return Invalid(INVALID_REQUEST, message, raw_id or b"null")
    params = envelope.params
    if params is msgspec.UNSET:
        return Call(envelope.method, b"[]", raw_id)
    raw_params = bytes(params)
    if not raw_params.startswith(_COMPOUND):
        if raw_params != b"null":
            return Invalid(INVALID_PARAMS, "invalid params: expected an array or an object", raw_id or b"null")
        raw_params = b"[]"
    return Call(envelope.method, raw_params, raw_id)


def id_of(body: bytes) -> bytes:
    """The id that the answer to a whole request body has: that of a single call, otherwise null."""
    decoded = decode(body, 1)
    return (decoded.id if isinstance(decoded, Call | Invalid) else None) or b"null"


def result_reply(call_id: bytes, result: bytes) -> tuple[bytes, bytes, bytes]:
    """A success reply in three parts, with the result uncopied in the middle. It has no `error` member at all
    (docs/harmony.md section 1, fact 7)."""
    return b"".join((OPENING, call_id, RESULT)), result, b"}"


def error_reply(call_id: bytes, error: bytes | Raw) -> bytes:
    """An error reply around a raw error object; it has no `result` member."""
    return b"".join((OPENING, call_id, ERROR, error, b"}"))


def error_object(code: int, message: str) -> bytes:
    """The raw JSON text of an error object."""
    return b'{"code":%d,"message":%b}' % (code, msgspec.json.encode(message))


def refusal(invalid: Invalid) -> bytes:
    """The reply to a malformed call."""
    return error_reply(invalid.id, error_object(invalid.code, invalid.message))


def batch_reply(replies: Sequence[tuple[bytes, bytes, bytes]]) -> tuple[bytes, ...]:
    """The reply to a batch in parts, in the order given (JSON-RPC 2.0 section 6). Short values are copied once, with
    what stands between them; a long one is a part by itself, and is not copied.

    Args:
        replies: for each call its id, RESULT or ERROR, and the raw result or error object.
    """
    parts: list[bytes] = []
    joined: list[bytes] = []
    before = b"[" + OPENING
    for call_id, member, value in replies:
        joined += (before, call_id, member)
        before = _NEXT
        if len(value) <= COPIED_UP_TO:
            joined.append(value)
        else:
            parts += (b"".join(joined), value)
            joined = []
    joined.append(b"}]" if replies else b"[]")
    return *parts, b"".join(joined)


def _split_batch(body: bytes, most: int) -> Invalid | list[Raw]:
    if body.count(b",") >= most and _exceeds(body, most):
        return TOO_MANY
    try:
        members = _decode_batch(body)
    except msgspec.DecodeError:
        return NOT_JSON
    except RecursionError:
        return _split_deep_batch(body, most)
    return members or EMPTY_BATCH


def _exceeds(body: bytes, most: int) -> bool:
    """Does an array have more than `most` members? A tuple of so many is refused at the first member that is too many;
    without its closing bracket a shorter one ends too early instead."""
    try:
        _tuple_decoder(most).decode(memoryview(body.rstrip(_SPACE))[:-1])
    except msgspec.ValidationError:
        return True
    except (msgspec.DecodeError, RecursionError):
        pass
    return False


@lru_cache(maxsize=4)
def _tuple_decoder(size: int) -> msgspec.json.Decoder[tuple[Raw, ...]]:
    return msgspec.json.Decoder(tuple[(Raw,) * size])  # type: ignore[misc] # made at run time


def _explain(text: bytes | Raw) -> Invalid:
    """Find what is wrong with a call that the strict decoder refused."""
    try:
        loose = _decode_loose(text)
    except msgspec.ValidationError:
        return NOT_AN_OBJECT
    except msgspec.DecodeError:
        return NOT_JSON
    except RecursionError:
        return _explain_deep(text)
    raw_id = b"null" if isinstance(loose.id, msgspec.UnsetType) else bytes(loose.id)
    if raw_id.startswith(_COMPOUND):
        raw_id = b"null"
    if isinstance(loose.method, msgspec.UnsetType):
        return Invalid(INVALID_REQUEST, "invalid request: method is missing", raw_id)
    return Invalid(INVALID_REQUEST, "invalid request: method must be a string", raw_id)


def _is_long(method: str) -> bool:
    return len(method.encode("utf-8", "surrogatepass")) > MAX_METHOD_BYTES


def _split_deep_batch(body: bytes, most: int) -> Invalid | list[Raw]:
    try:
        members = json_text.items(body, _DEEP_STEPS)
    except json_text.NotJson:
        return NOT_JSON
    except json_text.TooDeep:
        return TOO_DEEP
    return TOO_MANY if len(members) > most else members


def _explain_deep(text: bytes | Raw) -> Invalid:
    """Refuse a call that nests more deeply than any node reads; the refusal carries its id if that can be found."""
    try:
        raw_id = bytes(json_text.members(text, _DEEP_STEPS).get("id", b"null"))
    except json_text.NotJson:
        return NOT_JSON
    except json_text.TooDeep:
        return TOO_DEEP
    return replace(TOO_DEEP, id=b"null" if raw_id.startswith(_COMPOUND) else raw_id)


MAX_TEMPLATE_BYTES = 4096
"""Bytes of the longest text that is worth remembering."""
Wording = tuple[bytes, bytes]
"""The text before the id and the text after it. The member name `"id":` and the comma after the id are left out; where
a brace follows the id instead of a comma, the first part keeps the member name."""
NO_TEMPLATE: Wording = (b"", b"")
_ID_NAME = b'"id":'
_NOUGHT = ord("0")
_PLAIN_ID = re.compile(rb'0|[1-9][0-9]*+|"[ !#-\[\]-~]*+"')
"""A plain id, which every parser reads alike: an unsigned integer, or a string of printable ASCII without escapes."""
_STAND_INS = (b'"an id"', b'"another id"', b'"a third id"')


def split_template(text: bytes) -> tuple[Wording, bytes]:
    """Split a call into template and id; (NO_TEMPLATE, b"") when no plain id follows the first `"id":`.

    The text found may only look like the call's id: `template_holds` checks that, once for each template.
    """
    before, _, rest = text.partition(_ID_NAME)
    call_id, comma, behind = rest.partition(b",")
    if comma and call_id.isdigit() and call_id[0] != _NOUGHT:  # JSON has no numbers with a leading zero
        return (before, behind), call_id
    call_id = call_id.strip(_SPACE)
    if comma and _PLAIN_ID.fullmatch(call_id):
        return (before, behind), call_id
    call_id, brace, behind = rest.partition(b"}")
    call_id = call_id.strip(_SPACE)
    if brace and _PLAIN_ID.fullmatch(call_id):
        return (before + _ID_NAME, behind), call_id
    return NO_TEMPLATE, b""


def template_holds(words: Wording) -> bool:
    """Does this template mean the same call with any plain id in its place?

    The template is decoded with an id that occurs nowhere else in the text. If the decoder returns that id, it would
    return any other id from the same place, and the same call. This finds a second `id` member, and one that is nested.
    """
    before, behind = words
    before, behind = (before, b"}" + behind) if before.endswith(_ID_NAME) else (before + _ID_NAME, b"," + behind)
    stand_in = next((one for one in _STAND_INS if one not in before + behind), None)
    if stand_in is None:
        return False
    found = decode(before + stand_in + behind)
    return isinstance(found, Call) and found.id == stand_in
