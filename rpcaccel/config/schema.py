"""The JSON Schema of the configuration file, from it the list of settings that a page offers for change, and the
reference: a page in Markdown with every key of the model, which docs/settings.md keeps.

Everything in the reference comes from the model: what a key takes, its default and bounds, its explanation, an example
that is valid as it stands, and the version that brought it. A field whose default says little (nothing, 0, an empty
list) names its own example by `examples`.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from msgspec import UNSET, Struct, UnsetType

from rpcaccel import balancers, chains
from rpcaccel.config.errors import dotted
from rpcaccel.config.model import Settings
from rpcaccel.config.sections import SINCE, LimitSettings, Section
from rpcaccel.config.value_types import KNOWN, NODE_TEXT, format_duration, format_size

FieldKind = Literal["size", "duration", "whole", "number", "switch", "choice", "list", "text"]
"""What a field takes: bytes, seconds, a whole or any number, yes or no, one of `choices`, a list of texts, a text."""

EACH = "*"
"""Stands in a path for the name of any network, or of any node."""

_APART = ("admin", "alerts.webhooks", "listen", "default_network", "clients.keys.*.hashes", "clients.keys.*.enabled",
          *(f"clients.keys.*.{limit}" for limit in LimitSettings.model_fields), "networks.*.nodes.*.id",
          "networks.*.nodes.*.url", "networks.*.nodes.*.ws", "networks.*.nodes.*.headers",
          "networks.*.nodes.*.quota.costs", "networks.*.rules",
          "networks.*.error_rules", "networks.*.routes", "networks.*.chain", "networks.*.shard",
          "networks.*.chain_id", "redis.url", "redis.replicas")  # fmt: skip
"""Settings that are no single value and have views of their own, that hold secrets, that are described of callers
without a key, or that say what is served where, which is for the file to decide."""
_KINDS: dict[str, FieldKind] = {"integer": "whole", "number": "number", "boolean": "switch", "array": "list"}
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
"""JSON Schema's keyword for each bound: pydantic writes its own names where a value may be left out."""
_OR_REFERENCE = r"|\$\{"
"""What is put behind the pattern of a text: a file may hold a reference to a variable in its place."""


class Described(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting. `default` is left out where the chain decides."""

    path: str
    """Dotted, as a change names it: "memory.size", "networks.*.hedge.quantile", "networks.*.nodes.*.timeout"."""
    kind: FieldKind
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
    explained = explanations()
    for name, table in (("Settings", made), *tables.items()):
        for key, field in table.get("properties", {}).items():
            field["description"] = explained.get(name, {}).get(key, "")
    text = {"type": "string", "description": f"{NODE_TEXT}, all in one text."}
    tables["NodeSettings"] = {"anyOf": [text, {**tables["NodeSettings"], "required": ["url"]}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "rpcaccel configuration"}


@cache
def explanations() -> dict[str, dict[str, str]]:
    """The docstrings beneath the fields of each section, those that it inherits among them. They are read from the
    source, once: in each process this would take a tenth of a second of its start. Those of a module without its source
    are missing."""
    own: dict[str, dict[str, str]] = {}
    for module in {sys.modules[section.__module__] for section in _sections(Section)}:
        with suppress(OSError):
            classes = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef))
            own |= {node.name: dict(_docstrings(node.body)) for node in classes}
    return {
        section.__name__: {
            name: text for base in reversed(section.__mro__) for name, text in own.get(base.__name__, {}).items()
        }
        for section in _sections(Section)
    }


def _sections(of: type[Section]) -> Iterator[type[Section]]:
    for section in of.__subclasses__():
        yield section
        yield from _sections(section)


def _docstrings(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The fields of a class that have a docstring beneath them, each with its text in one line."""
    for field, beneath in pairwise(body):
        match field, beneath:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())


def _as_written(schema: Any) -> Any:
    """The schema with the keywords of JSON Schema, for a file in which references are not replaced yet."""
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {_BOUNDS.get(key, key): _as_written(part) for key, part in schema.items()}
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].split())
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


