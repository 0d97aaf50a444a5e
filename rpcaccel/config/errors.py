"""Faults of a configuration: where each is, what was found and what was expected. No fault shows a secret."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

import msgspec
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from rpcaccel.config.secrets import Secret, shown_url
from rpcaccel.config.toml_file import Expanded
from rpcaccel.config.value_types import NODE_TEXT

Path = tuple[str | int, ...]

NOT_SHOWN = "a value that is not shown"
_SECRET_KEYS = frozenset({"url", "replicas", "headers", "hashes", "password"})
MOST_FAULTS = 40
"""Faults that are listed of one document."""
MOST_MEMBERS = 5000
"""Members of one table or list."""
MOST_CHANGED = 20_000
"""Members of all tables and lists of a change together."""
_MOST_IN_ALL = 400_000
"""Members of all tables and lists of a whole document."""
_LONGEST_KEY, _LONGEST_TEXT = 200, 16_384
"""Characters of a key, and of a text, which may stand for a list."""
_DEEPEST = 16
"""Tables and lists that stand in one another."""
RETIRED = {
    "weights": 'take it out: suggested weights are applied by people alone. balancer = "peak_ewma" follows by itself '
    "how quick nodes are"
}
"""Settings of a network that older versions had, and what to do instead."""
_LONGEST = 60
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY = "[key]"
_TABLES = frozenset({"dict_type", "model_type", "model_attributes_type"})
"""Errors about what should have been a table."""
_EXPECTED = {
    "missing": "a value, which is required",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of a sensible size",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "tuple_type": "a list",
    "frozen_set_type": "a list",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length}",
    "too_long": "at most {max_length}",
    "literal_error": "one of {expected}",
    "string_pattern_mismatch": "a name of a-z, 0-9, dots, dashes and underscores that begins with a letter or digit",
}


class Fault(msgspec.Struct, frozen=True):
    """One fault: the path (empty for the whole), what was found, what was expected, and the source of the value."""

    path: str
    found: str
    expected: str
    source: str = ""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        found = f"found {self.found}, " if self.found else ""
        expected = f"expected {self.expected}" if found else self.expected
        return f"{place}{found}{expected}" + (f" ({self.source})" if self.source else "")


class ConfigError(Exception):
    """A configuration that cannot be used; prints a line for each fault."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


def excess(document: Any, most: int = _MOST_IN_ALL) -> Fault | None:
    """What is too large about a document, found in a time that the bounds limit; None when nothing is.

    `most`: members of all tables and lists together.
    """
    waiting: list[tuple[Path, Any]] = [((), document)]
    total = 0
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            return Fault(dotted(path), f"a text of {len(value)} characters", f"at most {_LONGEST_TEXT}")
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        total += len(value)
        if len(path) >= _DEEPEST and value:
            return Fault(dotted(path), "a member", f"no further tables or lists: at most {_DEEPEST} in one another")
        if len(value) > MOST_MEMBERS:
            return Fault(dotted(path), f"{len(value)} members", f"at most {MOST_MEMBERS}")
        if total > most:
            return Fault(dotted(path[:2]), f"more than {most} members in all", f"at most {most}")
        members = dict(value.items() if isinstance(value, Mapping) else enumerate(value))
        if (
            long := next((key for key in members if isinstance(key, str) and len(key) > _LONGEST_KEY), None)
        ) is not None:
            there = dotted((*path, _short(long)))
            return Fault(there, f"a name of {len(long)} characters", f"at most {_LONGEST_KEY}")
        waiting.extend(((*path, key), inner) for key, inner in members.items())
    return None


def listed(faults: Iterable[Fault]) -> list[Fault]:
    """The first MOST_FAULTS of them, and a word when there are more. The others are not made."""
    found = list(islice(faults, MOST_FAULTS + 1))
    more = Fault("", "", f"more faults than these {MOST_FAULTS}: the others are not listed")
    return [*found[:MOST_FAULTS], more] if len(found) > MOST_FAULTS else found


