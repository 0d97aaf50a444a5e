"""A worker process: `python -m rpcaccel.dataplane.process NAME LINK_FD SOCKET_FD [CERT KEY]`.

The supervisor starts it with one end of a socket pair and a bound socket. It obeys orders from the link and reports
once a second; when the link ends, the supervisor is gone, and so is the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from rpcaccel.config.model import Settings
from rpcaccel.core import messages
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import (
    Adopt,
    Adopted,
    Announced,
    Drain,
    ExplainOrder,
    ExplainReply,
    Heads,
    Order,
    PurgeDone,
    PurgeOrder,
    QuotaBrought,
    RecordOrder,
    Spent,
    Started,
    Word,
)
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.dataplane.certificate import ServedCertificate
from rpcaccel.dataplane.event_loop import run
from rpcaccel.dataplane.output import shield
from rpcaccel.dataplane.worker import Worker

REPORT_SECONDS = 1.0
"""Seconds."""
_READ_BYTES = 64 * 1024


class LinkEnd:
    """The worker's end of the link to the supervisor."""

    def __init__(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sock: socket.socket,
        certificate: ServedCertificate | None = None,
    ) -> None:
        """`sock`: the bound socket on which the worker listens."""
        self._certificate = certificate
        self._name = name
        self._reader = reader
        self._writer = writer
        self._socket = sock
        self._worker: Worker | None = None
        self._heads: list[NetworkHeads] = []
        self._brought: list[Brought] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._told_to_drain: asyncio.Future[Drain] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        """Obey orders until the worker has drained, because it was told to or because the supervisor is gone."""
        watching = None if self._certificate is None else asyncio.create_task(self._certificate.watch())
        reporting = asyncio.create_task(self._report_forever())
        obeying = asyncio.create_task(self._obey_all())
        try:
            either: tuple[asyncio.Future[Any], ...] = (obeying, self._told_to_drain)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if obeying.done():
                obeying.result()
            order = self._told_to_drain.result() if self._told_to_drain.done() else Drain(0.0)
            await self._drain(order.timeout, order.linger)
        finally:
            reporting.cancel()
            obeying.cancel()
            if watching is not None:
                watching.cancel()
            await asyncio.gather(*filter(None, (reporting, obeying, watching)), return_exceptions=True)

    async def _obey_all(self) -> None:
        """Obey orders until the link ends, also while the worker drains: it still answers calls then."""
        orders: messages.FrameReader[Order] = messages.FrameReader(Order)  # type: ignore[arg-type]
        while data := await self._read():
            for order in orders.feed(data):
                if isinstance(order, Drain):
                    self._is_to_drain(order)
                else:
                    await self._obey(order)

    async def _read(self) -> bytes:
        """The next bytes from the link; empty when the link has ended, also while replies were still being written."""
        with contextlib.suppress(ConnectionError):
            return await self._reader.read(_READ_BYTES)
        return b""

    async def _obey(self, order: Order) -> None:
        if isinstance(order, Adopt):
            await self._adopt(order)
        elif self._worker is None:
            self._set_aside(order)
        else:
            self._hand_on(order, self._worker)

    def _set_aside(self, order: Order) -> None:
        """Take the first order: the settings with which the worker starts. Other orders mean nothing before it."""
        if isinstance(order, Heads):
            self._heads.append(order.heads)
        elif isinstance(order, QuotaBrought):
            self._brought += order.uses

    def _hand_on(self, order: Order, worker: Worker) -> None:
        if isinstance(order, Heads):
            worker.see(order.heads)
        elif isinstance(order, Announced):
            worker.announced(order)
        elif isinstance(order, QuotaBrought):
            worker.bring(order.uses)
        elif isinstance(order, Sent):
            worker.heard(order)
        elif isinstance(order, Spent):
            worker.charge(order)
        elif isinstance(order, PurgeOrder):
            self._later(answer(_purge(worker, order), PurgeDone.nothing(order.number), self._say))
        elif isinstance(order, ExplainOrder):
            self._later(answer(_explain(worker, order), ExplainReply(order.number, None), self._say))
        elif isinstance(order, RecordOrder):
            self._say(replace(worker.record(order.sample, stop=order.stop), number=order.number))

    async def _adopt(self, order: Adopt) -> None:
        settings: Settings = pickle.loads(order.settings)
        if self._worker is None:
            _log_by(settings)
            self._worker = Worker(self._name, settings, revision=order.revision, on_hint=self._say, on_spent=self._say)
            await self._worker.start(self._socket, self._heads, self._brought, self._certificate)
            self._say(Started(self._worker.port, order.number))
        else:
            try:
                self._worker.adopt(settings, order.revision)
            except Exception as error:  # the old revision stays in force, and the reason is reported
                self._say(Adopted(order.revision, f"{type(error).__name__}: {error}", order.number))
                return
            _log_by(settings)
            self._say(Adopted(order.revision, number=order.number))
        self._say(self._worker.report())  # so that the page shows it before the next second

    def _is_to_drain(self, order: Drain) -> None:
        if not self._told_to_drain.done():
            self._told_to_drain.set_result(order)
        elif self._worker is not None:
            self._worker.hasten(order.linger)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, timeout: float, linger: float = 0.0) -> None:
        if self._worker is not None:
            await self._worker.drain(timeout, linger)
            self._say(self._worker.report())
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            if self._worker is not None:
                self._say(self._worker.report())

    def _say(self, word: Word) -> None:
        if not self._writer.is_closing():
            self._writer.write(messages.encode(word))


def _log_by(settings: Settings) -> None:
    if settings.log.access or settings.log.slow or settings.tracing.endpoint:
        from rpcaccel.dataplane import logs  # noqa: PLC0415 - a worker that writes no lines does without it

        logs.configure(settings.log)


async def answer(work: Awaitable[Word], otherwise: Word, say: Callable[[Word], None]) -> None:
    """Report the result of some work, or `otherwise` when it fails, because the supervisor waits for a reply."""
    word = otherwise
    try:
        word = await work
    finally:
        say(word)


async def _explain(worker: Worker, order: ExplainOrder) -> Word:
    return ExplainReply(order.number, await worker.explain(order.network, order.method, order.params))


async def _purge(worker: Worker, order: PurgeOrder) -> Word:
    done = await worker.purge(order.selection, dry=order.dry)
    return replace(done, number=order.number)


async def _main(name: str, link_fd: int, socket_fd: int, *files: str) -> int:
    # systemd sends SIGTERM to every process of a service: the supervisor alone decides when a worker ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=link_fd))
    certificate = ServedCertificate(*files) if files else None
    await LinkEnd(name, reader, writer, socket.socket(fileno=socket_fd), certificate).serve()
    writer.close()
    return 0


if __name__ == "__main__":
    shield("stderr")
    sys.exit(run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])))
