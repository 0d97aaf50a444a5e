"""Purges entries from Redis: SCAN on every primary, UNLINK of the selected keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.base import PurgeResult
from rpcaccel.stores.redis.redis_server import Server, Topology
from rpcaccel.stores.redis.replies import as_bytes, as_integer, as_list

STEP = 1000
"""Keys that one SCAN step visits."""

Act = Callable[[Server, list[bytes]], Awaitable[int | None]]
"""Handles selected keys and returns their number; None when the server failed."""

_GLOB = str.maketrans({char: f"\\{char}" for char in "*?[]^\\"})


def _literal(text: bytes) -> bytes:
    return text.decode("latin-1").translate(_GLOB).encode("latin-1")


def pattern(prefix: bytes, selection: Selection) -> bytes:
    """A glob for SCAN that matches at least the selected keys; `Selection.matches` decides."""
    # A key begins with the network's name, the chain id and the method: name@id:method:
    network = _literal(selection.network.encode()) + b"*" if selection.network else b"*"
    if selection.method:
        return _literal(prefix) + network + b":" + _literal(selection.method.encode()) + b"*"
    return _literal(prefix) + network


async def purge(topology: Topology, prefix: bytes, selection: Selection, *, dry: bool = False) -> PurgeResult:
    """Remove the selected entries from every primary, or count them. Never raises; the result says if it is
    complete."""
    if selection.key is not None:
        if not selection.matches(selection.key):
            return PurgeResult(0)
        routes = topology.for_writing([prefix + selection.key])
        counts = await asyncio.gather(*((_exist if dry else _unlink)(server, keys) for server, keys in routes))
        return PurgeResult(sum(count for count in counts if count is not None), bool(counts) and None not in counts)
    servers = topology.primaries()
    if servers is None:
        return PurgeResult(0, complete=False)
    done = await asyncio.gather(*(_sweep(server, prefix, selection, _number if dry else _unlink) for server in servers))
    return PurgeResult(sum(one.removed for one in done), all(one.complete for one in done))


async def _unlink(server: Server, keys: list[bytes]) -> int | None:
    try:
        return await server.unlink(keys)
    except Exception as error:
        server.failed(error)
        return None


async def _exist(server: Server, keys: list[bytes]) -> int | None:
    """The number of these keys that exist."""
    try:
        return sum([as_integer(await server.call("EXISTS", key)) for key in keys])
    except Exception as error:
        server.failed(error)
        return None


async def _number(_server: Server, keys: list[bytes]) -> int | None:
    """The number of keys, which a scan has found."""
    return len(keys)


async def _sweep(server: Server, prefix: bytes, selection: Selection, act: Act) -> PurgeResult:
    removed = 0
    cursor = 0
    match = pattern(prefix, selection)
    while server.up:
        try:
            step = as_list(await server.call("SCAN", cursor, "MATCH", match, "COUNT", STEP), 2)
            cursor, found = as_integer(step[0]), [as_bytes(key) for key in as_list(step[1])]
        except Exception as error:
            server.failed(error)
            return PurgeResult(removed, complete=False)
        meant = [key for key in found if selection.matches(key.removeprefix(prefix))]
        count = await act(server, meant) if meant else 0
        if count is None:
            return PurgeResult(removed, complete=False)
        removed += count
        if cursor == 0:
            return PurgeResult(removed)
    return PurgeResult(removed, complete=False)