def dotted(path: Sequence[str | int]) -> str:
    """A path as it is written in a TOML document: networks.harmony-s0.nodes[1].weight."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _PLAIN_KEY.fullmatch(part) else json.dumps(part[:_LONGEST]))
    return text


def shown(value: object, path: Sequence[str | int] = ()) -> str:
    """The text that may be shown of a value found at this path."""
    if isinstance(value, Expanded):
        return json.dumps(value.written) if "${" in value.written else NOT_SHOWN
    if isinstance(value, Secret):
        return str(value) or NOT_SHOWN
    if isinstance(value, str):
        return _shown_text(value, path)
    return NOT_SHOWN if _SECRET_KEYS.intersection(path) and not _is_whole(value) else _shown_other(value)


def _is_whole(value: object) -> bool:
    """Whether only the kind of this value is told."""
    return value is None or isinstance(value, (Mapping, list, tuple, set, frozenset))


def _shown_other(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if _is_whole(value):
        return "nothing" if value is None else "a list" if value else "an empty list"
    return str(value).lower() if isinstance(value, bool) else _short(str(value))


def _shown_text(text: str, path: Sequence[str | int]) -> str:
    if "://" in text:
        place = shown_url(text.partition(",")[0])
        return NOT_SHOWN if "*" in place else _short(place)
    inside_node_text = len(path) >= 2 and path[-2] == "nodes"
    if text and (inside_node_text or _SECRET_KEYS.intersection(path)):
        return NOT_SHOWN
    return json.dumps(_short(text), ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def from_pydantic(errors: Iterable[ErrorDetails], model: type[BaseModel], sources: Mapping[Path, str]) -> list[Fault]:
    """The first faults of pydantic's errors about a document of this model. `sources` names the flag or variable that
    set a path."""
    return listed(_fault(error, model, sources) for error in errors if not _said_elsewhere(error))


def _said_elsewhere(error: ErrorDetails) -> bool:
    """Whether other faults cover this error: a list is too short only without its faulty members."""
    is_list = error["type"] == "too_short" and isinstance(error["input"], (list, tuple, dict))
    return is_list and len(error["input"]) >= int(error.get("ctx", {})["min_length"])


def _fault(error: ErrorDetails, model: type[BaseModel], sources: Mapping[Path, str]) -> Fault:
    is_name = error["loc"][-1:] == (_KEY,) and error["type"] != "extra_forbidden"
    path: Path = error["loc"][:-1] if is_name else error["loc"]
    source = source_of(path, sources)
    if error["type"] == "extra_forbidden":
        return unknown_key(path, known_keys(model, path[:-1]), source)
    if error["type"] == "missing":
        return Fault(dotted(path), "nothing", expected_of(error), source)
    found = _in_place_of_a_table if error["type"] in _TABLES else shown
    return Fault(dotted(path), "this name" if is_name else found(error["input"], path), expected_of(error), source)


def _in_place_of_a_table(value: object, path: Path) -> str:
    """The text that may be shown of a value where a table was expected: it may be a password or a key."""
    if isinstance(value, str) and "://" not in value:
        return "a text"
    return "a number" if isinstance(value, int | float) and not isinstance(value, bool) else shown(value, path)


def unknown_key(path: Path, known: Iterable[str], source: str = "") -> Fault:
    """The fault of a key that does not exist, with the nearest that does, or of one that is retired."""
    if len(path) == 3 and path[0] == "networks" and path[2] in RETIRED:
        return Fault(dotted(path), "", f"no longer a setting; {RETIRED[str(path[2])]}", source)
    close = get_close_matches(str(path[-1]), list(known), n=1)
    return Fault(dotted(path), "", f"unknown key{f'; did you mean {close[0]}?' if close else ''}", source)


def expected_of(error: ErrorDetails) -> str:
    """The expected value of an error, in words."""
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context.get("error", "another value"))
    if error["type"] == "model_type" and error["loc"][-2:-1] == ("nodes",):
        return f"a table or {NODE_TEXT}"
    template = _EXPECTED.get(error["type"])
    return template.format(**context) if template else error["msg"]


def source_of(path: Path, sources: Mapping[Path, str]) -> str:
    """The source of the value at this path, or at the nearest path above it."""
    for length in range(len(path), 0, -1):
        if path[:length] in sources:
            return sources[path[:length]]
    return ""


def known_keys(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that may stand in the table at this path of a model's document."""
    here = annotation_at(model, path)
    return list(here.model_fields) if isinstance(here, type) and issubclass(here, BaseModel) else []


def annotation_at(model: type[BaseModel], path: Path) -> Any:
    """The type that the model has at this path; None where it has nothing."""
    here: Any = model
    for part in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(str(part))
            here = field.annotation if field else None
        else:
            here = next((inner for inner in reversed(get_args(here)) if inner is not Ellipsis), None)
    return here


def reason_of(error: OSError) -> str:
    """The system's message for an error; asyncio's message would repeat the address."""
    plain = error.errno is not None and error.errno > 0  # those of getaddrinfo are negative
    return os.strerror(error.errno) if plain and error.errno is not None else error.strerror or str(error)
