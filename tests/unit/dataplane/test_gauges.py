"""The figures that tiers count by themselves, in the tally."""

from __future__ import annotations

from rpcaccel.core.stats.counters import Tier
from rpcaccel.dataplane import gauges
from rpcaccel.stores.base import StoreStats


def test_the_second_tiers_troubles_are_told_apart() -> None:
    tier = Tier("redis", shared=True)
    stats = StoreStats(
        name="redis",
        up=False,
        hits=5,
        misses=2,
        late=3,
        errors=4,
        writes_failed=1,
        damaged={"schema": 2},
        writes_dropped=6,
        purged=8,
        fault="h:1: the connection was refused",
    )
    gauges.fill_store(tier, stats)
    assert (tier.up, tier.hits, tier.misses, tier.timeouts, tier.errors, tier.dropped) == (False, 5, 2, 3, 7, 6)
    assert (tier.purged, tier.fault) == (8, "h:1: the connection was refused")
