"""What hosts read from the board in Redis, and what other programs left there.

Apart from the client of Redis, whose import takes 0.1 s: a host without Redis needs these as types alone.
"""

from __future__ import annotations

from typing import Literal

import structlog
from msgspec import Struct

log = structlog.get_logger("rpcaccel.redis")


class UnreachableError(Exception):
    """Redis did not answer in time."""


class SharedDocument(Struct, frozen=True):
    """The document on the board."""

    mark: str
    """A mark that no other posted document has, even after the board was emptied."""
    document: bytes
    """Empty where another program left something else there."""


class MessagesSince(Struct, frozen=True):
    """The messages after one, the id of the last of them, and what was lost in between.

    Lost may be nothing, the older messages of a long absence, or all messages, because Redis was emptied.
    """

    place: bytes
    words: list[bytes]
    lost: Literal["", "older", "all"] = ""


class HostEntry(Struct, frozen=True):
    """What a host tells of itself, as it stands on the board."""

    run: str
    """The id of the run of that host."""
    age: float
    """Seconds since it was posted, by the clock of Redis."""
    document: bytes


class HostEntries(Struct, frozen=True):
    """The entries of all hosts, and the number of entries that were removed because they were none of this kind."""

    entries: list[HostEntry]
    dropped: int = 0


class ForeignData:
    """What other programs left under the keys of this one: counted by place, and said once for each in the log."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<ForeignData {self._counts}>"

    def note(self, place: str, count: int = 1) -> None:
        """Count what was passed over at `place`."""
        if count <= 0:
            return
        if place not in self._counts:
            log.warning("what another program left in Redis is passed over", place=place)
        self._counts[place] = self._counts.get(place, 0) + count

    def notices(self) -> list[str]:
        """A sentence for each place."""
        return [
            f"another program writes in Redis to {place}, which rpcaccel keeps for itself: passed over {count} times"
            for place, count in self._counts.items()
        ]
