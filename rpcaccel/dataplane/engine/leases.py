"""Distributed single-flight: one node call for identical misses in several processes and hosts, where a call costs a
node much.

The process that gets the lease of a key fetches; the others wait for what it puts. A lease has a bounded life, by how
long the nodes take (core.dispatch.sole_fetch): when its holder dies, or has nothing to put (an error, an answer that is
not kept), every process fetches for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rpcaccel.core.cache.entry import Entry
from rpcaccel.stores.base import Lease, Store


class Leasing:
    """The leases of one worker."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._releasing: set[asyncio.Task[None]] = set()

    async def claim(
        self,
        key: bytes,
        accepts: Callable[[Entry], bool],
        look: Callable[[], Awaitable[Entry | None]],
        patience: float,
        *,
        within: float,
    ) -> Lease | Entry | None:
        """Claim the lease of `key`.

        Returns the lease, to be given to `release` once the answer was put; or the entry that the holder of the lease
        put, which `look` finds under any key of the call; or None when the holder put nothing in time.

        Args:
            accepts: decides whether an entry answers the call.
            patience: seconds that the lease lives, and that its holder is waited for at the most.
            within: seconds that the call has left; half of them are kept for asking a node.
        """
        lease = await self._store.lease(key, patience)
        if lease is not None:
            return lease
        entry = await self._store.wait(key, min(patience, within / 2), accepts)
        return await look() if entry is None else entry

    def release(self, lease: Lease) -> None:
        """Give a lease back in the background. That waits until the answer is written, which callers need not."""
        task = asyncio.get_running_loop().create_task(lease.release())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def close(self) -> None:
        """Wait until the leases that are being given back are given back."""
        await asyncio.gather(*self._releasing, return_exceptions=True)
