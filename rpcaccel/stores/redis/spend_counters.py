"""What clients spent, added up over workers and hosts: a counter for each, in Redis.

One round trip adds what was spent here and tells the sum, so that what others spent in the meantime is the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rpcaccel.stores.redis.redis_server import Server, Topology

LIFE = 60.0
"""Seconds that a counter outlives its last use."""


class Spending:
    """`prefix` is that of the counters; `timeout` in seconds."""

    def __init__(self, topology: Topology, *, prefix: bytes, timeout: float) -> None:
        self._topology = topology
        self._prefix = prefix
        self._timeout = timeout
        self._sums: dict[bytes, int] = {}

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Add what was spent here; what others spent since the exchange before, by client.

        None when Redis did not do it in time. The next exchange then begins anew, so that nobody is charged twice. Who
        was not in the exchange before gets 0: how long ago the others' calls were cannot be told.
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
        self._sums = {names[name]: total for told in sums if told is not None for name, total in told.items()}
        return {
            key: max(0, total - spent[key] - before[key]) if key in before and total >= before[key] else 0
            for key, total in self._sums.items()
        }


async def _add(server: Server, amounts: Mapping[bytes, int]) -> dict[bytes, int] | None:
    try:
        return await server.add(amounts, life=LIFE)
    except Exception as error:
        server.failed(error)
        return None
