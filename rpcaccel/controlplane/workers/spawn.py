"""Worker processes come into being: each with the sockets it may listen on, and a socket pair as its link."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from typing import NamedTuple


class Born(NamedTuple):
    """A process that was started, and this end of its link."""

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def dismiss(self) -> None:
        """End it: it has nothing to finish."""
        self.writer.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class Spare(NamedTuple):
    """A process that was started with the sockets of all places, to take one (`number`) when it is needed."""

    born: Born
    number: int


async def spawn(name: str, sockets: Sequence[socket.socket]) -> Born:
    """Start a worker process with these sockets; it has nothing to do yet. Raises OSError.

    It gets a session of its own: a terminal's Ctrl-C is for the supervisor alone, also while the worker still starts.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            fds = (theirs.fileno(), *(sock.fileno() for sock in sockets))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "rpcaccel.dataplane.process",
                name,
                *map(str, fds),
                pass_fds=fds,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return Born(process, *await asyncio.open_connection(sock=ours))
