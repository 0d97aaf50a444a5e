"""What a worker does when the head moves: popular reads are fetched again, and a chain that began anew is forgotten.

Refreshes: when the head moves, the calls that were made most often at the old head are fetched again at once, so that
they stay hits. A caller who comes meanwhile joins the flight. Refreshes may cost a share of the nodes' calls, which the
settings bound; the planner counts how often it gave each plan.

Restarts of a chain: when the served head falls below a final block, to nodes that know no block of the branch that was
served, or when a final block was replaced (core.heads.head_book), the chain may have begun anew under the same id.
Answers about final blocks are kept for good, under keys that the blocks of a new chain have as well. So they are purged
from all tiers before any block is called final again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.recent_purges import RecentPurges
from rpcaccel.core.heads.served_head import Served
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stepwise import Steps
from rpcaccel.dataplane.engine.single_flight import Flights
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.stores.base import Store

MAX_REFRESHES = 64
"""Calls that are fetched again at one head at the most: the queue of a node is there for callers."""
_PLANNED = 8
"""Calls that are planned in one step."""
_TURNS_OVER = (CacheClass.HEAD, CacheClass.EPOCH)

Fly = Callable[[Network, Plan], None]
"""Begins the flight of a plan for which nobody waits."""


class Refresh:
    """Fetches the most popular calls of a network again."""

    def __init__(self, fly: Fly, memory: MemoryTier, flights: Flights, clock: Callable[[], float]) -> None:
        self._fly = fly
        self._memory = memory
        self._flights = flights
        self._clock = clock

    def head_moved(self, network: Network) -> Steps[int]:
        """Begin to fetch the most popular calls; returns their number."""
        hottest = yield from network.planner.hottest()
        begun = 0
        if not network.settings.refresh:
            return begun
        now, refreshes = self._clock(), network.refreshes
        refreshes.count_up_to(network.pool.budget.calls, now)
        for number, (method, params) in enumerate(hottest):
            if not number % _PLANNED:
                yield
            plan = network.plan(method, params)
            key = plan.flight_key
            if key is None or not self._turned_over(plan, now) or key in self._flights:
                continue
            if begun >= MAX_REFRESHES or not all(refreshes.take(now) for _ in range(plan.rule.agree)):
                break
            begun += 1
            network.cell(plan).refreshed += 1
            self._fly(network, plan)
        return begun

    def _turned_over(self, plan: Plan, now: float) -> bool:
        """Is this a read whose answer changes with the head and is not kept yet at the new one?"""
        if plan.cache not in _TURNS_OVER or plan.local is not None or plan.rule.kind != "read" or plan.rule.deny:
            return False
        return all(self._memory.peek(key, now) is None for key in (plan.key, plan.head_key) if key is not None)


PURGE_AGAIN_SECONDS = 5.0
"""Seconds after which the tiers behind memory are purged again when one was not reached."""


class ChainRestarts:
    """The networks of one worker whose kept answers are being purged."""

    def __init__(
        self,
        memory: MemoryTier,
        stores: Sequence[Store],
        purges: RecentPurges,
        clock: Callable[[], float],
        under_way: Callable[[], list[asyncio.Future[object]]],
        again: float = PURGE_AGAIN_SECONDS,
    ) -> None:
        """`stores` are the tiers behind memory. `under_way` gives a future for each flight under way, whose answer may
        be of the old chain."""
        self._memory = memory
        self._stores = stores
        self._purges = purges
        self._clock = clock
        self._under_way = under_way
        self._again = again
        self._waits: dict[str, None] = {}
        """Networks whose answers in the tiers behind memory could not be purged yet."""

    def __repr__(self) -> str:
        return f"<ChainRestarts {' '.join(self._waits)}>"

    def look(self, network: Network, served: Served) -> bool:
        """Look at new heads before the network sees them.

        True when the chain may have begun anew: the memory tier has been purged of the network, `forget` is to be run,
        and no block of the network is final until that has ended.
        """
        sight, known = network.sight, network.view.head >= 0
        news, sight.doubted = served.doubted > sight.doubted, max(served.doubted, sight.doubted)
        if not (news and known) or sight.forgetting:  # before its first head a worker has kept nothing
            return False
        sight.forgetting = True
        self._purges.add(Selection(network=network.name), self._clock())
        self._memory.purge(Selection(network=network.name))
        return True

    async def forget(self, network: Network) -> None:
        """Purge all tiers once all flights under way have landed, again and again until every server was reached."""
        selection = Selection(network=network.name)
        if flights := self._under_way():
            await asyncio.wait(flights)
            self._purges.add(selection, self._clock())
            self._memory.purge(selection)  # or what they left there might be written to the disk as hot
        while not all([(await store.purge(selection)).complete for store in self._stores]):
            self._waits[network.name] = None
            await asyncio.sleep(self._again)
        self._memory.purge(selection)
        self._waits.pop(network.name, None)
        network.sight.forgetting = False

    def warnings(self) -> tuple[str, ...]:
        """Sentences that say for which networks no block is called final yet."""
        return tuple(
            f"the head of {name} fell below what was final, or a final block was replaced: no block is called final "
            "until Redis and the disk can be purged of what was kept before"
            for name in self._waits
        )
