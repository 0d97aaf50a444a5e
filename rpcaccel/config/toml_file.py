"""The text of a configuration file: the line of each value, for errors that name it, and expansion of variables.

tomllib keeps no positions. ${VAR} and ${VAR:-default} are expanded in the texts of the file; $$ is a dollar.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

ReportFault = Callable[[tuple[str | int, ...], str], None]

_REFERENCE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<open>\{))")


class Expanded(str):
    """A text that held a reference. Errors show `written`, since the expanded text is often a secret."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str) -> Expanded:
        made = super().__new__(cls, text)
        made.written = written
        return made


def expand(value: Any, environ: Mapping[str, str], report: ReportFault, path: tuple[str | int, ...] = ()) -> Any:
    """The document with every reference resolved; `report(path, what is wrong)` for each that cannot be.

    An unset or empty variable takes its default, as in a shell. Keys are left alone; a dollar before
    anything but a brace or a dollar is a dollar.
    """
    if isinstance(value, dict):
        return {key: expand(inner, environ, report, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [expand(inner, environ, report, (*path, index)) for index, inner in enumerate(value)]
    if not isinstance(value, str) or "$" not in value:
        return value

    def resolve(match: re.Match[str]) -> str:
        if match["open"]:
            report(path, "${NAME} or ${NAME:-default}; write $$ for a dollar")
            return ""
        name, default = match["name"], match["default"]
        if name is None:
            return "$"
        found = environ.get(name)
        if default is not None:
            return found or default
        if found is None:
            report(path, f"the environment variable {name}, which is not set")
        return found or ""

    text = _REFERENCE.sub(resolve, value)
    return text if text == value else Expanded(text, value)


ValuePath = tuple[str | int, ...]

_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'" r"|\#[^\n]*|\n|[\[\]{}=,.]"
    r"|[^\s\[\]{}=,.\#\"']+",
    re.DOTALL,
)  # fmt: skip


def lines_of(text: str) -> dict[ValuePath, int]:
    """The line, counted from 1, of each key, of each table's header and of each member of a list. `text` is valid TOML;
    for any other text the result may be incomplete."""
    reader = _Reader(text)
    # The text ended in the middle of a value, or a key in quotes holds what no text of TOML may.
    with contextlib.suppress(IndexError, tomllib.TOMLDecodeError):
        reader.document()
    return reader.found


class _Reader:
    """Reads the tokens once, from the first to the last."""

    def __init__(self, text: str) -> None:
        self.found: dict[ValuePath, int] = {}
        self._tokens: list[tuple[str, int]] = []
        self._at = 0
        self._members: dict[ValuePath, int] = {}
        """The number of tables read so far of each list of tables."""
        line, place = 1, 0
        for match in _TOKEN.finditer(text):
            line += text.count("\n", place, match.start())
            place = match.start()
            if not match[0].startswith("#"):
                self._tokens.append((match[0], line))

    def document(self) -> None:
        """Read headers and keys until the end."""
        table: ValuePath = ()
        while self._at < len(self._tokens):
            token, line = self._tokens[self._at]
            if token == "\n":
                self._at += 1
            elif token == "[":
                table = self._header()
                for length in range(1, len(table) + 1):
                    self.found.setdefault(table[:length], line)
            else:
                self._pair(table)

    def _header(self) -> ValuePath:
        """[a.b] or [[a.b]]; where a part of the path is a list of tables, its last one is meant."""
        self._at += 1
        several = self._next_is("[")
        self._at += several
        keys = self._keys("]")
        self._at += several
        path: ValuePath = ()
        for place, key in enumerate(keys, 1):
            path = (*path, key)
            if place == len(keys) and several:
                self._members[path] = self._members.get(path, 0) + 1
                self.found.setdefault(path, self._tokens[self._at - 1][1])
            if path in self._members:
                path = (*path, self._members[path] - 1)
        return path

    def _pair(self, table: ValuePath) -> None:
        """One key with its value."""
        line = self._tokens[self._at][1]
        path = table
        for key in self._keys("="):
            path = (*path, key)
            self.found.setdefault(path, line)
        self._value(path)

    def _value(self, path: ValuePath) -> None:
        token, _ = self._take()
        if token == "[":
            self._list(path)
        elif token == "{":
            while not self._next_is("}"):
                if self._tokens[self._at][0] in (",", "\n"):
                    self._at += 1
                else:
                    self._pair(path)
            self._at += 1
        else:
            # What follows the dot of a number, or the space in a date, is no key.
            while self._tokens[self._at][0] not in ("\n", ",", "]", "}"):
                self._at += 1

    def _list(self, path: ValuePath) -> None:
        member = 0
        while not self._next_is("]"):
            token, line = self._tokens[self._at]
            if token in (",", "\n"):
                self._at += 1
                continue
            self.found[*path, member] = line
            self._value((*path, member))
            member += 1
        self._at += 1

    def _keys(self, end: str) -> list[str]:
        keys = []
        while (token := self._take()[0]) != end:
            if token != ".":
                keys.append(_unquoted(token))
        return keys

    def _take(self) -> tuple[str, int]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _next_is(self, token: str) -> bool:
        return self._tokens[self._at][0] == token


def _unquoted(key: str) -> str:
    """A key as tomllib reads it."""
    if key[0] not in "\"'":
        return key
    return next(iter(tomllib.loads(f"{key} = 0")))
