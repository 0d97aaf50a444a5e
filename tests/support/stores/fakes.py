"""A topology and a server without a network: they do what a test's script says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from rpcaccel.stores.redis.topology import Command, Route, Server, Topology


class ScriptedServer(Server):
    """`script` is called with the command's words, and what it returns or raises is the answer.

    A `trusted` one stays up however often it fails.
    """

    def __init__(self, name: str, script: Callable[..., Awaitable[Any]], *, trusted: bool = False) -> None:
        super().__init__(name, "primary", Redis())
        self.script = script
        self.trusted = trusted
        self.asked: list[tuple[Any, ...]] = []
        self.pipelines: list[int] = []
        """The number of commands in each."""

    def take_down(self) -> None:
        if not self.trusted:
            super().take_down()

    async def call(self, *command: Any) -> Any:
        self.asked.append(command)
        return await self.script(*command)

    async def mget(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        return dict(zip(keys, await self.call("MGET", *keys), strict=True))

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        self.pipelines.append(len(commands))
        return [await self.call(*command) for command in commands]


class ScriptedTopology(Topology):
    """The first server that is up takes everything, but keys that begin with b"nowhere"."""

    def __init__(self, *servers: Server) -> None:
        super().__init__(servers, [])

    def for_reading(self, keys: Sequence[bytes]) -> Route:
        return self.for_writing(keys)

    def primary_of(self, key: bytes) -> Server | None:
        return None if key.startswith(b"nowhere") else next((server for server in self.servers if server.up), None)

    def instead_of(self, server: Server, keys: Sequence[bytes]) -> Server | None:
        return next((other for other in self.servers if other.up and other is not server), None)

    def primaries(self) -> list[Server]:
        return list(self.servers)


async def values(*command: Any) -> list[bytes | None]:
    """MGET answers each key with itself in capitals."""
    return [key.upper() for key in command[1:]]


async def never(*_command: Any) -> Any:
    """No answer at all."""
    await asyncio.Event().wait()


async def broken(*_command: Any) -> Any:
    """A connection that is gone."""
    raise ConnectionError("gone")
