"""The address of a server that others see: connections are passed on to wherever it serves, or refused, or held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any

from rpcaccel.simnode.server.sim_connections import close_listener
from tests.support.services import LOOPBACK, START_SECONDS


class NodeDoor:
    """A port on loopback, in a thread of its own. While the door is shut, connections are refused."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="door of a node", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<NodeDoor at {self.port}, {len(self._writers)} connections>"

    def open(self, target: int) -> None:
        """Pass connections on to this port."""
        self._run(self._open(target))

    def shut(self) -> None:
        """Cut all connections and refuse new ones."""
        self._run(self._shut())

    def hush(self) -> None:
        """Hold up what is said on every connection, without a word, until `speak`."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def speak(self) -> None:
        """Pass on what was held up, and what comes."""
        self._loop.call_soon_threadsafe(self._passes.set)

    def close(self) -> None:
        """Shut the door for ever."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    async def _open(self, target: int) -> None:
        def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Awaitable[None]:
            return self._pass_on(reader, writer, target)

        self._server = await asyncio.start_server(passed_on, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await close_listener(server)
            await asyncio.sleep(0)  # what was accepted last is among the writers after this
        for writer in list(self._writers):
            writer.transport.abort()

    async def _end(self) -> None:
        """Shut the door, and return once every connection is closed."""
        await self._shut()
        passing = asyncio.all_tasks() - {asyncio.current_task()}
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for _ in range(3):  # transports that were aborted are closed in the next turns of the loop
            await asyncio.sleep(0)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        ends = [writer]
        self._writers.add(writer)
        try:
            from_node, to_node = await asyncio.open_connection(LOOPBACK, target)
            ends.append(to_node)
            self._writers.add(to_node)
            pumps = {
                asyncio.create_task(_pump(*pair, self._passes)) for pair in ((reader, to_node), (from_node, writer))
            }
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            return  # the node is gone
        finally:
            for end in ends:
                self._writers.discard(end)
                end.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
    """Pass bytes on until either side ends, while that is allowed."""
    try:
        while data := await reader.read(1 << 16):
            await passes.wait()
            writer.write(data)
            await writer.drain()
    except OSError:
        return
