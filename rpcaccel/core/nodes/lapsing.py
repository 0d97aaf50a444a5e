"""Names that hold until some moment each, in a bounded number of bytes."""

from __future__ import annotations

_ENTRY = 208
"""Bytes of an entry beside the characters of its name: the string's header, a slot of the dictionary, a float."""


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
    return _ENTRY + len(name) * (1 if name.isascii() else 8)
