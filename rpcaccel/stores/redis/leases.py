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
from collections.abc import Callable
from functools import partial
from typing import Any

from rpcaccel.core.cache.entry import Entry
from rpcaccel.stores.base import Lease
from rpcaccel.stores.redis.reads import Reads
from rpcaccel.stores.redis.replies import NoServerError
from rpcaccel.stores.redis.topology import Command, Server, Topology
from rpcaccel.stores.redis.writes import Writes
from rpcaccel.stores.tasks import cancel_and_wait

FIRST_POLL_SECONDS = 0.005
MAX_POLL_SECONDS = 0.05
"""Seconds between two polls for the entry: the first pause, doubled up to the longest."""
POLLS = 40
"""Polls for the entry in the time that is waited, about: where that is short, the pauses are shorter."""
MAX_PIPELINED_COMMANDS = 128

Reply = asyncio.Future[Any]
"""The reply of a command; an exception as its result: the server refused it, or was not reached."""


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
        self._unsent: dict[Server, list[tuple[Command, Reply]]] = {}
        self._senders: dict[Server, asyncio.Task[None]] = {}
        self._closed = False
        self.granted = self.waits = 0

    async def take(self, key: bytes, ttl: float) -> Lease | None:
        """Take the lease of `key`; None when another process holds it. Granted without Redis if Redis does not
        answer, or has no place for the entry: in a cluster that may be on another server than the lease."""
        if self._topology.primary_of(self._value_prefix + key) is None:
            return Lease()
        name, until = self._prefix + key, time.monotonic() + ttl
        reply = self._ask("SET", name, b"", "NX", "PX", max(1, int(ttl * 1000)))
        try:
            done, _ = await asyncio.wait({reply}, timeout=self._read_timeout)
        except asyncio.CancelledError:
            reply.add_done_callback(partial(self._end_late, name, until))
            raise
        if not done:
            reply.add_done_callback(partial(self._end_late, name, until))
            return Lease()
        said = reply.result()
        if isinstance(said, Exception):
            return Lease()
        if not said:
            return None
        self.granted += 1
        return Lease(partial(self._release, key, name, until))

    async def wait(self, key: bytes, within: float, accepts: Callable[[Entry], bool]) -> Entry | None:
        """The entry that the holder puts; None when the lease ends without one, or after `within` seconds. While the
        entry there is one that `accepts` does not accept, the wait goes on."""
        self.waits += 1
        until = time.monotonic() + within
        pause, longest = FIRST_POLL_SECONDS, min(MAX_POLL_SECONDS, max(FIRST_POLL_SECONDS, within / POLLS))
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

    async def close(self) -> None:
        """Cancel what is under way. Whoever waits for a reply waits no longer than its own deadline."""
        self._closed = True
        await cancel_and_wait(*self._senders.values())

    async def _release(self, key: bytes, name: bytes, until: float) -> None:
        """After the queued write of `key`, end its lease `name` if it still lives, `until` some monotonic second."""
        try:
            async with asyncio.timeout(self._write_timeout):
                await self._writes.settled(key)
                if time.monotonic() < until:
                    await asyncio.wait({self._ask("DEL", name)})
        except TimeoutError:
            return  # the lease expires by itself

    def _end_late(self, name: bytes, until: float, reply: Reply) -> None:
        """End a lease that was granted after the caller had left, so that others do not wait for it."""
        if reply.result() and not isinstance(reply.result(), Exception) and time.monotonic() < until:
            self._ask("DEL", name)

    def _ask(self, *command: Any) -> Reply:
        """Send a command to the primary of its key. Nobody's cancellation stops it."""
        reply: Reply = asyncio.get_running_loop().create_future()
        server = None if self._closed else self._topology.primary_of(command[1])
        if server is None:
            reply.set_result(NoServerError())
            return reply
        self._unsent.setdefault(server, []).append((command, reply))
        if server not in self._senders:
            self._senders[server] = asyncio.create_task(self._send(server))
        return reply

    async def _send(self, server: Server) -> None:
        """Send what waits for a server, until nothing does. The task begins when the turn of the loop is over."""
        try:
            while waiting := self._unsent.pop(server, None):
                for start in range(0, len(waiting), MAX_PIPELINED_COMMANDS):
                    group = waiting[start : start + MAX_PIPELINED_COMMANDS]
                    commands = [command for command, _ in group]
                    said = await server.send(Any, commands, self._write_timeout, errors_count=False)
                    for (_, reply), one in zip(group, said, strict=True):
                        reply.set_result(one)
        finally:
            del self._senders[server]
