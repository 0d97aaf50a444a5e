"""Finds the filters that a log matches, among many thousands, with a few lookups.

Each filter stands in a table under the values that it names: its addresses, its topics at some positions, or pairs and
triples of them. Filters that name values of the same kinds share a table, so that a log is looked up once in each of
the few tables there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from rpcaccel.core.live.block import Log
from rpcaccel.core.live.log_filter import LogFilter

MOST_PLACES = 1000
"""Places of one filter in its table. Where all combinations of its values are more, the table is by fewer of them."""

_Key = tuple[str, ...]
_Parts = tuple[int, ...]
"""What the keys of a table hold: 0 for the address, 1 to 4 for a topic."""


class FilterIndex:
    """The filters that somebody subscribes to."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[_Parts, dict[_Key, dict[LogFilter, None]]] = {}

    def __repr__(self) -> str:
        return f"<index of {len(self._tables)} tables>"

    def add(self, one: LogFilter) -> None:
        """Add a filter; one that is there already changes nothing."""
        parts = _parts(one)
        table = self._tables.setdefault(parts, {})
        for key in _keys(one, parts):
            table.setdefault(key, {})[one] = None

    def remove(self, one: LogFilter) -> None:
        """Remove a filter that was added."""
        parts = _parts(one)
        table = self._tables[parts]
        for key in _keys(one, parts):
            held = table[key]
            del held[one]
            if not held:
                del table[key]
        if not table:
            del self._tables[parts]

    def find(self, log: Log) -> list[LogFilter]:
        """The filters that match a log, each once."""
        values = (log.address, *log.topics)
        found = []
        for parts, table in self._tables.items():
            if parts and parts[-1] >= len(values):
                continue
            held = table.get(tuple([values[part] for part in parts]))
            if held is not None:
                found += [one for one in held if one.matches(log)]
        return found


def _parts(one: LogFilter) -> _Parts:
    """The parts by which a filter is looked up: as many as there are places for, those with the fewest values first."""
    named = [(len(values), part) for part, values in enumerate((one.addresses, *one.topics)) if values]
    chosen, places = [], 1
    for count, part in sorted(named):
        places *= count
        if places > MOST_PLACES:
            break
        chosen.append(part)
    return tuple(sorted(chosen))


def _keys(one: LogFilter, parts: _Parts) -> Iterator[_Key]:
    values = (one.addresses, *one.topics)
    return product(*(values[part] for part in parts))
