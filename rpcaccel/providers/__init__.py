"""What providers of nodes bill for a call of each method, as data: a TOML file for each provider in this folder.

`load("alchemy")` reads alchemy.toml. A new provider is one new file. A table [provider] says what the unit is called
(`unit`), when the figures were read (`read`, a date), from which pages (`sources`), and what they leave out
(`left_out`). [costs] has units by method name or pattern, with a row "*" for every other method; [others] has the same
for methods that no chain here describes.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

_DIRECTORY = resources.files("rpcaccel.providers")


class Provider(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One provider, and where its figures come from."""

    unit: str
    """What the provider calls its units, in the plural."""
    read: datetime.date
    """The day on which the figures were read; a provider may have changed them since."""
    sources: tuple[str, ...]
    """The addresses of the pages that have the figures."""
    left_out: str
    """What the provider bills beside these rows, or bills otherwise."""


class CostTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file of one provider."""

    provider: Provider
    costs: dict[str, float]
    """Units by name or pattern (fnmatch, case-sensitive) of methods that a chain describes, and "*" for all others."""
    others: dict[str, float] = {}
    """The same for methods that no chain describes."""

    @property
    def rows(self) -> Mapping[str, float]:
        """All rows."""
        return {**self.costs, **self.others}


def names() -> list[str]:
    """The names of all providers."""
    return sorted(entry.name.removesuffix(".toml") for entry in _DIRECTORY.iterdir() if entry.name.endswith(".toml"))


@cache
def load(name: str) -> CostTable:
    """The figures of the provider `name`. Raises KeyError when there is no such file."""
    if name not in names():
        raise KeyError(name)
    return msgspec.convert(tomllib.loads((_DIRECTORY / f"{name}.toml").read_text("utf-8")), CostTable)
