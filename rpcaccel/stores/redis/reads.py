"""Reads from Redis: keys requested in one turn of the event loop are read in one command, within a deadline.

A command costs this process as much as the rest of a call, however many keys it carries. So while commands are under
way, further keys wait for a moment and are then read together.

The deadline is a timer of the turn, which begins when its first command is sent. It resolves the waiting futures and
leaves the command running, so that a slow answer costs no connection; a connection is closed only when the server stays
silent for longer (the socket timeout). A busy loop of this process is not Redis's fault: neither the time before the
command is sent counts, nor that for which an answer has arrived and is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rpcaccel.stores.redis.replies import LATE
from rpcaccel.stores.redis.topology import Route, Server, Topology
from rpcaccel.stores.tasks import cancel_and_wait

MAX_MGET_KEYS = 256
"""Keys in one MGET at the most."""

UNHELD_COMMANDS = 2
HOLD_SECONDS = 0.001
"""While UNHELD_COMMANDS commands are under way, keys wait until one of them ends, but at most HOLD_SECONDS seconds."""

LATE_TURNS = 4
"""Rounds of the event loop after the deadline in which what has arrived is still read: bytes, the parser, the task that
waits. They take no time unless this process is busy."""

Waiting = asyncio.Future[bytes | None]


class Turn:
    """The keys that are read together, and the futures that wait for them."""

    __slots__ = ("asked", "held", "timer", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[bytes, list[Waiting]] = {}
        self.asked: set[Server] = set()
        """Servers that have not answered yet."""
        self.timer: asyncio.Handle | None = None
        """The deadline; None before a command is sent, and after the turn."""
        self.held: asyncio.TimerHandle | None = None
        """The timer that ends the wait for further keys."""

    def settle(self, key: bytes, value: bytes | None) -> int:
        """Resolve the futures of `key`; return how many were still waiting."""
        count = 0
        for future in self.waiting.pop(key, ()):
            if not future.done():
                future.set_result(value)
                count += 1
        return count


class Reads:
    """Batches reads. `route` returns the servers for keys; `limit` is the number of commands under way at once."""

    def __init__(
        self, topology: Topology, route: Callable[[Sequence[bytes]], Route], *, timeout: float, limit: int
    ) -> None:
        self._topology = topology
        self._route = route
        self._timeout = timeout
        self._limit = limit
        self._turn: Turn | None = None
        self._turns: set[Turn] = set()
        """The turns with waiting futures."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.commands = self.absent = self.late = self.errors = self.down = self.busy = 0

    def ask(self, key: bytes) -> Waiting | None:
        """A future of the value, with None for a miss; None instead of a future when no server is up."""
        if not self._topology.up:
            self.down += 1
            return None
        loop = asyncio.get_running_loop()
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn()
            loop.call_soon(self._gathered, turn)
            self._turns.add(turn)
        future: Waiting = loop.create_future()
        turn.waiting.setdefault(key, []).append(future)
        return future

    def _gathered(self, turn: Turn) -> None:
        """The turn of the event loop is over: send its keys, or hold them while commands are under way."""
        if turn is not self._turn:
            return
        if len(self._tasks) < UNHELD_COMMANDS:
            self._send(turn)
        else:
            turn.held = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._send, turn)

    def _fetched(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        turn = self._turn
        if turn is not None and turn.held is not None:
            turn.held.cancel()
            self._send(turn)

    def _send(self, turn: Turn) -> None:
        self._turn = turn.held = None
        # A future that was cancelled in the same turn needs no answer.
        keys = [key for key, futures in turn.waiting.items() if not all(future.done() for future in futures)]
        unserved = set(keys)
        for server, group in self._route(keys):
            unserved.difference_update(group)
            for start in range(0, len(group), MAX_MGET_KEYS):
                part = group[start : start + MAX_MGET_KEYS]
                if len(self._tasks) >= self._limit:
                    self.busy += self._settle(turn, part)
                    continue
                turn.asked.add(server)
                task = asyncio.create_task(self._fetch(turn, server, part))
                self._tasks.add(task)
                task.add_done_callback(self._fetched)
        self.down += self._settle(turn, unserved)

    async def _fetch(self, turn: Turn, server: Server, keys: Sequence[bytes]) -> None:
        self.commands += 1
        if turn.timer is None and turn.waiting:
            turn.timer = asyncio.get_running_loop().call_later(self._timeout, self._expire, turn, LATE_TURNS)
        try:
            values = await server.mget(keys)
        except Exception as error:
            # Whatever the client raises is a miss: no answer depends on Redis.
            turn.asked.discard(server)
            server.failed(error)
            other = self._topology.instead_of(server, keys)
            if other is not None and turn.waiting:
                turn.asked.add(other)
                await self._fetch(turn, other, keys)
            else:
                self.errors += self._settle(turn, keys)
            return
        turn.asked.discard(server)
        if turn.waiting:
            server.succeeded()
            for key, value in values.items():
                count = turn.settle(key, value)
                if value is None:
                    self.absent += count
            self._finish(turn)

    def _expire(self, turn: Turn, rounds: int) -> None:
        if rounds:
            turn.timer = asyncio.get_running_loop().call_soon(self._expire, turn, rounds - 1)
            return
        for server in turn.asked:
            server.failed(LATE)
        self.late += self._settle(turn, list(turn.waiting))

    def _settle(self, turn: Turn, keys: Sequence[bytes] | set[bytes]) -> int:
        count = sum(turn.settle(key, None) for key in keys)
        self._finish(turn)
        return count

    def _finish(self, turn: Turn) -> None:
        if not turn.waiting:
            if turn.timer is not None:
                turn.timer.cancel()
            self._turns.discard(turn)

    async def close(self) -> None:
        """Cancel the commands under way; waiting futures get a miss."""
        turn, self._turn = self._turn, None
        if turn is not None and turn.held is not None:
            turn.held.cancel()
        await cancel_and_wait(*self._tasks)
        for turn in list(self._turns):
            self.down += self._settle(turn, list(turn.waiting))