FIRST = "0.2.0"
"""The first version that was released; a field that came later says so (sections.Since)."""

_KIND_WORDS = {"switch": "true or false", "whole": "integer"}
_PROGRAM = "Keys of the whole program, which stand in a file before its first table."
_KNOWN = {"chains": chains.names, "balancers": balancers.names}
"""The values of keys that name one of the files in a folder (value_types.KNOWN)."""
_INTRODUCTION = """\
# Settings

Look up a key of the configuration file; [Configure](configure.md) says where values come from and how they are changed.
`make reference` writes this page from the model of the settings, and `rpcaccel check --reference` prints it for the
version that is installed.

- **Key** is the path that faults, commands and the admin API use. `*` stands for a name that you choose (of a network,
  a node, an account, a method), or for the position of a table in a list of tables.
- **Takes**: a *size* is a number of bytes, or a text such as `"256MB"` or `"5MiB"`. A *duration* is a number of
  seconds, or a text such as `"30ms"`, `"10s"`, `"2m"` or `"12h"`. A *secret text* is never shown again.
- **Default** holds where the key is absent. An example follows where the default says little. Where it is *unset*, the
  explanation says what happens.
- A change at run time is in force with the next call. *New workers*: it waits for SIGHUP. *Restart*: it waits for a
  restart of the program. `0.3.0` and the like: the key is there since that version.
"""


class _Row(NamedTuple):
    """One key of a table, as cells of the page."""

    path: str
    takes: str
    default: str
    since: str
    text: str
    example: str | None
    """The value as a file holds it; None of a key whose tables have a heading of their own."""


def page(*, restart: Collection[str], new_workers: Collection[str], flags: Mapping[str, str]) -> str:
    """The page. `restart` and `new_workers` are the paths whose changes wait for those; `flags` names the flag of a
    path."""
    waits = {**dict.fromkeys(new_workers, "New workers"), **dict.fromkeys(restart, "Restart")}
    sections = [_section(path, model, rows, waits, flags) for path, model, rows in tables(Settings, schema())]
    return "\n".join([_INTRODUCTION.rstrip("\n"), *sections]) + "\n"


def tables(
    model: type[Section], root: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], type[Section], list[_Row]]]:
    """The tables of a model with their paths and keys, the outer ones first. `root` is the model's JSON Schema. Raises
    ValueError naming a field that should have an example."""
    return _tables(model, root, root.get("$defs", {}), ())


def _tables(
    model: type[Section], table: Mapping[str, Any], tables: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[Section], list[_Row]]]:
    """Each table of the model with its keys: first a table's own, then those that it has in common with others."""
    rows: list[_Row] = []
    inner: list[tuple[type[Section], Mapping[str, Any], tuple[str, ...]]] = []
    for name in sorted(table["properties"], key=lambda name: _inherits(model, name)):
        field = table["properties"][name]
        here = (*path, name)
        below, several = members(field, tables)
        if below is not None:
            section = _section_in(model.model_fields[name].annotation)
            inner.append((section, below, (*here, EACH) if several else here))
        if below is None or several:
            rows.append(_row(here, field, required=name in table.get("required", ())))
    yield path, model, rows
    for part, below, there in inner:
        yield from _tables(part, below, tables, there)


def _inherits(model: type[Section], name: str) -> bool:
    return any(name in getattr(base, "model_fields", ()) for base in model.__mro__[1:])


