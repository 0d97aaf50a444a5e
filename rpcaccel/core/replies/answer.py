"""A node's reply to one call. Result and error stay the raw JSON text that the node sent."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rpcaccel.core.wire import json_text


class Answer(Struct, frozen=True, kw_only=True, gc=False):
    """A well-formed JSON-RPC reply; exactly one of `result` and `error` is set (JSON-RPC 2.0 section 5)."""

    result: bytes | memoryview | None = None
    """Raw JSON text of the `result` member."""
    error: bytes | None = None
    """Raw JSON text of the `error` member."""
    http_status: int = 200
    elapsed: float = 0.0
    """Seconds from sending the call to the last byte of the reply."""
    retry_after: float | None = None
    """Seconds from the node's Retry-After header, if it sent one."""


class _ErrorObject(Struct, gc=False):
    code: int
    message: str = ""


_ERROR = msgspec.json.Decoder(_ErrorObject)
_LARGEST_CODE = 2**53
"""The largest integer up to which every reader of JSON holds integers exactly."""


def error_parts(error: bytes) -> tuple[int, str]:
    """Code and message of a raw `error` object; (0, the text itself) when the object is malformed.

    A code beyond 2^53 is read as 0, since neither the messages between processes nor the admin API could carry it.
    """
    try:
        parsed = _parse(error)
    except (*json_text.UNREADABLE, json_text.NotJson, json_text.TooDeep):
        return 0, bytes(error).decode("utf-8", "replace")
    return (parsed.code if abs(parsed.code) <= _LARGEST_CODE else 0), parsed.message


def _parse(error: bytes) -> _ErrorObject:
    try:
        return _ERROR.decode(error)
    except RecursionError:  # `data` nests too deeply: decode the error without it
        found = json_text.members(error)
        told = [b'"%b":%b' % (name.encode(), found[name]) for name in _ErrorObject.__struct_fields__ if name in found]
        return _ERROR.decode(b"{%b}" % b",".join(told))
