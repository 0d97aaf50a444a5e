"""What a store says about itself."""

from __future__ import annotations

import msgspec

from rpcaccel.stores.base import PurgeResult, ServerStats, StoreStats


def test_stats_travel_between_processes() -> None:
    server = ServerStats(name="h:6379", role="primary", up=True, max_memory=100, policy="allkeys-lru")
    stats = StoreStats(name="redis", up=True, hits=3, damaged={"schema": 1}, servers=(server,), warnings=("!",))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(stats), type=StoreStats) == stats


def test_a_purge_is_complete_unless_it_says_otherwise() -> None:
    assert PurgeResult(3).complete
