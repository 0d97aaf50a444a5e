"""The line of each value in a TOML file, for errors that name it: tomllib keeps no positions."""

from __future__ import annotations

import contextlib
import re
import tomllib

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'" r"|\#[^\n]*|\n|[\[\]{}=,.]"
    r"|[^\s\[\]{}=,.\#\"']+",
    re.DOTALL,
)  # fmt: skip


def lines_of(text: str) -> dict[Path, int]:
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
        self.found: dict[Path, int] = {}
        self._tokens: list[tuple[str, int]] = []
        self._at = 0
        self._members: dict[Path, int] = {}
        """The number of tables read so far of each list of tables."""
        line, place = 1, 0
        for match in _TOKEN.finditer(text):
            line += text.count("\n", place, match.start())
            place = match.start()
            if not match[0].startswith("#"):
                self._tokens.append((match[0], line))

    def document(self) -> None:
        """Read headers and keys until the end."""
        table: Path = ()
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

    def _header(self) -> Path:
        """[a.b] or [[a.b]]; where a part of the path is a list of tables, its last one is meant."""
        self._at += 1
        several = self._next_is("[")
        self._at += several
        keys = self._keys("]")
        self._at += several
        path: Path = ()
        for place, key in enumerate(keys, 1):
            path = (*path, key)
            if place == len(keys) and several:
                self._members[path] = self._members.get(path, 0) + 1
                self.found.setdefault(path, self._tokens[self._at - 1][1])
            if path in self._members:
                path = (*path, self._members[path] - 1)
        return path

    def _pair(self, table: Path) -> None:
        """One key with its value."""
        line = self._tokens[self._at][1]
        path = table
        for key in self._keys("="):
            path = (*path, key)
            self.found.setdefault(path, line)
        self._value(path)

    def _value(self, path: Path) -> None:
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

    def _list(self, path: Path) -> None:
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
