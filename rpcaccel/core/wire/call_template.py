"""The template of a call: its text without its id. Clients repeat calls, and only the id differs."""

from __future__ import annotations

import re

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call

LONGEST = 4096
"""Bytes of the longest text that is worth remembering."""
Wording = tuple[bytes, bytes]
"""The text before the id and the text after it. The member name `"id":` and the comma after the id are left out; where
a brace follows the id instead of a comma, the first part keeps the member name."""
NONE: Wording = (b"", b"")
_NAME = b'"id":'
_NOUGHT = ord("0")
_SPACE = b" \t\r\n"
_PLAIN = re.compile(rb'0|[1-9][0-9]*+|"[ !#-\[\]-~]*+"')
"""A plain id, which every parser reads alike: an unsigned integer, or a string of printable ASCII without escapes."""
_STAND_INS = (b'"an id"', b'"another id"', b'"a third id"')


def split(text: bytes) -> tuple[Wording, bytes]:
    """Split a call into template and id; (NONE, b"") when no plain id follows the first `"id":`.

    The text found may only look like the call's id: `holds` checks that, once for each template.
    """
    before, _, rest = text.partition(_NAME)
    call_id, comma, behind = rest.partition(b",")
    if comma and call_id.isdigit() and call_id[0] != _NOUGHT:  # JSON has no numbers with a leading zero
        return (before, behind), call_id
    call_id = call_id.strip(_SPACE)
    if comma and _PLAIN.fullmatch(call_id):
        return (before, behind), call_id
    call_id, brace, behind = rest.partition(b"}")
    call_id = call_id.strip(_SPACE)
    if brace and _PLAIN.fullmatch(call_id):
        return (before + _NAME, behind), call_id
    return NONE, b""


def holds(words: Wording) -> bool:
    """Does this template mean the same call with any plain id in its place?

    The template is decoded with an id that occurs nowhere else in the text. If the decoder returns that id, it would
    return any other id from the same place, and the same call. This finds a second `id` member, and one that is nested.
    """
    before, behind = words
    before, behind = (before, b"}" + behind) if before.endswith(_NAME) else (before + _NAME, b"," + behind)
    stand_in = next((one for one in _STAND_INS if one not in before + behind), None)
    if stand_in is None:
        return False
    found = jsonrpc.decode(before + stand_in + behind)
    return isinstance(found, Call) and found.id == stand_in
