"""No second tier: every worker has its memory tier and nothing behind it."""

# ruff: noqa: ARG002 - a store that holds nothing looks at nothing

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rpcaccel.core.entry import Entry, Selection
from rpcaccel.stores.base import Lease, Purged, Store, StoreSettings, StoreStats


class NoLease:
    """Nobody shares anything, so everybody may fetch."""

    async def release(self) -> None:
        """Nothing was taken."""


class MemoryStore:
    """The store that holds nothing."""

    name: ClassVar[str] = "memory"

    async def start(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to disconnect."""

    async def get(self, key: bytes) -> Entry | None:
        """Always None."""
        return None

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        """There is nothing to look at."""
        return False

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        """Forget the entry."""

    async def purge(self, selection: Selection, *, dry: bool = False) -> Purged:
        """There was nothing."""
        return Purged(0)

    async def left(self, key: bytes) -> float | None:
        """There is nothing."""
        return None

    async def lease(self, key: bytes, ttl: float) -> Lease | None:
        """Always granted."""
        return NoLease()

    async def wait(self, key: bytes, within: float) -> Entry | None:
        """Nobody puts anything."""
        return None

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Nobody else is known of."""
        return {}

    def stats(self) -> StoreStats:
        """Up, and without numbers."""
        return StoreStats(name=self.name, up=True)


SCHEMES = frozenset({""})


def build(settings: StoreSettings) -> Store:  # noqa: ARG001 - the empty address says it all
    """The store for these settings."""
    return MemoryStore()
