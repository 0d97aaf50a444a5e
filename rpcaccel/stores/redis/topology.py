"""Servers of Redis, whether each is up, and how they belong together: a primary with replicas (named in the settings or
found by Sentinel), or a cluster.

A server that fails or is late several times in a row is down. It gets no more commands, and a task of its own probes it
at growing intervals, so that no client's call has to find out that it is back.

The slots of a cluster, its redirections and its connections are those of redis-py. Its nodes are asked one by one all
the same: redis-py answers a pipeline over several nodes when the slowest of them has answered, fails it as a whole when
one of them cannot be reached, and learns the slots anew within the call that comes next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from msgspec import ValidationError, convert
from redis.asyncio.cluster import ClusterNode
from redis.cluster import LoadBalancingStrategy
from redis.crc import key_slot

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.connect import bounded, cluster, sentinel, single
from rpcaccel.stores.redis.redis_url import RedisTarget, parse
from rpcaccel.stores.redis.replies import NoServerError, is_about_key, is_about_type, reason
from rpcaccel.stores.shared_board import ForeignData
from rpcaccel.stores.tasks import cancel_and_wait

FAILURES = 3
"""Consecutive failures after which a server is down."""

FIRST_PROBE_SECONDS = 0.25
MAX_PROBE_SECONDS = 5.0
"""Seconds between two probes of a server that is down: the first pause, doubled up to the longest."""

Command = tuple[Any, ...]
"""The words of a command; the key is the second of them, in EVAL the fourth."""

Values = list[bytes | None]


class Server:
    """A single server, or a node of a cluster (then `node` is set, and `client` is that of the whole cluster)."""

    def __init__(
        self, name: str, role: str, client: Any, *, before_probe: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.name = name
        self.role = role
        self.client = client
        self.node: ClusterNode | None = None
        self.up = True
        self.error = ""
        """The last error; empty once a command succeeded again."""
        self._in_a_row = 0
        self._info: dict[str, Any] = {}
        self._before_probe = before_probe
        self._probing: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Server {self.role} {self.name} {'up' if self.up else 'down'}>"

    def succeeded(self) -> None:
        """Note that the server answered in time."""
        self._in_a_row = 0
        self.error = ""

    def failed(self, error: BaseException | str) -> None:
        """Note that the server failed or was late; FAILURES in a row take it down."""
        self._in_a_row += 1
        self.error = error if isinstance(error, str) else reason(error)
        if self._in_a_row >= FAILURES:
            self.take_down()

    def take_down(self) -> None:
        """Send no commands until a probe is answered."""
        if self.up and not self._closed:
            self.up = False
            self._probing = asyncio.create_task(self._probe(), name=f"redis probe {self.name}")

    async def look(self) -> None:
        """Probe the server for the first time; it is down if it does not answer."""
        if not await self._answers():
            self.take_down()

    async def _probe(self) -> None:
        wait = FIRST_PROBE_SECONDS
        while not self.up:
            await asyncio.sleep(wait)
            wait = min(wait * 2, MAX_PROBE_SECONDS)
            answers = await self._answers(self._before_probe)
            if self._closed:
                return  # it has left the cluster
            self.up = answers

    async def _answers(self, before: Callable[[], Awaitable[None]] | None = None) -> bool:
        try:
            if before is not None:
                await before()
            await self.greet()
        except Exception as error:
            self.error = reason(error)
            return False
        self.succeeded()
        return True

    async def greet(self) -> None:
        """Find out whether the server answers, and how its memory is set. Raises what the client raises."""
        (said,) = await self.together([("INFO", "memory")])
        if isinstance(said, Exception):
            raise said
        self._info = said

    async def mget(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """The values of different keys by one MGET, in a cluster by one for each slot. Raises what the client raises,
        and an error for a reply of another shape."""
        if self.node is None:
            return dict(zip(keys, convert(await self.client.execute_command("MGET", *keys), Values), strict=True))
        slots: dict[int, list[bytes]] = {}
        for key in keys:
            slots.setdefault(key_slot(key), []).append(key)
        answers = await self.together([("MGET", *group) for group in slots.values()])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        values = chain.from_iterable(convert(answers, list[Values]))
        return dict(zip(chain.from_iterable(slots.values()), values, strict=True))

    async def send(
        self, shape: Any, commands: Sequence[Command], within: float, *, errors_count: bool = True
    ) -> list[Any]:
        """Send commands in one pipeline; return for each its reply, or the exception why there is none. Never raises.

        `shape` is the type of all replies; one of another shape is an exception. `within` is in seconds. Without
        `errors_count`, a server that answers by an error is not taken for one that fails: it may read well.
        """
        try:
            async with asyncio.timeout(within):
                replies = [_shaped(reply, shape) for reply in await self.together(commands)]
        except Exception as error:  # whatever the client raises means that there is no answer
            self.failed(error)
            return [error] * len(commands)
        fault = next((reply for reply in replies if isinstance(reply, Exception) and not is_about_key(reply)), None)
        if fault is None:
            self.succeeded()
        elif errors_count:
            self.failed(fault)
        return replies

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one pipeline; return the server's reply or the exception for each. Raises what the client
        raises when the server cannot be reached."""
        pipeline = self.client.pipeline(transaction=False)
        target = {} if self.node is None else {"target_nodes": [self.node]}
        for command in commands:
            pipeline.execute_command(*command, **target)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    async def close(self) -> None:
        """Stop probing. The client is closed by its owner."""
        self._closed = True
        self.up = False
        if self._probing is not None and self._probing is not asyncio.current_task():
            await cancel_and_wait(self._probing)

    def warnings(self) -> list[str]:
        """Sentences on what the operator should change in this server's memory settings."""
        if not self._info or self.role != "primary":
            return []
        policy = str(self._info.get("maxmemory_policy", ""))
        advice = "set maxmemory-policy allkeys-lru or allkeys-lfu"
        if not self._info.get("maxmemory"):
            return [f"Redis {self.name} has no maxmemory: give it one, and {advice}"]
        if policy == "noeviction":
            return [f"Redis {self.name} refuses writes when it is full (noeviction): {advice}"]
        if policy.endswith("random"):
            return [f"Redis {self.name} evicts at random ({policy}): {advice}"]
        return []


