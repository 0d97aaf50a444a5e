"""The spare: a worker process that has been started already, so that a replacement need not wait for that."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

from rpcaccel.controlplane.workers.spawn import Born, Spare

Spawn = Callable[[str, Sequence[socket.socket]], Awaitable[Born]]


class Spares:
    """One spare at the most, which holds the sockets of all places. Without `spawn` there never is one."""

    def __init__(self, spawn: Spawn | None) -> None:
        self._spawn = spawn
        self._waiting: asyncio.Task[Born] | None = None

    def __repr__(self) -> str:
        return f"<Spares {'one' if self._waiting is not None else 'none'}>"

    def keep(self, sockets: Mapping[str, socket.socket]) -> None:
        """Start one unless there is one, or a single place."""
        if self._spawn is not None and len(sockets) > 1 and self._waiting is None:
            self._waiting = asyncio.create_task(_spawned(self._spawn, list(sockets.values())), name="spare worker")

    async def take(self, place: str, sockets: Mapping[str, socket.socket]) -> Spare | None:
        """The spare, for this place; None when there is none that is well."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        try:
            born = await waiting
        except OSError:
            return None
        if born.process.returncode is not None:
            born.writer.close()
            return None
        return Spare(born, list(sockets).index(place))

    async def dismiss(self) -> None:
        """End it."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            with contextlib.suppress(OSError):
                await (await waiting).dismiss()


async def _spawned(spawn: Spawn, sockets: Sequence[socket.socket]) -> Born:
    return await spawn("spare", sockets)
