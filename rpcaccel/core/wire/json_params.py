"""Params as a lossless tree, the way back to text, and single values out of results.

Numbers keep their text, because `26`, `26.0` and `2.6e1` are three different values to a node. A text that two parsers
may read differently is unreadable here and forwarded as it came: a repeated member, also one that differs in case only
(Go's decoder takes the last of `to` and `To`), and escapes (nodes read block numbers and tags from the raw text).

Numbers in results come in the spellings of nodes: bare integers, hex strings and decimal strings.
"""

from __future__ import annotations

import contextlib
import json
import re
from json.encoder import encode_basestring
from typing import Any, cast

import msgspec

from rpcaccel.core.wire.json_text import UNREADABLE

MAX_TEXT = 128 * 1024
"""Bytes of the longest params that are parsed. Parsing longer ones would delay every other call."""

GREATEST = 2**53 - 1
"""The greatest number that is taken from a node. Every number of a chain (blocks, ids, seconds) is far below, and what
knows floats alone tells it from its neighbours (RFC 8259, section 6)."""
_LONGEST = 66
"""Characters of the longest text that is read as a number."""
MAX_DEPTH = 100
"""Nested arrays and objects that are parsed. The parser is recursive: clients must not choose its depth."""


class Number(str):
    """A JSON number as the text it was sent as."""

    __slots__ = ()


Tree = None | bool | str | Number | list[Any] | dict[str, Any]


class Unreadable(Exception):
    """The text is too long, nested too deeply, ambiguous, or not JSON by RFC 8259."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len({name.casefold() for name in members}) != len(pairs):
        raise Unreadable("a member is repeated")
    return members


def _refuse_constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON")


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?')
_BRACKET = re.compile(rb"[\[\]{}]")
_decoder = json.JSONDecoder(
    object_pairs_hook=_members, parse_float=Number, parse_int=Number, parse_constant=_refuse_constant
)
_SPACE = b" \t\r\n"


def read(text: bytes) -> Tree:
    """Parse a raw JSON text into a tree.

    Raises:
        Unreadable: the text is longer than MAX_TEXT bytes or deeper than MAX_DEPTH, repeats a member, has escapes or
            is not JSON.
    """
    if len(text) > MAX_TEXT:
        raise Unreadable(f"longer than {MAX_TEXT} bytes")
    if b"\\" in text:
        raise Unreadable("it has escapes")
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise Unreadable(f"nested deeper than {MAX_DEPTH}")
    try:
        words = text.strip(_SPACE).decode()
        tree, end = _decoder.raw_decode(words)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    if end != len(words):
        raise Unreadable("something follows the value")
    return cast(Tree, tree)


def _depth(text: bytes) -> int:
    """The levels of nested arrays and objects."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def write(tree: Tree, *, sort: bool = False) -> bytes:
    """The JSON text of a tree, without spaces; with `sort`, members in the order of their names."""
    if isinstance(tree, str):
        word = tree if isinstance(tree, Number) else encode_basestring(tree)
        return word.encode("utf-8", "surrogatepass")
    parts: list[str] = []
    _append(tree, parts, sort)
    return "".join(parts).encode("utf-8", "surrogatepass")


def _append(tree: Tree, parts: list[str], sort: bool) -> None:
    if isinstance(tree, Number):
        parts.append(str(tree))
    elif isinstance(tree, str):
        parts.append(encode_basestring(tree))
    elif tree is None:
        parts.append("null")
    elif tree is True:
        parts.append("true")
    elif tree is False:
        parts.append("false")
    elif isinstance(tree, list):
        _append_list(tree, parts, sort)
    else:
        _append_object(tree, parts, sort)


def _append_list(items: list[Any], parts: list[str], sort: bool) -> None:
    parts.append("[")
    for position, item in enumerate(items):
        if position:
            parts.append(",")
        _append(item, parts, sort)
    parts.append("]")


def _append_object(members: dict[str, Any], parts: list[str], sort: bool) -> None:
    parts.append("{")
    for position, name in enumerate(sorted(members) if sort else members):
        if position:
            parts.append(",")
        parts.append(encode_basestring(name))
        parts.append(":")
        _append(members[name], parts, sort)
    parts.append("}")


def number_at(result: bytes, path: str) -> int | None:
    """The number at `path` (members joined by dots, "." for the result itself); None when there is none."""
    return as_number(value_at(result, path))


def value_at(result: bytes, path: str) -> object:
    """The value at `path`, parsed; None when there is none."""
    try:
        value = msgspec.json.decode(result)
    except UNREADABLE:
        return None
    for name in path.split("."):
        if not name:
            continue
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def as_number(value: object) -> int | None:
    """The number that nodes write as an integer, in decimal or in hex; None for one that is no count of anything."""
    number = -1
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and len(value) <= _LONGEST:
        digits, base = (value[2:], 16) if value.startswith("0x") else (value, 10)
        with contextlib.suppress(ValueError):
            number = int(digits, base) if digits.isascii() and digits.isalnum() else -1
    return number if 0 <= number <= GREATEST else None
