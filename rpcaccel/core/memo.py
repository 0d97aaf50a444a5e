"""What is remembered of calls so that one that comes again costs a lookup: plans, wordings, block references.

All memos of a worker, whatever network or path they are of, share one account in bytes: when it is full, what was
remembered first goes first. With the memory tier it makes up what the setting `memory.size` says.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

PART = 10
"""One part in so many of what all caches together may take is for memos."""
LEAST = 1_000_000
"""Bytes for memos, however small the caches are: without them every call would be read anew."""
ITEM_BYTES = 250
"""What one thing costs beside itself: its place in a memo and in the account, the name of the method in its key."""
_NAME_BYTES = 208
"""What a name that holds for a time costs beside its characters (bytes): the string's header, a slot of the dictionary,
and a float."""


def part_of(size: int) -> int:
    """Bytes for memos, where all caches together may take `size` bytes."""
    return size // PART


class Memos:
    """The account. A memo is a plain dict, which anybody may read; only `put` writes to it."""

    __slots__ = ("_limit", "_order", "size")

    def __init__(self, limit: int = 8 * LEAST) -> None:
        """`limit`: bytes that everything remembered may take; LEAST if that is more."""
        self._limit = max(limit, LEAST)
        self._order: deque[tuple[dict[Any, Any], Any, int]] = deque()
        """Everything remembered, the oldest first: its memo, its key, its weight."""
        self.size = 0
        """Bytes that everything remembered is counted with."""

    def __repr__(self) -> str:
        return f"<memos of {len(self._order)} things, {self.size}/{self._limit} B>"

    @property
    def limit(self) -> int:
        """Bytes."""
        return self._limit

    def put(self, memo: dict[K, V], key: K, value: V, weight: int) -> None:
        """Remember a value that weighs so many bytes with its key; a new value under a known key weighs the same. What
        is larger than all that may be remembered is not."""
        if key not in memo:
            weight += ITEM_BYTES
            if weight > self._limit:
                return
            self._order.append((memo, key, weight))
            self.size += weight
        memo[key] = value
        if self.size > self._limit:
            self._shrink()

    def resize(self, limit: int) -> None:
        """Take a new bound (bytes) at once."""
        self._limit = max(limit, LEAST)
        self._shrink()

    def _shrink(self) -> None:
        while self.size > self._limit:
            memo, key, weight = self._order.popleft()
            memo.pop(key, None)
            self.size -= weight


class Lapsing:
    """Names, and until when each holds (monotonic seconds). What was held longest ago goes first when there is no room.

    Names come from clients and may be of any length; one that is longer than all the room is not held.
    """

    __slots__ = ("_most", "_size", "until")

    def __init__(self, most: int) -> None:
        """`most`: bytes that all names may take together."""
        self._most = most
        self._size = 0
        self.until: dict[str, float] = {}
        """For reading alone."""

    def __len__(self) -> int:
        return len(self.until)

    def hold(self, name: str, until: float) -> None:
        """`name` holds until then."""
        weight = _weight(name)
        if weight > self._most:
            return
        if self.until.pop(name, None) is None:
            self._size += weight
        self.until[name] = until
        while self._size > self._most:
            oldest = next(iter(self.until))
            del self.until[oldest]
            self._size -= _weight(oldest)

    def clear(self) -> None:
        """Nothing holds any more."""
        self.until.clear()
        self._size = 0

    def __repr__(self) -> str:
        return f"<{len(self.until)} names, {self._size} bytes>"


def _weight(name: str) -> int:
    """Bytes that an entry of this name takes, at the most.

    Python keeps a character that is not ASCII in up to four bytes, and beside the text its UTF-8 form, of up to four
    bytes a character as well, once any library has asked for it.
    """
    return _NAME_BYTES + len(name) * (1 if name.isascii() else 8)
