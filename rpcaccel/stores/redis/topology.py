"""Arrangements of Redis servers: a primary with replicas (named in the settings or found by Sentinel), or a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.sentinel import Sentinel
from redis.cluster import LoadBalancingStrategy
from redis.crc import key_slot
from redis.exceptions import RedisClusterException

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.connect import bounded, cluster, sentinel, single
from rpcaccel.stores.redis.fault import reason
from rpcaccel.stores.redis.redis_server import FIRST_PROBE, LONGEST_PROBE, Route, Server, fault_of
from rpcaccel.stores.redis.redis_url import RedisTarget
from rpcaccel.stores.tasks import cancel_and_wait


class PrimaryAndReplicas:
    """A primary with replicas. Reads go to the replicas that are up, in turn, else to the primary, as writes do."""

    tag = ""

    def __init__(self, target: RedisTarget, replicas: Sequence[RedisTarget], settings: StoreSettings) -> None:
        self._sentinel: Sentinel | None = None
        if target.kind == "sentinel":
            self._sentinel = sentinel(target, settings)
            self._clients: list[Redis] = [
                bounded(self._sentinel.master_for(target.service)),
                bounded(self._sentinel.replica_for(target.service)),
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
        """Probe every server once."""
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
        """The primary, if it is up."""
        return [(self._primary, list(keys))] if self._primary.up else []

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:  # noqa: ARG002 - it holds them all
        """The primary, if `server` is a replica and the primary is up."""
        return self._primary if server is not self._primary and self._primary.up else None

    def primaries(self) -> list[Server] | None:
        """The primary."""
        return [self._primary]

    @property
    def up(self) -> bool:
        """Is any server up?"""
        return self._primary.up or any(replica.up for replica in self._replicas)  # the usual case first

    @property
    def fault(self) -> str:
        """Why servers are down."""
        return fault_of(self.servers)


class Cluster:
    """A Redis Cluster. Keys are grouped by the node that holds them; a node that is down affects its own keys only."""

    tag = "{}"
    """An empty hash tag. Keys hold JSON, and Redis would put all keys with the same {…} into one slot."""

    def __init__(self, target: RedisTarget, settings: StoreSettings) -> None:
        self._client = cluster(target, settings)
        self._name = target.name
        self._known: dict[str, Server] = {}
        self._opening: asyncio.Task[None] | None = None
        self._opened = False
        self._error = ""

    async def open(self) -> None:
        """Load the slots, in the background if no node answers."""
        if not await self._learn():
            self._opening = asyncio.create_task(self._keep_learning(), name="redis cluster")

    async def _learn(self) -> bool:
        try:
            await self._client.initialize()
        except Exception as error:
            self._error = reason(error)
            return False
        self._opened = True
        self._error = ""
        await asyncio.gather(*(self._server(node).look() for node in self._client.get_primaries()))
        return True

    async def _keep_learning(self) -> None:
        wait = FIRST_PROBE
        while True:
            await asyncio.sleep(wait)
            if await self._learn():
                return
            wait = min(wait * 2, LONGEST_PROBE)

    async def _refresh(self) -> None:
        # A node is down: another one may have its slots by now.
        await self._client.nodes_manager.initialize()
        present = self._client.nodes_manager.nodes_cache
        for name in [name for name in self._known if name not in present]:
            if (server := self._known.pop(name, None)) is not None:  # another probe may refresh at the same moment
                await server.close()

    def _server(self, node: ClusterNode) -> Server:
        server = self._known.get(node.name)
        if server is None:
            server = self._known[node.name] = Server(node.name, "", self._client, refresh=self._refresh)
        server.node = node
        server.role = node.server_type or ""
        return server

    def _route(self, keys: Sequence[bytes], strategy: LoadBalancingStrategy | None) -> Route:
        if not self._opened:
            return []
        groups: dict[str, tuple[Server, list[bytes]]] = {}
        for key in keys:
            server = self._place(key, strategy)
            if server is not None:
                groups.setdefault(server.name, (server, []))[1].append(key)
        return list(groups.values())

    def _place(self, key: bytes, strategy: LoadBalancingStrategy | None) -> Server | None:
        slot = key_slot(key)
        nodes = self._client.nodes_manager
        try:
            server = self._server(nodes.get_node_from_slot(slot, load_balancing_strategy=strategy))
            if not server.up and strategy is not None:
                server = self._server(nodes.get_node_from_slot(slot))
        except RedisClusterException:
            return None
        return server if server.up else None

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        """For each key a replica of its primary, else the primary."""
        return self._route(keys, LoadBalancingStrategy.ROUND_ROBIN_REPLICAS)

    def for_writing(self, keys: Sequence[bytes]) -> Route:
        """For each key its primary."""
        return self._route(keys, None)

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:
        """The primary of the first key, if `server` is a replica; it redirects for keys that it does not hold."""
        primary = self._place(keys[0], None)
        return primary if primary is not server else None

    def primaries(self) -> list[Server] | None:
        """All primaries; None before the slots are known."""
        return [self._server(node) for node in self._client.get_primaries()] if self._opened else None

    @property
    def servers(self) -> Sequence[Server]:
        """All nodes met so far."""
        return list(self._known.values())

    @property
    def up(self) -> bool:
        """Is any node up?"""
        return self._opened and any(server.up for server in self._known.values())

    @property
    def fault(self) -> str:
        """Why nodes are down, or why the slots are not known."""
        return fault_of(self.servers) if self._opened else f"{self._name}: {self._error}"

    async def close(self) -> None:
        """Disconnect from all."""
        if self._opening is not None:
            await cancel_and_wait(self._opening)
        await asyncio.gather(*(server.close() for server in self._known.values()))
        await asyncio.gather(self._client.aclose(), return_exceptions=True)
