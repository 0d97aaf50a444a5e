"""A topology and a server without a network: they do what a test's script says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from rpcaccel.stores.redis.redis_server import Route, Server, Write, fault_of


class ScriptedServer(Server):
    """`script` is called with the command's words, and what it returns or raises is the answer.

    A `trusted` one stays up however often it fails.
    """

    def __init__(self, name: str, script: Callable[..., Awaitable[Any]], *, trusted: bool = False) -> None:
        super().__init__(name, "primary", Redis())
        self.script = script
        self.trusted = trusted
        self.asked: list[tuple[Any, ...]] = []

    def take_down(self) -> None:
        if not self.trusted:
            super().take_down()

    async def call(self, *command: Any) -> Any:
        self.asked.append(command)
        return await self.script(*command)

    async def mget(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = await self.call("MGET", *keys)
        return values

    async def set_many(self, writes: Sequence[Write]) -> list[Any]:
        answers: list[Any] = await self.call("SET", *writes)
        return answers

    async def unlink(self, keys: Sequence[bytes]) -> int:
        return int(await self.call("UNLINK", *keys))


class ScriptedTopology:
    """The first server that is up takes everything, but keys that begin with b"nowhere"."""

    tag = ""

    def __init__(self, *servers: Server) -> None:
        self.servers: Sequence[Server] = servers

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self.servers))

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        placed = [key for key in keys if not key.startswith(b"nowhere")]
        return [(server, placed) for server in self.servers if server.up][:1]

    def for_writing(self, keys: Sequence[bytes]) -> Route:
        return self.for_reading(keys)

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:
        return next((other for other in self.servers if other.up and other is not server), None)

    def primaries(self) -> list[Server] | None:
        return list(self.servers)

    @property
    def up(self) -> bool:
        return any(server.up for server in self.servers)

    @property
    def fault(self) -> str:
        return fault_of(self.servers)


async def values(*command: Any) -> list[bytes | None]:
    """MGET answers each key with itself in capitals."""
    return [key.upper() for key in command[1:]]


async def never(*_command: Any) -> Any:
    """No answer at all."""
    await asyncio.Event().wait()


async def broken(*_command: Any) -> Any:
    """A connection that is gone."""
    raise ConnectionError("gone")
