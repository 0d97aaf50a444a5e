"""Values inside results, and numbers in the spellings nodes use: bare integers, hex strings, decimal strings."""

from __future__ import annotations

import msgspec

from rpcaccel.core.jsontext import UNREADABLE


def number_at(result: bytes, path: str) -> int | None:
    """The number at `path` (members joined by dots, "." for the result itself); None when there is none."""
    return _number(value_at(result, path))


def value_at(result: bytes, path: str) -> object:
    """Whatever stands at `path`; None when nothing does."""
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


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value, 16 if value.startswith("0x") else 10)
        except ValueError:
            return None
    return None
