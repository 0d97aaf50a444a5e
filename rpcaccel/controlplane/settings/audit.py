"""Who changed what, and when: the last changes, refused ones included."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from rpcaccel.config.patch import Edit

KEEP = 200
"""Lines kept."""

Action = Literal["start", "change", "undo", "reload", "shared"]


class Author(Struct, frozen=True):
    """The author of a change: the name, and the way that the change came (page, cli, api, signal)."""

    name: str
    via: str = "api"


SYSTEM = Author("rpcaccel", "start")


class Change(Struct, frozen=True, kw_only=True):
    """One line of the audit. Holds no secret."""

    revision: int
    """The revision that was made; after a refused change, the revision that stayed in force."""
    before: int
    """The revision that the change was made from."""
    at: float
    """Seconds since 1970."""
    by: str
    via: str
    action: Action
    outcome: Literal["adopted", "refused"] = "adopted"
    text: str = ""
    difference: tuple[Edit, ...] = ()
    reason: str = ""


class Audit:
    """The last lines of the audit."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._lines: deque[Change] = deque(changes, maxlen=KEEP)

    def __repr__(self) -> str:
        return f"<Audit {len(self._lines)} changes>"

    def add(self, change: Change) -> None:
        """Add a line; the oldest line goes when there are too many."""
        self._lines.append(change)

    def lines(self) -> tuple[Change, ...]:
        """The lines, oldest first."""
        return tuple(self._lines)

    def newest(self, limit: int) -> list[Change]:
        """The last `limit` lines, newest first."""
        return list(self._lines)[::-1][: max(0, limit)]
