"""The overlay of changes made at run time: how it is laid over what file, environment and flags say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rpcaccel.config.errors import RETIRED, ConfigError, Path, dotted
from rpcaccel.config.model import Settings
from rpcaccel.config.patch import apply, present, to_table


class Told(NamedTuple):
    """The value that a flag or a variable gives to one setting."""

    path: tuple[str, ...]
    value: Any
    by: str

    @property
    def key(self) -> str:
        """The path as a state file writes it."""
        return ".".join(self.path)


def told_of(base: Settings, sources: Mapping[Path, str]) -> tuple[Told, ...]:
    """The single settings that flags and variables set. A list of nodes is not one: nodes are identified by id."""
    table = to_table(base, reveal=True)
    found = []
    for path, by in sources.items():
        for exact in _paths(base, path):
            value = _at(table, exact)
            if not isinstance(value, Mapping):
                found.append(Told(exact, value, by))
    return tuple(found)


def newest(
    overlay: Mapping[str, Any], told: Sequence[Told], before: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The overlay without settings that flags or variables have set since it was saved, and sentences about such
    conflicts. The newer value holds: a flag with the value in `before` was there when the change was made; a flag with
    another value, or a new one, was given after it."""
    kept = dict(present(overlay))
    said = []
    for one in told:
        if _at(kept, one.path) is _ABSENT:
            continue
        if one.key in before and before[one.key] == one.value:
            said.append(f"{one.by} is overruled by a later change at run time: {one.key}")
        else:
            kept = _without(kept, one.path)
            said.append(f"{one.by} was given after the change of {one.key} at run time, and holds")
    return kept, tuple(said)


_ABSENT = object()


def _paths(base: Settings, path: Path) -> list[tuple[str, ...]]:
    """The exact paths of a path with `*` (every network) or with a node's position."""
    if path[:1] != ("networks",) or len(path) < 3:
        return [tuple(map(str, path))]
    names = list(base.networks) if path[1] == "*" else [str(path[1])]
    found = []
    for name in names:
        rest = path[2:]
        if len(rest) > 1 and rest[0] == "nodes" and isinstance(rest[1], int):
            rest = ("nodes", base.networks[name].nodes[rest[1]].id, *rest[2:])
        found.append(("networks", name, *map(str, rest)))
    return found


def _at(table: Any, path: Sequence[str]) -> Any:
    for part in path:
        if not isinstance(table, Mapping) or part not in table:
            return _ABSENT
        table = table[part]
    return table


def _without(table: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The table without the value at a path, and without tables that become empty by that."""
    first, *rest = path
    inner = _without(table[first], rest) if rest else {}
    return {**table, first: inner} if inner else {key: value for key, value in table.items() if key != first}


class Laid(NamedTuple):
    """Settings with an overlay laid over them, and sentences about changes that no longer had a place."""

    settings: Settings
    left_out: tuple[str, ...]


def lay(base: Settings, overlay: Mapping[str, Any]) -> Laid:
    """Lay an overlay (a merge patch) over `base`, without its changes of nodes and networks that `base` no longer has,
    and without retired settings of an older version. Raises ConfigError when the rest does not make settings."""
    left_out: list[str] = []
    change = {**overlay, **_networks(base, overlay, left_out)}
    result = apply(base, change, networks_later=not base.networks)
    if isinstance(result, Settings):
        return Laid(result, tuple(left_out))
    raise ConfigError(result)


def _networks(base: Settings, overlay: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    networks = overlay.get("networks")
    if not isinstance(networks, Mapping):
        return {}
    kept: dict[str, Any] = {}
    for name, change in networks.items():
        # A network with nodes stands alone, and None, which removes one, does no harm.
        stands_alone = change is None or (isinstance(change, Mapping) and bool(change.get("nodes")))
        if name not in base.networks and not stands_alone:
            left_out.append(f"what was changed of network {name} is left out: it is no longer there")
        else:
            kept[name] = _nodes(base, name, _without_retired(name, change, left_out), left_out)
    return {"networks": kept}


def _without_retired(name: str, change: Any, left_out: list[str]) -> Any:
    retired = RETIRED.keys() & change.keys() if isinstance(change, Mapping) else ()
    left_out += [f"{dotted(('networks', name, key))} is left out: it is no longer a setting" for key in sorted(retired)]
    return {key: value for key, value in change.items() if key not in retired} if retired else change


def _nodes(base: Settings, name: str, change: Any, left_out: list[str]) -> Any:
    nodes = change.get("nodes") if isinstance(change, Mapping) else None
    if name not in base.networks or not isinstance(nodes, Mapping):
        return change
    there = {node.id for node in base.networks[name].nodes}
    kept = {}
    for key, value in nodes.items():
        if key not in there and isinstance(value, Mapping) and "url" not in value:
            left_out.append(f"what was changed of node {key} of {name} is left out: it is no longer there")
        else:
            kept[key] = value
    return {**change, "nodes": kept}