def _section_in(annotation: Any) -> type[Section]:
    """The section that an annotation holds: itself, or as a member of a list or a table."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(_section_in(part) for part in reversed(get_args(annotation)) if part is not Ellipsis)


def _row(path: tuple[str, ...], field: Mapping[str, Any], *, required: bool) -> _Row:
    below = field.get("items", field)
    is_table = "$ref" in below or field.get("type") == "object"
    one = describe(path, field)
    examples = field.get("examples", ())
    return _Row(
        path=".".join(path),
        takes=_takes_tables(field) if is_table else _takes(one, field),
        default="*required*"
        if required
        else "*unset*"
        if one.default is UNSET
        else f"`{_toml(one.default, one.kind)}`",
        since=field.get(SINCE, FIRST),
        text=one.text,
        example=_toml(examples[0], "text") if examples else None if is_table else _toml(_example(one), one.kind),
    )


def _example(one: Described) -> Any:
    """The default where it says something; true of a switch that is off."""
    if one.default is False:
        return True
    if one.default is UNSET or one.default in (0, "", []):
        raise ValueError(f"{one.path}: its field has to name an example (examples=[...]): its default says little")
    return one.default


def _takes_tables(field: Mapping[str, Any]) -> str:
    if field.get("type") == "array":
        most = f", ≤ {field['maxItems']:,}" if "maxItems" in field else ""
        return f"list of tables{most}"
    values = field.get("additionalProperties")
    if values and values.get("type") == "number":
        return f"numbers by name, {values['minimum']:,} to {values['maximum']:,.0f}, ≤ {field['maxProperties']:,}"
    return "tables by name" if not values or "$ref" in values else "secret texts by name"


def _takes(one: Described, field: Mapping[str, Any]) -> str:
    """The type and the bounds of a value."""
    if choices := one.choices or _KNOWN.get(field.get(KNOWN, ""), tuple)():
        named = ", ".join(f"`{json.dumps(choice)}`" for choice in choices)
        return f"list of {named}" if one.kind == "list" else named
    if one.kind == "list":
        of = {"integer": "whole numbers", "array": "texts or of lists of texts"}.get(
            field["items"].get("type"), "texts"
        )
        return f"list of secret {of}" if field["items"].get("writeOnly") else f"list of {of}"
    if one.kind == "text":
        longest = f", ≤ {field['maxLength']:,} characters" if "maxLength" in field else ""
        return ("secret text" if field.get("writeOnly") else "text") + longest
    also = ' or `"auto"`' if "^auto$" in field.get("pattern", "") else ""
    return ", ".join([_KIND_WORDS.get(one.kind, one.kind) + also, *_bounds_of(one)])


def _bounds_of(one: Described) -> Iterator[str]:
    least, most = one.least, one.most
    if least is not None and most is not None:
        yield f"{_bound(least, one.kind)} to {_bound(most, one.kind)}"
        return
    for sign, bound in (("≥", least), (">", one.above), ("≤", most), ("<", one.below)):
        if bound is not None:
            yield f"{sign} {_bound(bound, one.kind)}"


def _bound(value: float, kind: str) -> str:
    if kind in ("size", "duration"):
        return _toml(value, kind).strip('"')
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _toml(value: Any, kind: str) -> str:
    """A value as a file holds it. Sizes and durations are texts with a unit."""
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{dotted([key])} = {_toml(inner, kind)}" for key, inner in value.items()) + " }"
            if value
            else "{}"
        )
    if kind in ("size", "duration") and not isinstance(value, str):
        return f'"{format_size(int(value)) if kind == "size" else format_duration(value)}"' if value else "0"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _section(
    path: tuple[str, ...],
    model: type[Section],
    rows: list[_Row],
    waits: Mapping[str, str],
    flags: Mapping[str, str],
) -> str:
    about = " ".join((model.__doc__ or "").split()) if path else _PROGRAM
    title = f"`{'.'.join(path)}`" if path else "The program"
    lines = [f"\n## {title}\n", about, ""]
    lines += ["| key | takes | default | explanation |", "|---|---|---|---|"]
    for row in rows:
        when = next((when for at, when in waits.items() if f"{row.path}.".startswith(f"{at}.")), "")
        notes = (row.text, f"Flag: `{flags[row.path]}`." if row.path in flags else "", f"*{when}.*" if when else "",
                 f"`{row.since}`." if row.since != FIRST else "")  # fmt: skip
        says_all = row.example in (None, row.default.strip("`")) or row.takes == "true or false"
        default = row.default if says_all else f"{row.default}, e.g. `{row.example}`"
        cells = (f"`{row.path}`", row.takes, default, " ".join(filter(None, notes)))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