def _shaped(reply: Any, shape: Any) -> Any:
    if isinstance(reply, Exception):
        return reply
    try:
        return convert(reply, shape)
    except ValidationError as error:
        return error


class KeptKey(NamedTuple):
    """What this program keeps at a key."""

    words: str
    """Its name in the log."""
    type: str
    """Its type in Redis."""


_REMOVE_OTHER_TYPE = "return redis.call('TYPE', KEYS[1]).ok == ARGV[1] and 0 or redis.call('UNLINK', KEYS[1])"
"""Removes a key of another type than ARGV[1]; another host may have put there meanwhile what belongs there."""

Route = list[tuple[Server, list[bytes]]]
"""Servers with the keys to ask them for; a key without a server that is up is missing."""

_IS_UP = attrgetter("up")  # a generator would be a call for each server and each key that is read


class Topology:
    """Servers that hold the keys together: a primary with replicas. Reads go to the replicas that are up, in turn, else
    to the primary, as writes do."""

    tag: ClassVar[str] = ""
    """A suffix of the key prefix that makes keys spread over the servers."""

    def __init__(self, servers: Sequence[Server], clients: Sequence[Any]) -> None:
        """The primary is the first of `servers`. `clients` are closed with the topology."""
        self.servers: Collection[Server] = servers
        """All known servers."""
        self.foreign = ForeignData()
        """What another program left under keys of this one."""
        self._clients = clients
        self._primary, *self._replicas = servers
        self._turn = 0

    async def open(self) -> None:
        """Connect, in the background if a server does not answer. Never raises."""
        await asyncio.gather(*(server.look() for server in self.servers))

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self.servers))
        await asyncio.gather(*(client.aclose() for client in self._clients), return_exceptions=True)

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        """The servers to read these keys from: replicas first."""
        for _ in self._replicas:
            self._turn = (self._turn + 1) % len(self._replicas)
            replica = self._replicas[self._turn]
            if replica.up:
                return [(replica, list(keys))]
        return [(self._primary, list(keys))] if self._primary.up else []

    def primary_of(self, key: bytes) -> Server | None:  # noqa: ARG002 - one primary holds them all
        """The primary that holds the key, if it is up."""
        return self._primary if self._primary.up else None

    def primaries(self) -> list[Server]:
        """All primaries, up or not."""
        return [self._primary]

    def for_writing(self, keys: Sequence[bytes]) -> Route:
        """The primaries of these keys."""
        return grouped(keys, self.primary_of)

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:
        """The primary of the first key after a replica failed, which redirects for keys that it does not hold; None
        without another server."""
        primary = self.primary_of(keys[0])
        return primary if primary is not server else None

    async def ask(
        self, shape: Any, commands: Sequence[Command], within: float, kept: KeptKey | None = None
    ) -> list[Any]:
        """Send each command to the primary of its key, those for one primary in one pipeline; return for each its
        reply, of the type `shape`, or the exception why there is none. Never raises.

        A server that has not answered `within` seconds gives no answers. With `kept`, a key at which another program
        put something else is removed, and asked for again.
        """
        places: dict[Server, list[int]] = {}
        for place, command in enumerate(commands):
            server = self.primary_of(_key_of(command))
            if server is not None:
                places.setdefault(server, []).append(place)
        replies: list[Any] = [NoServerError()] * len(commands)

        async def send(server: Server, asked: list[int]) -> None:
            said = await server.send(shape, [commands[place] for place in asked], within)
            for place, reply in zip(asked, said, strict=True):
                replies[place] = reply

        await asyncio.gather(*(send(server, asked) for server, asked in places.items()))
        told = zip(commands, replies, strict=True)
        foreign = {_key_of(command): is_about_type(reply) for command, reply in told if is_about_key(reply)}
        if kept is not None and foreign:
            self.foreign.note(kept.words, len(foreign))
            removals: list[Command] = [
                ("EVAL", _REMOVE_OTHER_TYPE, 1, key, kept.type) if of_other_type else ("UNLINK", key)
                for key, of_other_type in foreign.items()
            ]
            await self.ask(int, removals, within)
            again = [place for place, command in enumerate(commands) if _key_of(command) in foreign]
            for place, reply in zip(again, await self.ask(shape, [commands[p] for p in again], within), strict=True):
                replies[place] = reply
        return replies

    @property
    def up(self) -> bool:
        return any(map(_IS_UP, self.servers))

    @property
    def fault(self) -> str:
        """The name and the error of each server that is down, as one text; empty while all are up."""
        return "; ".join(f"{server.name}: {server.error or 'no answer'}" for server in self.servers if not server.up)


