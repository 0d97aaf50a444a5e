"""What was kept as final and is not: forgotten before any block is called final again.

When the served head falls below what was final, to nodes that know no block of the branch that was served, or a final
block is another one than it was (core.heads), the chain may have begun anew under the same id. Answers about final
blocks are kept for good, under keys that a new chain's blocks have as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rpcaccel.core.entry import Selection
from rpcaccel.core.heads import Served
from rpcaccel.core.memory import MemoryTier
from rpcaccel.dataplane.network import Network
from rpcaccel.stores.base import Store

AGAIN = 5.0
"""Seconds after which the second tier is purged again when a server was not reached."""


class ChainRestarts:
    """The networks of one worker that are being forgotten."""

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        under_way: Callable[[], list[asyncio.Future[object]]],
        again: float = AGAIN,
    ) -> None:
        """`under_way`: a wait for each answer that is on its way, and may be of the old chain."""
        self._memory = memory
        self._store = store
        self._under_way = under_way
        self._again = again
        self._waits: dict[str, None] = {}
        """Networks whose answers in the second tier could not be purged yet."""

    def __repr__(self) -> str:
        return f"<ChainRestarts {' '.join(self._waits)}>"

    def look(self, network: Network, served: Served) -> bool:
        """To be told before these heads are seen. True: `forget` is to be run, and until it has ended nothing of this
        network is final; what was in memory is gone at once."""
        sight, known = network.sight, network.view.head >= 0
        news, sight.doubted = served.doubted > sight.doubted, max(served.doubted, sight.doubted)
        if not (news and known) or sight.forgetting:  # before its first head a worker has kept nothing
            return False
        sight.forgetting = True
        self._memory.purge(Selection(network=network.name))
        return True

    async def forget(self, network: Network) -> None:
        """Purge both tiers when what was under way has come, again and again until all servers were reached."""
        selection = Selection(network=network.name)
        if flights := self._under_way():
            await asyncio.wait(flights)
        while not (await self._store.purge(selection)).complete:
            self._waits[network.name] = None
            await asyncio.sleep(self._again)
        self._memory.purge(selection)
        self._waits.pop(network.name, None)
        network.sight.forgetting = False

    def warnings(self) -> tuple[str, ...]:
        """What keeps blocks from being called final, in sentences."""
        return tuple(
            f"the head of {name} fell below what was final, or a final block was replaced: no block is called final "
            "until Redis can be purged of what was kept before"
            for name in self._waits
        )
