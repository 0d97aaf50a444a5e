"""The links to workers: the interface that the supervisor talks to, and the worker that runs in its own process."""

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
from rpcaccel.core.messages import Announced, Heads, Noted, PurgeDone, QuotaBrought, Recorded, Spent, WorkerReport
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.dataplane.certificate import ServedCertificate
from rpcaccel.dataplane.worker import Worker

HintHandler = Callable[[Noted], None]
QuotaUses = Callable[[], Sequence[Brought]]
"""What is used of the quotas at this moment."""
News = Heads | Announced | Sent | Spent | QuotaBrought
"""What a worker is told without an answer: heads, blocks that nodes pushed, transactions that nodes took, and what
other workers spent."""
GONE = "the worker ended"
"""In place of a refusal: the worker that should adopt the revision has ended."""


class Link(Protocol):
    """One worker, as the supervisor talks to it."""

    name: str

    @property
    def heard_at(self) -> float:
        """When the worker last said anything (monotonic seconds)."""
        ...

    @property
    def pid(self) -> int:
        """The process that the worker runs in; 0 before it was started."""
        ...

    async def start(self, settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        """Start the worker with the heads known already; returns the port it listens on.

        Raises OSError or RuntimeError when the worker does not come up.
        """
        ...

    async def adopt(self, settings: Settings, revision: int) -> str:
        """Have a revision adopted; returns the reason of a refusal, empty when the revision is in force."""
        ...

    def tell(self, news: News) -> None:
        """Tell the worker something that it does not answer."""
        ...

    def report(self) -> WorkerReport | None:
        """The worker's latest account of itself; None before the first."""
        ...

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        """Remove entries from the worker's tiers, or only count them."""
        ...

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        """How the worker would treat a call; None when it does not serve the network, or has ended."""
        ...

    async def record(self, sample: float, *, stop: bool = False) -> Recorded:
        """The calls since the last time; the worker goes on keeping this share (0..1) of them, until `stop`."""
        ...

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        """Give clients `linger` seconds to notice and calls `timeout` seconds more to finish, then end the worker."""
        ...

    async def ended(self) -> str:
        """Wait until the worker has ended, for whatever reason; returns how, in words: "was killed by SIGKILL"."""
        ...

    def ask_to_end(self, why: str) -> None:
        """Have the worker end by itself. `why` ("did not answer for 10 s") becomes part of what `ended` returns."""
        ...

    def kill(self) -> None:
        """End the worker at once, whatever it does."""
        ...


class LocalLink:
    """A worker in this process, as with `--workers 1`. Implements Link."""

    def __init__(
        self,
        name: str,
        sock: socket.socket,
        on_hint: HintHandler,
        quotas: QuotaUses = tuple,
        certificate: ServedCertificate | None = None,
    ) -> None:
        self.name = name
        self._certificate = certificate
        self._quotas = quotas
        self._socket = sock
        self._on_hint = on_hint
        self._worker: Worker | None = None
        self._over = asyncio.Event()

    @property
    def heard_at(self) -> float:
        return time.monotonic()  # the caller runs on the loop of the worker

    @property
    def pid(self) -> int:
        return os.getpid()

    async def start(self, settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        self._worker = Worker(self.name, settings, revision=revision, on_hint=self._on_hint)
        await self._worker.start(self._socket, heads, self._quotas(), self._certificate)
        return self._worker.port

    async def adopt(self, settings: Settings, revision: int) -> str:
        if self._worker is None:
            return GONE
        try:
            self._worker.adopt(settings, revision)
        except Exception as error:  # any error is a refusal, as in a process of its own
            return f"{type(error).__name__}: {error}"
        return ""

    def tell(self, news: News) -> None:
        if self._worker is None or isinstance(news, Spent):  # which only other workers have news of
            return
        if isinstance(news, Heads):
            self._worker.see(news.heads)
        elif isinstance(news, Announced):
            self._worker.announced(news)
        elif isinstance(news, QuotaBrought):
            self._worker.bring(news.uses)
        else:
            self._worker.heard(news)

    def report(self) -> WorkerReport | None:
        return None if self._worker is None else self._worker.report()

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        return PurgeDone(0, 0) if self._worker is None else await self._worker.purge(selection, dry=dry)

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        return None if self._worker is None else await self._worker.explain(network, method, params)

    async def record(self, sample: float, *, stop: bool = False) -> Recorded:
        return Recorded() if self._worker is None else self._worker.record(sample, stop=stop)

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        if self._worker is None:
            self._socket.close()
        else:
            await self._worker.drain(timeout, linger)
        self._over.set()

    async def ended(self) -> str:
        await self._over.wait()
        return "was drained"

    def ask_to_end(self, why: str) -> None:
        """A worker in this process cannot be silent while the supervisor speaks."""

    def kill(self) -> None:
        """A worker in this process ends with it."""
