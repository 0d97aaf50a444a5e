"""One Redis server: its commands, whether it is up, and warnings about its memory settings.

A server that fails or is late several times in a row is down. It gets no more commands, and a task of its own probes it
at growing intervals, so that no client's call has to find out that it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.crc import key_slot

from rpcaccel.stores.base import ServerStats
from rpcaccel.stores.redis.fault import reason
from rpcaccel.stores.redis.replies import as_integer, as_values, is_about_key
from rpcaccel.stores.tasks import cancel_and_wait

FAILURES = 3
"""Consecutive failures after which a server is down."""

FIRST_PROBE = 0.25
LONGEST_PROBE = 5.0
"""Seconds between two probes of a server that is down: the first pause, doubled up to the longest."""

Write = tuple[bytes, bytes, int]
"""A key, its value, and its lifetime in milliseconds."""


class Server:
    """A single server, or a node of a cluster (then `node` is set, and `client` is that of the whole cluster)."""

    def __init__(
        self,
        name: str,
        role: str,
        client: Redis | RedisCluster,
        *,
        node: ClusterNode | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.role = role
        self.client: Any = client
        self.node = node
        self.up = True
        self.error = ""
        self._in_a_row = 0
        self._info: dict[str, Any] = {}
        self._refresh = refresh
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
        try:
            await self._ask()
        except Exception as error:
            self.failed(error)
            self.take_down()

    async def _probe(self) -> None:
        wait = FIRST_PROBE
        while True:
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_PROBE)
            try:
                if self._refresh is not None:
                    await self._refresh()
                if self._closed:
                    return  # the refresh found that the server has left the cluster
                await self._ask()
            except Exception as error:
                self.error = reason(error)
                continue
            self.up = True
            self.succeeded()
            return

    async def _ask(self) -> None:
        self._info = await self.call("INFO", "memory")

    async def call(self, *command: Any) -> Any:
        """Send one command to this server. Raises what the client raises."""
        return await (self.node or self.client).execute_command(*command)

    async def mget(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in order, by one MGET, in a cluster by one for each slot. Raises what the client
        raises."""
        if self.node is None:
            return as_values(await self.client.execute_command("MGET", *keys), len(keys))
        slots: dict[int, list[bytes]] = {}
        for key in keys:
            slots.setdefault(key_slot(key), []).append(key)
        answers = await self.together([("MGET", *group) for group in slots.values()])
        found: dict[bytes, bytes | None] = {}
        for group, answer in zip(slots.values(), answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            found.update(zip(group, as_values(answer, len(group)), strict=True))
        return [found[key] for key in keys]

    async def set_many(self, writes: Sequence[Write]) -> list[Any]:
        """Write all, pipelined; return the server's reply or the exception for each write."""
        return await self.together([("SET", key, value, "PX", life) for key, value, life in writes])

    async def unlink(self, keys: Sequence[bytes]) -> int:
        """Remove keys and return how many existed. Raises what the client raises."""
        removed = 0
        for answer in await self.together([("UNLINK", key) for key in keys]):
            if isinstance(answer, Exception):
                raise answer
            removed += as_integer(answer)
        return removed

    async def add(self, amounts: Mapping[bytes, int], *, life: float) -> dict[bytes, int]:
        """Add to counters, renew their lifetime (seconds), and return the sums. A key that another program wrote, and
        that is no counter, is removed and has no sum. Raises what the client raises."""
        commands: list[tuple[Any, ...]] = []
        for key, amount in amounts.items():
            commands += [("INCRBY", key, amount), ("PEXPIRE", key, int(life * 1000))]
        answers = await self.together(commands)
        totals = dict(zip(amounts, answers[::2], strict=True))
        foreign = [key for key, total in totals.items() if is_about_key(total)]
        for answer in answers:
            if isinstance(answer, Exception) and not is_about_key(answer):
                raise answer
        if foreign:
            await self.unlink(foreign)
        return {key: as_integer(total) for key, total in totals.items() if key not in foreign}

    async def together(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one pipeline; return the server's reply or the exception for each. Raises what the client
        raises when the server cannot be reached."""
        if self.node is None:
            pipeline = self.client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
        else:
            pipeline = self.client.pipeline()
            for command in commands:
                pipeline.execute_command(*command, target_nodes=[self.node])
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    async def close(self) -> None:
        """Stop probing. The client is closed by its owner."""
        self._closed = True
        self.up = False
        if self._probing is not None and self._probing is not asyncio.current_task():
            await cancel_and_wait(self._probing)

    def stats(self) -> ServerStats:
        """The server's state at this moment."""
        return ServerStats(name=self.name, role=self.role, up=self.up, error=self.error)

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


def fault_of(servers: Sequence[Server]) -> str:
    """The name and the error of each server that is down, as one text."""
    return "; ".join(f"{server.name}: {server.error or 'no answer'}" for server in servers if not server.up)


Route = list[tuple[Server, list[bytes]]]
"""Servers with the keys to ask them for; a key without a server that is up is missing."""


class Topology(Protocol):
    """The arrangement of servers: a primary with replicas, Sentinel, or a cluster."""

    async def open(self) -> None:
        """Connect, in the background if a server does not answer. Never raises."""

    async def close(self) -> None:
        """Disconnect from all servers."""

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        """The servers to read these keys from: replicas first."""

    def for_writing(self, keys: Sequence[bytes]) -> Route:
        """The servers to write these keys to: primaries only."""

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:
        """Another server to ask for these keys after `server` failed; None without one."""

    def primaries(self) -> list[Server] | None:
        """All primaries, up or not; None while they are not known."""

    @property
    def servers(self) -> Sequence[Server]:
        """All known servers."""

    @property
    def up(self) -> bool:
        """Is any server up?"""

    @property
    def fault(self) -> str:
        """Why servers are down, with their names; empty while all are up."""

    @property
    def tag(self) -> str:
        """A suffix of the key prefix that makes keys spread over the servers."""
