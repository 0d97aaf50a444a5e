"""Every key also as an environment variable: RPCACCEL_ and the path, upper case, with __ for each dot.

RPCACCEL_LISTEN, RPCACCEL_REDIS__URL, RPCACCEL_NETWORKS__HARMONY_S0__BALANCER,
RPCACCEL_NETWORKS__HARMONY_S0__NODES="https://a,weight=2 https://b" (or a JSON list), and for one node by its id,
RPCACCEL_NETWORKS__HARMONY_S0__NODES__NODE_A__WEIGHT. In names of networks, nodes and headers, _ stands for
whatever a variable cannot hold (dash, dot, colon): a name there already is found so; a new one gets dashes.
An empty variable counts as not set. Lists of texts are separated by commas or spaces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_origin

from pydantic import BaseModel

from rpcaccel.config.faults import Fault, Path, annotation_at, dotted, known_keys, unknown_key
from rpcaccel.config.model import Settings
from rpcaccel.config.naming import named_nodes

PREFIX = "RPCACCEL_"
_ARGUMENTS = ("CONFIG", "NODES", "CHAIN", "SHARD", "DEBUG", "ADMIN", "TOKEN", "STATE")
OTHERS = frozenset(f"{PREFIX}{name}" for name in _ARGUMENTS)
"""Variables that are not keys of the settings: arguments of commands."""

# What Kubernetes sets in every pod for a service called rpcaccel or rpcaccel-something.
_SERVICE_LINK = re.compile(
    r"RPCACCEL(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


def overlay(document: dict[str, Any], environ: Mapping[str, str]) -> tuple[dict[Path, str], list[Fault]]:
    """Lay the variables over the document, in place; who set what, and what could not be placed."""
    sources: dict[Path, str] = {}
    faults: list[Fault] = []
    for name in sorted(filter(_is_key, environ), key=lambda name: (name.count("__"), name)):
        if not environ[name].strip():
            continue
        source = f"from {name}"
        try:
            path = _place(document, name.removeprefix(PREFIX).split("__"), source)
        except _NoSuchKeyError as error:
            faults.append(error.fault)
            continue
        value = _value(environ[name], path)
        put(document, path, value.split() if path[-1] == "nodes" and isinstance(value, str) else value)
        sources[path] = source
    return sources, faults


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set what stands at a path, making the tables on the way; `*` is every table there."""
    here: Any = document
    for depth, part in enumerate(path[:-1]):
        if part == "*":
            for name in list(here):
                put(here, (name, *path[depth + 1 :]), value)
            return
        inner = here[part] if isinstance(part, int) else here.get(part)
        if not isinstance(inner, (dict, list)):
            inner = here[part] = {}
        here = inner
    here[path[-1]] = value


class _NoSuchKeyError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def _is_key(name: str) -> bool:
    return name.startswith(PREFIX) and name not in OTHERS and not _SERVICE_LINK.fullmatch(name)


def _place(document: dict[str, Any], segments: Iterable[str], source: str) -> Path:
    """The path in the document that a variable's segments mean. Raises _NoSuchKeyError."""
    path: Path = ()
    here: Any = document
    for segment in segments:
        annotation = annotation_at(Settings, path)
        if path[-1:] == ("nodes",):
            part: str | int = _node_index(here, segment, path, source)
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            part = segment.lower()
            if part not in annotation.model_fields:
                raise _NoSuchKeyError(unknown_key((*path, part), known_keys(Settings, path), source))
        elif get_origin(annotation) is dict:
            names = here if isinstance(here, dict) else ()
            part = next((name for name in names if folded(name) == folded(segment)), _spelt(segment))
        else:
            raise _NoSuchKeyError(Fault(dotted(path), "", "no keys below this one", source))
        here = _step(here, part)
        path = (*path, part)
    return path


def _node_index(nodes: Any, segment: str, path: Path, source: str) -> int:
    tables = named_nodes(nodes) if isinstance(nodes, list) else []
    ids = [str(node.get("id")) if isinstance(node, dict) else "" for node in tables]
    for index, name in enumerate(ids):
        if folded(name) == folded(segment):
            nodes[:] = tables
            return index
    there = f"one of the nodes: {', '.join(filter(None, ids))}" if ids else "nodes, which are not there yet"
    raise _NoSuchKeyError(Fault(dotted((*path, segment.lower())), "no such node", there, source))


def _step(here: Any, part: str | int) -> Any:
    if isinstance(part, int):
        return here[part]
    return here.get(part) if isinstance(here, dict) else None


def folded(name: str) -> str:
    """The name as a variable can spell it."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _spelt(segment: str) -> str:
    return segment.lower().replace("_", "-")


def _value(text: str, path: Path) -> Any:
    annotation = annotation_at(Settings, path)
    compound = get_origin(annotation) is not None or known_keys(Settings, path)
    if compound and text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
