"""Memory for things that depend on what clients send, bounded in bytes.

`Memos` is one budget for all memos of a worker (plans, call templates, block references), so that a repeated call costs
one lookup. When the budget is full, the oldest item is dropped, whichever memo holds it. The memos and the memory tier
together may use what the setting `memory.size` allows. `Lapsing` holds names, each until a moment of its own.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

PART = 10
"""Memos get one part in `PART` of the bytes that all caches together may use."""
MIN_BYTES = 1_000_000
"""Bytes that memos get at the least: without memos every call would be parsed again."""
ITEM_BYTES = 250
"""Overhead of one item (bytes): its places in a memo and in the budget, and the method's name in its key."""
_NAME_BYTES = 208
"""Overhead of a name in `Lapsing` (bytes): the string's header, a slot of the dictionary, and a float."""


def part_of(size: int) -> int:
    """The bytes for memos when all caches together may use `size` bytes."""
    return size // PART


class Memos:
    """One budget for many memos. A memo is a plain dict that anybody may read; only `put` writes to it."""

    __slots__ = ("_limit", "_order", "size")

    def __init__(self, limit: int = 8 * MIN_BYTES) -> None:
        """`limit`: bytes for all items together; MIN_BYTES if that is more."""
        self._limit = max(limit, MIN_BYTES)
        self._order: deque[tuple[dict[Any, Any], Any, int]] = deque()
        """Memo, key and weight of every item, the oldest first."""
        self.size = 0
        """Bytes counted for all items."""

    def __repr__(self) -> str:
        return f"<memos of {len(self._order)} things, {self.size}/{self._limit} B>"

    @property
    def limit(self) -> int:
        """Bytes for all items together."""
        return self._limit

    def put(self, memo: dict[K, V], key: K, value: V, weight: int) -> None:
        """Store a value; `weight` is the bytes of value and key.

        A new value under a known key is counted with the weight of the first one. An item larger than the whole budget
        is not stored.
        """
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
        """Apply a new limit (bytes) at once."""
        self._limit = max(limit, MIN_BYTES)
        self._shrink()

    def _shrink(self) -> None:
        while self.size > self._limit:
            memo, key, weight = self._order.popleft()
            memo.pop(key, None)
            self.size -= weight


class Lapsing:
    """Names that expire, each at a monotonic time of its own. Without room, the name stored first is dropped first.

    Names come from clients and may have any length; a name larger than the whole budget is not stored.
    """

    __slots__ = ("_most", "_size", "until")

    def __init__(self, most: int) -> None:
        """`most`: bytes for all names together."""
        self._most = most
        self._size = 0
        self.until: dict[str, float] = {}
        """Expiry by name (monotonic seconds). Read it, but write with `hold` alone."""

    def __len__(self) -> int:
        return len(self.until)

    def hold(self, name: str, until: float) -> None:
        """Store `name` until the monotonic time `until`."""
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
        """Drop all names."""
        self.until.clear()
        self._size = 0

    def __repr__(self) -> str:
        return f"<{len(self.until)} names, {self._size} bytes>"


def _weight(name: str) -> int:
    """The bytes that an entry of this name uses at the most.

    Python stores a non-ASCII character in up to four bytes. Once a library has asked for the text in UTF-8, it also
    keeps that form, with up to four bytes a character.
    """
    return _NAME_BYTES + len(name) * (1 if name.isascii() else 8)
