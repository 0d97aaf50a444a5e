"""The second cache tier: a file or a package for each store.

A store is a module or package here that says which URL schemes are its own (SCHEMES) and how it is made (build).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from rpcaccel.stores.base import NoStore, Store, StoreSettings

Build = Callable[[StoreSettings], Store]


def schemes() -> dict[str, Build]:
    """Every URL scheme that some store here takes, with how that store is made."""
    found: dict[str, Build] = {}
    for module in iter_modules(__path__):
        store = import_module(f"{__name__}.{module.name}")
        found.update(dict.fromkeys(getattr(store, "SCHEMES", ()), getattr(store, "build", None)))
    return found


def load(settings: StoreSettings) -> Store:
    """The store that the settings' URL asks for; without a URL, the one that holds nothing.

    Raises ValueError for a URL that no store takes or that is malformed, without showing its credentials.
    """
    url = settings.url.reveal().strip()
    if not url:
        return NoStore()  # without looking at the others: a tenth of the start would go into it
    scheme = url.partition("://")[0] if "://" in url else url
    build = schemes().get(scheme)
    if build is None:
        known = ", ".join(f"{name}://" for name in sorted(schemes()))
        raise ValueError(f"no store takes this address; known are {known}")
    return build(settings)
