"""What hosts share by a store beside its entries: a board with settings, messages and what each host tells of itself,
and how much they used of the quotas of nodes; and what other programs left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from rpcaccel.core.nodes.limits import Brought


class UnreachableError(Exception):
    """The store did not answer in time."""


class SharedDocument(Struct, frozen=True):
    """The document on the board."""

    mark: str
    """A mark that no other posted document has, even after the board was emptied."""
    document: bytes
    """Empty where another program left something else there."""


class MessagesSince(Struct, frozen=True):
    """The messages after one, the id of the last of them, and what was lost in between.

    Lost may be nothing, the older messages of a long absence, or all messages, because the store was emptied.
    """

    place: bytes
    words: list[bytes]
    lost: Literal["", "older", "all"] = ""


class HostEntry(Struct, frozen=True):
    """What a host tells of itself, as it stands on the board."""

    run: str
    """The id of the run of that host."""
    age: float
    """Seconds since it was posted, by the clock of the store."""
    document: bytes


class HostEntries(Struct, frozen=True):
    """The entries of all hosts, and the number of entries that were removed because they were none of this kind."""

    entries: list[HostEntry]
    dropped: int = 0


class SharedState(Protocol):
    """What hosts share over a connection of its own."""

    async def open(self) -> None:
        """Connect, in the background if a server does not answer. Never raises."""

    async def close(self) -> None:
        """Disconnect."""

    def notices(self) -> list[str]:
        """Sentences about what was passed over, because another program wrote it."""


class Board(SharedState, Protocol):
    """One document, replaced by compare-and-set on its mark, messages to all hosts, and what each host tells of itself.
    What was posted while a host was cut off is still there when it comes back."""

    async def mark(self) -> str:
        """The mark of the document; empty without a document. Raises UnreachableError."""

    async def read(self) -> SharedDocument | None:
        """The document on the board; None without one. Raises UnreachableError."""

    async def post(self, before: str, mark: str, document: bytes) -> bool:
        """Replace the document with the mark `before` (empty: no document); False when another one is there.

        Raises UnreachableError.
        """

    async def say(self, word: bytes) -> bytes:
        """Post a message to every host; return its id. Raises UnreachableError."""

    async def last(self) -> bytes:
        """The id of the last message; without any, an empty message is posted first. Raises UnreachableError."""

    async def heard(self, place: bytes) -> MessagesSince:
        """The messages after the one with the id `place`. Raises UnreachableError."""

    async def meet(self, run: str, document: bytes) -> HostEntries:
        """Replace what the host of this run tells, and return what all hosts tell. Raises UnreachableError."""

    async def leave(self, run: str) -> None:
        """Remove what the host of this run told of itself. Raises UnreachableError."""


class QuotaSums(SharedState, Protocol):
    """What hosts used of the quotas of nodes."""

    async def exchange(self, own: Sequence[Brought]) -> list[Brought]:
        """Say what this host used; return what the others used of the same quotas. What is not known, since a server
        did not answer, is left out. Never raises."""

    async def earlier(self, own: Sequence[Brought]) -> list[Brought]:
        """What this host said before, also in an earlier run, which may have ended before it kept that. What is not
        known is left out. Never raises."""


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
            import structlog  # noqa: PLC0415 -- a worker whose settings name no store imports this file without need

            log = structlog.get_logger("rpcaccel.redis")
            log.warning("what another program left in Redis is passed over", place=place)
        self._counts[place] = self._counts.get(place, 0) + count

    def notices(self) -> list[str]:
        """A sentence for each place."""
        return [
            f"another program writes in Redis to {place}, which rpcaccel keeps for itself: passed over {count} times"
            for place, count in self._counts.items()
        ]
