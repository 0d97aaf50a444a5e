"""Shared rate counters: the tokens that clients spent, added up over workers and hosts in Redis.

One round trip adds the tokens spent here and returns the sum. The difference from the last sum is what others spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rpcaccel.stores.redis.board_entries import ForeignData
from rpcaccel.stores.redis.redis_server import Server, Topology

LIFE = 60.0
"""Seconds after its last use at which a counter expires."""


class Spending:
    """The shared counters under `prefix`; `timeout` is in seconds."""

    def __init__(self, topology: Topology, *, prefix: bytes, timeout: float) -> None:
        self._topology = topology
        self._prefix = prefix
        self._timeout = timeout
        self._sums: dict[bytes, int] = {}
        self._foreign = ForeignData()

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Add the tokens spent here; return by client the tokens that others spent since the last exchange.

        None when Redis did not answer in time; the next exchange then starts anew, so that no client is charged twice.
        A client that was not part of the last exchange gets 0, because the time of the others' calls is not known.
        """
        before, self._sums = self._sums, {}
        names = {self._prefix + key: key for key in spent}
        try:
            async with asyncio.timeout(self._timeout):
                routes = self._topology.for_writing(list(names))
                if sum(len(keys) for _, keys in routes) < len(names):
                    return None
                sums = await asyncio.gather(
                    *(_add(server, {name: spent[names[name]] for name in keys}) for server, keys in routes)
                )
        except TimeoutError:
            return None
        if None in sums:
            return None
        self._foreign.note("counters of clients", len(names) - sum(len(told) for told in sums if told is not None))
        self._sums = {names[name]: total for told in sums if told is not None for name, total in told.items()}
        return {
            key: max(0, total - spent[key] - before[key]) if key in before and total >= before[key] else 0
            for key, total in self._sums.items()
        }


async def _add(server: Server, amounts: Mapping[bytes, int]) -> dict[bytes, int] | None:
    try:
        sums = await server.add(amounts, life=LIFE)
    except Exception as error:
        server.failed(error)
        return None
    server.succeeded()
    return sums
