"""The Date header, written once a second."""

from __future__ import annotations

import time
from email.utils import formatdate


class DateHeader:
    """The line of this second, its line break in front."""

    __slots__ = ("_after", "bytes", "text", "until")

    def __init__(self, after: bytes = b"") -> None:
        """`after` is what always follows it in `bytes`."""
        self._after = after
        self.text = ""
        self.bytes = b""
        self.until = float("-inf")
        """The time, on the caller's clock in seconds, from which another second has begun: then `turn` it."""

    def turn(self, now: float) -> None:
        """Write the line of the second that it is now, on the caller's clock."""
        wall = time.time()
        self.until = now + 1.0 - wall % 1.0
        self.text = f"\r\nDate: {formatdate(int(wall), usegmt=True)}"
        self.bytes = self.text.encode("ascii") + self._after
