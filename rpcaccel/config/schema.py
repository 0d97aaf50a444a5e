"""The JSON Schema of the configuration file, and from it the list of settings that a page offers for change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from rpcaccel.config.model import Settings
from rpcaccel.config.names import NODE_TEXT

Kind = Literal["size", "duration", "whole", "number", "switch", "choice", "list", "text"]
"""What a field takes: bytes, seconds, a whole or any number, yes or no, one of `choices`, a list of texts, a text."""

EACH = "*"
"""Stands in a path for the name of any network, or of any node."""

_APART = ("admin", "alerts.webhooks", "listen", "default_network", "clients.keys", "networks.*.nodes.*.id",
          "networks.*.nodes.*.url", "networks.*.nodes.*.ws", "networks.*.nodes.*.headers", "networks.*.rules",
          "networks.*.error_rules", "networks.*.routes", "networks.*.chain", "networks.*.shard",
          "networks.*.chain_id", "redis.url", "redis.replicas")  # fmt: skip
"""Settings that are no single value and have views of their own, that hold secrets, or that say what is served where,
which is for the file to decide."""
_KINDS: dict[str, Kind] = {"integer": "whole", "number": "number", "boolean": "switch", "array": "list"}
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
"""JSON Schema's keyword for each bound: pydantic writes its own names where a value may be left out."""
_OR_REFERENCE = r"|\$\{"
"""What is put behind the pattern of a text: a file may hold a reference to a variable in its place."""


class Described(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting. `default` is left out where the chain decides."""

    path: str
    """Dotted, as a change names it: "memory.size", "networks.*.hedge.quantile", "networks.*.nodes.*.timeout"."""
    kind: Kind
    text: str
    default: Any | UnsetType = UNSET
    choices: tuple[str, ...] = ()
    """The values to choose from; of a list, the values that its members may have."""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    """The value must be greater than this."""
    below: float | None = None


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the document that `config.load` reads, before references to variables are replaced."""
    made: dict[str, Any] = _as_written(Settings.model_json_schema(mode="validation"))
    tables = made["$defs"]
    text = {"type": "string", "description": f"{NODE_TEXT}, all in one text."}
    tables["NodeSettings"] = {"anyOf": [text, {**tables["NodeSettings"], "required": ["url"]}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "rpcaccel configuration"}


def _as_written(schema: Any) -> Any:
    """The schema with the keywords of JSON Schema, for a file in which references are not replaced yet."""
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {_BOUNDS.get(key, key): _as_written(part) for key, part in schema.items()}
    return made | {"pattern": made["pattern"] + _OR_REFERENCE} if isinstance(made.get("pattern"), str) else made


def described() -> list[Described]:
    """Every single value that the operator may set, in the order of the model; none that may hold a secret."""
    root = schema()
    return list(_walk(root, root["$defs"], ()))


def _walk(table: Mapping[str, Any], tables: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Described]:
    for name, field in table["properties"].items():
        here = (*path, name)
        if ".".join(here) in _APART:
            continue
        inner, several = members(field, tables)
        if inner is None:
            yield describe(here, field)
        else:
            yield from _walk(inner, tables, (*here, EACH) if several else here)


def members(field: Mapping[str, Any], tables: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """The schema of the table under a key, and whether there are several such tables, by name or in a list (networks,
    nodes, keys); None of a key that holds no table. `tables` are the `$defs` of the schema."""
    by_name = field.get("additionalProperties")
    parts = [*field.get("patternProperties", {}).values(), field.get("items", {}), by_name or {}]
    several = next((part["$ref"] for part in parts if "$ref" in part), None)
    reference = several or field.get("$ref")
    if reference is None:
        return None, False
    inner = tables[reference.rpartition("/")[2]]
    return inner["anyOf"][-1] if "anyOf" in inner else inner, several is not None


def describe(path: tuple[str, ...], field: Mapping[str, Any]) -> Described:
    """One key, from its field in the schema."""
    value = {**field["anyOf"][0], **field} if "anyOf" in field else field  # the other part is null
    kind = value["type"] if isinstance(value["type"], str) else value["type"][0]
    form = value.get("format")
    default = value.get("default")
    return Described(
        path=".".join(path),
        kind=form if form in ("size", "duration") else "choice" if "enum" in value else _KINDS.get(kind, "text"),
        text=value["description"],
        default=UNSET if default is None else default,
        choices=tuple(value.get("items", value).get("enum", ())),
        least=value.get("minimum"),
        most=value.get("maximum"),
        above=value.get("exclusiveMinimum"),
        below=value.get("exclusiveMaximum"),
    )
