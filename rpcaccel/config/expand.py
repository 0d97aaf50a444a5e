"""Expansion of ${VAR} and ${VAR:-default} in the texts of a configuration file; $$ is a dollar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Report = Callable[[tuple[str | int, ...], str], None]

_REFERENCE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<open>\{))")


class Expanded(str):
    """A text that held a reference. Errors show `written`, since the expanded text is often a secret."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str) -> Expanded:
        made = super().__new__(cls, text)
        made.written = written
        return made


def expand(value: Any, environ: Mapping[str, str], report: Report, path: tuple[str | int, ...] = ()) -> Any:
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
