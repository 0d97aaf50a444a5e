"""What hosts used of the quotas of nodes: in Redis a hash for each quota and window, with a field for each host.

A host writes its own count again and again, so that an exchange that was lost, or a Redis that was emptied, is made
good by the next exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace

from rpcaccel.core.nodes.quota import Brought
from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.redis_server import Server
from rpcaccel.stores.redis.store import topology

KEPT = 3600
"""Seconds for which a count is kept after its window: the clocks of hosts differ."""


class QuotaSums:
    """The counts of all hosts under the prefix of `settings`; an exchange has the write timeout."""

    def __init__(self, settings: StoreSettings, host: str) -> None:
        """`host` names this host, over its restarts if it has a state file."""
        self._topology = topology(settings)
        self._timeout = settings.write_timeout
        self._prefix = f"{settings.prefix}{self._topology.tag}:quota:"
        self._host = host.encode()

    def __repr__(self) -> str:
        return f"<QuotaSums {' '.join(map(repr, self._topology.servers))}>"

    async def open(self) -> None:
        """Connect, in the background if a server does not answer. Never raises."""
        await self._topology.open()

    async def close(self) -> None:
        """Disconnect."""
        await self._topology.close()

    async def exchange(self, own: Sequence[Brought]) -> list[Brought]:
        """Say what this host used; return what the others used of the same quotas. What is not known, since a server
        did not answer, is left out. Never raises."""
        asked: dict[Server, list[Brought]] = {}
        for one in own:
            for server, _ in self._topology.for_writing([self._name(one)]):
                asked.setdefault(server, []).append(one)
        told = await asyncio.gather(*(self._ask(server, group) for server, group in asked.items()))
        return [one for group in told for one in group]

    async def _ask(self, server: Server, own: Sequence[Brought]) -> list[Brought]:
        commands: list[tuple[Any, ...]] = []
        for one in own:
            name = self._name(one)
            if one.used:  # a host without a state file has a new name, and would have a new field, at each start
                commands += [
                    ("HSET", name, self._host, f"{one.used!r} {one.since!r}"),
                    ("EXPIREAT", name, int(one.renews) + KEPT),
                ]
            commands.append(("HGETALL", name))
        try:
            async with asyncio.timeout(self._timeout):
                replies = await server.together(commands)
        except Exception as error:  # whatever the client raises means that there is no answer
            server.failed(error)
            return []
        server.succeeded()
        told = [said for command, said in zip(commands, replies, strict=True) if command[0] == "HGETALL"]
        return [found for one, said in zip(own, told, strict=True) if (found := self._others(one, said))]

    def _others(self, own: Brought, said: Any) -> Brought | None:
        """What the other hosts used, from the fields of the hash."""
        if not isinstance(said, Mapping | list):
            return None  # an exception: the server refused it
        fields = said if isinstance(said, Mapping) else dict(zip(said[::2], said[1::2], strict=True))
        try:
            told = [[float(part) for part in value.split()] for host, value in fields.items() if host != self._host]
            used, since = sum(used for used, _ in told), min([own.since, *(since for _, since in told)])
            if not all(0.0 <= used < inf and 0.0 <= since < inf for used, since in told):
                return None
        except ValueError:
            return None  # not written by this program
        return replace(own, used=used, since=since)

    def _name(self, one: Brought) -> bytes:
        return f"{self._prefix}{one.network}:{one.node}:{one.window}:{one.renews:.0f}".encode()
