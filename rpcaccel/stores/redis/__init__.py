"""Redis as the second tier, the board on which hosts share settings, and the counters that they share."""

from __future__ import annotations

from rpcaccel.stores.base import Store, StoreSettings
from rpcaccel.stores.redis.redis_url import SCHEMES

__all__ = ["SCHEMES", "build"]


def build(settings: StoreSettings) -> Store:
    """The store for these settings. Raises ValueError for an address that says nothing sensible."""
    # The client of Redis takes 80 ms to import, and this package is imported to read addresses alone.
    from rpcaccel.stores.redis.store import RedisStore  # noqa: PLC0415

    return RedisStore(settings)
