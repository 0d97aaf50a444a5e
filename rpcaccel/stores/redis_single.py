"""One primary and its replicas, named by the operator or found by Sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis_clients import sentinel, single
from rpcaccel.stores.redis_server import Route, Server
from rpcaccel.stores.redis_url import Target


class PrimaryAndReplicas:
    """Reads go to the replicas that are up, in turn, else to the primary; writes go to the primary."""

    tag = ""

    def __init__(self, target: Target, replicas: Sequence[Target], settings: StoreSettings) -> None:
        self._sentinel: Sentinel | None = None
        if target.kind == "sentinel":
            self._sentinel = sentinel(target, settings)
            self._clients: list[Redis] = [
                self._sentinel.master_for(target.service),
                self._sentinel.replica_for(target.service),
            ]
            names = [f"{target.service} primary", f"{target.service} replicas"]
        else:
            self._clients = [single(one, settings) for one in (target, *replicas)]
            names = [one.name for one in (target, *replicas)]
        roles = ["primary"] + ["replica"] * (len(names) - 1)
        self.servers = [Server(*server) for server in zip(names, roles, self._clients, strict=True)]
        self._primary, *self._replicas = self.servers
        self._turn = 0

    async def open(self) -> None:
        """Ask every server once."""
        await asyncio.gather(*(server.look() for server in self.servers))

    async def close(self) -> None:
        """Disconnect from all."""
        await asyncio.gather(*(server.close() for server in self.servers))
        closing = [client.aclose() for client in self._clients]
        if self._sentinel is not None:
            closing.append(self._sentinel.aclose())
        await asyncio.gather(*closing, return_exceptions=True)

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        """The next replica that is up, else the primary."""
        for _ in self._replicas:
            self._turn = (self._turn + 1) % len(self._replicas)
            replica = self._replicas[self._turn]
            if replica.up:
                return [(replica, list(keys))]
        return self.for_writing(keys)

    def for_writing(self, keys: Sequence[bytes]) -> Route:
        """The primary."""
        return [(self._primary, list(keys))] if self._primary.up else []

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:  # noqa: ARG002 - it holds them all
        """The primary, for a replica."""
        return self._primary if server is not self._primary and self._primary.up else None

    def primaries(self) -> list[Server] | None:
        """The primary."""
        return [self._primary]

    @property
    def up(self) -> bool:
        """Is any of them up?"""
        return self._primary.up or any(replica.up for replica in self._replicas)  # each call asks: the usual case first
