# ruff: noqa: ARG002 - a store that holds nothing looks at nothing
"""The second tier as the data plane sees it: a store is asked, given to and purged, and never gets in the way.

No second tier: every worker has its memory tier and nothing behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from msgspec import Struct

from rpcaccel.core.cache.entry import Entry, Selection


class Address(Protocol):
    """A URL that may hold credentials, shown only to the connector."""

    def reveal(self) -> str:
        """The full URL."""


class StoreSettings(Protocol):
    """What stores read of the settings (config.model.RedisSettings); times in seconds, sizes in bytes."""

    @property
    def url(self) -> Address: ...
    @property
    def replicas(self) -> Sequence[Address]: ...
    @property
    def prefix(self) -> str: ...
    @property
    def read_timeout(self) -> float: ...
    @property
    def write_timeout(self) -> float: ...
    @property
    def connect_timeout(self) -> float: ...
    @property
    def pool_size(self) -> int: ...
    @property
    def queue(self) -> int: ...
    @property
    def compress_from(self) -> int: ...


class ServerStats(Struct, frozen=True, kw_only=True):
    """One server of the second tier."""

    name: str
    """host:port or path; never holds credentials."""
    role: str
    up: bool
    error: str = ""
    """The last thing that went wrong; empty once it works again."""


class StoreStats(Struct, frozen=True, kw_only=True):
    """A store's state and counters at one moment."""

    name: str
    up: bool
    """Can it be asked now?"""
    hits: int = 0
    misses: int = 0
    """The server had nothing."""
    late: int = 0
    """Misses because the deadline passed."""
    errors: int = 0
    """Misses because the server failed."""
    down: int = 0
    """Misses because no server was up."""
    busy: int = 0
    """Misses because too many reads were under way."""
    damaged: dict[str, int] = {}
    """Misses because the value could not be read, by reason."""
    reads: int = 0
    """Read commands sent (a MGET is one)."""
    writes: int = 0
    writes_failed: int = 0
    writes_dropped: int = 0
    """Not written because the queue was full or the server down."""
    queued: int = 0
    leases: int = 0
    lease_waits: int = 0
    servers: tuple[ServerStats, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for the log and the page."""


class PurgeResult(Struct, frozen=True):
    """What a purge did."""

    removed: int
    """Entries; those that would be removed, when it was only asked how many."""
    complete: bool = True
    """False when a server could not be reached: entries may be left."""


class Lease(Protocol):
    """The right, for a while, to be the one process that fetches a key."""

    async def release(self) -> None:
        """Give it back once the answer was put (or could not be had). Never raises."""


class Store(Protocol):
    """A second tier. Keys are the core's; the store adds its prefix and the schema version."""

    name: ClassVar[str]

    async def start(self) -> None:
        """Connect, in the background where that takes time; never raises because a server is down."""

    async def close(self) -> None:
        """Write what waits, within the write deadline, and disconnect."""

    def get(self, key: bytes) -> Awaitable[Entry | None]:
        """The entry, or None. Never raises, never takes longer than the read deadline. It is asked for at once: what is
        asked for in one turn of the loop travels together, and may be awaited one after the other."""
        ...

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        """The same without a task: later, `done` gets the entry of the first of `keys` that has one which `accepts`
        takes, or None. False: it cannot be asked so, and `done` gets nothing."""
        ...

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        """Have the entry written in the background, to live `ttl` seconds. Never raises, never waits."""

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        """Remove what is meant, also from what waits to be written; `dry` only counts. Never raises."""

    async def left(self, key: bytes) -> float | None:
        """Seconds for which the store will still have the entry; None when it has none or does not say. Never raises.

        For `explain`: not on the way of a call.
        """

    async def lease(self, key: bytes, ttl: float) -> Lease | None:
        """The lease of `key` for at most `ttl` seconds; None when another process holds it. Never raises.

        A store that shares nothing, or cannot be reached, always grants.
        """

    async def wait(self, key: bytes, within: float) -> Entry | None:
        """What the holder of the lease puts; None when it gave up or died, or after `within` seconds. Never raises."""

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Tell what clients spent here, and learn what each spent elsewhere since the exchange before.

        None when it could not be done; nothing is known of others then. Never raises. One exchange at a time.
        """

    def stats(self) -> StoreStats:
        """State and counters now."""


class NoLease:
    """Nobody shares anything, so everybody may fetch."""

    async def release(self) -> None:
        """Nothing was taken."""


class NoStore:
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

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        """There was nothing."""
        return PurgeResult(0)

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
