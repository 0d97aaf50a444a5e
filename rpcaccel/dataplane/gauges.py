"""Copies the figures that tiers and pools count by themselves into the tally, when a snapshot is taken."""

from __future__ import annotations

from rpcaccel.core.cache.memory import MemoryStats
from rpcaccel.core.memo import Memos
from rpcaccel.core.stats.counters import NetworkCell, Tier
from rpcaccel.dataplane.upstream.pool import NodePool
from rpcaccel.stores.base import StoreStats


def fill_memory(tier: Tier, stats: MemoryStats, memos: Memos) -> None:
    """The figures of the memory tier; its bytes include what is remembered of calls."""
    tier.entries = stats.entries
    tier.bytes = stats.bytes + memos.size
    tier.limit = stats.max_bytes + memos.limit
    tier.hits = stats.hits
    tier.misses = stats.misses
    tier.stored = stats.puts
    tier.evicted = stats.evictions
    tier.expired = stats.expired
    tier.purged = stats.purged
    tier.refused = stats.rejected


def fill_store(tier: Tier, stats: StoreStats) -> None:
    """The figures of the disk, or of Redis."""
    tier.up = stats.up
    tier.fault = stats.fault
    tier.entries = stats.entries
    tier.bytes = stats.bytes
    tier.limit = stats.limit
    tier.evicted = stats.evicted
    tier.hits = stats.hits
    tier.misses = stats.misses
    tier.stored = stats.writes
    tier.errors = stats.errors + stats.writes_failed + sum(stats.damaged.values())
    tier.timeouts = stats.late
    tier.dropped = stats.writes_dropped
    tier.purged = stats.purged


def fill_network(cell: NetworkCell, pool: NodePool) -> None:
    """The figures that the pool of a network counts by itself."""
    cell.busy = sum(room.refused for room in pool.rooms)
    cell.unpaid = pool.budget.refused
    cell.in_room = sum(len(room) for room in pool.rooms)
