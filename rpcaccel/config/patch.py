"""Settings and a change make new settings, or faults. Pure: nothing is written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rpcaccel.config.document import to_table
from rpcaccel.config.faults import Fault, dotted
from rpcaccel.config.model import MemorySettings, Settings
from rpcaccel.config.validate import Judge, validate


def apply(settings: Settings, change: Mapping[str, Any], judge: Judge = lambda _settings: ()) -> Settings | list[Fault]:
    """The settings after a JSON merge patch (RFC 7396), or everything wrong with what it would make.

    A network's nodes are addressed by id: {"networks": {"harmony-s0": {"nodes": {"a": {"weight": 0}, "b": null}}}}
    sets one weight and removes one node; an id not there yet adds a node, behind the others. A list replaces them
    all. null puts a key back to its default.

    `judge` says what is wrong beyond what stands in the new settings.
    """
    merged = _said(merge(to_table(settings, reveal=True), change))
    faults = _renamed(merged)
    result = validate(_listed(merged), judge=judge)
    return faults + _by_id(result, merged) if isinstance(result, list) else faults or result


def _said(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the default that gives way to another value (memory.size), as nobody may have said it."""
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


def _tables(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The networks whose nodes are a table by id; what else a change made of them is for the model to refuse."""
    networks = document.get("networks")
    found = networks.items() if isinstance(networks, Mapping) else ()
    return {
        name: dict(net) for name, net in found if isinstance(net, Mapping) and isinstance(net.get("nodes"), Mapping)
    }


def _renamed(document: Mapping[str, Any]) -> list[Fault]:
    """A node's id is how it is known, and its state with it: it is not changed but removed and added."""
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
