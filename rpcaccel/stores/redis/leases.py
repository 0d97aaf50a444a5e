"""Leases (distributed single flight): one process fetches the answer of a heavy call, the others wait for its entry.

A lease is a key with an expiry and a token as its value. Waiting ends when the entry is there or the lease is gone.
Both are read from the primary in one command, so that an entry written before the release is seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from secrets import token_bytes
from typing import Any

from rpcaccel.core.cache.entry import Entry
from rpcaccel.stores.base import NoLease
from rpcaccel.stores.redis.reads import Reads
from rpcaccel.stores.redis.redis_server import Server, Topology
from rpcaccel.stores.redis.writes import Writes
from rpcaccel.stores.tasks import cancel_and_wait

FIRST_LOOK = 0.005
LONGEST_LOOK = 0.05
"""Seconds between two polls for the entry: the first pause, doubled up to the longest."""

_RELEASE = b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
"""Deletes a lease only if the token still holds it."""


class RedisLease:
    """A lease that this process holds."""

    __slots__ = ("_key", "_leases", "_name", "_token")

    def __init__(self, leases: Leases, key: bytes, name: bytes, token: bytes) -> None:
        self._leases = leases
        self._key = key
        self._name = name
        self._token = token

    async def release(self) -> None:
        """End the lease after the queued write of its key. Never raises."""
        await self._leases.release(self._key, self._name, self._token)


class Leases:
    """Takes, awaits and ends leases. `prefix` is that of lease keys; `fresh` reads from primaries; times in seconds."""

    def __init__(
        self,
        topology: Topology,
        writes: Writes,
        fresh: Reads,
        *,
        prefix: bytes,
        value_prefix: bytes,
        read_timeout: float,
        write_timeout: float,
        opened: Callable[[bytes], Entry | None],
    ) -> None:
        self._topology = topology
        self._writes = writes
        self._fresh = fresh
        self._prefix = prefix
        self._value_prefix = value_prefix
        self._read_timeout = read_timeout
        self._write_timeout = write_timeout
        self._opened = opened
        self._abandoned: set[asyncio.Task[Any]] = set()
        self.granted = self.waits = 0

    async def take(self, key: bytes, ttl: float) -> RedisLease | NoLease | None:
        """Take the lease of `key`; None when another process holds it. Granted without Redis if Redis does not
        answer."""
        name, token = self._prefix + key, token_bytes(12)
        server = self._server(name)
        if server is None:
            return NoLease()
        asked = asyncio.create_task(self._set(server, name, token, ttl))
        try:
            done, _ = await asyncio.wait({asked}, timeout=self._read_timeout)
        except asyncio.CancelledError:
            self._abandon(self._give_up(asked, name, token))
            raise
        if not done:
            # The lease may have been set nevertheless. It must be ended, so that others do not wait for it.
            self._abandon(self._give_up(asked, name, token))
            return NoLease()
        taken = asked.result()
        if taken is None:
            return NoLease()
        if not taken:
            return None
        self.granted += 1
        return RedisLease(self, key, name, token)

    async def wait(self, key: bytes, within: float) -> Entry | None:
        """The entry that the holder puts; None when the lease ends without one, or after `within` seconds."""
        self.waits += 1
        until = time.monotonic() + within
        pause = FIRST_LOOK
        while True:
            value, holder = self._fresh.ask(self._value_prefix + key), self._fresh.ask(self._prefix + key)
            if value is None or holder is None:
                return None
            found, held = await asyncio.gather(value, holder)
            entry = self._opened(found) if found is not None else None
            if entry is not None or held is None or time.monotonic() + pause >= until:
                return entry
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)

    async def release(self, key: bytes, name: bytes, token: bytes) -> None:
        """End the lease `name` if `token` still holds it. Never raises."""
        try:
            async with asyncio.timeout(self._write_timeout):
                await self._writes.settled(key)
                server = self._server(name)
                if server is not None:
                    await server.call("EVAL", _RELEASE, 1, name, token)
        except Exception:
            # The lease expires by itself, and reads and writes notice that the server fails.
            return

    async def close(self) -> None:
        """Cancel the background work."""
        await cancel_and_wait(*self._abandoned)

    def _server(self, name: bytes) -> Server | None:
        return next((server for server, _ in self._topology.for_writing([name])), None)

    async def _set(self, server: Server, name: bytes, token: bytes, ttl: float) -> bool | None:
        """Was the lease set? None when Redis failed."""
        try:
            return bool(await server.call("SET", name, token, "NX", "PX", max(1, int(ttl * 1000))))
        except Exception as error:
            server.failed(error)
            return None

    async def _give_up(self, asked: asyncio.Task[bool | None], name: bytes, token: bytes) -> None:
        if await asked:
            await self.release(b"", name, token)

    def _abandon(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
