"""A worker in a process of its own, over a socket pair."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
import socket
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.link import GONE, BroughtTo, HintHandler
from rpcaccel.core import frames
from rpcaccel.core.entry import Selection
from rpcaccel.core.explained import Explanation
from rpcaccel.core.heads import NetworkHeads
from rpcaccel.core.messages import (
    Adopt,
    Adopted,
    Drain,
    Explained,
    ExplainOrder,
    Heads,
    Hint,
    Order,
    Place,
    PurgeDone,
    PurgeOrder,
    QuotaBrought,
    Recorded,
    RecordOrder,
    Report,
    Spent,
    Started,
    Word,
)
from rpcaccel.core.quota import Brought
from rpcaccel.core.recent import Sent

START_WITHIN = 30.0
"""Seconds in which a worker must listen."""
_CHUNK = 64 * 1024
T = TypeVar("T")


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


async def spawn(name: str, sockets: Sequence[socket.socket]) -> Born:
    """Start a worker process with these sockets; it has nothing to do yet. Raises OSError.

    It gets a session of its own: a terminal's Ctrl-C is for the supervisor alone, also while the worker still starts.
    """
    ours, theirs = socket.socketpair()
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
    return Born(process, *await asyncio.open_connection(sock=ours))


class Spare(NamedTuple):
    """A process that was started with the sockets of all places, to take one (`number`) when it is needed."""

    born: Born
    number: int


class ProcessLink:
    """A worker in a process of its own, over a socket pair."""

    def __init__(
        self,
        name: str,
        sock: socket.socket,
        on_hint: HintHandler,
        on_spent: Callable[[str, Spent], None] = lambda _name, _spent: None,
        spare: Spare | None = None,
        brought: BroughtTo = lambda _name: (),
    ) -> None:
        """`on_spent` is told this link's name, and what clients spent at its worker; `brought` says what is used of the
        quotas when it begins."""
        self._spare = spare
        self._brought = brought
        self.name = name
        self._socket = sock
        self._on_hint = on_hint
        self._on_spent = on_spent
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._report: Report | None = None
        self._started: asyncio.Future[int] | None = None
        self._adopted: dict[int, asyncio.Future[str]] = {}
        self._numbers = count(1)
        self._purges: dict[int, asyncio.Future[PurgeDone]] = {}
        self._questions: dict[int, asyncio.Future[Explanation | None]] = {}
        self._recordings: dict[int, asyncio.Future[Recorded]] = {}
        self._is_gone = False
        self._why = ""
        self.heard_at = time.monotonic()
        """When its last words came."""

    @property
    def pid(self) -> int:
        """The process's own."""
        return 0 if self._process is None else self._process.pid

    async def start(self, settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        """Start the process and wait until it listens."""
        born = self._spare.born if self._spare is not None else await spawn(self.name, [self._socket])
        self._process, reader, self._writer = born
        self._socket.close()
        self._started = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(reader))
        if self._spare is not None:
            self._send(Place(self.name, self._spare.number))
        for known in heads:
            self._send(Heads(known))
        if brought := self._brought(self.name):
            self._send(QuotaBrought(tuple(brought)))
        self._send(_adopt(settings, revision))
        try:
            async with asyncio.timeout(START_WITHIN):
                return await self._started
        except TimeoutError:
            await self._end()
            raise RuntimeError(f"worker {self.name} did not listen within {START_WITHIN:g} s") from None
        except RuntimeError:
            await self._end()
            raise

    async def adopt(self, settings: Settings, revision: int) -> str:
        """Send the revision and wait for the acknowledgement."""
        if self._is_gone:
            return GONE
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._adopted[revision] = answer
        self._send(_adopt(settings, revision))
        return await answer

    def see(self, heads: NetworkHeads) -> None:
        """Send the heads."""
        self._send(Heads(heads))

    def tell(self, sent: Sent) -> None:
        """Send the news."""
        self._send(sent)

    def spent(self, spent: Spent) -> None:
        """Send it."""
        self._send(spent)

    def bring(self, uses: tuple[Brought, ...]) -> None:
        """Send it."""
        self._send(QuotaBrought(uses))

    def report(self) -> Report | None:
        """The last one sent."""
        return self._report

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        """Send the order and wait until it is carried out."""
        if self._listening is None or self._listening.done():
            return PurgeDone(0, 0, complete=False)
        answer: asyncio.Future[PurgeDone] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._purges[number] = answer
        self._send(PurgeOrder(number, selection, dry))
        return await answer

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        """Send the question and wait for the answer."""
        if self._listening is None or self._listening.done():
            return None
        answer: asyncio.Future[Explanation | None] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._questions[number] = answer
        self._send(ExplainOrder(number, network, method, params))
        return await answer

    async def record(self, sample: float, *, stop: bool = False) -> Recorded:
        """Send the order and wait for what was kept."""
        if self._listening is None or self._listening.done():
            return Recorded()
        answer: asyncio.Future[Recorded] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._recordings[number] = answer
        self._send(RecordOrder(number, sample, stop))
        return await answer

    async def drain(self, timeout: float, linger: float = 0.0) -> None:
        """Send the order and wait for the process to end; kill it when it takes much longer than it may."""
        process = self._process
        if process is None:
            self._socket.close()
            return
        self._send(Drain(timeout, linger))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger + timeout + 5.0):
                await process.wait()
        await self._end()

    async def ended(self) -> str:
        """How the process ended, and that what it said last was heard."""
        if self._process is None:
            return "was never started"
        code = await self._process.wait()
        if self._listening is not None:
            await asyncio.wait({self._listening})
        if self._why:
            return f"{self._why} and was ended"
        return f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"

    def ask_to_end(self, why: str) -> None:
        """The order to drain, without time to do it in: workers do not heed SIGTERM, which a whole group may get."""
        self._why = why
        self._send(Drain(0.0))

    def kill(self) -> None:
        """SIGKILL, which reaches a stopped process as well."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _end(self) -> None:
        """See the process off, by force if it is still there."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
        if self._listening is not None:
            await self._listening
        if self._writer is not None:
            self._writer.close()

    def _send(self, order: Order) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frames.encode(order))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        words: frames.FrameReader[Word] = frames.FrameReader(Word)  # type: ignore[arg-type]
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                self.heard_at = time.monotonic()
                for word in words.feed(data):
                    self._hear(word)
        self._gone()

    def _hear(self, word: Word) -> None:
        if isinstance(word, Report):
            self._report = word
        elif isinstance(word, Hint | Sent):
            self._on_hint(word)
        elif isinstance(word, Spent):
            self._on_spent(self.name, word)
        elif isinstance(word, Started):
            _settle(self._started, word.port)
        elif isinstance(word, Adopted):
            _settle(self._adopted.pop(word.revision, None), word.refusal)
        elif isinstance(word, Explained):
            _settle(self._questions.pop(word.number, None), word.explanation)
        elif isinstance(word, Recorded):
            _settle(self._recordings.pop(word.number, None), word)
        else:
            _settle(self._purges.pop(word.number, None), word)

    def _gone(self) -> None:
        """The process ended: nobody waits for its words any more."""
        self._is_gone = True
        if self._started is not None and not self._started.done():
            self._started.set_exception(RuntimeError(f"worker {self.name} ended before it listened"))
        for answer in self._adopted.values():
            _settle(answer, GONE)
        for purge in self._purges.values():
            _settle(purge, PurgeDone(0, 0, complete=False))
        for question in self._questions.values():
            _settle(question, None)
        for recording in self._recordings.values():
            _settle(recording, Recorded())


def _adopt(settings: Settings, revision: int) -> Adopt:
    return Adopt(revision, pickle.dumps(settings))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _settle(answer: asyncio.Future[T] | None, value: T) -> None:
    if answer is not None and not answer.done():
        answer.set_result(value)
