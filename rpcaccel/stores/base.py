# ruff: noqa: ARG002 - what holds nothing ignores its arguments
"""The tiers behind memory: what the data plane expects of a store, what a file here defines to be found as one, and the
store for when there is none.

A store must never delay or fail a call: a slow or missing store is a miss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct

from rpcaccel.core.cache.entry import Entry, Selection

if TYPE_CHECKING:
    from rpcaccel.stores.shared_board import Board, QuotaSums


class Address(Protocol):
    """A URL that may hold credentials, which only the connector may read."""

    def reveal(self) -> str:
        """The full URL."""


class StoreSettings(Protocol):
    """The settings that stores read (config.model.RedisSettings). Times are in seconds, sizes in bytes."""

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


class StoreStats(Struct, frozen=True, kw_only=True):
    """The state and the counters of a store at one moment."""

    up: bool
    """Can the store be asked now? Of a store that was closed: could it be asked until then?"""
    fault: str = ""
    """Why it cannot be asked, or which of its servers are down and why, without anything secret; else empty."""
    hits: int = 0
    misses: int = 0
    """Misses because the server had no entry."""
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
    """Read commands sent; one MGET is one command."""
    writes: int = 0
    writes_failed: int = 0
    writes_dropped: int = 0
    """Writes dropped because the queue was full or the server was down."""
    queued: int = 0
    purged: int = 0
    """Entries that purges have removed."""
    entries: int = 0
    """Entries held; 0 of a store that does not say it."""
    bytes: int = 0
    """Bytes held, what the store wastes included; 0 of a store that does not say it."""
    limit: int = 0
    """The bound of `bytes`; 0 of a store that this program does not bound."""
    evicted: int = 0
    """Entries removed for room by this process."""
    leases: int = 0
    lease_waits: int = 0
    warnings: tuple[str, ...] = ()
    """Sentences for the log and the page."""


class PurgeResult(Struct, frozen=True):
    """The result of a purge."""

    removed: int
    """Entries removed, or those that would be removed if the purge was dry."""
    complete: bool = True
    """False when a server could not be reached, so that entries may be left."""


class Lease:
    """The right of one process to fetch the answer of a key, for a limited time."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[], Awaitable[None]] | None = None) -> None:
        """`end` gives the lease back, and never raises; None: it is not shared, so that every process may fetch."""
        self._end = end

    async def release(self) -> None:
        """Give the lease back after the answer was put or could not be fetched. Never raises."""
        if self._end is not None:
            await self._end()


class Store:
    """A cache tier behind memory. Keys are those of core.plan.cache_key, to which the store adds what it needs. What a
    store does not override is done as by one that finds nothing."""

    holds: ClassVar[bool] = True
    """Can the store hold anything? If not, it is never asked."""
    shares_limits: ClassVar[bool] = False
    """Does `exchange` tell all processes that use the store what clients spent?"""

    async def start(self) -> None:
        """Connect, in the background if a server does not answer. Never raises because a server is down."""

    async def close(self) -> None:
        """Write what is queued, within the write deadline, and disconnect."""

    def get(self, key: bytes) -> Awaitable[Entry | None]:
        """The entry, or None. Never raises, and never takes longer than the read deadline.

        The read begins with this call, not with the await: keys requested in one turn of the loop are read together,
        and the results may be awaited one after the other.
        """
        found: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()

        def told(entry: Entry | None) -> None:
            if not found.done():
                found.set_result(entry)

        if not self.look((key,), lambda _key, _entry: True, told):
            told(None)
        return found

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        """Read without a task: call `done` with the first entry of `keys` that `accepts` accepts, or with None.

        False, and no call of `done`, when the store cannot be asked.
        """
        return False

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        """Queue the entry for writing, to expire after `ttl` seconds. Never raises, never waits."""

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        """Remove the selected entries, queued ones included; `dry` only counts them. Never raises."""
        return PurgeResult(0)

    async def left(self, key: bytes) -> float | None:
        """Seconds until the entry expires in the store; None when it does not expire, there is none, or there is no
        answer. Never raises.

        For `explain`, not for calls.
        """
        return None

    async def lease(self, key: bytes, ttl: float) -> Lease | None:
        """Take the lease of `key` for at most `ttl` seconds; None when another process holds it. Never raises.

        A store that is not shared, or cannot be reached, grants every lease.
        """
        return Lease()

    async def wait(self, key: bytes, within: float, accepts: Callable[[Entry], bool]) -> Entry | None:
        """The entry that the holder of the lease puts; None if it gives up, dies, or needs more than `within`
        seconds. An entry that `accepts` does not accept was there before, and is not what the holder puts."""
        return None

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Report the tokens that clients spent here; return those that they spent elsewhere since the last exchange.

        None when the store did not answer. Never raises. Only one exchange may be under way.
        """
        return {}

    def stats(self) -> StoreStats:
        """The state and the counters now."""
        return StoreStats(up=True)


class NoStore(Store):
    """The store that holds nothing: workers have their memory tier alone."""

    holds = False


class Driver:
    """What a file of stores says of its kind of store, as `DRIVER = ItsDriver()`, and by itself of none. It is found by
    the schemes of its URLs. The settings are checked by it in every process, so it imports what is slow to import only
    when it needs it. The URLs that it is given have one of its schemes, and but for `check`, have passed that.
    """

    schemes: ClassVar[tuple[str, ...]] = ()
    forms: ClassVar[tuple[str, ...]] = ()
    """The forms of its URLs that an error message shows: redis://HOST[:PORT]."""

    def check(self, url: str) -> None:
        """Raise ValueError when the store cannot read the URL."""

    def shown(self, url: str) -> str:
        """The URL without credentials."""
        return f"{url.partition('://')[0]}://"

    def unfit_replicas(self, url: str, replicas: Sequence[str]) -> Mapping[int | None, str]:
        """What was expected of replicas of the store at `url`, by their index; under None, of the whole list."""
        return {None: "none: this store takes no replicas"}

    def files(self, url: str) -> Mapping[str, str]:
        """The files that the URL names, by the name of the option, which must be readable."""
        return {}

    async def refusal(self, url: str, settings: StoreSettings, within: float) -> str:
        """What the server expected instead of this URL; empty when it accepts it, or does not answer for `within`
        seconds."""
        return ""

    def build(self, settings: StoreSettings) -> Store:
        """Make the store, which `Store.start` connects."""
        return NoStore()

    def board(self, settings: StoreSettings) -> Board | None:
        """Make the board on which hosts share settings and purges and tell of themselves; None: they do not."""
        return None

    def quota_sums(self, settings: StoreSettings, host: str) -> QuotaSums | None:
        """Make what hosts share their use of quotas by; None: each counts alone. `host` names this one."""
        return None
