"""Filters of logs in one canonical form, so that clients that mean the same logs share one topic.

A filter names contracts and, by position, topics. As on nodes, the number of positions counts even where they name
nothing: a log with one topic does not match a filter of two positions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct

from rpcaccel.core.live.block import Log

MOST_ADDRESSES = 1000
"""Contracts that one filter names."""
MOST_POSITIONS = 4
"""Topics that a log of the EVM has at the most."""
MOST_ALTERNATIVES = 1000
"""Topics that one filter names at one position."""
MOST_SHARED = 100
"""Addresses, or topics at one position, that a union names: beyond them it asks for all, because nodes look at every
block anyway and limit the length of a request."""
MOST_PLACES = 16
"""Alternatives of one part by which a filter is looked up beside the parts that name one value each."""
_BASE, _EACH, _PLACE = 600, 130, 150
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
        if several is not None and (not chosen or several[0] <= MOST_PLACES):
            chosen.append(several[1])
        return tuple(sorted(chosen))

    @property
    def weight(self) -> int:
        """Bytes of memory that the filter takes, with its places in an index."""
        values = (self.addresses, *self.topics)
        places = max((len(values[part]) for part in self.parts), default=1)
        return _BASE + _EACH * sum(map(len, values)) + _PLACE * places


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
        if not words or len(found) > MOST_SHARED:
            return ()
    return tuple(sorted(found))
