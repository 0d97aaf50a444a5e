"""`Store.look` as tests' stores have it: by `get`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rpcaccel.core.cache.entry import Entry
from rpcaccel.stores.base import Store


def looked(
    store: Store,
    keys: Sequence[bytes],
    accepts: Callable[[bytes, Entry], bool],
    done: Callable[[Entry | None], None],
) -> bool:
    """Tell the entry of the first of `keys` that has one; all are asked for at once."""
    asked = [(key, asyncio.ensure_future(store.get(key))) for key in keys]

    def go_on(_landed: object = None) -> None:
        while asked:
            key, landed = asked[0]
            if not landed.done():
                landed.add_done_callback(go_on)
                return
            del asked[0]
            entry = landed.result()
            if entry is not None and accepts(key, entry):
                done(entry)
                return
        done(None)

    go_on()
    return True
