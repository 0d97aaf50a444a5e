"""The control plane's end of the links: one interface to a worker, whether it runs here or in a process of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rpcaccel.config.model import Settings
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import Hint, PurgeDone, Recorded, Spent, WorkerReport
from rpcaccel.core.nodes.quota import Brought
from rpcaccel.dataplane.worker import Worker

HintHandler = Callable[[Hint | Sent], None]
BroughtTo = Callable[[str], Sequence[Brought]]
"""What others used of the part of quotas that a worker with this name has."""
GONE = "the worker ended"
"""In place of a refusal: there is nobody any more to adopt anything."""


class Link(Protocol):
    """One worker, as the supervisor talks to it."""

    name: str

    @property
    def heard_at(self) -> float:
        """When it last said anything (monotonic seconds)."""
        ...

    @property
    def pid(self) -> int:
        """The process it runs in; 0 before it was started."""
        ...

    async def start(self, settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        """Start the worker with the heads known already; returns the port it listens on.

        Raises OSError or RuntimeError when it does not come up.
        """
        ...

    async def adopt(self, settings: Settings, revision: int) -> str:
        """Have a revision adopted; returns the reason of a refusal, empty when it is in force."""
        ...

    def see(self, heads: NetworkHeads) -> None:
        """Tell it the heads of a network."""
        ...

    def tell(self, sent: Sent) -> None:
        """Tell it that nodes took a transaction."""
        ...

    def spent(self, spent: Spent) -> None:
        """Tell it what clients spent at another worker."""
        ...

    def bring(self, uses: tuple[Brought, ...]) -> None:
        """Tell it what others used of its part of the quotas."""
        ...

    def report(self) -> WorkerReport | None:
        """Its latest account; None before the first."""
        ...

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        """Remove entries from its tiers, or only count them."""
        ...

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        """How it would treat a call; None when it does not serve the network, or not any more."""
        ...

    async def record(self, sample: float, *, stop: bool = False) -> Recorded:
        """The calls it had since the last time; it goes on keeping this share (0..1) of them, until `stop`."""
        ...

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        """Let clients notice for `linger` seconds, let it finish within `timeout` seconds more, and end it."""
        ...

    async def ended(self) -> str:
        """Wait until it has ended, however that came; how, in words: "was killed by SIGKILL"."""
        ...

    def ask_to_end(self, why: str) -> None:
        """Have it end by itself, since it `why` ("did not answer for 10 s"): part of the words for how it ended."""
        ...

    def kill(self) -> None:
        """End it at once, whatever it does."""
        ...


class LocalLink:
    """A worker in this process: `--workers 1`."""

    def __init__(
        self, name: str, sock: socket.socket, on_hint: HintHandler, brought: BroughtTo = lambda _name: ()
    ) -> None:
        """`brought`: what is used of the quotas when it begins."""
        self.name = name
        self._brought = brought
        self._socket = sock
        self._on_hint = on_hint
        self._worker: Worker | None = None
        self._over = asyncio.Event()

    @property
    def heard_at(self) -> float:
        """Now: who asks runs on the same loop."""
        return time.monotonic()

    @property
    def pid(self) -> int:
        """This process."""
        return os.getpid()

    async def start(self, settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        """Serve on this event loop."""
        self._worker = Worker(self.name, settings, revision=revision, on_hint=self._on_hint)
        await self._worker.start(self._socket, heads, self._brought(self.name))
        return self._worker.port

    async def adopt(self, settings: Settings, revision: int) -> str:
        """In force when this returns."""
        if self._worker is None:
            return GONE
        try:
            self._worker.adopt(settings, revision)
        except Exception as error:  # as in a process of its own: a refusal, whatever it was
            return f"{type(error).__name__}: {error}"
        return ""

    def see(self, heads: NetworkHeads) -> None:
        """Seen at once."""
        if self._worker is not None:
            self._worker.see(heads)

    def tell(self, sent: Sent) -> None:
        """Heard at once."""
        if self._worker is not None:
            self._worker.heard(sent)

    def spent(self, spent: Spent) -> None:
        """There is no other worker."""

    def bring(self, uses: tuple[Brought, ...]) -> None:
        """Counted at once."""
        if self._worker is not None:
            self._worker.bring(uses)

    def report(self) -> WorkerReport | None:
        """Made when asked for, so it is of this moment."""
        return None if self._worker is None else self._worker.report()

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        """Remove or count entries."""
        return PurgeDone(0, 0) if self._worker is None else await self._worker.purge(selection, dry=dry)

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        """How a call would be treated."""
        return None if self._worker is None else await self._worker.explain(network, method, params)

    async def record(self, sample: float, *, stop: bool = False) -> Recorded:
        """What was kept."""
        return Recorded() if self._worker is None else self._worker.record(sample, stop=stop)

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        """Finish and close."""
        if self._worker is None:
            self._socket.close()
        else:
            await self._worker.drain(timeout, linger)
        self._over.set()

    async def ended(self) -> str:
        """It ends when it is drained, and not before this process does."""
        await self._over.wait()
        return "was drained"

    def ask_to_end(self, why: str) -> None:
        """It cannot be silent while this process speaks."""

    def kill(self) -> None:
        """It ends with this process."""
