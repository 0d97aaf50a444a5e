"""The cache tiers behind memory: a module or package for each kind of store.

A module here is a store that hosts share if it states its URL schemes (SCHEMES) and how to make the store (build). The
tier on disk is this host's own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from rpcaccel.stores.base import NoStore, Store, StoreSettings

if TYPE_CHECKING:
    from rpcaccel.stores.disk.disk_store import DiskStore, DiskTierSettings

Build = Callable[[StoreSettings], Store]


def schemes() -> dict[str, Build]:
    """All URL schemes that stores accept, each with the function that makes the store."""
    found: dict[str, Build] = {}
    for module in iter_modules(__path__):
        store = import_module(f"{__name__}.{module.name}")
        found.update(dict.fromkeys(getattr(store, "SCHEMES", ()), getattr(store, "build", None)))
    return found


def load(settings: StoreSettings) -> Store:
    """Make the store for the URL in the settings; without a URL, the one that holds nothing.

    Raises ValueError, without showing credentials, for a URL that is malformed or that no store accepts.
    """
    url = settings.url.reveal().strip()
    if not url:
        return NoStore()  # without importing the stores, which would take a tenth of the start
    scheme = url.partition("://")[0] if "://" in url else url
    build = schemes().get(scheme)
    if build is None:
        known = ", ".join(f"{name}://" for name in sorted(schemes()))
        raise ValueError(f"no store takes this address; known are {known}")
    return build(settings)


def load_disk(settings: DiskTierSettings) -> DiskStore | None:
    """Make the store for the folder in the settings; None without a folder."""
    if not settings.path:
        return None
    from rpcaccel.stores.disk.disk_store import DiskStore  # noqa: PLC0415 - a proxy without the tier does without SQLite

    return DiskStore(settings)
