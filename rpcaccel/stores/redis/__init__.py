"""Redis: the second cache tier, the board on which hosts share settings, leases, and shared rate counters."""

from __future__ import annotations

from rpcaccel.stores.base import Store, StoreSettings
from rpcaccel.stores.redis.redis_url import SCHEMES

__all__ = ["SCHEMES", "build"]


def build(settings: StoreSettings) -> Store:
    """Make the store for these settings. Raises ValueError for a malformed address."""
    # Imported late: the client of Redis takes 80 ms to import, and this package is also imported to parse addresses.
    from rpcaccel.stores.redis.store import RedisStore  # noqa: PLC0415

    return RedisStore(settings)
