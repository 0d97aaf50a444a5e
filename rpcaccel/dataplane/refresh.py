"""When the head moves, what was asked most at the old one is fetched again at once, so that popular reads stay hits.

A caller who comes meanwhile joins the flight. On the way of a hit it costs one count: the planner knows how often it
gave a plan. What it costs the nodes is a share of their calls, which the settings bound.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from rpcaccel.core.memory import MemoryTier
from rpcaccel.core.outcome import Outcome
from rpcaccel.core.plan import Plan
from rpcaccel.core.rules import CacheClass
from rpcaccel.dataplane.flights import Flights
from rpcaccel.dataplane.network import Network

AT_ONCE = 64
"""Calls fetched again at one head; a node's queue is there for callers."""
_TURNS_OVER = (CacheClass.HEAD, CacheClass.EPOCH)

Fly = Callable[[Network, Plan], Coroutine[Any, Any, Outcome]]


class Refresh:
    """Fetches the hottest calls of a network anew."""

    def __init__(self, fly: Fly, memory: MemoryTier, flights: Flights, clock: Callable[[], float]) -> None:
        self._fly = fly
        self._memory = memory
        self._flights = flights
        self._clock = clock

    def head_moved(self, network: Network) -> int:
        """Begin to fetch what was asked most; how many calls."""
        hottest = network.planner.hottest()
        begun = 0
        if not network.settings.refresh:
            return begun
        now = self._clock()
        for method, params in hottest:
            plan = network.plan(method, params)
            key = plan.flight_key
            if key is None or not self._turned_over(plan, now) or key in self._flights:
                continue
            if begun >= AT_ONCE or not network.refreshes.take(now):
                break
            begun += 1
            network.cell(plan).refreshed += 1
            self._flights.begin(key, self._flight(network, plan))
        return begun

    def _flight(self, network: Network, plan: Plan) -> Callable[[], Coroutine[Any, Any, Outcome]]:
        return lambda: self._fly(network, plan)

    def _turned_over(self, plan: Plan, now: float) -> bool:
        """Is it an answer of the head, read from a node, that nobody has yet?"""
        if plan.cache not in _TURNS_OVER or plan.local is not None or plan.rule.kind != "read" or plan.rule.deny:
            return False
        return all(self._memory.peek(key, now) is None for key in (plan.key, plan.head_key) if key is not None)
