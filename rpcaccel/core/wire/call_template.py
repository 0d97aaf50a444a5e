"""A call's wording: its text without its id. Clients say the same again and again, and only the id differs."""

from __future__ import annotations

import re

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call

LONGEST = 4096
"""Bytes of a text that is worth remembering."""
Wording = tuple[bytes, bytes]
"""What stands before an id and what behind it, each without what it always is: the name of the member and a comma. The
first part ends with the name where a brace follows the id instead."""
NONE: Wording = (b"", b"")
_NAME = b'"id":'
_NOUGHT = ord("0")
_SPACE = b" \t\r\n"
_PLAIN = re.compile(rb'0|[1-9][0-9]*+|"[ !#-\[\]-~]*+"')
"""An integer without a sign, or a string of printable ASCII without escapes: every reader reads these alike."""
_STAND_INS = (b'"an id"', b'"another id"', b'"a third id"')


def split(text: bytes) -> tuple[Wording, bytes]:
    """A call's wording and its id; NONE and nothing where no plain id stands behind the first `"id":`.

    That this is the call's id, and not something that looks like it, is for `holds` to say: once for each wording.
    """
    before, _, rest = text.partition(_NAME)
    call_id, comma, behind = rest.partition(b",")
    if comma and call_id.isdigit() and call_id[0] != _NOUGHT:  # a number with a nought before it is none
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
    """Does this wording alone say what is asked, whatever plain id is put into it?

    Asked of the decoder, with an id that stands nowhere else in the text: if that is what it finds, it would find any
    other id there, and the same call around it. A second id, or one deeper inside, shows here.
    """
    before, behind = words
    before, behind = (before, b"}" + behind) if before.endswith(_NAME) else (before + _NAME, b"," + behind)
    stand_in = next((one for one in _STAND_INS if one not in before + behind), None)
    if stand_in is None:
        return False
    found = jsonrpc.decode(before + stand_in + behind)
    return isinstance(found, Call) and found.id == stand_in
