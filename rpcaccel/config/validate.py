"""A document becomes settings, or the list of everything that is wrong with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rpcaccel.config.faults import ConfigError, Fault, Path, dotted, from_pydantic, shown, source_of
from rpcaccel.config.fields import listed
from rpcaccel.config.judge import Misfit, misfits
from rpcaccel.config.model import Settings
from rpcaccel.config.naming import named_nodes, repeats

NO_NETWORK = "at least one network: give node URLs, or a [networks.NAME] table with nodes"
_NODE = "http://127.0.0.1"
_STAND_IN = {"networks": {"x": {"nodes": [_NODE]}}}


Judge = Callable[[Settings], Iterable[Misfit]]
"""Says what is wrong with settings beyond what stands in them, such as files that are not there."""


def validate(
    document: Mapping[str, Any], sources: Mapping[Path, str] | None = None, judge: Judge = lambda _settings: ()
) -> Settings | list[Fault]:
    """The settings of a document (the shape of the TOML file), or its faults, in the order of the paths."""
    said = sources or {}
    faults: list[Fault] = []
    wrong: list[Path] = []
    settings: Settings | None
    try:
        settings = Settings.model_validate(dict(document))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        faults = from_pydantic(errors, Settings, said)
        if not document.get("networks"):
            missing = Fault("networks", "nothing", NO_NETWORK)
            faults = [missing, *(fault for fault in faults if fault.path != "networks")]
        faults += _cross_faults(document, said)
        faults = faults or [Fault("", "", "networks and nodes with names of their own")]
        wrong = _exact([one["loc"] for one in errors])
        settings = _remainder(document, wrong)
    if settings is not None:
        told = (*misfits(settings), *judge(settings))
        faults += [one.fault(said) for one in told if not _touched(one, wrong)]
        if not faults:
            return settings
    return faults


def _remainder(document: Mapping[str, Any], wrong: Sequence[Path]) -> Settings | None:
    """The settings without what is wrong by itself, so that rules over several of them are applied all the same; None
    where too little is left."""
    left: Any = document
    # First each value, or the member of a list that it is in; then its network, or its table, and what is wrong then.
    for cut in (_nearest, _table, _table, lambda _path: ("networks",)):
        left = _without(left, [cut(path) for path in wrong])
        try:
            return Settings.model_validate(left if left.get("networks") else {**left, **_STAND_IN})
        except ValidationError as error:
            wrong = _exact([one["loc"] for one in error.errors(include_url=False)])
    return None


def _exact(paths: Sequence[Path]) -> list[Path]:
    """The paths that no other goes beyond: a list is said to be too short when a member of it is wrong."""
    return [one for one in paths if not any(other[: len(one)] == one and other != one for other in paths)]


def validated(document: Mapping[str, Any], sources: Mapping[Path, str] | None = None) -> Settings:
    """The settings of a document. Raises ConfigError with every fault."""
    result = validate(document, sources)
    if isinstance(result, Settings):
        return result
    raise ConfigError(result)


def _cross_faults(document: Mapping[str, Any], said: Mapping[Path, str]) -> list[Fault]:
    """What single fields cannot see, from the raw document: so that it is found beside faults in fields."""
    networks = document.get("networks")
    if not isinstance(networks, Mapping) or not networks:
        return []
    faults = []
    default = document.get("default_network", "")
    if isinstance(default, str) and default and default not in networks:
        expected = f"one of the networks: {', '.join(map(str, networks))}"
        source = source_of(("default_network",), said)
        faults.append(Fault("default_network", shown(default), expected, source))
    for name, network in networks.items():
        nodes = network.get("nodes") if isinstance(network, Mapping) else None
        nodes = nodes.split() if isinstance(nodes, str) else nodes
        if not isinstance(nodes, list | tuple):
            continue
        tables = named_nodes(nodes)
        ids = [node.get("id") if isinstance(node, Mapping) else object() for node in tables]
        for index in repeats(ids):
            path: Path = ("networks", str(name), "nodes", index, "id")
            expected = f"another id than that of {dotted(path[:3])}[{ids.index(ids[index])}]"
            faults.append(Fault(dotted(path), shown(ids[index], path), expected, source_of(path, said)))
        faults += _lost_routes(str(name), network.get("routes"), tables, said)
    return faults


def _lost_routes(name: str, routes: Any, nodes: list[Any], said: Mapping[Path, str]) -> list[Fault]:
    """Routes to tags that no node has, where routes and tags can be read at all."""
    told = [listed(node.get("tags", ())) for node in nodes if isinstance(node, Mapping)]
    tags = sorted({str(tag) for some in told if isinstance(some, list | tuple) for tag in some})
    expected = f"a tag that some node of {name} has" + (f": {', '.join(tags)}" if tags else "; none has any")
    paths: list[tuple[Path, Any]] = [
        (("networks", name, "routes", index, "tag"), route["tag"])
        for index, route in enumerate(routes if isinstance(routes, list | tuple) else ())
        if isinstance(route, Mapping) and isinstance(route.get("tag"), str) and route["tag"] not in tags
    ]
    return [Fault(dotted(path), shown(tag, path), expected, source_of(path, said)) for path, tag in paths]


def _nearest(path: Path) -> Path:
    """The path of the value, or of the outermost member of a list above it."""
    if not path:
        return ("default_network",)  # the one rule over the whole document that the model itself holds
    path = path[:-1] if path[-1] == "[key]" else path
    return next((path[: depth + 1] for depth, part in enumerate(path) if isinstance(part, int)), path)


def _table(path: Path) -> Path:
    """The path of the network, or of the first table, that the value is in."""
    return path[: 2 if path[:1] == ("networks",) else 1] or _nearest(path)


def _without(value: Any, paths: Sequence[Path], name: object = "") -> Any:
    """A copy without what stands at these paths; a right node takes the place of a wrong one."""
    if not paths or not isinstance(value, Mapping | list | tuple):
        return value
    out = {path[0] for path in paths if len(path) == 1}
    below: dict[object, list[Path]] = {}
    for path in paths:
        if len(path) > 1:
            below.setdefault(path[0], []).append(path[1:])
    if isinstance(value, Mapping):
        return {key: _without(one, below.get(key, ()), key) for key, one in value.items() if key not in out}
    stand_in = [_NODE] if name == "nodes" else []
    kept = [stand_in if at in out else [_without(one, below.get(at, ()))] for at, one in enumerate(value)]
    return [one for some in kept for one in some]


def _touched(misfit: Misfit, wrong: Sequence[Path]) -> bool:
    """Is what the rule looks at, or what is below it or above it, wrong by itself?"""
    path = (*misfit.path, "[key]") if misfit.of_name else misfit.path
    pairs = itertools.product(filter(None, (path, misfit.also)), filter(None, wrong))
    return any(path[: len(other)] == other[: len(path)] for path, other in pairs)
