"""Settings as documents, and changes of them: a merge patch makes new settings, and two settings make a patch or a list
of edits.

A document has the shape of the TOML file, made of dicts, lists, texts and numbers. Nothing here changes its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rpcaccel.config.errors import Fault, dotted
from rpcaccel.config.model import MemorySettings, Settings, with_present_names
from rpcaccel.config.secrets import REVEAL
from rpcaccel.config.validate import JudgeSettings, validate


def to_document(settings: Settings, *, reveal: bool = False) -> dict[str, Any]:
    """The document of all settings. Secrets are masked unless `reveal`, which is for documents that are stored."""
    document: dict[str, Any] = settings.model_dump(mode="json", context=REVEAL if reveal else None)
    return document


def to_table(settings: Settings, *, reveal: bool = False) -> dict[str, Any]:
    """The document with each network's nodes as a table by id, which is the shape of a change."""
    document = to_document(settings, reveal=reveal)
    for network in document["networks"].values():
        network["nodes"] = {node["id"]: node for node in network["nodes"]}
    return document


def apply(
    settings: Settings,
    change: Mapping[str, Any],
    judge: JudgeSettings = lambda _settings: (),
    *,
    networks_later: bool = False,
) -> Settings | list[Fault]:
    """The settings after a JSON merge patch (RFC 7396), or the faults of what it would make. Nodes are addressed by id:
    {"networks": {"harmony-s0": {"nodes": {"a": {"weight": 0}, "b": null}}}} sets one weight and removes one node; a new
    id adds a node behind the others, and a list replaces all nodes. null puts a key back to its default. `judge`
    returns broken rules that the settings alone do not show. `networks_later`: there may be no network yet."""
    merged = _said(merge(to_table(settings, reveal=True), present(change)))
    faults = _renamed(merged)
    result = validate(_listed(merged), judge=judge, networks_later=networks_later)
    return faults + _by_id(result, merged) if isinstance(result, list) else faults or result


def present(change: Mapping[str, Any]) -> Mapping[str, Any]:
    """The change with the settings of its networks under the names that they have now."""
    networks = change.get("networks")
    if not isinstance(networks, Mapping):
        return change
    return {**change, "networks": {name: with_present_names(network) for name, network in networks.items()}}


def _said(document: dict[str, Any]) -> dict[str, Any]:
    """The document without a default that gives way to another setting (memory.max_entry to memory.size)."""
    memory = document.get("memory")
    if not isinstance(memory, Mapping) or memory.get("max_entry") != MemorySettings.model_fields["max_entry"].default:
        return document
    return {**document, "memory": {key: value for key, value in memory.items() if key != "max_entry"}}


def merge(target: Any, change: Any) -> Any:
    """RFC 7396, section 2; neither argument is changed."""
    if not isinstance(change, Mapping):
        return change
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def compose(first: Any, second: Any) -> Any:
    """The merge patch that does what two do one after the other, except where the first removes a table and the second
    makes it again: what the second does not name is then kept."""
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    return {**first, **{key: compose(first.get(key), value) for key, value in second.items()}}


def _tables(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The networks whose nodes are a table by id; anything else is left for the model to refuse."""
    networks = document.get("networks")
    found = networks.items() if isinstance(networks, Mapping) else ()
    return {
        name: dict(net) for name, net in found if isinstance(net, Mapping) and isinstance(net.get("nodes"), Mapping)
    }


def _renamed(document: Mapping[str, Any]) -> list[Fault]:
    """Faults of changed ids: a node's state belongs to its id, so a node is removed and added instead."""
    stays = "the id of a node stays {}; remove the node and add another"
    return [
        Fault(dotted(("networks", name, "nodes", key, "id")), "", stays.format(key))
        for name, network in _tables(document).items()
        for key, node in network["nodes"].items()
        if isinstance(node, Mapping) and node.get("id", key) != key
    ]


def _by_id(faults: list[Fault], document: Mapping[str, Any]) -> list[Fault]:
    """The faults with each node under its id, as the change has it, and not under its place in the list."""
    places = {
        dotted(("networks", name, "nodes", place)): dotted(("networks", name, "nodes", key))
        for name, network in _tables(document).items()
        for place, key in enumerate(network["nodes"])
    }
    found = [(fault, *fault.path.partition("]")) for fault in faults]
    return [
        msgspec.structs.replace(fault, path=places[place + end] + rest) if place + end in places else fault
        for fault, place, end, rest in found
    ]


def _listed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with nodes as the list the model reads."""
    networks = document.get("networks")
    if not isinstance(networks, Mapping):
        return document
    listed = dict(networks)
    for name, network in _tables(document).items():
        nodes = [{**node, "id": key} if isinstance(node, Mapping) else node for key, node in network["nodes"].items()]
        listed[name] = {**network, "nodes": nodes}
    return {**document, "networks": listed}


Keys = tuple[str, ...]

_TOLD = 4
"""Edits that a listing names; the others are counted."""
_LONGEST = 80
"""Characters of a value in a listing."""


class Edit(Struct, frozen=True):
    """One value that differs; None where there is nothing. Holds no secret: what is hidden stays so."""

    path: str
    before: Any
    after: Any


def difference(before: Settings, after: Settings) -> tuple[Edit, ...]:
    """Everything that differs, by path. A node or network that is there on one side only is one edit."""
    if before is after:
        return ()
    sides = [(to_table(settings, reveal=True), to_table(settings)) for settings in (before, after)]
    return tuple(Edit(dotted(keys), old, new) for keys, (_, old), (_, new) in _walk(sides[0], sides[1]))


Side = tuple[Any, Any]
"""A value and its masked form."""


def _walk(before: Side, after: Side, keys: Keys = ()) -> Iterator[tuple[Keys, Side, Side]]:
    """The values that differ between two sides, by their keys."""
    if isinstance(before[0], Mapping) and isinstance(after[0], Mapping):
        for key in {**before[0], **after[0]}:
            old, new = ((side[0].get(key), side[1].get(key)) for side in (before, after))
            yield from _walk(old, new, (*keys, key))
    elif before[0] != after[0]:
        yield keys, before, after


def patch_between(before: Settings, after: Settings) -> dict[str, Any]:
    """The merge patch (RFC 7396) with which `patch.apply(before, …)` gives `after`. It holds the secrets themselves."""
    change: dict[str, Any] = {}
    old, new = to_table(before, reveal=True), to_table(after, reveal=True)
    for (*tables, key), _, (value, _) in _walk((old, old), (new, new)):
        inner = change
        for name in tables:
            inner = inner.setdefault(name, {})
        inner[key] = value
    return change


def listing(edits: Iterable[Edit]) -> str:
    """The edits in one line: "networks.x.nodes.a.weight: 1 -> 5; memory.size: 256000000 -> 512000000"."""
    told = [f"{edit.path}: {_value(edit.before)} -> {_value(edit.after)}" for edit in edits]
    more = len(told) - _TOLD
    return "; ".join(told[:_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _value(value: Any) -> str:
    """A value as JSON, cut where it is long. A table that was added or removed is not listed member by member."""
    if isinstance(value, Mapping):
        return "{…}"
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def touches(edits: Iterable[Edit], prefixes: Iterable[str]) -> tuple[str, ...]:
    """The paths among the edits that are one of `prefixes` or below one."""
    known = tuple(prefixes)
    return tuple(
        edit.path
        for edit in edits
        if any(edit.path == prefix or edit.path.startswith((f"{prefix}.", f"{prefix}[")) for prefix in known)
    )
