"""Filters of logs in one canonical form, so that clients that mean the same logs share one topic; an index of them; and
what a block's bloom says about one.

A filter names contracts and, by position, topics. As on nodes, the number of positions counts even where they name
nothing: a log with one topic does not match a filter of two positions.

The index finds the filters that a log matches, among many thousands, with a few lookups. Each filter stands in a table
under values that it names: its address, its topics at some positions, or pairs and triples of them
(`LogFilter.parts`). Filters that are found by the same parts share a table, so that a log is looked up once in each of
the few tables there are. Filters may agree in all parts that they are found by, and are then looked at one by one:
there may be as many as their bytes allow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import msgspec
from msgspec import Struct

from rpcaccel.core.hashing.bloom import BLOOM_BYTES, FILLED_IN, bloom_bits, excludes
from rpcaccel.core.live.block import Log
from rpcaccel.core.wire.json_text import UNREADABLE

MAX_ADDRESSES_OF_A_FILTER = 1000
"""Contracts that one filter names."""
MAX_POSITIONS = 4
"""Topics that a log of the EVM has at the most."""
MAX_ALTERNATIVES = 1000
"""Topics that one filter names at one position."""
MAX_SHARED_WORDS = 100
"""Addresses, or topics at one position, that a union names: beyond them it asks for all, because nodes look at every
block anyway and limit the length of a request."""
MAX_PLACES = 16
"""Alternatives of one part by which a filter is looked up beside the parts that name one value each."""
_FILTER_BYTES, _WORD_BYTES, _PLACE_BYTES = 600, 130, 150
"""Bytes of a filter, of each of its addresses and topics, and of each of its places in an index."""


class LogFilter(Struct, frozen=True, cache_hash=True):
    """Which logs are meant. Made by `LogFilter.of`, which brings it into the canonical form."""

    addresses: tuple[str, ...] = ()
    """Contracts in lower case, sorted, each once; empty: all."""
    topics: tuple[tuple[str, ...], ...] = ()
    """For each position the topics in lower case, sorted, each once; empty: any topic, but there must be one."""

    @staticmethod
    def of(addresses: Iterable[str] = (), topics: Iterable[Iterable[str]] = ()) -> LogFilter:
        """The canonical filter for addresses and for the alternatives of each position."""
        return LogFilter(_canonical(addresses), tuple(_canonical(position) for position in topics))

    def matches(self, log: Log) -> bool:
        """Is the log meant?"""
        if len(self.topics) > len(log.topics) or (self.addresses and not _has(self.addresses, log.address)):
            return False
        return all(not wanted or _has(wanted, topic) for wanted, topic in zip(self.topics, log.topics, strict=False))

    def params(self) -> dict[str, list[str] | list[list[str] | None]]:
        """The members of a getLogs filter that ask for these logs."""
        found: dict[str, list[str] | list[list[str] | None]] = {}
        if self.addresses:
            found["address"] = list(self.addresses)
        if self.topics:
            found["topics"] = [list(position) or None for position in self.topics]
        return found

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts by which an index finds the filter: 0 for the address, 1 to 4 for a topic.

        They are all that name a single value, and at most one that names several: a filter has as many places as that
        one has alternatives, and never as many as there are combinations.
        """
        counts = [(len(values), part) for part, values in enumerate((self.addresses, *self.topics)) if values]
        chosen = [part for count, part in counts if count == 1]
        several = min((one for one in counts if one[0] > 1), default=None)
        if several is not None and (not chosen or several[0] <= MAX_PLACES):
            chosen.append(several[1])
        return tuple(sorted(chosen))

    @property
    def weight(self) -> int:
        """Bytes of memory that the filter takes, with its places in an index."""
        values = (self.addresses, *self.topics)
        places = max((len(values[part]) for part in self.parts), default=1)
        return _FILTER_BYTES + _WORD_BYTES * sum(map(len, values)) + _PLACE_BYTES * places


EVERYTHING = LogFilter()
"""All logs."""


def union(filters: Sequence[LogFilter]) -> LogFilter:
    """One filter that matches everything that any of these matches; it may match more."""
    if not filters:
        raise ValueError("no filter: there is no union")
    positions = min(len(one.topics) for one in filters)
    return LogFilter(
        _together([one.addresses for one in filters]),
        tuple(_together([one.topics[position] for one in filters]) for position in range(positions)),
    )


def covers(wider: LogFilter, narrower: LogFilter) -> bool:
    """Does one filter match everything that the other matches?"""
    if len(wider.topics) > len(narrower.topics):
        return False
    pairs = zip((wider.addresses, *wider.topics), (narrower.addresses, *narrower.topics), strict=False)
    return all(_includes(many, few) for many, few in pairs)


def _canonical(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({word.lower() for word in words}))


def _has(words: tuple[str, ...], word: str) -> bool:
    at = bisect_left(words, word)
    return at < len(words) and words[at] == word


def _includes(many: tuple[str, ...], few: tuple[str, ...]) -> bool:
    return not many or (bool(few) and set(few) <= set(many))


def _together(each: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """All words of some alternatives; empty, which stands for every word, where one of them names none or all of them
    name too many."""
    if len(each) == 1:
        return each[0]
    found: set[str] = set()
    for words in each:
        found.update(words)
        if not words or len(found) > MAX_SHARED_WORDS:
            return ()
    return tuple(sorted(found))


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


class _Header(Struct, gc=False):
    logsBloom: str = ""


_decode = msgspec.json.Decoder(_Header).decode


def may_match(header: bytes, wanted: LogFilter) -> bool:
    """May the block have logs that match a filter, as its header says? False where the header has no bloom, and where
    all bits are alike, which some chains fill in."""
    try:
        bloom = bytes.fromhex(_decode(header).logsBloom[2:])
    except (ValueError, *UNREADABLE):
        return False
    if len(bloom) != BLOOM_BYTES or bloom in FILLED_IN:
        return False
    words = (wanted.addresses, *wanted.topics)
    return not excludes(
        bloom, ([bloom_bits(bytes.fromhex(word[2:])) for word in alternatives] for alternatives in words)
    )
