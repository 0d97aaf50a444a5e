"""What follows for the job from one reply of the proxy."""

from __future__ import annotations

from math import isfinite
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from rpcaccel.bench.load.client import Outcome
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, LIMIT_EXCEEDED, METHOD_NOT_FOUND

LONGEST_TEXT = 200
"""Characters of a proxy's words that are shown."""
_NULL = b"null"
_HOPELESS = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})
"""Codes of errors that come again however often a call is repeated."""

Next = Literal["done", "slower", "again", "give-up", "gone"]
"""done: the answer is there; slower: call again, and the whole job slower; again: call again later; give-up: it would
not help; gone: nobody answers at that address."""


class CallVerdict(Struct, frozen=True):
    """The judgement of one reply."""

    next: Next
    result: bytes = b""
    text: str = ""
    """Why there is no answer."""
    pause: float | None = None
    """Seconds after which the proxy wants to be asked again, where it says so."""


class _Error(Struct):
    code: int = 0
    message: str = ""


class _Envelope(Struct):
    result: Raw | msgspec.UnsetType = msgspec.UNSET
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Envelope).decode


def judge(outcome: Outcome) -> CallVerdict:
    """The verdict on a reply, or on its absence."""
    if isinstance(outcome, str):
        return CallVerdict("gone" if outcome in ("connect", "closed") else "again", text=outcome)
    pause = _seconds(outcome.retry_after)
    try:
        envelope = _decode(outcome.body)
    except RecursionError:  # only results nest so deeply: traces of calls within calls
        return CallVerdict("done" if outcome.status == 200 else "again", text=f"HTTP {outcome.status}")
    except UNREADABLE:
        slower = outcome.status in (429, 503)
        return CallVerdict("slower" if slower else "again", text=f"HTTP {outcome.status}", pause=pause)
    error = envelope.error
    if error is not None:
        text = f"{error.code} {error.message}"[:LONGEST_TEXT]
        if error.code == LIMIT_EXCEEDED or outcome.status in (429, 503):
            return CallVerdict("slower", text=text, pause=pause)
        return CallVerdict("give-up" if error.code in _HOPELESS else "again", text=text)
    result = b"" if isinstance(envelope.result, msgspec.UnsetType) else bytes(envelope.result)
    if not result or result == _NULL:
        return CallVerdict("again", text="the answer is null, which the proxy does not keep" if result else "no answer")
    return CallVerdict("done", result)


def _seconds(text: str) -> float | None:
    """The seconds in a Retry-After header (RFC 9110 section 10.2.3); None for a date, which rpcaccel never sends."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) and found >= 0 else None
