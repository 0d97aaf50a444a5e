"""What can be set, described for a page: made from the model, so that no explanation and no bound is said twice.

The JSON schema of the configuration file, for editors and for programs that write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

from msgspec import UNSET, Struct, UnsetType
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from rpcaccel.config.errors import annotation_at
from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.config.names import NODE_TEXT
from rpcaccel.config.secrets import RedisUrl
from rpcaccel.config.value_types import parse_duration, parse_size

Kind = Literal["size", "duration", "whole", "number", "switch", "choice", "list", "text"]
"""What a field for it takes: bytes, seconds, a whole or any number, yes or no, one of `choices`, texts, a text."""

EACH = "*"
"""Stands in a path for the name of any network, or of any node."""
_NAME = r'("(?:[^"\\]|\\.)*"|[^.]+)'
_NAMED = re.compile(rf"^(networks|clients\.keys)\.{_NAME}\.(?:nodes\.{_NAME}\.)?")

_APART = ("admin", "listen", "default_network", "clients.keys", "networks.*.nodes.*.id", "networks.*.nodes.*.url",
          "networks.*.nodes.*.headers", "networks.*.rules", "networks.*.error_rules", "networks.*.routes",
          "networks.*.chain", "networks.*.shard", "networks.*.chain_id")  # fmt: skip
"""What is no single value (it has views of its own) or a secret, or says what is served where, which is for the file
to decide."""


class Described(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting. `default` is left out where the chain decides."""

    path: str
    """Dotted, as a change names it: "memory.size", "networks.*.hedge.quantile", "networks.*.nodes.*.timeout"."""
    kind: Kind
    text: str
    default: Any | UnsetType = UNSET
    choices: tuple[str, ...] = ()
    """What it is one of; of a list, what its members are of."""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    """It must be more than this."""
    below: float | None = None


def described() -> list[Described]:
    """Every single value that the operator may set, in the order of the model; none that may hold a secret."""
    return list(_walk(Settings, ()))


def kind_at(path: str) -> Kind | None:
    """The kind of the setting at a path of a document, as faults and edits name it; None of what is not described."""
    return _kinds().get(_NAMED.sub(_shape, path))


@cache
def _kinds() -> dict[str, Kind]:
    return {one.path: one.kind for one in described()}


def _shape(named: re.Match[str]) -> str:
    """Holders of keys have the limits of callers without one."""
    if named[1] != "networks":
        return "clients.anonymous."
    return f"networks.{EACH}." + (f"nodes.{EACH}." if named[3] else "")


def _walk(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[Described]:
    for name, field in model.model_fields.items():
        here = (*path, name)
        if ".".join(here) in _APART:
            continue
        inner = annotation_at(model, (name,))
        if get_origin(inner) is dict or inner == tuple[NodeSettings, ...]:  # nodes are a table by id in a change
            here, inner = (*here, EACH), annotation_at(model, (name, EACH))
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _walk(inner, here)
        elif RedisUrl not in (inner, *get_args(inner)):
            yield _one(here, field)


def _one(path: tuple[str, ...], field: FieldInfo) -> Described:
    annotation, metadata = field.annotation, tuple(field.metadata)
    if type(None) in get_args(annotation):  # "or nothing": what is said of the value stands with the other part
        annotation = next(part for part in get_args(annotation) if part is not type(None))
        metadata += tuple(getattr(annotation, "__metadata__", ()))
    kind = _kind(annotation, metadata)
    default = field.get_default()
    return Described(
        path=".".join(path),
        kind=kind,
        text=field.description or "",
        default=UNSET if default is None else list(default) if kind == "list" else default,
        choices=_choices(annotation, kind),
        **_bounds(metadata),
    )


def _choices(annotation: Any, kind: Kind) -> tuple[str, ...]:
    if kind == "list":
        plain = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
        annotation = get_args(plain)[0]
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _bounds(metadata: tuple[Any, ...]) -> dict[str, float]:
    """Of the rules that annotated-types names so."""
    said = {"ge": "least", "le": "most", "gt": "above", "lt": "below"}
    return {
        name: float(getattr(rule, attribute))
        for rule in metadata
        for attribute, name in said.items()
        if hasattr(rule, attribute)
    }


def _kind(annotation: Any, metadata: tuple[Any, ...]) -> Kind:
    readers = [rule.func for rule in metadata if isinstance(rule, BeforeValidator)]
    plain = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    if parse_size in readers:
        return "size"
    if parse_duration in readers:
        return "duration"
    if get_origin(plain) is Literal:
        return "choice"
    if get_origin(plain) in (tuple, frozenset):
        return "list"
    kinds: dict[type, Kind] = {bool: "switch", int: "whole", float: "number"}
    return kinds.get(plain, "text")


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the document that `config.load` reads."""
    made: dict[str, Any] = Settings.model_json_schema(mode="validation")
    tables = made["$defs"]
    text = {"type": "string", "description": f"{NODE_TEXT}, all in one text."}
    tables["NodeSettings"] = {"anyOf": [text, {**tables["NodeSettings"], "required": ["url"]}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "rpcaccel configuration"}
