"""Judges whether a reply is a good answer to a call: HTTP 200 is not enough (JSON-RPC 2.0, section 5)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from rpcaccel.bench.load.client import Outcome
from rpcaccel.core.wire.json_text import UNREADABLE

GOOD = ""


class _Error(Struct):
    code: int = 0


class _Envelope(Struct, gc=False):
    id: Raw | msgspec.UnsetType = msgspec.UNSET
    result: Raw | msgspec.UnsetType = msgspec.UNSET
    error: Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Envelope).decode
_decode_error = msgspec.json.Decoder(_Error).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode


def verdict(outcome: Outcome, call_id: bytes) -> str:
    """GOOD, or the kind of failure in a word or two: timeout, closed, http 502, rpc -32000, wrong id, no json …"""
    if isinstance(outcome, str):
        return outcome
    try:
        envelope = _decode(outcome.body)
    except UNREADABLE:
        return "no json" if outcome.status == 200 else f"http {outcome.status}"
    return _judge(envelope, call_id, outcome.status)


def batch_verdict(outcome: Outcome, ids: list[bytes]) -> str:
    """The verdict on a batch, in which every call must have its answer."""
    if isinstance(outcome, str):
        return outcome
    try:
        members = [_decode(member) for member in _decode_batch(outcome.body)]
    except UNREADABLE:
        return "no json" if outcome.status == 200 else f"http {outcome.status}"
    by_id = {bytes(member.id): member for member in members if not isinstance(member.id, msgspec.UnsetType)}
    for call_id in ids:
        member = by_id.get(call_id)
        found = "wrong id" if member is None else _judge(member, call_id, outcome.status)
        if found:
            return found
    return GOOD if len(members) == len(ids) else "wrong count"


def result_of(outcome: Outcome) -> bytes | None:
    """The raw text of the result; None where there is none."""
    if isinstance(outcome, str):
        return None
    try:
        result = _decode(outcome.body).result
    except UNREADABLE:
        return None
    return None if isinstance(result, msgspec.UnsetType) else bytes(result)


def _judge(envelope: _Envelope, call_id: bytes, status: int) -> str:
    if not isinstance(envelope.error, msgspec.UnsetType):
        try:
            return f"rpc {_decode_error(envelope.error).code}"
        except UNREADABLE:
            return "rpc"
    if status != 200:
        return f"http {status}"
    if isinstance(envelope.result, msgspec.UnsetType):
        return "neither result nor error"
    if isinstance(envelope.id, msgspec.UnsetType) or bytes(envelope.id) != call_id:
        return "wrong id"
    return GOOD
