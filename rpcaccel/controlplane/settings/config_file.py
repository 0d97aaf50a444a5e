"""Settings as the text of a configuration file: what was chosen is set, and what is often changed stands beside it as a
comment. Explanations are those of docs/settings.md."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tomlkit

from rpcaccel.config.errors import dotted
from rpcaccel.config.model import Settings
from rpcaccel.config.schema import describe, members, schema
from rpcaccel.config.secrets import REVEAL
from rpcaccel.config.value_types import format_duration, format_size, is_sharded

_NODE = {"weight": 3, "tier": 1, "ws": "wss://node.example/ws"}
SUGGESTED: Mapping[str, Any] = {
    "listen": "0.0.0.0:8888",
    "workers": "auto",
    "admin": {
        "listen": "127.0.0.1:8889",
        "accounts": {"ops": {"password": f"scrypt:15:8:1:{'A' * 22}:{'A' * 43}", "role": "admin"}},
    },
    "memory": {"size": "1GB"},
    "disk": {"path": "/var/cache/rpcaccel", "size": "50GB"},
    "redis": {"url": "redis://127.0.0.1:6379/0"},
    "clients": {"anonymous": {"rate": 50}},
    "log": {"format": "json"},
    "networks": {"*": {"balancer": "peak_ewma", "deadline": "10s", "nodes": _NODE}},
}
"""Settings that stand in a new file as comments, unless they are set. The hash is of no password."""
FIRST_TITLE = """\
A first configuration of rpcaccel.

  rpcaccel check {file}            is it right, and is every node what it should be?
  rpcaccel serve --config {file}

A line that begins with "#" and no space is a suggestion: without the "#" it holds. docs/settings.md has every setting.
${{NAME}} in a value is taken from the environment, so that a key need not stand here; $$ is a dollar."""
"""The title of a file that begins with what was chosen; `file` is its name as a shell takes it."""
_SENTENCE = re.compile(r".+?[.](?= [A-Z0-9\"]|$)")
_COLUMNS = 100

_Lines = Iterator[str]
_Path = tuple[str | int, ...]


def to_toml(settings: Settings, title: str, *, revealed: Collection[str] = (), suggest: bool = False) -> str:
    """The settings that differ from the defaults, as a config file. Hidden values are listed on top: the file can be
    used once they are filled in.

    Args:
        title: the first lines, as comments.
        revealed: the keys of the file whose secrets stand in it, such as "networks".
        suggest: explain what is set, and add SUGGESTED.
    """
    shown = _plain(settings.model_dump(mode="json", exclude_defaults=True))
    real = _plain(settings.model_dump(mode="json", exclude_defaults=True, context=REVEAL))
    shown |= {key: real[key] for key in revealed if key in real}
    for name, network in settings.networks.items():
        served = {"chain": network.chain, **({"shard": network.shard} if is_sharded(network.chain) else {})}
        shown["networks"][name] = served | shown["networks"][name]
    lines = [f"# {line}".rstrip() for line in title.splitlines()]
    lines += [f"# hidden here, to be filled in: {dotted(path)}" for path in _hidden(shown, real)]
    fields = schema()
    return "\n".join([*lines, "", *_Writer(fields["$defs"], suggest).table((), shown, SUGGESTED, fields)]) + "\n"


def holds_secret(settings: Settings) -> bool:
    """Whether a file of these settings has a value that is never shown."""
    return settings.model_dump(mode="json") != settings.model_dump(mode="json", context=REVEAL)


class _Writer:
    """Writes tables with their schemas."""

    def __init__(self, tables: Mapping[str, Any], suggest: bool) -> None:
        self._tables = tables
        self._suggest = suggest

    def table(
        self, path: _Path, chosen: Any, suggested: Any, fields: Mapping[str, Any], *, told: bool = True
    ) -> _Lines:
        """The lines of a table. `chosen` and `suggested` are what is set, and what may be; `told` is false where an
        earlier table of a list has the same explanations."""
        known = fields.get("properties", {})
        suggested = suggested if self._suggest else {}
        order = {key: place for place, key in enumerate(known)}
        whole = dict(sorted({**suggested, **chosen}.items(), key=lambda item: order.get(item[0], len(order))))
        for key, value in whole.items():
            if not _is_nested(value):
                field = describe((key,), known[key]) if key in known else None
                if field is not None and self._suggest and told:
                    yield from _comment(field.text)
                line = f"{dotted([key])} = {_literal(value, field.kind if field else 'text')}"
                yield line if key in chosen else f"#{line}"
        for key, value in whole.items():
            if _is_nested(value):
                inner, several = members(known[key], self._tables) if key in known else ({}, False)
                yield from self._nested((*path, key), chosen.get(key), suggested.get(key, {}), inner or {}, several)

    def _nested(self, path: _Path, chosen: Any, suggested: Any, fields: Mapping[str, Any], several: bool) -> _Lines:
        if isinstance(chosen, list):
            for index, one in enumerate(chosen):
                yield from ("", f"[[{_header(path)}]]")
                yield from self.table((*path, index), one, {} if index else suggested, fields, told=not index)
        elif several:
            each = suggested.get("*", {})
            for name, one in (chosen or {}).items():
                yield from self._one((*path, name), one, each, fields)
            for name, one in suggested.items() if self._suggest and not chosen else ():
                yield from self._one((*path, name), None, one, fields)
        else:
            yield from self._one(path, chosen or {}, suggested, fields)

    def _one(self, path: _Path, chosen: Any, suggested: Any, fields: Mapping[str, Any]) -> _Lines:
        """A table with its header, which is a comment where the table has to be chosen by name (`chosen` is None)."""
        lines = list(self.table(path, chosen or {}, suggested, fields))
        if not lines or lines[0]:  # a table of tables needs no header
            yield from ("", f"{'#' if chosen is None else ''}[{_header(path)}]")
        yield from lines


def _header(path: _Path) -> str:
    """The path of a table in its header: the place in a list is that of the last header of the list."""
    return dotted([part for part in path if isinstance(part, str)])


def _comment(text: str) -> _Lines:
    """The first sentence of an explanation, as comments."""
    first = _SENTENCE.match(text)
    for line in textwrap.wrap(first[0] if first else text, _COLUMNS, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def _literal(value: Any, kind: str) -> str:
    """A value as a file has it. A dollar is doubled, because a file's texts may name variables."""
    if kind in ("size", "duration") and isinstance(value, int | float) and value:
        value = format_size(int(value)) if kind == "size" else format_duration(value)
    text: str = tomlkit.item(_doubled(value)).as_string()
    return text


def _doubled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _doubled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_doubled(inner) for inner in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _is_nested(value: Any) -> bool:
    """Whether a value is written as a table, or as a list of tables."""
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)
    )


def _plain(value: Any) -> Any:
    """The value without None, which TOML does not have and which is always the default."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _hidden(shown: Any, real: Any, path: _Path = ()) -> Iterator[_Path]:
    """The paths of the values that are not shown as they are."""
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            yield from _hidden(value, real.get(key, value), (*path, key))
    elif isinstance(shown, list):
        for index, value in enumerate(shown):
            yield from _hidden(value, real[index], (*path, index))
    elif shown != real:
        yield path
