"""Finds the filters that a log matches, among many thousands, with a few lookups.

Each filter stands in a table under values that it names: its address, its topics at some positions, or pairs and
triples of them (`LogFilter.parts`). Filters that are found by the same parts share a table, so that a log is looked up
once in each of the few tables there are. Filters may agree in all parts that they are found by, and are then looked at
one by one: there may be as many as their bytes allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from rpcaccel.core.live.block import Log
from rpcaccel.core.live.log_filter import LogFilter

_Key = tuple[str, ...]
_Parts = tuple[int, ...]
"""What the keys of a table hold (LogFilter.parts)."""


class FilterIndex:
    """The filters that somebody subscribes to."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[_Parts, dict[_Key, LogFilter | dict[LogFilter, None]]] = {}
        """Most places hold one filter, which stands there by itself."""

    def __repr__(self) -> str:
        return f"<index of {len(self._tables)} tables>"

    def add(self, one: LogFilter) -> None:
        """Add a filter; one that is there already changes nothing."""
        table = self._tables.setdefault(one.parts, {})
        for key in _keys(one):
            held = table.setdefault(key, one)
            if isinstance(held, dict):
                held[one] = None
            elif held is not one:
                table[key] = {held: None, one: None}

    def remove(self, one: LogFilter) -> None:
        """Remove a filter that was added."""
        parts = one.parts
        table = self._tables[parts]
        for key in _keys(one):
            held = table[key]
            if isinstance(held, dict):
                del held[one]
            if not isinstance(held, dict) or not held:
                del table[key]
        if not table:
            del self._tables[parts]

    def find(self, log: Log) -> Iterator[LogFilter | None]:
        """The filters that match a log, each once; None for each that was looked at and does not. Between two of them
        filters may be added and removed: of those nothing is promised."""
        values = (log.address, *log.topics)
        for parts, table in list(self._tables.items()):
            if parts and parts[-1] >= len(values):
                continue
            held = table.get(tuple([values[part] for part in parts]), ())
            for one in list(held) if isinstance(held, dict) else (held,) if held else ():
                yield one if one.matches(log) else None


def _keys(one: LogFilter) -> Iterator[_Key]:
    """The values under which a filter stands, one for each of its places."""
    values = (one.addresses, *one.topics)
    return product(*(values[part] for part in one.parts))
