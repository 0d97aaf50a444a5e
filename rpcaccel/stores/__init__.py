"""The cache tiers behind memory: the store that hosts share in Redis, and the tier on disk, which is this host's own.

What they are made of is imported late: the client of Redis takes 0.1 s, and a host without it needs none.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcaccel.stores.base import NoStore, Store, StoreSettings

if TYPE_CHECKING:
    from rpcaccel.stores.disk.disk_store import DiskStore, DiskTierSettings
    from rpcaccel.stores.redis.board import Board


def load(settings: StoreSettings) -> Store:
    """Make the store for the URL in the settings; without a URL, the one that holds nothing. Raises ValueError, without
    showing credentials, for a malformed URL."""
    if not settings.url.reveal().strip():
        return NoStore()
    from rpcaccel.stores.redis.store import RedisStore

    return RedisStore(settings)


def load_board(settings: StoreSettings) -> Board:
    """Make the board of the hosts that use this Redis. Raises ValueError for a malformed URL."""
    from rpcaccel.stores.redis.board import Board

    return Board(settings)


def load_disk(settings: DiskTierSettings) -> DiskStore | None:
    """Make the store for the folder in the settings; None without a folder."""
    if not settings.path:
        return None
    from rpcaccel.stores.disk.disk_store import DiskStore

    return DiskStore(settings)
