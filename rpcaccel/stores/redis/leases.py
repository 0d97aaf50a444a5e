"""Leases (distributed single flight): one process fetches the answer of a call, the others wait for its entry.

A lease is a key with an expiry. Waiting ends when the entry is there or the lease is gone. Both are read from the
primary in one command, so that an entry written before the release is seen. A holder deletes its lease only while the
lease lives: what lives after that is another holder's.

Leases that are asked for or ended in one turn of the event loop travel in one pipeline: any miss may want one, and a
command for each would take a connection for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
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
LOOKS = 40
"""Polls for the entry in the time that is waited, about: where that is short, the pauses are shorter."""

AT_ONCE = 2
"""Pipelines of one process to each server at the same time. Further commands wait for one of them to end."""
CHUNK = 64
"""Commands in one pipeline at the most."""


class RedisLease:
    """A lease that this process holds."""

    __slots__ = ("_key", "_leases", "_name", "_until")

    def __init__(self, leases: Leases, key: bytes, name: bytes, until: float) -> None:
        self._leases = leases
        self._key = key
        self._name = name
        self._until = until

    async def release(self) -> None:
        """End the lease after the queued write of its key. Never raises."""
        await self._leases.release(self._key, self._name, self._until)


Reply = asyncio.Future[Any]
"""The reply of a command; an exception as its result: the server refused it, or was not reached."""


class Commands:
    """Sends single commands to primaries, those of one turn of the event loop together. Nobody's cancellation stops a
    command."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._waiting: list[tuple[bytes, tuple[Any, ...], Reply]] = []
        self._scheduled = False
        self._tasks: dict[Server, set[asyncio.Task[None]]] = {}

    def ask(self, name: bytes, *command: Any) -> Reply:
        """Send a command about the key `name`."""
        loop = asyncio.get_running_loop()
        reply: Reply = loop.create_future()
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._send)
        self._waiting.append((name, command, reply))
        return reply

    def _send(self) -> None:
        waiting, self._waiting, self._scheduled = self._waiting, [], False
        asked: dict[Server, list[tuple[tuple[Any, ...], Reply]]] = {}
        for name, command, reply in waiting:
            server = next((server for server, _ in self._topology.for_writing([name])), None)
            if server is None:
                _settle(reply, ConnectionError("no server is up"))
            elif len(asked.get(server, ())) >= CHUNK * (AT_ONCE - len(self._tasks.get(server, ()))):
                self._waiting.append((name, command, reply))  # the end of one of its pipelines sends it
            else:
                asked.setdefault(server, []).append((command, reply))
        for server, group in asked.items():
            tasks = self._tasks.setdefault(server, set())
            for start in range(0, len(group), CHUNK):
                task = asyncio.get_running_loop().create_task(self._execute(server, group[start : start + CHUNK]))
                tasks.add(task)
                task.add_done_callback(partial(self._ended, server))

    def _ended(self, server: Server, task: asyncio.Task[None]) -> None:
        tasks = self._tasks[server]
        tasks.discard(task)
        if not tasks:
            del self._tasks[server]
        if self._waiting and not self._scheduled:
            self._send()

    async def _execute(self, server: Server, group: Sequence[tuple[tuple[Any, ...], Reply]]) -> None:
        replies: list[Any]
        try:
            replies = await server.together([command for command, _ in group])
        except Exception as error:
            server.failed(error)
            replies = [error] * len(group)
        for (_, reply), said in zip(group, replies, strict=True):
            _settle(reply, said)

    async def close(self) -> None:
        """Cancel what is under way."""
        for _, _, reply in self._waiting:
            _settle(reply, ConnectionError("the store is closed"))
        self._waiting = []
        await cancel_and_wait(*(task for tasks in self._tasks.values() for task in tasks))


def _settle(reply: Reply, said: Any) -> None:
    if not reply.done():
        reply.set_result(said)


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
        self._commands = Commands(topology)
        self._writes = writes
        self._fresh = fresh
        self._prefix = prefix
        self._value_prefix = value_prefix
        self._read_timeout = read_timeout
        self._write_timeout = write_timeout
        self._opened = opened
        self._late: set[Reply] = set()
        """The replies that nobody waits for any more: a lease that they grant is ended."""
        self.granted = self.waits = 0

    async def take(self, key: bytes, ttl: float) -> RedisLease | NoLease | None:
        """Take the lease of `key`; None when another process holds it. Granted without Redis if Redis does not
        answer, or has no place for the entry: in a cluster that may be on another server than the lease."""
        if not self._topology.for_writing([self._value_prefix + key]):
            return NoLease()
        name, until = self._prefix + key, time.monotonic() + ttl
        reply = self._commands.ask(name, "SET", name, b"", "NX", "PX", max(1, int(ttl * 1000)))
        try:
            done, _ = await asyncio.wait({reply}, timeout=self._read_timeout)
        except asyncio.CancelledError:
            self._give_up(reply, name, until)
            raise
        if not done:
            self._give_up(reply, name, until)
            return NoLease()
        said = reply.result()
        if isinstance(said, Exception):
            return NoLease()
        if not said:
            return None
        self.granted += 1
        return RedisLease(self, key, name, until)

    async def wait(self, key: bytes, within: float, accepts: Callable[[Entry], bool]) -> Entry | None:
        """The entry that the holder puts; None when the lease ends without one, or after `within` seconds. While the
        entry there is one that `accepts` does not accept, the wait goes on."""
        self.waits += 1
        until = time.monotonic() + within
        pause, longest = FIRST_LOOK, min(LONGEST_LOOK, max(FIRST_LOOK, within / LOOKS))
        refused: bytes | None = None
        while True:
            value, holder = self._fresh.ask(self._value_prefix + key), self._fresh.ask(self._prefix + key)
            if value is None or holder is None:
                return None
            found, held = await asyncio.gather(value, holder)
            entry = self._opened(found) if found is not None and found != refused else None
            if entry is not None and not accepts(entry):
                entry, refused = None, found
            if entry is not None or held is None or time.monotonic() + pause >= until:
                return entry
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def release(self, key: bytes, name: bytes, until: float) -> None:
        """End the lease `name`, which lives `until` (monotonic seconds), if it still does. Never raises."""
        try:
            async with asyncio.timeout(self._write_timeout):
                await self._writes.settled(key)
                if time.monotonic() < until:
                    await asyncio.wait({self._commands.ask(name, "DEL", name)})
        except TimeoutError:
            return  # the lease expires by itself

    async def close(self) -> None:
        """Cancel the background work."""
        self._late.clear()
        await self._commands.close()

    def _give_up(self, reply: Reply, name: bytes, until: float) -> None:
        """End the lease if it is granted nevertheless, so that others do not wait for it."""

        def late(reply: Reply) -> None:
            if reply in self._late:
                self._late.discard(reply)
                granted = reply.result() and not isinstance(reply.result(), Exception)
                if granted and time.monotonic() < until:
                    self._commands.ask(name, "DEL", name)

        self._late.add(reply)
        reply.add_done_callback(late)
