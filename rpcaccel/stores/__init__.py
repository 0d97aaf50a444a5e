"""The cache tiers behind memory: the store that hosts share, which is found by the scheme of its URL, and the tier on
disk, which is this host's own.

A file or package here that defines a `DRIVER` (`base.Driver`) is a kind of shared store.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from rpcaccel.stores.base import Driver, StoreSettings

if TYPE_CHECKING:
    from rpcaccel.stores.disk.disk_store import DiskStore, DiskTierSettings


@cache
def drivers() -> dict[str, Driver]:
    """The drivers of all kinds of shared stores, by scheme. The folder is listed once."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    found: list[Driver] = [module.DRIVER for module in modules if hasattr(module, "DRIVER")]
    return {scheme: driver for driver in found for scheme in driver.schemes}


def driver_of(url: str) -> Driver:
    """The driver for the scheme of a URL; of no URL, the one without a store. Raises ValueError, naming all schemes and
    nothing of the URL."""
    driver = drivers().get(url.partition("://")[0]) if "://" in url else None
    if driver is None and url:
        raise ValueError(f"the address of a store begins with one of {', '.join(f'{name}://' for name in drivers())}")
    return driver or Driver()


def driver(settings: StoreSettings) -> Driver:
    """The driver for the URL in the settings. Raises ValueError, without showing credentials, for a malformed URL."""
    return driver_of(settings.url.reveal())


def load_disk(settings: DiskTierSettings) -> DiskStore | None:
    """Make the store for the folder in the settings; None without a folder."""
    if not settings.path:
        return None
    from rpcaccel.stores.disk.disk_store import DiskStore  # noqa: PLC0415 -- it takes SQLite

    return DiskStore(settings)