def grouped(keys: Sequence[bytes], place: Callable[[bytes], Server | None]) -> Route:
    """The keys by the server that `place` finds for each."""
    groups: dict[Server, list[bytes]] = {}
    for key in keys:
        server = place(key)
        if server is not None:
            groups.setdefault(server, []).append(key)
    return list(groups.items())


def _key_of(command: Command) -> bytes:
    key: bytes = command[3 if command[0] == "EVAL" else 1]
    return key


def topology(settings: StoreSettings) -> Topology:
    """The arrangement of servers in these settings, whose replicas are single servers (config.validate). Raises
    ValueError for a malformed address."""
    target = parse(settings.url.reveal())
    if target.kind == "cluster":
        return Cluster(target, settings)
    if target.kind == "sentinel":
        found = sentinel(target, settings)
        primary, replicas = bounded(found.master_for(target.service)), bounded(found.replica_for(target.service))
        servers = [Server(f"{target.service} primary", "primary", primary),
                   Server(f"{target.service} replicas", "replica", replicas)]  # fmt: skip
        return Topology(servers, [primary, replicas, found])
    targets = [target, *(parse(replica.reveal()) for replica in settings.replicas)]
    clients = [single(one, settings) for one in targets]
    roles = ["primary"] + ["replica"] * len(settings.replicas)
    return Topology([Server(*of) for of in zip([one.name for one in targets], roles, clients, strict=True)], clients)


class RedisSharedState:
    """The connection of what hosts share: servers of its own, whose commands have the write timeout of `settings`."""

    def __init__(self, settings: StoreSettings) -> None:
        self._topology = topology(settings)
        self._timeout = settings.write_timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {' '.join(map(repr, self._topology.servers))}>"

    async def open(self) -> None:
        await self._topology.open()

    async def close(self) -> None:
        await self._topology.close()

    def notices(self) -> list[str]:
        return self._topology.foreign.notices()


class _UnknownNodes(Server):
    """Stands for the nodes of a cluster until `learn` has found them."""

    def __init__(self, name: str, learn: Callable[[], Awaitable[None]]) -> None:
        super().__init__(name, "", None)
        self._learn = learn

    async def greet(self) -> None:
        """Find the nodes. Raises what the client raises."""
        await self._learn()


class Cluster(Topology):
    """A Redis Cluster. Keys are grouped by the node that holds them; a node that is down affects its own keys only."""

    tag = "{}"
    """An empty hash tag. Keys hold JSON, and Redis would put all keys with the same {…} into one slot."""

    def __init__(self, target: RedisTarget, settings: StoreSettings) -> None:
        self._client = cluster(target, settings)
        self._nodes: dict[str, Server] = {}
        """The nodes met so far, by name."""
        super().__init__([_UnknownNodes(target.name, self._learn)], [self._client])

    async def _learn(self) -> None:
        await self._client.initialize()
        self.servers = self._nodes.values()
        await asyncio.gather(*(server.look() for server in self.primaries()))

    async def _refresh(self) -> None:
        # A node is down: another one may have its slots by now.
        await self._client.nodes_manager.initialize()
        present = self._client.nodes_manager.nodes_cache
        for name in [name for name in self._nodes if name not in present]:
            if (server := self._nodes.pop(name, None)) is not None:  # another probe may refresh at the same moment
                await server.close()

    def _server(self, node: ClusterNode) -> Server:
        server = self._nodes.get(node.name)
        if server is None:
            server = self._nodes[node.name] = Server(node.name, "", self._client, before_probe=self._refresh)
        server.node = node
        server.role = node.server_type or ""
        return server

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        """For each key a replica of its primary, else the primary."""
        return grouped(keys, self._replica_of)

    def _replica_of(self, key: bytes) -> Server | None:
        server = self.primary_of(key, LoadBalancingStrategy.ROUND_ROBIN_REPLICAS)
        return server if server is not None else self.primary_of(key)

    def primary_of(self, key: bytes, strategy: LoadBalancingStrategy | None = None) -> Server | None:
        """The primary that holds the key, or the node that `strategy` takes in its place, if it is up."""
        slot, manager = key_slot(key), self._client.nodes_manager
        if slot not in manager.slots_cache:
            return None  # the slots are not known yet, or the cluster has lost this one
        server = self._server(manager.get_node_from_slot(slot, load_balancing_strategy=strategy))
        return server if server.up else None

    def primaries(self) -> list[Server]:
        """All primaries, up or not; before the slots are known, what stands for them."""
        return [self._server(node) for node in self._client.get_primaries()] or list(self.servers)
