"""A document becomes settings, or the list of everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rpcaccel.config.faults import ConfigError, Fault, Path, dotted, from_pydantic, shown, source_of
from rpcaccel.config.fields import listed
from rpcaccel.config.model import Settings
from rpcaccel.config.naming import named_nodes, repeats

NO_NETWORK = "at least one network: give node URLs, or a [networks.NAME] table with nodes"


def validate(document: Mapping[str, Any], sources: Mapping[Path, str] | None = None) -> Settings | list[Fault]:
    """The settings of a document (the shape of the TOML file), or its faults, in the order of the paths."""
    said = sources or {}
    try:
        return Settings.model_validate(dict(document))
    except ValidationError as error:
        faults = from_pydantic(error.errors(include_url=False), Settings, said)
    if not document.get("networks"):
        faults = [Fault("networks", "nothing", NO_NETWORK), *(fault for fault in faults if fault.path != "networks")]
    faults += _cross_faults(document, said)
    return faults or [Fault("", "", "networks and nodes with names of their own")]


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
