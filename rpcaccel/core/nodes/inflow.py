"""Bounds what one connection may bring within a second, in number and in bytes."""

from __future__ import annotations

_MIB = 1 << 20
_SECOND = 1.0


class Inflow:
    """What came within the present second. The next one begins with what comes first after its end."""

    __slots__ = ("_bytes", "_count", "_since", "most", "most_bytes", "what")

    def __init__(self, what: str, most: int, most_bytes: int) -> None:
        """`what` comes, in the plural; `most_bytes` are whole MiB."""
        self.what = what
        self.most = most
        self.most_bytes = most_bytes
        self._since = float("-inf")
        self._count = self._bytes = 0

    def __repr__(self) -> str:
        return f"<inflow of {self._count} {self.what}, {self._bytes} bytes>"

    def take(self, size: int, now: float) -> str:
        """Count one more of so many bytes, at a time in seconds; returns which bound it exceeds, or an empty text."""
        if now - self._since >= _SECOND:
            self._since, self._count, self._bytes = now, 0, 0
        self._count += 1
        self._bytes += size
        if self._count > self.most:
            return f"more than {self.most} {self.what} a second"
        if self._bytes > self.most_bytes:
            return f"more than {self.most_bytes // _MIB} MiB of {self.what} a second"
        return ""
