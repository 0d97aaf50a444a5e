"""What lies between two settings: edits to show, a sentence to read, and the merge patch from one to the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rpcaccel.config.described import Kind, kind_at
from rpcaccel.config.document import to_table
from rpcaccel.config.faults import dotted
from rpcaccel.config.model import Settings
from rpcaccel.config.units import format_size

Keys = tuple[str, ...]

_OF_NODE = re.compile(r'nodes\.("(?:[^"\\]|\\.)*"|[^.]+)\.(.+)')
_TOLD = 4
"""Edits that a sentence names; the others are counted."""


class Edit(Struct, frozen=True):
    """One value that differs; None where there is nothing. Holds no secret: what is hidden stays so."""

    path: str
    before: Any
    after: Any


def difference(before: Settings, after: Settings) -> tuple[Edit, ...]:
    """Everything that differs, by path. A node or network that is there on one side only is one edit."""
    sides = [(to_table(settings, reveal=True), to_table(settings)) for settings in (before, after)]
    found = _walk((), sides[0], sides[1])
    return tuple(Edit(dotted(keys), *shown) for keys, shown in found)


def _walk(keys: Keys, before: tuple[Any, Any], after: tuple[Any, Any]) -> Iterator[tuple[Keys, tuple[Any, Any]]]:
    """Each side is a value and how it may be shown."""
    if isinstance(before[0], Mapping) and isinstance(after[0], Mapping):
        for key in [*before[0], *(key for key in after[0] if key not in before[0])]:
            inner = [(side[0].get(key), side[1].get(key)) for side in (before, after)]
            yield from _walk((*keys, key), inner[0], inner[1])
    elif before[0] != after[0]:
        yield keys, (before[1], after[1])


def patch_between(before: Settings, after: Settings) -> dict[str, Any]:
    """The merge patch (RFC 7396) with which `patch.apply(before, …)` gives `after`. It holds the secrets themselves."""
    return _patch(to_table(before, reveal=True), to_table(after, reveal=True))


def _patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    change: dict[str, Any] = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inner := _patch(old, value):
                change[key] = inner
        elif key not in before or old != value:
            change[key] = value
    return change


def sentence(edits: Iterable[Edit]) -> str:
    """The edits in words: "harmony-s0 a: weight 1 to 5; memory.size 256MB to 512MB"."""
    told = [_told(edit) for edit in edits]
    more = len(told) - _TOLD
    return "; ".join(told[:_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _told(edit: Edit) -> str:
    place = edit.path
    if place.startswith("networks."):
        network, _, rest = place.removeprefix("networks.").partition(".")
        of_node = _OF_NODE.match(rest)
        place = f"{network}: {rest.removeprefix('nodes.')}" if rest else f"network {network}"
        if of_node:
            place = f"{network} {of_node[1]}: {of_node[2]}"
    before, after = (_value(value, kind_at(edit.path)) for value in (edit.before, edit.after))
    if edit.before is None and edit.after is not None:
        return f"{place} added" if isinstance(edit.after, Mapping) else f"{place} set to {after}"
    if edit.after is None:
        return f"{place} removed" if isinstance(edit.before, Mapping) else f"{place} no longer {before}"
    if edit.before == edit.after:
        return f"{place} changed (not shown)"
    return f"{place} {before} to {after}"


def _value(value: Any, kind: Kind | None) -> str:
    if kind == "size" and isinstance(value, int):
        return format_size(value)
    if kind == "duration" and isinstance(value, int | float):
        return f"{value:g} s"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(_value(one, None) for one in value) or "nothing"
    if isinstance(value, Mapping):
        said = (f"{name} {_value(one, None)}" for name, one in value.items() if one not in (None, "", [], {}))
        return f"({', '.join(said)})"
    return str(value) or "nothing"


def touches(edits: Iterable[Edit], prefixes: Iterable[str]) -> tuple[str, ...]:
    """The paths among the edits that are one of `prefixes` or below one."""
    known = tuple(prefixes)
    return tuple(
        edit.path
        for edit in edits
        if any(edit.path == prefix or edit.path.startswith((f"{prefix}.", f"{prefix}[")) for prefix in known)
    )
