"""Redis: the second cache tier, the board on which hosts share settings, leases, and shared rate counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcaccel.stores.base import Store, StoreSettings
from rpcaccel.stores.redis.redis_url import SCHEMES

if TYPE_CHECKING:
    from rpcaccel.stores.redis.board import Board

__all__ = ["SCHEMES", "build", "build_board"]

# Both are imported late: the client of Redis takes 0.1 s to import, and a host without Redis needs none.


def build(settings: StoreSettings) -> Store:
    """Make the store for these settings. Raises ValueError for a malformed address."""
    from rpcaccel.stores.redis.store import RedisStore  # noqa: PLC0415

    return RedisStore(settings)


def build_board(settings: StoreSettings) -> Board:
    """Make the board of the hosts that use this Redis. Raises ValueError for a malformed address."""
    from rpcaccel.stores.redis.board import Board  # noqa: PLC0415

    return Board(settings)
