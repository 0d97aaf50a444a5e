"""The link to a worker in a process of its own: the process is started here, and messages go over a socket pair.

Each order that asks for an answer carries a number, by which its answer is recognised.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
import socket
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

import structlog

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.workers.link import GONE, HintHandler, Link, News, QuotaUses
from rpcaccel.core import messages
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import (
    Adopt,
    Adopted,
    Drain,
    ExplainOrder,
    ExplainReply,
    Heads,
    Noted,
    Order,
    PurgeDone,
    PurgeOrder,
    QuotaBrought,
    Recorded,
    RecordOrder,
    Spent,
    Started,
    Word,
    WorkerReport,
)
from rpcaccel.dataplane.certificate import ServedCertificate

START_WITHIN = 30.0
"""Seconds in which a worker must listen."""
END_WITHIN = 5.0
"""Seconds that a process which has ended its link has left."""
NO_PORT = 0
"""Stands for the port of a worker that never listened."""
_CHUNK = 64 * 1024

WorkerAnswer = Started | Adopted | PurgeDone | ExplainReply | Recorded
A = TypeVar("A", Started, Adopted, PurgeDone, ExplainReply, Recorded)

log = structlog.get_logger("rpcaccel.workers")


class Born(NamedTuple):
    """A process that was started, and the supervisor's end of its link."""

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def spawn(name: str, sock: socket.socket, certificate: ServedCertificate | None = None) -> Born:
    """Start a worker process that will listen on this socket, with a certificate over TLS. Raises OSError.

    The process gets a session of its own: a terminal's Ctrl-C is for the supervisor alone, also while a worker starts.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            fds = theirs.fileno(), sock.fileno()
            files = () if certificate is None else (certificate.cert, certificate.key)
            command = sys.executable, "-m", "rpcaccel.dataplane.process", name, *map(str, fds), *files
            process = await asyncio.create_subprocess_exec(*command, pass_fds=fds, start_new_session=True)
    except BaseException:
        ours.close()
        raise
    return Born(process, *await asyncio.open_connection(sock=ours))


Spawn = Callable[[str, socket.socket], Awaitable[Born]]


class ProcessLink:
    """A worker in a process of its own, over a socket pair. Implements Link."""

    def __init__(
        self,
        name: str,
        sock: socket.socket,
        on_hint: HintHandler,
        on_spent: Callable[[Link, Spent], None] = lambda _link, _spent: None,
        quotas: QuotaUses = tuple,
        end_within: float = END_WITHIN,
        spawn: Spawn = spawn,
    ) -> None:
        """`on_spent` gets this link, since an old worker of the same name may linger, and what clients spent at its
        worker; `quotas` gives what is used of the quotas when it begins; `end_within`: seconds in which the process
        must end once its link has; `spawn` starts the process."""
        self._end_within = end_within
        self._spawn = spawn
        self._quotas = quotas
        self.name = name
        self._socket = sock
        self._on_hint = on_hint
        self._on_spent = on_spent
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._report: WorkerReport | None = None
        self._numbers = count(1)
        self._awaited: dict[int, tuple[asyncio.Future[Any], WorkerAnswer]] = {}
        """The awaited answers by number, each with the answer that is assumed once the link has ended."""
        self._open = False
        self._why = ""
        """The reason why the supervisor ended the worker; empty when it did not."""
        self.heard_at = time.monotonic()
        """The time of the last message (monotonic seconds)."""

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    async def start(self, settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        born = await self._spawn(self.name, self._socket)
        self._process, reader, self._writer = born
        self._socket.close()
        self._open = True
        self._listening = asyncio.create_task(self._listen(reader, born.process))
        for known in heads:
            self._send(Heads(known))
        if uses := self._quotas():
            self._send(QuotaBrought(tuple(uses)))
        adopt = _adopt(settings, revision)
        try:
            async with asyncio.timeout(START_WITHIN):
                started = await self._ask(adopt, Started(NO_PORT))
        except TimeoutError:
            await self._end()
            raise RuntimeError(f"worker {self.name} did not listen within {START_WITHIN:g} s") from None
        if started.port == NO_PORT:
            await self._end()
            raise RuntimeError(f"worker {self.name} {self._why or 'ended before it listened'}")
        return started.port

    async def adopt(self, settings: Settings, revision: int) -> str:
        return (await self._ask(_adopt(settings, revision), Adopted(revision, GONE))).refusal

    def tell(self, news: News) -> None:
        self._send(news)

    def report(self) -> WorkerReport | None:
        return self._report

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        return await self._ask(lambda number: PurgeOrder(number, selection, dry), PurgeDone.nothing())

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        order = partial(ExplainOrder, network=network, method=method, params=params)
        return (await self._ask(order, ExplainReply(0, None))).explanation

    async def record(self, sample: float, *, stop: bool = False) -> Recorded:
        return await self._ask(lambda number: RecordOrder(number, sample, stop), Recorded())

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        process = self._process
        if process is None:
            self._socket.close()
            return
        self._send(Drain(timeout, linger))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger + timeout + 5.0):  # the process is killed when it takes longer
                await process.wait()
        await self._end()

    async def ended(self) -> str:
        if self._process is None:
            return "was never started"
        code = await self._process.wait()
        if self._listening is not None:
            await asyncio.wait({self._listening})  # what the worker said last is heard
        if self._why:
            return f"{self._why} and was ended"
        return f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"

    def ask_to_end(self, why: str) -> None:
        self._why = why
        self._send(Drain(0.0))  # workers do not heed SIGTERM, which a whole process group may get

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _end(self) -> None:
        """Wait for the end of the process, by force if it still runs, and close the link."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
        if self._listening is not None:
            await self._listening
        if self._writer is not None:
            self._writer.close()

    async def _ask(self, order: Callable[[int], Order], otherwise: A) -> A:
        """Send an order under a new number and wait for its answer; `otherwise` when the link has ended."""
        if not self._open:
            return otherwise
        number = next(self._numbers)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._awaited[number] = future, otherwise
        try:
            self._send(order(number))
            return await future
        finally:
            del self._awaited[number]

    def _settle(self, answer: WorkerAnswer) -> None:
        """Hand an answer to whoever awaits it. Raises ValueError when it is not of the kind that was asked for."""
        future, otherwise = self._awaited.get(answer.number, (None, answer))
        if type(answer) is not type(otherwise):
            raise ValueError(f"{type(answer).__name__} as the answer where {type(otherwise).__name__} was due")
        if future is not None and not future.done():
            future.set_result(answer)

    def _send(self, order: Order) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(messages.encode(order))

    async def _listen(self, reader: asyncio.StreamReader, process: Process) -> None:
        """Read what the worker says until the link ends. Then every awaited answer is settled and the process ends."""
        try:
            with contextlib.suppress(ConnectionError):
                await self._hear_all(reader)
        except Exception as error:
            self._why = self._why or f"said what cannot be understood ({error})"
            self.kill()
        finally:
            self._open = False
            for future, otherwise in self._awaited.values():
                if not future.done():
                    future.set_result(otherwise)
        try:
            async with asyncio.timeout(self._end_within):
                await process.wait()
        except TimeoutError:
            self._why = self._why or "ended its link alone"
            self.kill()

    async def _hear_all(self, reader: asyncio.StreamReader) -> None:
        """Read and handle words until the link ends. Raises ValueError for what is no word of a worker."""
        words: messages.FrameReader[Word] = messages.FrameReader(Word)  # type: ignore[arg-type]
        while data := await reader.read(_CHUNK):
            self.heard_at = time.monotonic()
            for word in words.feed(data):
                if isinstance(word, WorkerReport):
                    self._report = word
                elif isinstance(word, Noted | Spent):
                    self._pass_on(word)
                else:
                    self._settle(word)

    def _pass_on(self, word: Noted | Spent) -> None:
        try:
            if isinstance(word, Spent):
                self._on_spent(self, word)
            else:
                self._on_hint(word)
        except Exception:  # a fault of the callback is no reason to stop listening
            log.exception("what a worker said is not passed on", worker=self.name, word=type(word).__name__)


def _adopt(settings: Settings, revision: int) -> Callable[[int], Adopt]:
    """Makes the order to adopt, given its number."""
    pickled = pickle.dumps(settings)
    return lambda number: Adopt(revision, pickled, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
